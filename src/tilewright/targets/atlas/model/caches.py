"""Keys and values of earlier calls, in the encoding in which attention reads them.

They come in as fp8 with scales of their own, keys transposed, each head apart: nothing is converted
again and again on the device, and a byte is loaded instead of two. Where attention reads them again
for every tile of queries, it does so from a copy that may stay in VMEM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import shape_of
from tilewright.targets.atlas.model.calls import Factor, Tensor
from tilewright.targets.atlas.model.head_values import FromHeads, Source
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

TOGETHER = 90  # tiles of scores of a head; of more, keys pass by again for every tile of queries


@dataclass(frozen=True)
class Handing:
    """Which caches are taken as they come in: all (`always`), or those that stay on the device. again:
    attention reads them again and again."""

    always: bool
    again: bool


@dataclass(frozen=True)
class Cache:
    """The input of the model that holds rows of a cache: [B, M, H * D], or of heads [B, H, M, D]."""

    given: SSAValue
    of_heads: bool
    copied: bool  # to where it can be read again and again


def cache_of(at: Lowering, source: Source, how: Handing) -> Cache | None:
    """The cache that heads come from, if they do and it is in the encoding of attention."""
    if source.rope is not None:
        return None
    graph, value, of_heads = at.graph, source.apart, source.beside is None
    if source.beside is not None:
        value = source.beside.flat
        while (view := graph.node_of(value, "reshape")) is not None:
            value = view.operands[0]
    elif shape_of(value) != source.shape:
        return None
    if value not in graph.inputs or not (how.always or value in at.resident):
        return None
    return Cache(value, of_heads, how.again and not how.always)


def cached(
    at: Lowering,
    value: SSAValue,
    kind: str,
    source: Source,
    factor: Factor,
    cache: Cache,
) -> Tensor:
    """Heads as they come in; `kind` is "columns" for keys and "values" for values."""
    batch, count, rows, width = source.shape
    shape = (batch, count, width, rows) if kind == "columns" else (batch, count, rows, width)
    order = "panels" if kind == "columns" else "tiles"
    every = tuple(range(width))
    undo = FromHeads(every, every, kind == "columns", factor, shape_of(value))
    name = at.unique(f"{at.graph.inputs[cache.given]}.{kind}")
    stays = "state" if cache.given in at.resident else "input"
    tensor = Tensor(name, Layout(shape, "fp8", order), stays, value=value, undo=undo)
    conversion = kind + (" of heads" if cache.of_heads else "")
    at.take_from_host(cache.given, conversion, tensor, factor=factor)
    return staged(at, tensor) if cache.copied else tensor


def staged(at: Lowering, tensor: Tensor) -> Tensor:
    """A copy that may stay in VMEM, of a tensor that one kernel reads many times."""
    layout = tensor.layout
    order: dict[str, Any] = {} if layout.order == "tiles" else {"order": layout.order}
    name = at.unique(f"{tensor.name}.staged")
    out = Tensor(name, layout, "activation", undo=tensor.undo)
    return at.call(
        f"{tensor.name} to VMEM", "copy", {"x": tensor}, out, (),
        rank=len(layout.shape), dtype=layout.dtype, **order,
    )  # fmt: skip
