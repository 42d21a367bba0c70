"""One kernel of whole models on a simulated machine, operands and result at chosen places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.compile_kernel import Placement, compile_placed
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.model.kernel_records import REFERENCES, build
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import Layout

Draw = Callable[[np.random.Generator, Layout], np.ndarray]


def ordinary(random: np.random.Generator, layout: Layout) -> np.ndarray:
    """Normal numbers: the codes of a tensor without padding."""
    wide = 3.0 if layout.dtype == "fp8" else 1.0
    codes = arith.f64_to_bf16(random.standard_normal(layout.shape) * wide)
    return codes if layout.dtype == "bf16" else arith.bf16_to_fp8(codes)


def any_pattern(random: np.random.Generator, layout: Layout) -> np.ndarray:
    """Any bits at all: NaN, infinities, zeros of both signs, subnormals."""
    kind = np.uint16 if layout.dtype == "bf16" else np.uint8
    return random.integers(0, np.iinfo(kind).max + 1, layout.shape).astype(kind)


def mask(random: np.random.Generator, layout: Layout) -> np.ndarray:
    """Numbers to add to scores; three in ten hide a key, and one row sees nothing."""
    numbers = random.standard_normal(layout.shape)
    numbers[random.random(layout.shape) < 0.3] = -3.0e38
    if len(layout.shape) > 1:
        numbers[..., 0, :] = -3.0e38
    return arith.f64_to_bf16(numbers)


def simulated(
    name: str,
    options: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    profile_name: str = "atlas-v1",
    on_chip: tuple[str, ...] = (),
    draw: Mapping[str, Draw] | Draw = ordinary,
    seed: int = 0,
    most: int | None = None,
    bare: tuple[str, ...] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel left in memory and what its reference says, as codes.

    most: cycles that it may take. bare: tensors in DRAM whose padding is NaN, not zero.
    """
    profile, random = load_profile(profile_name), np.random.default_rng(seed)
    kernel = build(name, options)
    layouts = kernel.layouts(dict(shapes))
    placed: dict[str, Placed] = {}
    vmem, dram = 1024, 0
    for parameter, layout in layouts.items():
        if parameter in on_chip:
            placed[parameter] = Placed(layout, vmem, on_chip=True)
            vmem += -(-layout.bytes // 1024) * 1024
        else:
            outside = parameter in bare
            placed[parameter] = Placed(layout, dram, padding=not outside, unwritten=outside)
            dram += -(-layout.bytes // 4096) * 4096
    placement = Placement(placed, dram, Area(vmem, profile.vmem_bytes))
    compiled = compile_placed(kernel, profile, layouts, placement)
    # What nothing has written is NaN, so a tile read by mistake does not go unnoticed.
    machine = make_machine(profile, Policy(initial="poison"), None)
    machine.load(compiled.program)
    for address, content in compiled.data:
        machine.write("dram", address, content)
    operands = {}
    for parameter, layout in layouts.items():
        if parameter != "out":
            chosen = draw.get(parameter, ordinary) if isinstance(draw, Mapping) else draw
            operands[parameter] = chosen(random, layout)
            place = placed[parameter]
            content = layout.pack(operands[parameter])
            if parameter in bare:
                content = content_among_nan(layout, content)
            machine.write(_space(place), place.base, content)
    outcome = machine.run()
    assert outcome.fault is None, outcome.fault
    assert most is None or outcome.cycles <= most
    out, place = layouts["out"], placed["out"]
    found = out.unpack(machine.read(_space(place), place.base, out.bytes))
    expected = REFERENCES[name](profile, options, operands)["out"]
    return found.view(expected.dtype), expected


def content_among_nan(layout: Layout, content: bytes) -> bytes:
    """A packed tensor with NaN in place of the padding that can be left out: whole rows of 32 bytes."""
    kind = np.uint16 if layout.dtype == "bf16" else np.uint8
    wide = 32 // np.dtype(kind).itemsize
    shape = (*layout.shape[:-1], -(-layout.shape[-1] // wide) * wide)
    inside = replace(layout, shape=shape).pack(np.full(shape, 0xFF, kind))
    numbers = np.where(np.frombuffer(inside, kind) != 0, np.frombuffer(content, kind), 0xFFFF)
    return numbers.astype(kind).tobytes()


def _space(place: Placed) -> str:
    return "vmem" if place.on_chip else "dram"


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Every code equal; NaN equals NaN."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    quiet, sign = (0x7F80, 0x7FFF) if found.dtype == np.uint16 else (0x7E, 0x7F)
    both = ((found & sign) > quiet) & ((expected & sign) > quiet)
    wrong = np.argwhere((found != expected) & ~both)
    assert not len(wrong), (
        f"{len(wrong)} of {found.size} differ, first at {tuple(wrong[0])}: "
        f"{found[tuple(wrong[0])]:#x} instead of {expected[tuple(wrong[0])]:#x}"
    )
