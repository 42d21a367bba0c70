"""Lint against the machine on random programs: nothing missed, nothing invented."""

from __future__ import annotations

import pytest
from machine_programs import random_profile, random_program

from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.lint.findings import Report
from tilewright.targets.atlas.lint.repair import fix
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.outcome import Outcome
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Instruction, Program

CYCLES = 20_000
UNDECIDED = {"TW2020", "TW2034"}


def profile_of(seed: int) -> Profile:
    """Both machines, and every third time one derived from them."""
    base = load_profile(f"atlas-v{seed % 2}")
    return random_profile(seed, base) if seed % 3 == 0 else base


def run(program: Program, profile: Profile, **policy: str) -> tuple[PythonMachine, Outcome]:
    machine = PythonMachine(profile, Policy(**policy))  # type: ignore[arg-type]
    machine.load(program)
    return machine, machine.run(max_cycles=CYCLES)


def final_state(machine: PythonMachine) -> tuple[object, ...]:
    state = machine.state
    tiles = (state.e, state.m, state.w, state.acc)
    memory = (machine.read(space, 0, 65536) for space in ("vmem", "dram"))
    return (state.x, state.dma_base, *(t.tobytes() for t in tiles), *memory)


def straight(program: Program) -> Program:
    """The program without control transfers, halts, and code that looks at its own address."""
    skipped = ("ecall", "ebreak", "auipc")
    code = [i for i in program if not i.opcode.is_transfer and i.opcode.mnemonic not in skipped]
    result = Program.from_instructions(code)
    result.data = program.data
    return result


def foretold(report: Report, outcome: Outcome) -> bool:
    fault = outcome.fault
    return fault is not None and any(
        e.code in UNDECIDED or (e.fault, e.index) == (fault.kind, fault.index)
        for e in report.errors
    )


@pytest.mark.parametrize("limit", [100_000, 25])
@pytest.mark.parametrize("block", range(4))
def test_whatever_faults_is_found(block: int, limit: int) -> None:
    faults = 0
    for seed in range(60 * block, 60 * (block + 1)):
        profile = profile_of(seed)
        program = random_program(seed, profile)
        report = lint(program, profile, limit)
        _, outcome = run(program, profile)
        if outcome.fault is not None:
            faults += 1
            assert foretold(report, outcome), (seed, outcome.fault)
    assert faults > 5  # the sample says something


@pytest.mark.parametrize("block", range(3))
def test_straight_code_is_foretold_to_the_tick(block: int) -> None:
    compared = 0
    for seed in range(1000 + 60 * block, 1000 + 60 * (block + 1)):
        profile = profile_of(seed)
        program = straight(random_program(seed, profile))
        report = lint(program, profile)
        _, outcome = run(program, profile)
        certain = [f for f in report.errors if f.fault and not f.may]
        if outcome.fault is None:
            assert outcome.reason == "limit" or not certain, seed
            continue
        assert foretold(report, outcome), (seed, outcome.fault)
        places = {(f.fault, f.index, f.tick) for f in certain}
        fault = outcome.fault
        if not any(f.may for f in report.errors):
            compared += 1
            assert (fault.kind, fault.index, fault.cycle) in places, seed
            assert fault.cycle == min(f.tick for f in certain), seed
    assert compared > 3


@pytest.mark.parametrize("block", range(3))
def test_clean_programs_do_not_depend_on_dma_or_stalls(block: int) -> None:
    compared = 0
    for seed in range(2000 + 40 * block, 2000 + 40 * (block + 1)):
        profile = profile_of(seed)
        program = random_program(seed, profile)
        if not lint(program, profile).clean:
            continue
        machine, outcome = run(program, profile)
        assert outcome.fault is None, seed
        if outcome.reason == "limit":
            continue
        policies = [{"dma": "early"}, {"dma": "late"}]
        if profile.conflict != "ignore":
            policies.append({"hazards": "stall"})
        for policy in policies:
            other, _ = run(program, profile, **policy)
            compared += 1
            assert final_state(other) == final_state(machine), (seed, policy)
            assert other.cycles == machine.cycles
    assert compared > 5


@pytest.mark.parametrize("block", range(3))
def test_programs_without_errors_compute_what_slow_ones_compute(block: int) -> None:
    """Any wrong order of reads and writes shows against the same program with huge delays."""
    compared = 0
    for seed in range(3000 + 40 * block, 3000 + 40 * (block + 1)):
        profile = profile_of(seed)
        program = straight(random_program(seed, profile, size=20))
        if lint(program, profile).errors:
            continue
        slow = []
        for instruction in program:
            slow += [instruction, Instruction.of("delay", 4095)]
        patient = Program.from_instructions(slow)
        patient.data = program.data
        results = []
        for version in (program, patient):
            machine = PythonMachine(profile)
            machine.load(version)
            assert machine.run().fault is None, seed
            results.append(final_state(machine))
        compared += 1
        assert results[0] == results[1], seed
    assert compared > 5


@pytest.mark.parametrize("block", range(2))
def test_repaired_programs_run(block: int) -> None:
    repaired = 0
    for seed in range(4000 + 60 * block, 4000 + 60 * (block + 1)):
        profile = profile_of(seed)
        program = straight(random_program(seed, profile, size=15))
        result = fix(program, profile)
        if result.before.clean or not result.after.clean:
            continue
        repaired += 1
        _, outcome = run(result.program, profile)
        assert outcome.fault is None, seed
    assert repaired > 2
