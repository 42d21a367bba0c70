"""What a new user meets: compiled models where programs are expected, words that are nearly right,
help that keeps its lines."""

from __future__ import annotations

import json
import re

import pytest

from commands import run_command
from tilewright.cli import COMMANDS, app
from tilewright.compiling import compile
from tilewright.frontend.builder import ModelBuilder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> str:
    net = ModelBuilder("steps", seed=1)
    tokens = net.input("tokens", (9,), "i64")
    hidden = net.relu(net.linear(net.embedding(tokens, 300, 32, "0"), 64, "1"))
    net.output("y", net.linear(hidden, 40, "2"))
    path = tmp_path_factory.mktemp("bundles") / "model.twb"
    compile(net.build()).save(path)
    return str(path)


def test_lint_of_a_compiled_model(bundle, capsys):
    status, out, _ = run_command(capsys, "lint", bundle)
    assert status == 0 and "segment 0" in out and "clean" in out
    status, out, _ = run_command(capsys, "lint", bundle, "--json")
    assert status == 0 and json.loads(out)["segments"][0]["clean"]
    status, _, err = run_command(capsys, "lint", bundle, "--fix", "-o", "x.S")
    assert status == 2 and "TW0046" in err and "--fix" in err


def test_disassembly_of_a_compiled_model(bundle, capsys, tmp_path):
    status, out, _ = run_command(capsys, "disasm", bundle)
    assert status == 0 and re.search(r"^step_\d+_1:$", out, re.M)
    file = tmp_path / "model.S"
    assert run_command(capsys, "disasm", bundle, "-o", str(file))[0] == 0
    assert file.read_text() == out
    status, out, _ = run_command(capsys, "lint", str(file), "--no-notes")
    assert status == 0, out


def test_simulation_of_a_compiled_model(bundle, capsys):
    status, out, _ = run_command(capsys, "sim", bundle)
    assert status == 0 and "cycles" in out and "MXU" in out
    status, out, _ = run_command(capsys, "sim", bundle, "--json", "--seed", "3")
    document = json.loads(out)
    assert status == 0 and document["cycles"] == document["segments"][-1]["end"] > 1000
    status, _, err = run_command(capsys, "sim", bundle, "--mem", "a.npy@0")
    assert status == 2 and "--mem" in err
    assert run_command(capsys, "sim", bundle, "--max-cycles", "10")[0] == 1


def test_ids_reach_the_whole_table(bundle, capsys):
    """Random integers of 0 and 1 would never look at the rest of an embedding."""
    status, out, _ = run_command(capsys, "verify", bundle, "--json")
    assert status == 0 and "tokens: ids below 300" in json.loads(out)["inputs"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compil", "x"), "did you mean compile"),
        (("verfy", "x"), "did you mean verify?"),
        (("zzz",), "lists all"),
        (("import", "examples.networks:mlpp"), "did you mean mlp"),
        (("import", "examples.network:mlp"), "did you mean examples.networks:mlp"),
    ],
)
def test_words_that_are_nearly_right(arguments, said, capsys):
    status, _, err = run_command(capsys, *arguments)
    assert status == 2 and said in err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_keeps_its_examples_in_lines(name, capsys):
    """Every `tilewright …` of a help text begins a line of its own."""
    command = app.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    wanted = re.findall(r"^ *(tilewright .*)$", f"{command.help}\n{command.epilog}", re.M)
    status, out, _ = run_command(capsys, name, "--help")
    lines = {line.strip() for line in out.splitlines()}
    assert status == 0 and {line.strip() for line in wanted} <= lines


@pytest.mark.parametrize("name", ["run", "verify", "report", "compile"])
def test_out_is_what_comes_out(name, capsys):
    _, out, _ = run_command(capsys, name, "--help")
    assert not re.search(r"Usage:.*\bOUT\b", out)
