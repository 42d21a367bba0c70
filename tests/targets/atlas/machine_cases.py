"""Run the same program on both machines and name the first thing in which they differ.

The native machine takes turns with the arithmetic paths this processor has.

Everything is compared: why and when each run stopped, every register and memory byte, faults
with their messages, statistics, trace rows. `drive` also stops on the way, in all the ways a
run can be stopped, and goes back to snapshots.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from machine_programs import random_policy, random_profile, random_program

from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.native import KERNELS, NativeMachine
from tilewright.targets.atlas.outcome import Outcome
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.atlas.state import PAGE

MAX_CYCLES = 5_000
Machine = PythonMachine | NativeMachine

REGISTERS = (
    [f"x{i}" for i in range(32)]
    + [f"e{i}" for i in range(32)]
    + [f"m{i}" for i in range(64)]
    + [f"mxu{n}.{kind}{i}" for n in (0, 1) for kind in ("w", "acc") for i in (0, 1)]
    + [f"csr{i}" for i in range(0, 4096, 61)]
    + ["dma.base", "pc"]
)


@dataclass(frozen=True)
class Case:
    """One comparison: a program on a machine under a policy."""

    seed: int
    profile: Profile
    policy: Policy
    program: Program
    stops: bool  # also stop on the way


def random_case(seed: int) -> Case:
    """Case number `seed`: both profiles and machines derived from them, all policies."""
    profile = load_profile(("atlas-v0", "atlas-v1")[seed % 2])
    if seed % 5 == 4:
        profile = random_profile(seed, profile)
    return Case(
        seed, profile, random_policy(seed), random_program(seed, profile), stops=seed % 3 == 2
    )


def difference(case: Case) -> str | None:
    """What the two machines disagree on, or None."""
    kernels = KERNELS[case.seed // 2 % len(KERNELS)]
    machines = [
        PythonMachine(case.profile, case.policy),
        NativeMachine(case.profile, case.policy, kernels),
    ]
    for machine in machines:
        machine.load(case.program)
        machine.trace_window = (0, 1 << 60) if case.seed % 4 else (100, 400)
    python, native = machines
    found = _initial_difference(python, native)
    if found:
        return found
    if case.stops:
        return _drive(case, python, native)
    return _compare(python, native, [m.run(max_cycles=MAX_CYCLES) for m in machines])


def _initial_difference(python: Machine, native: Machine) -> str | None:
    for register in REGISTERS:
        if python.read_register(register) != native.read_register(register):
            return f"initial {register}"
    return None


def _compare(python: Machine, native: Machine, outcomes: list[Outcome]) -> str | None:
    """The first difference between two machines that stopped."""
    first, second = outcomes
    if first != second:
        return f"outcome: python {first}, native {second}"
    if python.faults != native.faults:
        pairs = zip(python.faults, native.faults, strict=False)
        different = next((pair for pair in pairs if pair[0] != pair[1]), None)
        return f"faults ({len(python.faults)}, {len(native.faults)}): {different}"
    for register in REGISTERS:
        values = python.read_register(register), native.read_register(register)
        if values[0] != values[1]:
            return f"{register}: {_first_byte(*values)}"
    for space, address, count in _written(python):
        contents = [m.read(space, address, count) for m in (python, native)]
        if contents[0] != contents[1]:
            return f"{space} from {address:#x}: {_first_byte(*contents)}"
    if not python.statistics.same(native.statistics):
        return f"statistics: python {python.statistics}, native {native.statistics}"
    rows = python.trace, native.trace
    if not np.array_equal(rows[0], rows[1]):
        pairs = zip(rows[0].tolist(), rows[1].tolist(), strict=False)
        different = next((pair for pair in pairs if pair[0] != pair[1]), None)
        return f"trace ({len(rows[0])}, {len(rows[1])} rows): {different}"
    return None


def _first_byte(left: int | bytes, right: int | bytes) -> str:
    if isinstance(left, bytes) and isinstance(right, bytes):
        place = next(i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
        return f"byte {place}: python {left[place]:#x}, native {right[place]:#x}"
    return f"python {left!r}, native {right!r}"


def _written(machine: Machine) -> list[tuple[str, int, int]]:
    """Ranges of memory worth comparing: all pages the Python machine wrote, and one more."""
    assert isinstance(machine, PythonMachine)
    ranges = []
    for space, memory in (("dram", machine.state.dram), ("vmem", machine.state.vmem)):
        pages = set(memory.pages) | {0, (memory.size - 1) // PAGE}
        for page in sorted(pages):
            start = page * PAGE
            ranges.append((space, start, min(PAGE, memory.size - start)))
    return ranges


# --- stopping on the way ------------------------------------------------------------------


def _drive(case: Case, python: Machine, native: Machine) -> str | None:
    """Stop both machines in the same random ways and compare at every stop."""
    rng = random.Random(f"drive {case.seed}")
    machines = [python, native]
    snapshots: list[object] | None = None
    for _ in range(12):
        kind = rng.randrange(9)
        amount = rng.choice((1, 2, 5, 40, 300))
        if kind == 0 and len(case.program):
            index = rng.randrange(len(case.program))
            for machine in machines:
                machine.breakpoints = {index}
        elif kind == 1:
            watched = rng.choice((("x3", 0, 1), ("vmem", 1024, 64), ("m2", 0, 1), ("e1", 0, 1)))
            for machine in machines:
                machine.watch(*watched)
        elif kind == 2:
            snapshots = [machine.snapshot() for machine in machines]
        elif kind == 3 and snapshots is not None:
            for machine, snapshot in zip(machines, snapshots, strict=True):
                machine.restore(snapshot)
        elif kind == 4:
            register, value = f"x{rng.randrange(32)}", rng.randrange(-64, 4096)
            for machine in machines:
                machine.write_register(register, value)
        outcomes = [_advance(machine, kind, amount) for machine in machines]
        found = _compare(python, native, outcomes)
        if found:
            return f"after stop {kind}/{amount} at tick {python.cycles}: {found}"
    for machine in machines:
        machine.breakpoints = set()
        for watched in (("x3", 0, 1), ("vmem", 1024, 64), ("m2", 0, 1), ("e1", 0, 1)):
            machine.unwatch(*watched)
    return _compare(python, native, [m.run(max_cycles=MAX_CYCLES) for m in machines])


def _advance(machine: Machine, kind: int, amount: int) -> Outcome:
    limit = MAX_CYCLES
    match kind:
        case 5:
            return machine.run(until_cycle=machine.cycles + amount, max_cycles=limit)
        case 6:
            return machine.run(max_instructions=amount, max_cycles=limit)
        case 7:
            target = 2 * amount * machine.profile.pc_step
            return machine.run(until_pc=target, max_cycles=machine.cycles + 500)
        case 8:
            return machine.run(max_instructions=1, max_cycles=limit)
    return machine.run(max_cycles=machine.cycles + amount)


# --- making a failing case small -----------------------------------------------------------


def minimise(case: Case, differs: Callable[[Case], str | None] = difference) -> Case:
    """The case with as many instructions replaced by nothing as still differ.

    Instructions become no-ops first, so that branches keep their targets; then the tail goes.
    """
    nothing = Instruction.of("addi", 0, 0, 0)
    code = list(case.program)

    def with_code(candidate: list[Instruction]) -> Case:
        program = Program.from_instructions(candidate, case.program.source)
        program.data = case.program.data
        return Case(case.seed, case.profile, case.policy, program, case.stops)

    size = len(code)
    while size >= 1:
        for start in range(0, len(code), size):
            candidate = code[:start] + [nothing] * len(code[start : start + size])
            candidate += code[start + size :]
            if candidate != code and differs(with_code(candidate)):
                code = candidate
        size //= 2
    while code and differs(with_code(code[:-1])):
        code = code[:-1]
    return with_code(code)
