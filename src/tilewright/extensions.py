"""What machines, and the room of whole models, add to the rooms below them, as tables of names.

The rooms that no machine knows (dialects, transforms, the tile language) look into these tables;
`targets/registry.py` fills them from the machines that are installed. A name stands for a place as
`package.module:object`, imported when it is first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

DIALECTS: dict[str, str] = {}  # dialect -> its place
# Pass -> its class: those of the whole-model compiler, then those of machines.
PASSES: dict[str, str] = {
    "partition-model": "tilewright.model.passes:PartitionModel",
    "smooth-model": "tilewright.model.passes:SmoothModel",
    "quantise-model": "tilewright.model.passes:QuantiseModel",
    "fuse-epilogues": "tilewright.model.passes:FuseEpilogues",
    "unfuse-epilogues": "tilewright.model.passes:UnfuseEpilogues",
    "fold-layers": "tilewright.model.passes:FoldLayers",
    "unfold-layers": "tilewright.model.passes:UnfoldLayers",
}
PIPELINES: dict[str, list[str]] = {}  # name of `opt --pipeline` -> passes
MANIFESTS: dict[str, str] = {}  # kernel manifest that comes with a machine -> its module
# A name, a file or an object of a machine -> the machine as the tile language sees it.
tile_machine: Callable[[Any], Any] | None = None


def load(place: str) -> Any:
    """The object at `package.module:object`, or the module at `package.module`."""
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
