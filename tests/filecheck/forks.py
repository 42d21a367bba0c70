"""RUN lines whose commands are forks of one process that has everything loaded.

Most of what a RUN line took was starting Python and importing the package, once per command. Here
every command is a process of its own as before, with files as its input and output, that starts
where the imports end. What fails, or is written in other words than the few that are known here,
is run once more as lit does by itself, and that result counts: it says what a person would see.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from filecheck.main import main as filecheck
from lit import Test, TestRunner
from lit.formats import ShTest
from lit.ShCommands import Command, Pipeline, Seq
from lit.ShUtil import ShParser

import forking
from tilewright.cli import main as tilewright

PYTHON: dict[str, Callable[[list[str]], None]] = {
    "tilewright": lambda arguments: tilewright(arguments),
    "filecheck": lambda arguments: filecheck(["filecheck", *arguments]),
}
OTHERS = ("rm", "ls")
_LABEL = re.compile(r"%dbg\([^)]*\)")  # lit's note of the line, before each command


class Unknown(Exception):
    """A command that is not known here."""


class ForkingTest(ShTest):
    """A file's RUN lines, each command a fork."""

    def execute(self, test, litConfig):  # type: ignore[override]
        try:
            passed = self._passes(test)
        except (Unknown, ValueError):
            passed = False
        return Test.Result(Test.PASS) if passed else super().execute(test, litConfig)

    def _passes(self, test) -> bool:
        script = TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, Test.Result) or test.xfails or not test.config.pipefail:
            return False  # no script, or one that is meant to fail, or may fail in its middle
        folder, base = TestRunner.getTempPaths(test)
        names = [*self.extra_substitutions]
        names += TestRunner.getDefaultSubstitutions(test, folder, base)
        # Commands stay words here: what lit replaces by paths of interpreters is known by name.
        own = [(name, path) for name, path in names if name not in PYTHON]
        script = TestRunner.applySubstitutions(script, own)
        Path(base).parent.mkdir(parents=True, exist_ok=True)
        loaded()
        there = Path(test.getExecPath()).parent
        lines = [ShParser(_LABEL.sub("", line)).parse() for line in script]
        return all(succeeds(line, there) for line in lines)


@functools.cache
def loaded() -> None:
    """Import what commands import when they are called: all passes, parser and printer."""
    some = str(Path(__file__).parent / "transforms" / "cse.mlir")
    for arguments in (["--list-passes"], [some, "-p", "canonicalize,cse"]):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            tilewright(["opt", *arguments])


def succeeds(line: Seq | Pipeline, there: Path) -> bool:
    if isinstance(line, Seq):
        if line.op != "&&":
            raise Unknown(line.op)
        return succeeds(line.lhs, there) and succeeds(line.rhs, there)
    codes, given = [], b""
    for command in line.commands:
        code, given = run(command, given, there)
        codes.append(code)
    return not any(codes)


def run(command: Command, given: bytes, there: Path) -> tuple[int, bytes]:
    """The exit code of one command and what it writes to standard output."""
    words, wanted = [str(word) for word in command.args], True
    while words[0] == "not":
        words, wanted = words[1:], not wanted
    with contextlib.ExitStack() as files:
        source = files.enter_context(tempfile.TemporaryFile())
        source.write(given)
        source.seek(0)
        streams: list[IO[bytes]] = [source]
        streams += [files.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        for operator, target in command.redirects:
            if operator == (">&", 2) and target == "1":
                streams[2] = streams[1]
            elif operator == ("<",):
                streams[0] = files.enter_context(open(there / target, "rb"))
            elif operator == (">",):
                streams[1] = files.enter_context(open(there / target, "wb"))
            else:
                raise Unknown(f"{operator} {target}")
        code = started(words, streams, there)
        streams[1].seek(0)
        written = streams[1].read() if streams[1].readable() else b""
    return (0 if (code == 0) == wanted and code >= 0 else 1), written


def started(words: list[str], streams: list[IO[bytes]], there: Path) -> int:
    """Run a command with these three streams; its exit code, below 0 if a signal ended it."""
    if words[0] in OTHERS:
        inputs, output, errors = streams
        return subprocess.run(
            words, stdin=inputs, stdout=output, stderr=errors, cwd=there
        ).returncode
    if words[0] not in PYTHON:
        raise Unknown(words[0])
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.chdir(there)
        os._exit(forking.run(PYTHON[words[0]], words, [stream.fileno() for stream in streams]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
