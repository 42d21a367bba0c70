"""One case after the other, each bounded in time and memory, in processes that may die.

A case is a subject and a seed: the same input every time. It ends well if the input is accepted or
refused with a `TilewrightError`; everything else is a finding.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError, each_error

SECONDS = 20.0  # of processor time, one case
LONG = 4096  # bytes of an input that may take a second more
WAITING = 600.0  # seconds without a word, however little the processor gives
MEMORY = 3 << 30  # bytes a case may add
# What catches defects of our own, so that users get an error; here they are findings.
NETS = ("TW1399", "TW1507")
AUTHOR = "TW1651"  # a kernel's function that stops with an exception of Python
OURS = re.compile(r"object has no attribute|NoneType|unexpected keyword argument|not iterable")
CODE = re.compile(r"TW\d{4}")
SOURCES = str(Path(__file__).parents[2] / "src")


@dataclass(frozen=True)
class Subject:
    """Something that reads what others wrote.

    `prepare` is called once per process and gives the seeds; `run` makes an input out of them and
    reads it. `keep` is where it notes the input, so that a finding can be looked at.
    """

    name: str
    prepare: Callable[[], Any]
    run: Callable[[Any, random.Random, Keep], None]


class Keep:
    """The input of the case that is running, and a folder of its own for files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content: bytes = b""
        self.suffix = ".txt"
        self.warned = False  # the time of a short input is over

    def text(self, text: str, suffix: str = ".txt") -> str:
        self.content, self.suffix = text.encode("utf-8", "surrogatepass"), suffix
        return text

    def bytes(self, content: bytes, suffix: str = ".bin") -> bytes:
        self.content, self.suffix = content, suffix
        return content

    def file(self, content: bytes | str, name: str) -> str:
        """A file with this content; the path of it."""
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        path = self.folder / name
        path.write_bytes(self.bytes(raw, path.suffix))
        return str(path)


class Hang(BaseException):
    """The alarm of a case; no handler of bad input catches it."""


class BadError(Exception):
    """An error that does not say what errors have to say."""


@dataclass
class Finding:
    """A case that ended as none may."""

    subject: str
    seed: int
    kind: str  # the exception, "hang", "memory" or "crash"
    text: str
    place: str = ""
    content: bytes = b""
    suffix: str = ".txt"


@dataclass
class Tally:
    """How the cases of a run ended."""

    accepted: int = 0
    refused: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def cases(self) -> int:
        return self.accepted + self.refused + len(self.findings)


def check_error(error: TilewrightError) -> str:
    """The code of an error that can be printed both ways."""
    for mistake in each_error(error):
        if not CODE.fullmatch(mistake.code) or not mistake.message.strip():
            raise BadError(f"error without code or message: {mistake!r}")
        json.dumps(mistake.to_json())
        if mistake.code != AUTHOR and OURS.search(mistake.message):
            raise BadError(f"a message about our code: {mistake.message}")
        if len(mistake.message) > 4000:
            raise BadError(f"a message of {len(mistake.message)} characters")
    try:
        str(error).encode()
    except UnicodeEncodeError:
        raise BadError("a message that cannot be printed") from None
    cause = error.__cause__
    if cause is not None and (error.code in NETS or (error.code == AUTHOR and _is_ours(cause))):
        raise cause
    return error.code


def _is_ours(error: BaseException) -> bool:
    """Whether an exception of an author's function arose in our code: a defect of it.

    A call with arguments that do not fit stops in the frame of the caller, a name that the language
    does not have in the function that looks for it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].name == "__getattr__":
        return False
    return not frames[-1].filename.startswith("<fuzz")


def run_case(subject: Subject, seeds: Any, seed: int, keep: Keep) -> tuple[str, Finding | None]:
    """How a case ended: "accepted", a code, or a finding."""
    choose = random.Random(f"{subject.name} {seed}")
    keep.text("")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keep.warned = False
            signal.signal(signal.SIGPROF, lambda *_: _alarm(keep))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                subject.run(seeds, choose, keep)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        return "accepted", None
    except TilewrightError as error:
        try:
            return check_error(error), None
        except Exception as problem:
            return "", _finding(subject, seed, problem, keep)
    except (Exception, Hang, SystemExit, KeyboardInterrupt) as problem:
        return "", _finding(subject, seed, problem, keep)


def _finding(subject: Subject, seed: int, problem: BaseException, keep: Keep) -> Finding:
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [f for f in frames if f.filename.startswith(SOURCES)] or list(frames)
    last = ours[-1] if ours else None
    place = f"{Path(last.filename).name}:{last.lineno} {last.name}" if last else ""
    kind = "hang" if isinstance(problem, Hang) else type(problem).__name__
    lines = traceback.format_exception(problem, limit=-12)
    return Finding(
        subject.name, seed, kind, "".join(lines)[-3000:], place, keep.content, keep.suffix
    )


# --- processes --------------------------------------------------------------------------


def _alarm(keep: Keep) -> None:
    """The time of a case is over; long inputs get more, once."""
    more = len(keep.content) / LONG
    if keep.warned or more < 1:
        raise Hang
    keep.warned = True
    signal.setitimer(signal.ITIMER_PROF, more)


def sanitized() -> bool:
    """Whether an address sanitizer is loaded, whose shadow needs all of the address space."""
    return "asan" in os.environ.get("LD_PRELOAD", "")


def limit_memory() -> None:
    """Let this process take only so much more memory."""
    if not sanitized():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _work(
    subjects: Sequence[Subject], cases: list[tuple[int, int]], pipe: Connection, folder: str
) -> None:
    """Run cases in this process and tell of each before and after it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TILEWRIGHT_TRACEBACK"] = "1"  # what breaks a pass is not passed on as bad input
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    if not sanitized():
        os.dup2(sink, 2)
    own = Path(folder) / str(os.getpid())
    own.mkdir(parents=True, exist_ok=True)
    keep = Keep(own)
    prepared: dict[int, Any] = {}
    limited = False
    for number, seed in cases:
        subject = subjects[number]
        if number not in prepared:
            prepared[number] = subject.prepare()
        if not limited:
            limit_memory()
            limited = True
        pipe.send(("begin", number, seed))
        began = time.monotonic()
        outcome, finding = run_case(subject, prepared[number], seed, keep)
        pipe.send(("end", number, seed, outcome, finding, time.monotonic() - began))
        gc.collect(0)
    pipe.send(("done",))


class _Worker:
    """A process with its share of the cases."""

    def __init__(
        self, subjects: Sequence[Subject], cases: list[tuple[int, int]], folder: str
    ) -> None:
        self.cases = cases
        self.current: tuple[int, int] | None = None
        self.heard = time.monotonic()
        self.pipe, other = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(
            target=_work, args=(subjects, cases, other, folder), daemon=True
        )
        self.process.start()
        other.close()
        self.used = 0.0  # processor time when it was last heard
        self.held = 0  # bytes in memory when it was last heard

    def processor_time(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def is_full(self) -> bool:
        """Whether its case has taken what no case may: under sanitizers no limit stops it."""
        try:
            return self.memory() - self.held > 2 * MEMORY
        except OSError:
            return False  # it has just ended, which its pipe will tell

    def is_stuck(self) -> bool:
        """Whether the alarm of its case has not reached it: it is in native code, or asleep."""
        if time.monotonic() - self.heard < SECONDS:
            return False
        try:
            busy = self.processor_time() - self.used > 3 * SECONDS
        except OSError:
            return False  # it has just ended, which its pipe will tell
        return busy or time.monotonic() - self.heard > WAITING


def run_cases(
    subjects: Sequence[Subject],
    cases: list[tuple[int, int]],
    folder: str,
    workers: int = 1,
    seen: Callable[[int, int, Finding | None], None] = lambda done, all_, finding: None,
) -> dict[str, Tally]:
    """Run every (subject, seed), a process per worker; one that dies is a finding and replaced."""
    tallies = {subject.name: Tally() for subject in subjects}
    shares = [cases[k::workers] for k in range(workers)]
    running = [_Worker(subjects, share, folder) for share in shares if share]
    done = 0
    while running:
        for pipe in wait([w.pipe for w in running], timeout=1.0):
            worker = next(w for w in running if w.pipe is pipe)
            message: tuple[Any, ...]
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                message = ("dead",)
            worker.heard = time.monotonic()
            if message[0] == "begin":
                worker.current = (message[1], message[2])
                worker.used, worker.held = worker.processor_time(), worker.memory()
            elif message[0] == "end":
                _count(tallies[subjects[message[1]].name], *message[3:])
                worker.current = None
                worker.cases = worker.cases[1:]
                done += 1
                seen(done, len(cases), message[4])
            else:
                running.remove(worker)
                worker.process.join()
                if message[0] == "dead":
                    done += 1
                    running += _after_death(worker, subjects, tallies, folder, "crash")
        for worker in list(running):
            kind = "memory" if worker.is_full() else "hang"
            if worker.current and (kind == "memory" or worker.is_stuck()):
                worker.process.kill()
                worker.process.join()
                running.remove(worker)
                done += 1
                running += _after_death(worker, subjects, tallies, folder, kind)
    return tallies


def _count(tally: Tally, outcome: str, finding: Finding | None, seconds: float) -> None:
    tally.slowest = max(tally.slowest, seconds)
    if finding is not None:
        tally.findings.append(finding)
    elif outcome == "accepted":
        tally.accepted += 1
    else:
        tally.refused += 1
        tally.codes[outcome] = tally.codes.get(outcome, 0) + 1


def _after_death(
    worker: _Worker, subjects: Sequence[Subject], tallies: dict[str, Tally], folder: str, kind: str
) -> Iterator[_Worker]:
    """Note which case ended a process, and go on behind it."""
    if not worker.cases:
        return
    number, seed = worker.current or worker.cases[0]
    name = subjects[number].name
    text = f"the process ended with {worker.process.exitcode}"
    tallies[name].findings.append(Finding(name, seed, kind, text, text))
    if worker.cases[1:]:
        yield _Worker(subjects, worker.cases[1:], folder)
