"""The native machine: its arithmetic paths, its loader, its manners as a library."""

from __future__ import annotations

import copy
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from machine_cases import REGISTERS, Case, difference

from tilewright import _native
from tilewright.errors import TilewrightError
from tilewright.targets.atlas import native
from tilewright.targets.atlas.isa import MAX_OPERANDS, OPCODES, REGISTER_COUNT, Kind, Opcode
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.native import KERNELS, NativeMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction, Program
from tilewright.targets.atlas.semantics import EFFECTS

V0, V1 = load_profile("atlas-v0"), load_profile("atlas-v1")
TENSOR_ROWS = [r for r in OPCODES if r.mxu is not None or (r.record == "vector" and not r.memory)]
FOREVER = [
    Instruction.of("jal", 0, 0),
    Instruction.of("addi", 1, 1, 1),
    Instruction.of("addi", 0, 0, 0),
]


def tiles(seed: int) -> np.ndarray:
    """64 registers: any bits, ordinary numbers, tiny and huge ones, and fp8 near one."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (64, 1024), np.uint8)
    for first, scale in ((0, 1.0), (1, 1e-39), (2, 1e38), (3, 300.0)):
        values = np.clip(rng.normal(0, scale, (16, 512)), -3e38, 3e38).astype(np.float32)
        halves = (values.view(np.uint32) >> 16).astype("<u2")
        raw[first::8][:8] = halves.view(np.uint8)[:8]
    raw[4::8] = rng.integers(0x28, 0x48, (8, 1024), np.uint8)
    return raw


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("profile", [V0, V1], ids=lambda p: p.name)
def test_every_tensor_instruction_on_every_path(kernels: str, profile) -> None:
    """Registers with all kinds of numbers through each tensor instruction, against Python."""
    rows = [row for row in TENSOR_ROWS if profile.has(row)]
    machines = [PythonMachine(profile), NativeMachine(profile, kernels=kernels)]
    rng = np.random.default_rng(5)
    code = []
    for row in rows * 3:
        values = {Kind.M: rng.integers(0, 60), Kind.E: rng.integers(0, 4), Kind.IMM: -7}
        operands = [int(values.get(o.kind, rng.integers(0, 2))) for o in row.operands]
        code += [Instruction(row, tuple(operands)), Instruction.of("delay", 130)]
    for machine in machines:
        machine.load(Program.from_instructions(code))
        for register, raw in enumerate(tiles(3)):
            machine.write_register(f"m{register}", raw.tobytes())
        for unit in (0, 1):
            for slot in (0, 1):
                chosen = tiles(9 + unit)[slot + 4]
                machine.write_register(f"mxu{unit}.w{slot}", chosen.tobytes())
        for register, value in enumerate((1, 0, 3, 255)):
            machine.write_register(f"e{register}", value)
    outcomes = [machine.run() for machine in machines]
    assert outcomes[0] == outcomes[1] and outcomes[0].reason == "end"
    for name in REGISTERS:
        assert machines[0].read_register(name) == machines[1].read_register(name), name


@pytest.mark.parametrize("kernels", KERNELS)
def test_functions_of_one_number_for_all_inputs(kernels: str) -> None:
    """All 65536 bf16 patterns through every function of one operand."""
    of_one = [r for r in TENSOR_ROWS if len(r.operands) == 2 and r.timing == "vector"]
    names = [r.mnemonic for r in of_one if r.mnemonic.endswith(".bf16")]
    assert len(names) == 11
    python, fast = PythonMachine(V1), NativeMachine(V1, kernels=kernels)
    patterns = np.arange(65536, dtype="<u2").reshape(64, 1024)
    for name in names:
        code = [Instruction.of(name, 2 * k + 32, 2 * k) for k in range(16)]
        spaced = [i for op in code for i in (op, Instruction.of("delay", 64))]
        for batch in range(4):
            for machine in (python, fast):
                machine.load(Program.from_instructions(spaced))
                for k in range(16):
                    raw = patterns[16 * batch + k].tobytes()
                    machine.write_register(f"m{2 * k}", raw[:1024])
                    machine.write_register(f"m{2 * k + 1}", raw[1024:])
                assert machine.run().reason == "end"
            for k in range(32, 64):
                assert python.read_register(f"m{k}") == fast.read_register(f"m{k}"), (name, k)


def test_matmul_paths_agree_on_random_bytes() -> None:
    """Uniformly random fp8 bytes are where the order of additions shows."""
    code = [Instruction.of("vmatmul.acc.mxu1", 0, k, k % 2) for k in range(40)]
    spaced = [i for op in code for i in (op, Instruction.of("delay", 33))]
    results = set()
    for kernels in KERNELS:
        machine = NativeMachine(V1, kernels=kernels)
        machine.load(Program.from_instructions(spaced))
        rng = np.random.default_rng(1)
        for name in [f"m{k}" for k in range(40)] + ["mxu1.w0", "mxu1.w1"]:
            codes = rng.integers(0, 256, 1024).astype(np.uint8)
            codes[(codes & 0x7F) >= 0x68] &= 0xBF  # no NaN, and sums that stay finite
            machine.write_register(name, codes.tobytes())
        assert machine.run().reason == "end"
        results.add(machine.read_register("mxu1.acc0"))
    assert len(results) == 1
    accumulator = np.frombuffer(results.pop(), "<u2")
    assert ((accumulator & 0x7F80) != 0x7F80).mean() > 0.9, "nearly all results are finite"


# --- what it is told ----------------------------------------------------------------------


def test_both_machines_know_the_effects_of_the_table() -> None:
    wanted = {row.effect for row in OPCODES}
    names = _native.atlas_effects()
    assert len(set(names)) == len(names)
    assert set(names) == wanted
    assert wanted <= set(EFFECTS)


def test_a_row_without_an_effect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = replace(OPCODES[0], effect="frobnicate")
    monkeypatch.setattr(native, "OPCODES", (strange, *OPCODES[1:]))
    monkeypatch.setattr(native, "_rows", native._rows.__wrapped__)
    with pytest.raises(ValueError, match="no effect named frobnicate"):
        NativeMachine(V1)


@pytest.mark.parametrize("change", [
    {"pc_step": 3}, {"delay_slots": 0}, {"delay_slots": 99}, {"tile_registers": 7},
    {"vmem_bytes": 0}, {"dram_bytes": 1 << 60}, {"units": []}, {"busy": "maybe"},
    {"seed": "x"}, {"dma": {}}, {"dma_policy": None},
])  # fmt: skip
def test_absurd_settings_are_refused(change: dict) -> None:
    settings = native._settings(V1, Policy()) | change
    with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
        _native.AtlasMachine(native._rows(V1), settings)


@pytest.mark.parametrize("change", [
    {"unit": 9}, {"unit": -1}, {"latency": 0}, {"interval": 10**6}, {"mxu": 5},
    {"kind": "tensor"}, {"operands": [{}]}, {"bytes": -1}, {"effect": 3},
])  # fmt: skip
def test_absurd_rows_are_refused(change: dict) -> None:
    rows = copy.deepcopy(native._rows(V1))
    rows[60] = rows[60] | change
    with pytest.raises((ValueError, TypeError, KeyError, RuntimeError)):
        _native.AtlasMachine(rows, native._settings(V1, Policy()))


@pytest.mark.parametrize("mnemonic, place, high", [
    ("addi", 0, 32), ("vadd.bf16", 2, 64), ("vmatmul.mxu1", 2, 63), ("vmatpop.fp8.acc.mxu0", 1, 2),
    ("slli", 2, 32), ("csrrw", 2, 4096), ("dma.wait", 0, 8), ("vload", 2, 63),
])  # fmt: skip
def test_rows_that_reach_past_the_state_are_refused(mnemonic: str, place: int, high: int) -> None:
    rows = copy.deepcopy(native._rows(V1))
    row = next(r for r in rows if r["mnemonic"] == mnemonic)
    row["operands"][place]["high"] = high
    with pytest.raises(ValueError, match="does not fit its effect"):
        _native.AtlasMachine(rows, native._settings(V1, Policy()))


@pytest.mark.parametrize("opcodes, operands", [
    (np.array([255], np.uint8), np.zeros((1, 4), np.int32)),
    (np.array([0], np.uint8), np.array([[32, 0, 0, 0]], np.int32)),
    (np.array([0], np.uint8), np.array([[-1, 0, 0, 0]], np.int32)),
    (np.array([6], np.uint8), np.array([[1, 1, 32, 0]], np.int32)),
    (np.array([0, 0], np.uint8), np.zeros((1, 4), np.int32)),
    (np.array([0], np.uint8), np.zeros((1, 1), np.int32)),
    (np.array([0], np.uint8), np.zeros((4,), np.int32)),
    (np.array([[0]], np.uint8), np.zeros((1, 4), np.int32)),
])  # fmt: skip
def test_malformed_programs_are_refused(opcodes: np.ndarray, operands: np.ndarray) -> None:
    machine = NativeMachine(V1)
    with pytest.raises(TilewrightError) as caught:
        machine.load(Program(opcodes, operands, np.zeros(len(opcodes), np.int32)))
    assert caught.value.code == "TW3010"
    assert machine.run().reason == "end", "the machine still works"


def random_operand(rng: np.random.Generator, row: Opcode, k: int) -> int:
    operand = row.operands[k]
    if operand.kind is not Kind.IMM:
        return int(rng.integers(0, REGISTER_COUNT[operand.kind]))
    assert operand.immediate is not None
    if row.effect == "delay":
        return int(rng.integers(-1, 50))
    return int(rng.integers(operand.immediate.low, operand.immediate.high + 1))


@pytest.mark.parametrize("seed", range(60))
def test_any_instructions_at_all(seed: int) -> None:
    """Instructions drawn without any plan, under a policy that keeps going."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(OPCODES), 40)
    code = []
    for index in rows.tolist():
        row = OPCODES[index]
        values = tuple(random_operand(rng, row, k) for k in range(len(row.operands)))
        code.append(Instruction(row, values))
    hazards = ("record", "stall", "profile")[seed % 3]
    policy = Policy(hazards, ("random", "poison", "zero")[seed % 3], compat=seed % 2 == 1)
    profile = (V0, V1)[seed % 2 ^ seed // 2 % 2]
    assert difference(Case(seed, profile, policy, Program.from_instructions(code), False)) is None


def test_fuzzed_columns_never_crash() -> None:
    """Random bytes as opcodes and operands: loaded or refused, never worse."""
    rng = np.random.default_rng(11)
    machine = NativeMachine(V1, Policy("record"))
    loaded = 0
    for _ in range(300):
        count = int(rng.integers(1, 6))
        opcodes = rng.integers(0, 110, count).astype(np.uint8)
        operands = rng.integers(-8, 72, (count, MAX_OPERANDS)).astype(np.int32)
        if rng.random() < 0.1:
            operands = rng.integers(-(2**31), 2**31, (count, MAX_OPERANDS)).astype(np.int32)
        try:
            machine.load(Program(opcodes, operands, np.zeros(count, np.int32)))
        except TilewrightError:
            continue
        loaded += 1
        machine.run(max_cycles=500)
    assert loaded > 5


def test_reads_and_writes_outside_are_errors() -> None:
    machine = NativeMachine(V1)
    for address, count in ((-1, 4), (V1.vmem_bytes, 1), (0, V1.vmem_bytes + 1), (2**70, 1)):
        with pytest.raises(ValueError, match="outside vmem"):
            machine.read("vmem", address, count)
    for name in ("x32", "m64", "e-1", "y0", "mxu2.w0", "", "csr4096", "m" * 1000):
        with pytest.raises(ValueError, match="no register"):
            machine.read_register(name)
        with pytest.raises(ValueError, match="no register"):
            machine.watch(name)
    with pytest.raises(ValueError, match="takes 1024 bytes"):
        machine.write_register("m3", b"short")
    with pytest.raises(ValueError, match="takes a number"):
        machine.write_register("x3", b"1234")
    machine.write_register("x3", 2**200 + 5)
    assert machine.read_register("x3") == 5
    assert machine.run(max_cycles=-(2**80), until_pc=-4, max_instructions=2**80).reason == "end"


def test_snapshots_of_other_programs_are_refused() -> None:
    one, other = NativeMachine(V1), NativeMachine(V1)
    one.load(Program.from_instructions([Instruction.of("fence")]))
    other.load(Program.from_instructions([Instruction.of("fence")] * 2))
    with pytest.raises(ValueError, match="another program"):
        other.restore(one.snapshot())
    with pytest.raises(ValueError, match="not a snapshot"):
        other.restore({"x": 1})


# --- memory and time ------------------------------------------------------------------------


@pytest.mark.parametrize("initial", ["zero", "poison", "random"])
def test_memory_exists_only_where_it_is_written(initial: str) -> None:
    profile = replace(V1, dram_bytes=1 << 44)
    machine = NativeMachine(profile, Policy(initial=initial, seed=7))
    assert machine._core.resident_bytes() == 0
    untouched = machine.read("dram", (1 << 43) + 5, 19)
    machine.write("dram", (1 << 44) - 3, b"end")
    assert machine.read("dram", (1 << 44) - 3, 3) == b"end"
    assert machine._core.resident_bytes() == 65536
    expected = PythonMachine(profile, Policy(initial=initial, seed=7))
    assert untouched == expected.read("dram", (1 << 43) + 5, 19)
    assert machine.read("dram", (1 << 44) - 70, 67) == expected.read("dram", (1 << 44) - 70, 67)


def test_a_snapshot_keeps_its_memory() -> None:
    machine = NativeMachine(V1)
    machine.write("dram", 100, b"before")
    saved = machine.snapshot()
    machine.write("dram", 100, b"after!")
    machine.write("vmem", 0, b"x")
    assert machine.read("dram", 100, 6) == b"after!"
    machine.restore(saved)
    assert machine.read("dram", 100, 6) == b"before"
    assert machine.read("vmem", 0, 1) == b"\0"


def test_a_run_can_be_interrupted_and_goes_on() -> None:
    machine = NativeMachine(V1)
    machine.load(Program.from_instructions(FOREVER))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            machine.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    count = machine.read_register("x1")
    assert isinstance(count, int) and count > 0
    machine.run(max_instructions=3)
    assert machine.read_register("x1") == count + 1


def test_progress_is_reported_and_two_threads_do_not_collide() -> None:
    machine = NativeMachine(V1)
    machine.load(Program.from_instructions(FOREVER))
    ticks: list[int] = []
    machine.on_progress = ticks.append
    runner = threading.Thread(target=machine.run, kwargs={"max_cycles": 3_000_000})
    runner.start()
    collisions = 0
    while runner.is_alive():
        try:
            machine.read_register("x1")
        except RuntimeError as error:
            assert "another thread" in str(error)
            collisions += 1
        time.sleep(0.001)
    runner.join()
    assert ticks == sorted(ticks) and len(ticks) >= 5
    assert machine.cycles == 3_000_000 or collisions


def test_addresses_of_a_snapshot_may_begin_anywhere() -> None:
    """In a file that another tool has packed."""
    numbers = np.arange(1, 5, dtype="<u8") * 4096
    for shift in range(8):
        content = np.frombuffer(bytes(shift) + numbers.tobytes(), np.uint8)[shift:]
        found = native._addresses(content)
        assert found.flags.aligned and np.array_equal(found, numbers)
