"""`tilewright opt` and `translate` from the outside: input, output, and what bad input does."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilewright.cli import app, main
from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.errors import TilewrightError
from tilewright.extensions import PIPELINES
from tilewright.transforms.pass_pipeline import (
    make_pass,
    named_pipeline,
    option_texts,
    parse_pipeline,
    run_passes,
)

GOOD = """func.func @f(%a: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%a) : tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}
"""
BAD = GOOD.replace("(%a) : tensor<64x64xbf16>", "(%a) : tensor<32x64xbf16>")


def opt(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, ["opt", *arguments], input=input, standalone_mode=False)


def test_reads_standard_input_and_round_trips() -> None:
    custom = opt("-", input=GOOD)
    assert custom.return_value == 0
    generic = opt("--print-generic", input=GOOD)
    assert '"npu_kernel.ukernel_generic"' in generic.stdout
    assert opt(input=generic.stdout).stdout == custom.stdout
    assert opt(input=custom.stdout).stdout == custom.stdout


def test_same_input_same_output() -> None:
    first, second = (opt("--pipeline", "atlas", input=GOOD) for _ in range(2))
    assert first.stdout == second.stdout
    assert "npu_schedule.ukernel_launch" in first.stdout


def test_output_is_written_only_on_success(tmp_path: Path) -> None:
    target = tmp_path / "out.mlir"
    target.write_text("kept")
    result = opt("-o", str(target), input=BAD)
    assert result.return_value == 2
    assert target.read_text() == "kept"
    assert result.stdout == ""
    assert opt("-o", str(target), input=GOOD).return_value == 0
    assert target.read_text().startswith("builtin.module")
    assert [p.name for p in tmp_path.iterdir()] == ["out.mlir"]


def test_one_bad_part_stops_all_output() -> None:
    result = opt("--split-input-file", input=f"{GOOD}// -----\n{BAD}// -----\n{BAD}")
    assert result.return_value == 2
    assert result.stdout == ""
    lines = [line.split(":")[:2] for line in result.stderr.splitlines() if line.startswith("TW")]
    assert lines == [["TW1210 <stdin>", "7"], ["TW1210 <stdin>", "12"]]


def test_errors_as_json() -> None:
    result = opt("--json", input=BAD)
    (error,) = json.loads(result.stdout)["errors"]
    assert (error["code"], error["file"], error["line"]) == ("TW1210", "<stdin>", 2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["/nowhere.mlir"], "TW0010"), (["-p", "css"], "TW1301"), (["--pipeline", "x"], "TW1301")],
)
def test_early_errors_are_json_too(arguments: list[str], code: str) -> None:
    result = opt("--json", *arguments, input=GOOD)
    assert result.return_value == 2
    assert [error["code"] for error in json.loads(result.stdout)["errors"]] == [code]


def test_passes_as_json() -> None:
    listing = json.loads(opt("--list-passes", "--json").stdout)
    (tiling,) = [p for p in listing["passes"] if p["name"] == "tile-npu-kernel-to-schedule"]
    assert {o["name"]: o["default"] for o in tiling["options"]}["unroll-limit"] == "8"
    assert listing["pipelines"] == PIPELINES


def test_the_command_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["opt", "/nowhere/missing.mlir"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("TW0010 /nowhere/missing.mlir")


def test_verify_diagnostics_fails_on_what_is_missing_or_too_much() -> None:
    expected = "// expected-error @+2 {{TW1210}}\n"
    assert opt("--verify-diagnostics", input=expected + BAD).return_value == 0
    assert opt("--verify-diagnostics", input=expected.replace("+2", "+1") + BAD).return_value == 2
    assert opt("--verify-diagnostics", input=expected.replace("TW", "XY") + BAD).return_value == 2
    assert opt("--verify-diagnostics", input=BAD).return_value == 2
    placed = BAD.replace("  %0", "  // expected-error @below {{TW1210}}\n  %0")
    assert opt("--verify-diagnostics", input=placed).return_value == 0
    assert opt("--verify-diagnostics", input=GOOD).return_value == 0
    assert opt("--verify-diagnostics", input=expected + GOOD).return_value == 2


def test_resources_of_a_later_part_are_found_at_their_line() -> None:
    broken = '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x12"\n    }\n  }\n#-}\n'
    result = opt("--split-input-file", input=f"{GOOD}// -----\n{GOOD}{broken}")
    assert (result.return_value, result.stdout) == (2, "")
    assert result.stderr.startswith("TW1231 <stdin>:13  resource w does not hold bytes")


def test_dump_phases_keeps_every_step(tmp_path: Path) -> None:
    folder = tmp_path / "phases"
    opt("-p", "tile-npu-kernel-to-schedule,canonicalize", "--dump-phases", str(folder), input=GOOD)
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["00-input.mlir", "01-tile-npu-kernel-to-schedule.mlir", "02-canonicalize.mlir"]
    for name in names:
        verify_module(parse_text((folder / name).read_text()))
    assert "scf.for" not in (folder / names[0]).read_text()
    assert "scf.for" in (folder / names[1]).read_text()


@pytest.mark.parametrize(
    "text",
    [
        "canonicalize",
        "canonicalize,cse",
        "tile-npu-kernel-to-schedule{tile=16,32 unroll-limit=3}",
        "npu-verify-ukernel-symbols{strict=false},cse",
    ],
)
def test_pipeline_text_round_trips(text: str) -> None:
    passes = parse_pipeline(text)
    assert ",".join(map(option_texts, passes)) == text
    assert parse_pipeline(f"builtin.module({text})") == passes
    assert (
        parse_pipeline(text.replace(",canon", " , canon").replace("=false", "='false'")) == passes
    )


def test_options_take_their_types() -> None:
    pass_ = make_pass("tile-npu-kernel-to-schedule", {"tile": "8,16,32", "pad_small": "true"})
    assert (pass_.tile, pass_.pad_small) == ((8, 16, 32), True)  # type: ignore[attr-defined]
    with pytest.raises(TilewrightError, match="true or false"):
        raise_with_hint("npu-verify-ukernel-symbols{strict=maybe}")


def raise_with_hint(text: str) -> None:
    try:
        parse_pipeline(text)
    except TilewrightError as error:
        raise TilewrightError(error.code, f"{error.message}; {error.hint}") from None


@pytest.mark.parametrize("text", [",", "a,", "{x=1}", "cse}", "cse{a", "cse{=1}", "cse cse{} x"])
def test_malformed_pipelines(text: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        parse_pipeline(text)
    assert caught.value.code in ("TW1304", "TW1301")


def test_every_named_pipeline_exists() -> None:
    for name, steps in PIPELINES.items():
        assert named_pipeline(name)
        assert all(step != after for step, after in itertools.pairwise(steps))


FILES = sorted((Path(__file__).parents[1] / "filecheck").rglob("*.mlir"))
PASSES = [
    "tile-npu-kernel-to-schedule,convert-npu-kernel-to-schedule,canonicalize,cse",
    "convert-npu-schedule-to-isa",
    "convert-npu-schedule-to-isa{kernel-manifest=atlas-v0}",
]


def test_damaged_text_gives_one_error_with_a_place() -> None:
    """Tokens dropped, doubled, swapped or replaced: a clean error or a clean result."""
    parts = [p for f in FILES for p in re.split(r"^// -----.*$", f.read_text(), flags=re.M)]
    generator = random.Random(0)
    odd = ["0", "-1", "?", "{", "}", '"', "%x", "f32", "99999999999999999999", "tensor<4xbf16>"]
    refused = 0
    for _ in range(400):
        tokens = re.findall(r"\s+|[\w.%@#!^]+|.", generator.choice(parts), flags=re.S)
        for _ in range(generator.randint(1, 3)):
            place = generator.randrange(len(tokens))
            choice = generator.choice([[], [tokens[place]] * 2, [generator.choice(tokens)], None])
            tokens[place : place + 1] = [generator.choice(odd)] if choice is None else choice
            tokens = tokens or ["x"]
        try:
            module = parse_text("".join(tokens), "damaged.mlir")
            verify_module(module)
            run_passes(module, parse_pipeline(generator.choice(PASSES)), make_context())
        except TilewrightError as error:
            refused += 1
            assert re.fullmatch(r"TW1[23]\d\d", error.code)
            assert error.code != "TW1399", error
            assert error.location is not None
    assert refused > 100
