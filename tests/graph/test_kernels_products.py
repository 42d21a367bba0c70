"""Which products compute columns side by side, and what that brings."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import Placement, compile_placed
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.model.kernel_records import build
from tilewright.targets.atlas.model.kernels_products import columns_together
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import Layout

V1 = load_profile("atlas-v1")


def call(kernel: str, a: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Launch:
    def tensor(name: str, shape: tuple[int, ...]) -> StoredTensor:
        return StoredTensor(name, Layout(shape, "fp8"), "activation")

    names = ("w_gate", "w_up") if kernel == "gated" else ("w",)
    operands = {"a": tensor("a", a), **{name: tensor(name, w) for name in names}}
    return Launch("call", kernel, operands, tensor("out", a), options)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (call("linear", (1, 1024, 768), (768, 3072)), 3),
        (call("linear", (1, 1024, 768), (768, 1024)), 4),
        (call("linear", (1, 1024, 768), (768, 1000)), 4),
        (call("linear", (1, 1024, 768), (768, 700)), 3),  # 22 columns: one is left over
        (call("linear", (1, 1024, 768), (768, 64)), 0),
        (call("linear", (1, 241, 960), (960, 2560)), 0),  # weights arrive too slowly
        (call("linear", (1, 1024, 896), (896, 3072)), 0),  # rows and weights do not fit
        (call("linear", (2, 1024, 768), (768, 3072)), 0),
        (call("linear", (1, 1024, 768), (768, 3072), precise="both"), 0),
        (call("linear", (1, 1024, 3072), (3072, 768), rows=512, depth=128), 0),
        (call("project", (1, 1024, 768), (12, 768, 64)), 2),
        (call("project", (1, 512, 768), (15, 768, 64)), 3),
        (call("project", (1, 1024, 768), (15, 768, 64)), 0),  # six columns do not fit
        (call("project", (1, 1024, 768), (7, 768, 64)), 0),  # a prime number of heads
        (call("project", (1, 1024, 768), (8, 768, 128)), 1),
        (call("project", (1, 1024, 960), (15, 960, 64), rows=512), 3),
        (call("project", (1, 1000, 960), (15, 960, 64), rows=512), 0),  # half a pair of tiles
        (call("gated", (1, 512, 960), (960, 2560)), 2),
        (call("gated", (1, 241, 960), (960, 2560)), 0),
        (call("gated", (1, 1024, 960), (960, 2560), rows=512), 2),
        (call("gated", (1, 2048, 960), (960, 2560), rows=704), 2),
        (call("gated", (1, 1000, 960), (960, 2560), rows=512), 0),  # half a pair of tiles
        (call("norm", (1, 1024, 768), (768, 3072)), 0),
    ],
)
def test_columns_together(made, expected):
    assert columns_together(made, V1) == expected


def test_the_old_machine_keeps_its_own_way():
    v0 = load_profile("atlas-v0")
    assert columns_together(call("linear", (1, 1024, 768), (768, 3072)), v0) == 0


@pytest.mark.parametrize(("activation", "most"), [(None, 41.5), ("gelu_tanh", 43.5)])
def test_ticks_of_a_product(activation, most):
    """Of one block of columns, with weights in VMEM; both matrix units need at least 35."""
    options = {"scale": True, "bias": True, "activation": activation, "out": "fp8", "together": 3}
    kernel = build("linear", options)
    layouts = kernel.layouts({"a": (1, 512, 768), "w": (768, 96)})
    placed, vmem, dram = {}, 1024, 0
    for name, layout in layouts.items():
        on_chip = name in ("a", "w", "out")
        placed[name] = Placed(layout, vmem if on_chip else dram, on_chip)
        vmem, dram = (vmem + layout.bytes, dram) if on_chip else (vmem, dram + 4096)
    placement = Placement(placed, dram, Area(vmem, V1.vmem_bytes))
    machine = make_machine(V1, Policy(), None)
    machine.load(compile_placed(kernel, V1, layouts, placement).program)
    machine.run()
    assert not machine.faults
    assert machine.cycles / (16 * 24 * 3) < most
