"""`tilewright sim`: its contract with scripts, every file form, every refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from tilewright.cli import main

COPY = """
# copy 64 bytes of DRAM from 0 to 0x1000
    li   x1, 64
    li   x2, 4096
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
again:
    dma.store.ch1 x2, x0, x1
    dma.wait.ch1
"""
FAULTY = "vload m0, 0(x0)\n\nvload m1, 0(x0)   # too soon\n"


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """Run the command in a folder with a few programs and arrays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("copy.S").write_text(COPY)
    Path("faulty.S").write_text(FAULTY)
    values = np.arange(64, dtype=np.uint8)
    np.save("in.npy", values)
    Path("in.bin").write_bytes(values.tobytes())
    save_file({"x": values.reshape(8, 8)}, "in.safetensors")

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as caught:
            main(["sim", "--machine", "python", *arguments])
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        code = caught.value.code
        return Ran(code if isinstance(code, int) else 1, captured.out, captured.err)

    return run


def refused(ran: Ran, code: str, *words: str) -> None:
    """Bad input: exit code 2, one error with its code, nothing on standard output."""
    assert (ran.status, ran.out) == (2, "")
    assert code in ran.err, ran.err
    for word in words:
        assert word in ran.err, ran.err


def test_json_contract(sim) -> None:
    ran = sim("copy.S", "--mem", "in.npy@0", "--expect", "in.npy@4096", "--json")
    assert ran.status == 0
    shown = ran.json
    assert shown["cycles"] == 79 and shown["instructions"] == 6
    assert shown["halted"] == "end" and shown["fault"] is None and shown["faults"] == []
    assert 0 <= shown["run_seconds"] < 10
    assert shown["dma_bytes"] == 128
    assert list(shown["units"]) == ["SCALAR", "MXU0", "MXU1", "VPU", "DMA", "LSU"]
    assert shown["units"]["DMA"] == {"busy": 72, "instructions": 2, "share": 0.911392}
    assert shown["units"]["SCALAR"]["instructions"] == 2
    assert shown["lost"] == {
        "delay": 0, "dma_wait": 72, "unit_busy": 0, "channel_busy": 0, "dependency": 0,
    }  # fmt: skip
    assert shown["hottest"][0]["text"] == "dma.wait.ch0" and shown["hottest"][0]["line"] == 6
    assert shown["profile"] == "atlas-v1" and shown["machine"] == "python"
    assert shown["policy"]["hazards"] == "profile"
    assert shown["expectations"][0]["holds"] is True


def test_fault_in_json_and_for_people(sim) -> None:
    ran = sim("faulty.S", "--json")
    assert ran.status == 1
    assert ran.json["halted"] == "fault"
    fault = ran.json["fault"]
    assert {"kind": "structural", "pc": 4, "cycle": 3}.items() <= fault.items()
    assert "LSU is busy" in fault["message"]
    ran = sim("faulty.S")
    assert ran.status == 1
    for words in ("fault structural in tick 3 at faulty.S:3", "3 | vload m1, 0(x0)   # too soon",
                  "LSU is busy until tick 36", "tilewright lint faulty.S"):  # fmt: skip
        assert words in ran.out


def test_record_lists_all_faults_and_exits_1(sim) -> None:
    ran = sim("faulty.S", "--policy", "record", "--json")
    assert ran.status == 1
    assert ran.json["fault"] is None and ran.json["halted"] == "end"
    assert [f["kind"] for f in ran.json["faults"]] == ["structural"]
    assert sim("faulty.S", "--policy", "stall", "--json").status == 0


@pytest.mark.parametrize("file", ["in.npy", "in.bin", "in.safetensors#x"])
def test_every_data_form(sim, file: str) -> None:
    ran = sim("copy.S", "--mem", f"{file}@0x0", "--dump", "0x1000:64=out.bin",
              "--dump", "vmem:0:64=out.npy", "--expect", f"{file}@0x1000",
              "--expect", f"{file}@vmem:0")  # fmt: skip
    assert ran.status == 0, ran.out
    assert Path("out.bin").read_bytes() == bytes(range(64))
    assert np.load("out.npy").tolist() == list(range(64))
    assert "wrote out.bin" in ran.out and ran.out.count("ok ") == 2


@pytest.mark.parametrize("suffix", [".S", ".txt", ".hex", ".bin", ".json"])
def test_every_program_form(sim, suffix: str) -> None:
    from tilewright.targets.atlas.files import read_program, write_program
    from tilewright.targets.atlas.profile import load_profile

    v1 = load_profile("atlas-v1")
    write_program(read_program("copy.S", v1), f"p{suffix}", v1)
    ran = sim(f"p{suffix}", "--mem", "in.npy@0", "--expect", "in.npy@4096", "--json")
    assert (ran.status, ran.json["cycles"]) == (0, 79)


def test_values_that_differ(sim) -> None:
    wrong = np.arange(64, dtype=np.uint8)
    wrong[20] = 0
    np.save("wrong.npy", wrong)
    ran = sim("copy.S", "--mem", "in.npy@0", "--expect", "wrong.npy@4096")
    assert ran.status == 1
    assert "DIFFERS wrong.npy at 0x1000: 1 of 64 u8 elements" in ran.out
    assert "worst at [20]: expected 0, found 20, off by 20" in ran.out
    assert sim("copy.S", "--mem", "in.npy@0", "--expect", "wrong.npy@4096:0,20").status == 0
    assert sim("copy.S", "--mem", "in.npy@0", "--expect", "wrong.npy@4096:0,19").status == 1


def test_tolerance_in_the_type_of_the_file(sim) -> None:
    data = np.linspace(1, 2, 32).astype(ml_dtypes.bfloat16)
    np.save("a.npy", data)
    near = (data.astype(np.float32) * 1.009).astype(ml_dtypes.bfloat16)
    np.save("near.npy", near)
    Path("near.bin").write_bytes(near.tobytes())
    assert sim("copy.S", "--mem", "a.npy@0", "--expect", "near.npy@4096").status == 1
    assert sim("copy.S", "--mem", "a.npy@0", "--expect", "near.npy@4096:0.02,0").status == 0
    assert sim("copy.S", "--mem", "a.npy@0", "--expect", "near.bin#bf16@4096:0.02,0").status == 0
    refused(sim("copy.S", "--expect", "near.bin@4096:0.02,0"), "TW3032", "FILE#bf16")


def test_limits_stops_and_registers(sim) -> None:
    ran = sim("copy.S", "--max-cycles", "30", "--json")
    assert (ran.status, ran.json["halted"], ran.json["cycles"]) == (0, "limit", 30)
    ran = sim("copy.S", "--stop-at", "50", "--json")
    assert (ran.json["halted"], ran.json["cycles"]) == ("until", 50)
    ran = sim("copy.S", "--stop-at", "again", "--registers")
    assert "stopped where asked" in ran.out and "x2  0x00001000" in ran.out
    for where in ("again", "4", "again@1"):
        ran = sim("copy.S", "--break", where)
        assert ran.status == 0
        assert "stopped at a breakpoint" in ran.out and "x1  0x00000040" in ran.out
        assert "before copy.S:8: dma.store.ch1 x2, x0, x1" in ran.out
    assert sim("copy.S", "--break", "again@2", "--json").json["halted"] == "end"
    assert sim("copy.S", "--break", "4", "--json").json["registers"]["x1"] == 64


def test_seed_and_compat(sim) -> None:
    Path("empty.S").write_text("nop\n")
    contents = set()
    for seed in ("1", "2"):
        ran = sim("empty.S", "--seed", seed, "--dump", "0:64=o.bin", "--compat", "--json")
        assert ran.json["policy"]["initial"] == "random" and ran.json["policy"]["compat"]
        contents.add(Path("o.bin").read_bytes())
    assert len(contents) == 2
    sim("empty.S", "--policy", "random=2", "--dump", "0:64=o.bin")
    assert Path("o.bin").read_bytes() in contents


def test_trace_and_timeline_files(sim) -> None:
    ran = sim("copy.S", "--trace", "t.pftrace", "--timeline", "t.svg", "--trace-window", "10:60")
    assert ran.status == 0 and "wrote t.pftrace" in ran.out
    assert Path("t.pftrace").stat().st_size > 500
    assert Path("t.svg").read_text().startswith("<svg")
    assert sim("copy.S", "--trace", "t.json").status == 0
    assert json.loads(Path("t.json").read_text())["traceEvents"]


def test_human_output(sim) -> None:
    ran = sim("copy.S", "--mem", "in.npy@0")
    for words in ("copy.S ran to its end: 79 cycles, 6 instructions", "91.1 %",
                  "DMA moved 128 bytes (64 in, 64 out), 1.62 bytes per cycle",
                  "waiting for DMA", "dma.wait.ch1"):  # fmt: skip
        assert words in ran.out
    assert "hottest" not in sim("copy.S", "--no-stats").out
    assert "hottest" not in sim("copy.S", "--hottest", "0").out


def test_a_profile_of_ones_own(sim) -> None:
    Path("fast.toml").write_text('base = "atlas-v1"\n[dma]\nlink_bytes = 8\n')
    ran = sim("copy.S", "--profile", "fast.toml", "--json")
    assert ran.json["profile"] == "fast" and ran.json["units"]["DMA"]["busy"] == 36
    refused(sim("copy.S", "--profile", "nothing"), "TW1101")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["nothing.S"], "TW0010", "nothing.S"),
        (["copy.S", "--mem", "in.npy"], "TW3030", "FILE@ADDR"),
        (["copy.S", "--mem", "in.npy@"], "TW3030", "FILE@ADDR"),
        (["copy.S", "--mem", "in.npy@-4"], "TW3030", "FILE@ADDR"),
        (["copy.S", "--mem", "@0"], "TW3030", "FILE@ADDR"),
        (["copy.S", "--mem", "nothing.npy@0"], "TW0020", "nothing.npy"),
        (["copy.S", "--mem", "in.npy@0x3fffffff"], "TW3033", "do not fit DRAM"),
        (["copy.S", "--mem", "in.npy@vmem:1048570"], "TW3033", "do not fit VMEM"),
        (["copy.S", "--mem", "in.npy@" + "9" * 30], "TW3033", "do not fit"),
        (["copy.S", "--mem", "in.npy@" + "9" * 9000], "TW3030", "no address"),
        (["copy.S", "--mem", "in.npy@0", "--mem", "in.bin@63"], "TW3034", "overlaps"),
        (["copy.S", "--mem", "in.safetensors@0"], "TW0029", "in.safetensors#NAME"),
        (["copy.S", "--mem", "in.bin#f99@0"], "TW0025", "unknown element type"),
        (["copy.S", "--dump", "0:64"], "TW3030", "ADDR:BYTES=FILE"),
        (["copy.S", "--dump", "0=x.bin"], "TW3030", "ADDR:BYTES=FILE"),
        (["copy.S", "--dump", "0:2000000000=x.bin"], "TW3033", "do not fit"),
        (["copy.S", "--dump", "0:64=no/where.bin"], "TW0023", "no folder"),
        (["copy.S", "--dump", "0:64=x.npy#q"], "TW0025", "unknown element type"),
        (["copy.S", "--dump", "0:64=x.safetensors"], "TW0024", "safetensors"),
        (["copy.S", "--dump", "0:63=x.npy#bf16"], "TW0026", "no whole number of bf16"),
        (["copy.S", "--expect", "in.npy@0:1"], "TW3030", "rtol,atol"),
        (["copy.S", "--expect", "in.npy@0:x,1"], "TW3031", "'x'"),
        (["copy.S", "--expect", "in.npy@0:-1,0"], "TW3031", "'-1'"),
        (["copy.S", "--expect", "in.npy@0:nan,0"], "TW3031", "'nan'"),
        (["copy.S", "--policy", "hope"], "TW3001", "hope"),
        (["copy.S", "--policy", "random=18446744073709551616"], "TW3001", "below 2^64"),
        (["copy.S", "--policy", "stall,poison,fault"], "TW3002", "contradict"),
        (["copy.S", "--policy", "dma=late", "--policy", "dma=early"], "TW3002", "contradict"),
        (["copy.S", "--profile", ""], "TW1101", "no profile"),
        (["copy.S", "--machine", "fpga"], "--machine", "fpga"),
        (["copy.S", "--max-cycles", "-1"], "--max-cycles", ""),
        (["copy.S", "--max-cycles", "many"], "--max-cycles", ""),
        (["copy.S", "--stop-at", "nowhere"], "TW3022", "again"),
        (["copy.S", "--break", "nowhere"], "TW3020", "again"),
        (["copy.S", "--break", "6"], "TW3021", "has 6"),
        (["copy.S", "--break", "again@0"], "TW3020", "LABEL@N"),
        (["copy.S", "--break", "9" * 5000], "TW3021", "no instruction"),
        (["copy.S", "--trace", "no/where.pftrace"], "TW4002", "no folder"),
        (["copy.S", "--timeline", "picture.png"], "TW4002", ".svg"),
        (["copy.S", "--trace-window", "1:2"], "TW4003", "--trace"),
        (["copy.S", "--trace", "t", "--trace-window", "5:2"], "TW4003", "START:END"),
        (["copy.S", "--trace", "t", "--trace-window", "a:b"], "TW4003", "START:END"),
        (["copy.S", "--trace", "t", "--trace-window", "__:5"], "TW4003", "START:END"),
        (["copy.S", "--seed", "-1"], "--seed", ""),
        (["--json"], "PROGRAM", ""),
    ],
)
def test_refusals(sim, arguments: list[str], code: str, word: str) -> None:
    refused(sim(*arguments), code, word)


def test_refusals_as_json(sim) -> None:
    ran = sim("copy.S", "--mem", "nothing.npy@0", "--json")
    assert ran.status == 2 and ran.json["errors"][0]["code"] == "TW0020"


def test_programs_that_are_no_programs(sim) -> None:
    Path("a.bin").write_bytes(b"\xff" * 7)
    Path("a.S").write_bytes(b"\x00\x01garbage\xff")
    Path("b.S").write_text("vfrobnicate m0, m1\n")
    for name in ("a.bin", "a.S", "b.S"):
        refused(sim(name), "TW")


def test_native_is_asked_for_but_missing(
    sim, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tilewright.targets.atlas.native", None)
    refused(sim("copy.S", "--machine", "native"), "TW3003", "--machine python")
    with pytest.raises(SystemExit) as caught:
        main(["sim", "copy.S", "--json"])
    captured = capfd.readouterr()
    assert caught.value.code == 0 and json.loads(captured.out)["machine"] == "python"
    assert "note: the native machine is not built" in captured.err


_OPTIONS = st.sampled_from(
    [
        "--mem",
        "--dump",
        "--expect",
        "--policy",
        "--stop-at",
        "--break",
        "--trace-window",
        "--profile",
    ]
)
_WORDS = st.text(alphabet="0123456789xabfvmemdr:@,=#.-_ é\t", max_size=24) | st.builds(
    "{}@{}".format, st.sampled_from(["in.npy", "in.bin", "in.bin#bf16"]), st.text(max_size=12)
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(_OPTIONS, _WORDS), min_size=1, max_size=3))
def test_any_option_text_is_taken_or_refused(sim, options: list[tuple[str, str]]) -> None:
    ran = sim("copy.S", "--max-cycles", "100", *(f"{name}={text}" for name, text in options))
    assert ran.status in (0, 1, 2)
    if ran.status == 2:
        assert ran.out == "" and ran.err
