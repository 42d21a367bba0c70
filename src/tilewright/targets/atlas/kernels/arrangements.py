"""Arrangements as JSON, for bundles and for the options of kernels.

    written(Image(19, 23, 16))       -> {"kind": "image", "height": 19, "width": 23, ...}
    read({"kind": "image", ...})     -> Image(19, 23, 16)

Nothing that is read is taken on trust: kinds and fields are the known ones, numbers are whole and
of a size that some machine could hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.image_operands import (
    Channels,
    DenseFilters,
    Diagonals,
    Filters,
    JoinedFilters,
    Means,
    Unfolded,
    UnfoldedAround,
    UnfoldedColumns,
)
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.kernels.narrow_images import (
    NarrowImage,
    PlacedChannels,
    PlacedFilters,
)
from tilewright.targets.atlas.kernels.rotary import SplitHead

LARGEST = 1 << 24  # of any number
KINDS: dict[str, type] = {
    "image": Image,
    "narrow_image": NarrowImage,
    "window": Window,
    "filters": Filters,
    "dense_filters": DenseFilters,
    "joined_filters": JoinedFilters,
    "channels": Channels,
    "diagonals": Diagonals,
    "placed_filters": PlacedFilters,
    "placed_channels": PlacedChannels,
    "means": Means,
    "unfolded": Unfolded,
    "unfolded_around": UnfoldedAround,
    "unfolded_columns": UnfoldedColumns,
    "split_head": SplitHead,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_TEXTS = {"fill": ("zero", "lowest"), "dtype": ("fp8", "bf16")}
SEEN = "seen"  # of an image: where it is not said, all of the border is
_LENGTHS = {"phases": 2, "border": 2, "beside": 2, "stride": 2, "dilation": 2, "padding": 4}


def written(arrangement: Any) -> dict[str, Any]:
    """The arrangement (or window) as JSON values."""
    if type(arrangement) not in _NAMES:
        raise TilewrightError(
            "TW3107", f"an arrangement {type(arrangement).__name__}, which a bundle cannot hold"
        )
    result: dict[str, Any] = {"kind": _NAMES[type(arrangement)]}
    for field in fields(arrangement):
        value = getattr(arrangement, field.name)
        if field.name == SEEN and not value:
            continue
        if type(value) in _NAMES:
            value = written(value)
        result[field.name] = list(value) if isinstance(value, tuple) else value
    return result


def read(value: Any) -> Any:
    """The arrangement (or window) of JSON values; a ValueError says what is wrong with them."""
    name = value.get("kind") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError("has an arrangement of no known kind")
    kind = KINDS[name]
    names = {field.name for field in fields(kind)}
    names -= {SEEN} - set(value)
    if set(value) != {"kind", *names}:
        raise ValueError(f"has an arrangement with other fields than {', '.join(sorted(names))}")
    given = {name: _field(name, value[name]) for name in sorted(names)}
    if issubclass(kind, Image) and not given["pitch"]:
        raise ValueError("has an image without a pitch")
    try:
        result = kind(**given)
        _check(result)
        return result
    except TilewrightError as error:
        raise ValueError(f"has an arrangement that cannot be: {error.message}") from None


def _check(arrangement: Any) -> None:
    """A ValueError where the parts of an arrangement do not fit together."""
    if isinstance(arrangement, Unfolded):
        source, out = arrangement.source, arrangement.out
        sizes = arrangement.window.result(source.height, source.width)
        if sizes != (out.height, out.width) or (source.batch or 1) != (out.batch or 1):
            raise ValueError("has an arrangement whose window makes another image")
        columns = isinstance(arrangement, UnfoldedColumns)
        if columns and out.channels != arrangement.window.width * source.channels:
            raise ValueError("has an arrangement with other channels than its window sees")
    if isinstance(arrangement, Filters):
        own = (arrangement.height, arrangement.width, arrangement.channels // arrangement.groups)
        if math.prod(arrangement.shape) != math.prod(own) * arrangement.filters:
            raise ValueError("has an arrangement of filters that are given with another size")
    elif not isinstance(arrangement, Window) and min(arrangement.shape) < 1:
        raise ValueError("has an arrangement of nothing")


def _field(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = read(value)
        wanted = {"source": Image, "out": Image, "window": Window, "given": Filters}.get(name)
        if wanted is None or not isinstance(inner, wanted):
            raise ValueError(f"has an arrangement with {name} of another kind")
        return inner
    if name in _TEXTS:
        if value not in _TEXTS[name]:
            raise ValueError(f"has an arrangement whose {name} is not {' or '.join(_TEXTS[name])}")
        return value
    if name == "first":
        if not isinstance(value, bool):
            raise ValueError("has an arrangement whose first is not true or false")
        return value
    if name in ("parts", SEEN) and isinstance(value, list | tuple):
        return tuple(_number(name, number) for number in value)
    if name == "given":
        raise ValueError("has an arrangement whose given is no arrangement of filters")
    if value is None and name in ("batch", "taken"):
        return None
    if isinstance(value, list | tuple) and (name in _LENGTHS or name == "taken"):
        if len(value) != _LENGTHS.get(name, 4):
            raise ValueError(f"has an arrangement with {len(value)} numbers for {name}")
        return tuple(_number(name, number) for number in value)
    if name in ("border", "beside"):
        raise ValueError(f"has an arrangement whose {name} is no pair of numbers")
    return _number(name, value)


def _number(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(f"has an arrangement whose {name} is no number from 0 to {LARGEST}")
    return value
