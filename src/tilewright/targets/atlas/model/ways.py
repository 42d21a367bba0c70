"""How a call goes through its operands: the options by which kernels differ in what room they take.

Planning writes them, buffer assignment and the cutting into smaller parts read and change them, for calls
of any kernel. What each of them means is said where a kernel takes it (`kernel_options.py`); here are
their types, so that a misspelt name is found before anything runs.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Literal, TypedDict, cast

from tilewright.targets.atlas.model.kernel_options import Norm


class Way(TypedDict, total=False):
    """What a plan may say; what it leaves out is as the kernel says."""

    rows: int
    depth: int
    together: int
    matrices: int
    stacked: bool
    resident: bool
    precise: Literal["weights", "both"]
    norm: Norm | float
    passes: bool
    lines: int
    along: Literal["row", "lines", "column", "batch"]
    keys: int
    span: int
    sharing: int
    by_rows: bool
    heads_on_chip: bool


def way_of(options: MutableMapping[str, Any]) -> Way:
    """The options of a call as these, the same object: what is written there is an option."""
    return cast(Way, options)
