"""A random kernel against its eager run: bit for bit, from poisoned memory, with late transfers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from kernel_generator import Spec, arrays_for, kernel_from, outputs_of, smaller

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.compile_kernel import Placement, compile_placed
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.codegen.from_schedule import Placed
from tilewright.targets.atlas.codegen.lower_nest import Area
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.tile.kernel import Kernel

# What is in memory before, and when the bytes of a transfer arrive: a program that waits for all
# it uses gives the same results under each.
POLICIES = (
    Policy(initial="poison", dma="late"),
    Policy(initial="random", dma="early", seed=5),
)


@dataclass(frozen=True)
class Outcome:
    """state: ok, refused, wrong, lint or crash; what: the words about it."""

    state: str
    what: str = ""
    instructions: int = 0
    cycles: int = 0

    @property
    def failed(self) -> bool:
        return self.state not in ("ok", "refused")


@cache
def machine(name: str) -> Profile:
    """The profile, with memory for the tensors of long loops."""
    return replace(load_profile(name), dram_bytes=1 << 30)


def check(spec: Spec) -> Outcome:
    """Compile, lint and run the kernel of a spec."""
    try:
        return _check(spec)
    except TilewrightError as error:
        return Outcome("refused", f"{error.code} {error.message}")
    except Exception as error:  # whatever else comes out of a compiler is a mistake in it
        return Outcome("crash", f"{type(error).__name__}: {error}")


def _check(spec: Spec) -> Outcome:
    kernel = kernel_from(spec)
    if not kernel.outputs or not kernel.outputs[0].startswith("out"):
        return Outcome("refused", "nothing is written")
    arrays = arrays_for(spec, kernel)
    kept = tuned(straight_instructions=1, body_instructions=200) if spec.loops else nullcontext()
    sizes: dict[str, Any] = {name: spec.sizes[name] for name in ("M", "N", "K")}
    if any("B" in kind.sizes for kind in kernel.specs.values()):
        sizes["B"] = spec.sizes["B"]
    profile = machine(spec.profile)
    with kept:
        if spec.resident:
            compiled = compiled_on_chip(spec, kernel, {**kernel.shapes_of(tuple(arrays)), **sizes})
        else:
            compiled = kernel.compile(*arrays, target=profile, **sizes)
    with np.errstate(all="ignore"):
        wanted: Any = kernel.eager(*arrays, profile=profile, **sizes)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    size = len(compiled.program)
    findings = [f for f in compiled.lint().findings if f.severity in ("error", "warning")]
    if findings:
        return Outcome("lint", f"{findings[0].code} {findings[0].message}", size)
    cycles = 0
    for policy in POLICIES:
        results, cycles, fault = run(compiled, arrays, policy)
        if fault:
            return Outcome("crash", f"the program faulted: {fault}", size)
        for name, got, want in zip(compiled.outputs, results, wanted, strict=True):
            if problem := difference(got, want):
                return Outcome("wrong", f"{name} {problem} ({policy})", size, cycles)
    return Outcome("ok", "", size, cycles)


def compiled_on_chip(spec: Spec, kernel: Kernel, sizes: dict[str, Any]) -> CompiledKernel:
    """The kernel as a whole model has it: some of its tensors are in VMEM from first to last."""
    profile, layouts = machine(spec.profile), kernel.layouts(sizes)
    tensors: dict[str, Placed] = {}
    bases: dict[str, int] = {}
    top = end = 0
    again = {made.name for made in outputs_of(spec) if made.read_back}
    for number, (name, layout) in enumerate(layouts.items()):
        fits = top + layout.bytes <= profile.vmem_bytes // 2
        if spec.resident >> number & 1 and fits and name not in again:
            tensors[name], bases[name] = Placed(layout, top, on_chip=True), top
            top += -(-layout.bytes // 1024) * 1024
        else:
            tensors[name], bases[name] = Placed(layout, end), end
            end += -(-layout.bytes // 4096) * 4096
    placement = Placement(tensors, end, Area(top, profile.vmem_bytes))
    placed = compile_placed(kernel, profile, layouts, placement)
    compiled = CompiledKernel(
        kernel, profile, placed.program, layouts, bases, placed.data, kernel.outputs
    )
    compiled.spaces = {n: "vmem" if t.on_chip else "dram" for n, t in tensors.items()}  # type: ignore[attr-defined]
    return compiled


def run(
    compiled: CompiledKernel, arrays: list[np.ndarray], policy: Policy
) -> tuple[list[np.ndarray], int, str]:
    """Results, cycles, and the fault if there is one."""
    device = make_machine(compiled.profile, policy)
    device.load(compiled.program)
    for address, raw in compiled.data:
        device.write("dram", address, raw)
    spaces: dict[str, Any] = getattr(compiled, "spaces", {})
    for name, array in zip(compiled.inputs, arrays, strict=True):
        packed = compiled.layouts[name].pack(array)
        device.write(spaces.get(name, "dram"), compiled.bases[name], packed)
    outcome = device.run()
    results = []
    for name in compiled.outputs:
        layout = compiled.layouts[name]
        raw = device.read(spaces.get(name, "dram"), compiled.bases[name], layout.bytes)
        results.append(layout.unpack(raw))
    return results, outcome.cycles, outcome.fault.message if outcome.fault else ""


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """Where two results differ in a bit; NaN is NaN whatever its bits."""
    kind = np.uint16 if got.dtype.itemsize == 2 else np.uint8
    a, b = (canonical(np.ascontiguousarray(x).view(kind)) for x in (got, want))
    wrong = a != b
    if not wrong.any():
        return ""
    place = [int(k) for k in np.argwhere(wrong)[0]]
    first = tuple(place)
    return f"{place} is {a[first]:#06x}, not {b[first]:#06x}; {wrong.sum()} of {wrong.size}"


def shrunk(spec: Spec, state: str, tries: int = 300) -> Spec:
    """The smallest kernel found that fails in the same way."""
    found = True
    while found:
        found = False
        for less in smaller(spec):
            if tries <= 0:
                return spec
            tries -= 1
            if check(less).state == state:
                spec, found = less, True
                break
    return spec
