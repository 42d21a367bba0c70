"""Compiled kernels run under the worst that a machine may do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.atlas.kernels.check import POLICY
from tilewright.targets.atlas.machines import make_machine


def run_late(compiled: Any, *arrays: Any) -> list[np.ndarray]:
    """Results from poisoned memory, with transfers that land as late as they may."""
    device = make_machine(compiled.profile, POLICY)
    device.load(compiled.program)
    for address, raw in compiled.data:
        device.write("dram", address, raw)
    for name, array in zip(compiled.inputs, arrays, strict=True):
        device.write("dram", compiled.bases[name], compiled.layouts[name].pack(array))
    assert device.run().fault is None
    results = []
    for name in compiled.outputs:
        layout = compiled.layouts[name]
        results.append(layout.unpack(device.read("dram", compiled.bases[name], layout.bytes)))
    return results
