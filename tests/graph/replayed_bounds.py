"""The bound of the program that a model became, found by replaying it: other code than the model's."""

from __future__ import annotations

import numpy as np

from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact, Region
from tilewright.targets.atlas.bound import Bound, lower_bound
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.work import Memory, Tensor, work_of

CODES = {"bf16": np.uint16, "fp8": np.uint8}


def can_be_replayed(artifact: AtlasArtifact) -> bool:
    """Whether a program is one piece of code, whose weights no loop takes in turn."""
    alone = len(artifact.entries) == len(artifact.segments) == 1
    return alone and all(region.count == 1 for region in artifact.regions.values())


def content_of(region: Region) -> Tensor:
    """Where a tensor has elements, and where padding."""
    ones = np.full(region.layout.given, 0xFFFF, "<u2").astype(CODES[region.layout.dtype])
    return Tensor(region.address, np.frombuffer(region.layout.pack(ones), np.uint8) != 0)


def replayed(artifact: AtlasArtifact) -> tuple[int, Bound]:
    """Cycles of a program of one segment, and the bound of what it computes."""
    machine = make_machine(artifact.profile, Policy(), None)
    machine.trace_window = (0, 1 << 60)
    machine.load(artifact.segments[0])
    (entry,), regions = artifact.entries.values(), artifact.regions
    tensors, constants = [content_of(regions[name]) for name in entry.inputs], []
    for name, raw in artifact.weights.items():
        region = regions[name]
        machine.write(region.space, region.address, raw.tobytes())
        if region.kind == "weight":
            tensors.append(content_of(region))
        else:
            constants.append((region.address, raw.tobytes()))
    assert machine.run().fault is None
    outputs = [content_of(regions[name]) for name in entry.outputs]
    order, memory = machine.trace["index"], Memory(tensors, constants)
    work = work_of(artifact.segments[0], artifact.profile, order, outputs, (), memory)
    return machine.cycles, lower_bound(work)
