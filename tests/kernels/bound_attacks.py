"""Programs that try to be faster than a printed bound.

Two ways: element-wise kernels are written anew, with only the rows that hold elements moved, rows
of several tiles side by side in one register, and pieces as small as one likes; and programs,
these and those of the library, are changed at random (an instruction left out, a wait dropped or
moved, a delay or a transfer shortened) and what is still right and clean is kept. A program counts
only if lint finds nothing and every bit is right from poisoned memory with late transfers, from
random memory with early ones, and for other inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tiles import Tiles
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.measure import content_of, execute
from tilewright.targets.atlas.kernels.registry import ENTRIES, Entry
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.tile.launches import launch_body

ROW = 32
REGISTER = 1024
POLICIES = (Policy(initial="poison", dma="late"), Policy(initial="random", dma="early", seed=3))
# Kernels that compute the same of every element, and the body that does.
LOCAL = {
    "relu": "elementwise_relu", "exp": "elementwise_exp", "tanh": "elementwise_tanh",
    "cos": "elementwise_cos", "sigmoid": "elementwise_sigmoid", "silu": "silu",
    "gelu_tanh": "gelu_tanh", "elementwise_add": "elementwise_add",
    "elementwise_sub": "elementwise_sub", "elementwise_mul": "elementwise_mul",
    "elementwise_max": "elementwise_max", "elementwise_min": "elementwise_min",
    "elementwise_div": "elementwise_div",
}  # fmt: skip


@dataclass
class Target:
    """A kernel at some sizes: what it has to compute, in how many cycles at least."""

    entry: Entry
    profile: str
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        self.compiled = self.entry.build(self.profile, self.sizes)
        self.samples = [self.entry.sample(self.sizes, seed) for seed in (0, 1)]
        run = execute(self.entry, self.compiled, self.samples[0])
        self.cycles, self.bound = run.cycles, run.bound.cycles
        reference = self.entry.reference_at(self.sizes)
        self.wanted = []
        for inputs in self.samples:
            found = reference.exact(self.compiled.profile, *inputs)
            self.wanted.append(found if isinstance(found, tuple) else (found,))

    def cycles_of(self, program: Program) -> int | None:
        """Cycles of a program that is right and clean, else None."""
        compiled = self.compiled
        cycles = 0
        for policy in POLICIES:
            for inputs, wanted in zip(self.samples, self.wanted, strict=True):
                device = make_machine(compiled.profile, policy)
                device.load(program)
                for address, raw in compiled.data:
                    device.write("dram", address, raw)
                for name, codes in zip(self.entry.inputs, inputs, strict=True):
                    raw = compiled.layouts[name].pack(codes)
                    device.write("dram", compiled.bases[name], raw)
                outcome = device.run(max_cycles=4 * self.cycles + 1000)
                if outcome.reason not in ("end", "halt"):
                    return None
                cycles = outcome.cycles
                for name, want in zip(compiled.outputs, wanted, strict=True):
                    layout = compiled.layouts[name]
                    raw = device.read("dram", compiled.bases[name], layout.bytes)
                    got = layout.unpack(raw).view(want.dtype)
                    if not np.array_equal(canonical(got), canonical(want)):
                        return None
        findings = lint(program, compiled.profile).findings
        return cycles if not any(f.severity in ("error", "warning") for f in findings) else None


def packed_programs(target: Target) -> Iterator[Program]:
    """Element-wise kernels with nothing but elements moved, in pieces of several sizes."""
    family = LOCAL.get(target.entry.name)
    if family is None:
        return
    compiled, profile = target.compiled, target.compiled.profile
    names = [*target.entry.inputs, *compiled.outputs]
    rows = np.flatnonzero(content_of(compiled, names[0]).rows)
    for size in sorted({min(len(rows), n) for n in (64, 32, 48, 16, 8, len(rows) // 2 or 1)}):
        routine = Routine(profile)
        code = routine.code()
        top = 0
        for start in range(0, len(rows), size):
            piece = rows[start : start + size]
            tiles, given = Tiles(code), []
            for name in names[:-1]:
                for first, count, at in _runs(piece):
                    base = compiled.bases[name] + first * ROW
                    code.dma_load(top + at * ROW, base, count * ROW)
                given.append(tiles.load(top))
                top += 2 * REGISTER
            result = launch_body(family, {})(tiles, *given)
            tiles.store(result, top)
            for first, count, at in _runs(piece):
                base = compiled.bases[names[-1]] + first * ROW
                code.dma_store(base, top + at * ROW, count * ROW)
            top += 2 * REGISTER
        if top <= profile.vmem_bytes and len(code.ops) < 2000:
            routine.items.append(code)
            yield routine.compile()


def _runs(rows: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Rows that follow each other: (first, how many, place of the first)."""
    start = 0
    for k in range(1, len(rows) + 1):
        if k == len(rows) or rows[k] != rows[k - 1] + 1:
            yield int(rows[start]), k - start, start
            start = k


def changed(program: Program, random: np.random.Generator) -> Program | None:
    """The program with a small change, one that may make it faster; None: this one cannot."""
    rows = list(program)
    if any(row.opcode.is_transfer for row in rows):
        return None
    place = int(random.integers(len(rows)))
    row = rows[place]
    kind = int(random.integers(4))
    if row.opcode.mnemonic == "delay":
        ticks = row.operands[0] - int(random.integers(1, 40))
        rows[place : place + 1] = [Instruction.of("delay", ticks)] if ticks > 0 else []
    elif kind == 0 and row.opcode.mnemonic == "addi" and row.operands[2] >= 2 * ROW:
        less = int(row.operands[2] * random.choice([0.5, 0.25])) // ROW * ROW
        rows[place] = Instruction(row.opcode, (*row.operands[:2], less))
    elif kind <= 1:
        del rows[place]
    else:
        other = min(len(rows) - 1, place + int(random.integers(1, 6)))
        rows.insert(other, rows.pop(place))
    return Program.from_instructions(rows)


def climb(target: Target, program: Program, tries: int, seed: int) -> int | None:
    """The fewest cycles found by changing a program at random; None if it was never right."""
    random = np.random.default_rng(seed)
    best = target.cycles_of(program)
    if best is None:
        return None
    for _ in range(tries):
        other = changed(program, random)
        if other is None:
            break
        cycles = target.cycles_of(other)
        if cycles is not None and cycles <= best:
            program, best = other, cycles
    return best


def attack(target: Target, tries: int, seed: int) -> int:
    """The fewest cycles of any right program that was found."""
    found = [target.cycles]
    for program in [target.compiled.program, *packed_programs(target)]:
        cycles = climb(target, program, tries if len(program) < 400 else 0, seed)
        if cycles is not None:
            found.append(cycles)
    return min(found)


def random_target(random: np.random.Generator, names: list[str] | None = None) -> tuple[Any, ...]:
    """(kernel, profile, sizes): one row, one column, ragged, or whole tiles."""
    allowed = [n for n, e in ENTRIES.items() if e.sizes and not e.related and "acc" not in n]
    name = str(random.choice(names or allowed))
    which = ENTRIES[name]
    sizes = {}
    for size in which.sizes:
        step = which.multiples.get(size, 1)
        most = 3 if size in ("B", "G", "R") else max(1, 100 // step)
        value = int(random.integers(1, most + 1))
        if size in ("M", "N", "K") and random.random() < 0.5:
            value = int(random.choice([1, 2, 16, 17, 32, 64, 200]))
        sizes[size] = value * step
    return which, str(random.choice(["atlas-v0", "atlas-v1"])), sizes
