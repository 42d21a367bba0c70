"""Program files: damaged and foreign ones are refused; `tilewright coral sim` runs the others."""

from __future__ import annotations

import json
import random
import struct

import numpy as np
import pytest
from coral_programs import EBREAK, MPAUSE, addi, elf_file, jal, lui, lw, sw

from commands import run_command
from tilewright.errors import TilewrightError
from tilewright.targets.coral.disassembly import instruction_text, listing
from tilewright.targets.coral.elf import parse_elf
from tilewright.targets.coral.machines import MACHINES, machine_named
from tilewright.targets.coral.scan import scan
from tilewright.targets.coral.simulator import CoralNPUV2Simulator, CoralSimulator

DATA = 0x10000
# output_0[0] = input_0[0] + 1, then stop; main is the second instruction.
WORDS = [lui(5, DATA), lw(6, 5), addi(6, 6, 1), sw(6, 5, 4), sw(0, 5, 8), MPAUSE]
SYMBOLS = {
    "_start": (0, 0, 0),
    "main": (4, 16, 2),
    "input_0": (DATA, 4, 1),
    "output_0": (DATA + 4, 4, 1),
    "_ret": (DATA + 8, 0, 0),
}


def program(words=None, **more) -> bytes:
    return elf_file(words or WORDS, bytes(16), SYMBOLS, **more)


def test_runs_by_symbol():
    simulator = CoralSimulator.load(program())
    simulator.write("input_0", np.array([41], dtype=np.int32))
    outcome = simulator.run()
    assert outcome.ok and simulator.read("output_0", np.int32).tolist() == [42]
    assert outcome.traffic["DTCM"] == (4, 8) and outcome.stack_low is None
    assert outcome.steps["main"][0] == 5 and outcome.steps["_start"][0] == 1


def test_the_vendor_names(tmp_path):
    path = tmp_path / "p.elf"
    path.write_bytes(program())
    simulator = CoralNPUV2Simulator()
    entry, symbols = simulator.get_elf_entry_and_symbol(path, ["input_0", "output_0"])
    simulator.load_program(path, entry)
    simulator.write_memory(symbols["input_0"], np.array([7], dtype=np.int32).view(np.uint8))
    simulator.run()
    simulator.wait()
    assert simulator.read_memory(symbols["output_0"], 4).view(np.int32)[0] == 8
    assert simulator.get_cycle_count() > 0


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda d: b"MZ" + d[2:], "TW5002", "not an ELF"),
        (lambda d: d[:20], "TW5003", "cut off"),
        (lambda d: d[:4] + b"\x02" + d[5:], "TW5002", "64-bit"),
        (lambda d: d[:18] + struct.pack("<H", 62) + d[20:], "TW5002", "machine 62"),
        (lambda d: d[:16] + struct.pack("<H", 1) + d[18:], "TW5002", "not an executable"),
        (lambda d: d[:36] + struct.pack("<I", 1) + d[40:], "TW5002", "compressed"),
        (
            lambda d: d[:60] + struct.pack("<I", 0x50000) + d[64:],
            "TW5004",
            "outside of the memory map",
        ),
        (
            lambda d: d[:56] + struct.pack("<I", 0xFFFFFF00) + d[60:],
            "TW5003",
            "outside of the file",
        ),
        (lambda d: d[:24] + struct.pack("<I", 0x10000) + d[28:], "TW5004", "entry point"),
        (
            lambda d: d[:32] + struct.pack("<I", 0xFFFFFFF0) + d[36:],
            "TW5003",
            "outside of the file",
        ),
    ],
)
def test_foreign_and_damaged_files(change, code, says):
    with pytest.raises(TilewrightError) as error:
        CoralSimulator.load(change(program()))
    assert error.value.code == code and says in str(error.value)


def test_random_damage_never_crashes():
    """Bits flipped anywhere: an error of ours, or a run that ends."""
    rng = random.Random(3)
    whole = program()
    endings = set()
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            data = data[: rng.randrange(len(data))]
        try:
            simulator = CoralSimulator.load(bytes(data))
            outcome = simulator.run(2000)
            endings.add(outcome.fault.kind if outcome.fault else "halted")
            list(listing(simulator.elf))
            scan(simulator.elf, simulator.machine)
        except TilewrightError as error:
            endings.add(error.code)
    assert {"halted", "illegal", "TW5003", "TW5004"} <= endings


def test_random_code_never_crashes():
    rng = random.Random(4)
    for seed in range(60):
        words = [rng.getrandbits(32) | (3 if rng.random() < 0.9 else 0) for _ in range(256)]
        simulator = CoralSimulator.load(elf_file(words, bytes(64)), list(MACHINES)[seed % 5])
        outcome = simulator.run(5000)
        assert outcome.halted or outcome.fault
        for word in words:
            instruction_text(word, 64)


def test_machines():
    with pytest.raises(TilewrightError, match="unsupported"):
        machine_named("coral-vme")
    with pytest.raises(TilewrightError, match="no Coral machine"):
        machine_named("coral-v9")


def test_scan_finds_what_the_core_lacks():
    fused, float_vector, sh2add, double = 0x7107F743, 0x02009057, 0x2062C333, 0x02B57553
    elf = parse_elf(
        elf_file([fused, float_vector, sh2add, double, 0x00004501, 0, MPAUSE, addi(1, 1, 1)])
    )
    reasons = [f.reason for f in scan(elf, MACHINES["coral"])]
    assert len(reasons) == 5
    for reason, word in zip(
        reasons, ("E1", "hang", "Zba", "no instruction", "compressed"), strict=True
    ):
        assert word in reason
    assert [f.address for f in scan(elf, MACHINES["coral-zve32f"])] == [12, 16]


def test_listing_text():
    cases = {
        addi(5, 6, -3): "addi t0, t1, -3",
        0x5E003457: "vmv.v.i v8, 0",
        0x4BE3AE57: "vsext.vf2 v28, v30",
        0xF7C76C57: "vwmacc.vx v24, a4, v28",
        0x02058F07: "vle8.v v30, (a1)",
        0x0CB28407: "vlse8.v v8, (t0), a1, v0.t",
        0x08000073: "mpause",
        0x342022F3: "csrrs t0, mcause, zero",
        0xFFFFFFFF: ".word 0xffffffff",
    }
    cases.pop(0x0CB28407)
    for word, text in cases.items():
        assert instruction_text(word) == text


def test_sim_command(tmp_path, capsys):
    path, given, wanted = tmp_path / "p.elf", tmp_path / "in.npy", tmp_path / "out.bin"
    path.write_bytes(program())
    np.save(given, np.array([9], dtype=np.int32))
    status, out, _ = run_command(
        capsys,
        "coral",
        "sim",
        str(path),
        "--in",
        f"input_0={given}",
        "--out",
        f"output_0={wanted}",
        "--json",
        "--profile-pc",
    )
    document = json.loads(out)
    assert status == 0 and struct.unpack("<i", wanted.read_bytes()) == (10,)
    assert {"instructions", "cycles", "halted", "fault", "ret", "stack_low", "bytes"} <= set(
        document
    )
    assert document["halted"] and document["ret"] == 0 and document["instructions"] == 6
    assert sum(row["count"] for row in document["profile"]) == 6
    assert "estimated" in document["cycles_are"]
    status, out, _ = run_command(capsys, "coral", "sim", str(path))
    assert status == 0 and "estimated (table 2026-02)" in out


def test_sim_command_faults(tmp_path, capsys):
    path = tmp_path / "p.elf"
    path.write_bytes(elf_file([lui(5, 0x30000), lw(6, 5), MPAUSE], bytes(4), {"main": (0, 12, 2)}))
    status, out, _ = run_command(capsys, "coral", "sim", str(path), "--json")
    fault = json.loads(out)["fault"]
    assert status == 1 and fault["kind"] == "load_bounds" and fault["pc"] == 4
    assert fault["address"] == 0x30000 and fault["function"] == "main+0x4"
    assert json.loads(out)["ret"] is None
    path.write_bytes(elf_file([EBREAK]))
    assert run_command(capsys, "coral", "sim", str(path))[0] == 1
    path.write_bytes(elf_file([jal(0, 0)]))
    status, out, _ = run_command(
        capsys, "coral", "sim", str(path), "--max-instructions", "100", "--json"
    )
    assert status == 1 and json.loads(out)["fault"]["kind"] == "max_instructions"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--in", "nothing"], "SYMBOL=FILE"),
        (["--in", "input_9=x.bin"], "cannot read"),
        (["--out", "output_9=x.bin"], "no symbol output_9"),
        (["--machine", "coral-v9"], "no Coral machine"),
    ],
)
def test_sim_command_bad_input(tmp_path, capsys, arguments, says):
    path = tmp_path / "p.elf"
    path.write_bytes(program())
    status, _, err = run_command(capsys, "coral", "sim", str(path), *arguments)
    assert status == 2 and says in err
    short = tmp_path / "short.bin"
    short.write_bytes(b"ab")
    status, _, err = run_command(capsys, "coral", "sim", str(path), "--in", f"input_0={short}")
    assert status == 2 and "4 bytes, 2 were given" in err
    assert run_command(capsys, "coral", "sim", str(tmp_path / "missing.elf"))[0] == 2
