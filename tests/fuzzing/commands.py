"""The command line: any command on any file, with options of all kinds."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import tempfile
import zipfile
from pathlib import Path

from fuzzing.bundles import _bundles
from fuzzing.files import _onnx_models
from fuzzing.mutations import mutated_bytes
from fuzzing.programs import sources_of
from fuzzing.running import Keep, Subject
from fuzzing.texts import LIT, PASSES, pieces
from tilewright.cli import main

COMMANDS: dict[str, list[str]] = {
    "asm": ["-o", "--profile", "--from", "--to", "--json"],
    "disasm": ["-o", "--profile", "--from", "--json"],
    "lint": ["--profile", "--fix", "-o", "--json", "--max", "--limit", "--explain"],
    "sim": [
        "--profile",
        "--json",
        "--compat",
        "--max-cycles",
        "--policy",
        "--load",
        "--dump",
        "--trace",
        "--stats",
    ],
    "isa": ["--json", "--profile"],
    "kernels": ["list", "show", "check", "measure", "--json"],
    "import": ["-o", "--json", "--shape"],
    "opt": [
        "-p",
        "--pipeline",
        "-o",
        "--json",
        "--print-generic",
        "--split-input-file",
        "--verify-diagnostics",
    ],
    "translate": ["--mlir-to-npu-text-isa", "--memory-map", "--function", "-o"],
    "analyze-quant": ["--json"],
    "run": ["--input", "-o", "--json", "--random", "--max-cycles"],
    "verify": ["--json", "--input"],
    "report": ["-o", "--json"],
    "compile": ["-o", "--target", "--json", "--calibrate", "--shape", "--host"],
}
VALUES = [
    "0", "-1", "1", "2", "x", "", "atlas-v0", "atlas-v1", "canonicalize", "atlas", "text", "hex", "binary", "x=1",
    "x=1,2", "0x10=FILE", "99999999999999999999", "\udcff", "é", "--", "-", "TW2005", "stall", "1e9", "FILE", "FOLDER",
    "OUT", "/dev/full", "/proc/self/mem", "MISSING",
]  # fmt: skip
CODES = (0, 1, 2, 141, 74)


def _files() -> list[tuple[str, bytes]]:
    """Files of every kind that some command reads."""
    found: list[tuple[str, bytes]] = []
    for form, suffix in (
        ("assembly", ".S"),
        ("text", ".txt"),
        ("binary", ".bin"),
        ("json", ".json"),
    ):
        found += [(suffix, content) for content in sources_of(form).contents[:12]]
    found += [(".mlir", text.encode()) for text in pieces(LIT)[:60]]
    found += [(".onnx", model.SerializeToString()) for model in _onnx_models()[:6]]
    for members in _bundles():
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
        found.append((".twb", buffer.getvalue()))
    return found


def _run_command(files: list[tuple[str, bytes]], choose: random.Random, keep: Keep) -> None:
    suffix, content = choose.choice(files)
    if choose.random() < 0.5:
        content = mutated_bytes(content, choose)
    if choose.random() < 0.1:
        suffix = choose.choice((".S", ".mlir", ".onnx", ".pt2", ".twb", ".npy", "", ".safetensors"))
    with tempfile.TemporaryDirectory(dir=keep.folder) as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(content)
        places = {
            "FILE": str(path),
            "FOLDER": folder,
            "OUT": folder + "/out.txt",
            "MISSING": folder + "/none",
        }
        arguments = _arguments(choose, suffix)
        given = [_filled(argument, places) for argument in arguments]
        keep.text(" ".join(arguments) + f"\n# FILE is {suffix}\n" + repr(content[:4000]))
        with contextlib.chdir(keep.folder):  # results may have any name
            _call(given)


def _arguments(choose: random.Random, suffix: str) -> list[str]:
    liked = {".S": "sim lint asm disasm", ".mlir": "opt import translate", ".twb": "run report verify",
             ".onnx": "import", ".json": "sim asm", ".txt": "lint sim", ".bin": "disasm"}  # fmt: skip
    names = sorted(COMMANDS)
    command = choose.choice(names)
    if suffix in liked and choose.random() < 0.8:
        command = choose.choice(liked[suffix].split())
    words = [choose.choice(("FILE",) * 8 + ("FOLDER", "MISSING", "-", ""))]
    if command == "opt" and choose.random() < 0.8:
        words += ["-p", ",".join(choose.sample(PASSES, 2))]
    for _ in range(choose.choice((0, 0, 1, 2))):
        words.append(choose.choice((*COMMANDS[command], "--help", "--nothing")))
        if choose.random() < 0.6:
            words.append(choose.choice(VALUES))
    if command in ("translate", "compile") and choose.random() < 0.5:
        words += ["--memory-map"] if command == "translate" else ["-o", "OUT"]
    return [command, *words]


def _filled(argument: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        argument = argument.replace(name, path)
    return argument


def _call(arguments: list[str]) -> None:
    """Run a command; it ends with one of its codes, and nothing is left on standard input."""
    reading = sys.stdin
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")  # as Python opens it
    try:
        with (
            open(os.devnull, encoding="utf-8") as nothing,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            sys.stdin = nothing
            main(arguments)
    except SystemExit as stop:
        assert stop.code in CODES, f"exit code {stop.code}"
    finally:
        sys.stdin = reading


SUBJECTS = [Subject("cli", _files, _run_command)]
