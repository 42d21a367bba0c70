"""Architectures of the usual libraries, unmodified: imported, compiled, run, verified.

    python benchmarks/zoo.py --stage import                     all of them, through the front end
    python benchmarks/zoo.py --only LlamaFor --only timm/       those whose name contains a text
    python benchmarks/zoo.py --stage verify --jobs 2 --json > rows.jsonl
    python benchmarks/zoo.py --resume rows.jsonl --limit 120    go on: models that have no row yet
    python benchmarks/zoo.py --table rows.jsonl                 results/zoo.md from rows of many runs
    python benchmarks/zoo.py --refresh rows.jsonl               these rows anew, the others as they are

Every model is a small configuration with seeded weights, called with what the library's users give
it. `import` also runs the imported model on the reference executor and compares it with the
framework. `compile` makes a program for the machine, `verify` runs it and holds it against the
references. Each model has a process and a limit of time of its own. The exit code is 1 if a value
was wrong or anything crashed; what is refused with a code is counted, and says why.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import platform
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from zoo_models import Architecture, Example, chosen, library

STAGES = ("import", "compile", "verify")
WALL = 30  # times the limit of processor time: others may use the machine as well
CLOSE = 2e-3  # of the spread of an output: float32 in another order of sums
PLACES = re.compile(r"\S*/site-packages/|\S*(?=/benchmarks/)/")  # where packages are installed
RESULTS = Path(__file__).parent / "results" / "zoo.md"


@dataclass
class Row:
    """What became of a model: `state` is ok, or what stopped it in `stage`.

    state: ok; refused: an error with a code; wrong: another value than the framework's or the
    reference's; crashed: an error without a code; limit: more time than allowed
    """

    key: str
    stage: str = "build"
    state: str = "ok"
    code: str = ""
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)  # of processor time, by stage
    operations: int = 0
    host: dict[str, int] = field(default_factory=dict)  # reasons of the host plan
    host_share: float | None = None
    ratio: float | None = None  # cycles over the bound


# --------------------------------------------------------------------------- one model


def run(architecture: Architecture, last: str, target: str) -> Row:
    """One model through the stages up to the last."""
    row = Row(architecture.key)
    try:
        with _timed(row, "build"):
            example = architecture.build()
        with _timed(row, "import"):
            imported = _import(row, example)
        if last != "import" and row.state == "ok":
            with _timed(row, "compile"):
                program = _compile(row, imported, target)
            if last == "verify":
                with _timed(row, "verify"):
                    _verify(row, program)
    except Exception as error:
        _failed(row, error)
    return row


@contextlib.contextmanager
def _timed(row: Row, stage: str) -> Iterator[None]:
    row.stage = stage
    began = time.process_time()
    try:
        yield
    finally:
        row.seconds[stage] = round(time.process_time() - began, 2)


def _failed(row: Row, error: Exception) -> None:
    from tilewright.errors import TilewrightError

    text = PLACES.sub("", " ".join(str(error).split()))
    if isinstance(error, TilewrightError):
        row.state, row.code, row.reason = "refused", error.code, text[:600]
        return
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    row.state, row.reason = "crashed", f"{type(error).__name__} at {place}: {text[:400]}"


def _import(row: Row, example: Example) -> Any:
    from tilewright.compiling.sources import as_imported

    inputs: Any = example.args
    if example.kwargs:
        inputs = example.kwargs
    expected = _torch_values(example) if example.weights is None else _jax_values(example)
    imported = as_imported(example.model, inputs, weights=example.weights)
    row.operations = sum(1 for _ in imported.module.walk())
    _compare(row, imported, inputs, expected)
    return imported


def _torch_values(example: Example) -> list[Any]:
    """The outputs in float64, in the order in which the importer has them."""
    torch = library("torch")

    from tilewright.frontend.torch_outputs import plain

    with torch.no_grad():
        found = plain(torch, example.model(*example.args, **example.kwargs))
    leaves = importlib.import_module("torch.utils._pytree").tree_leaves(found)
    return [leaf.double().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _jax_values(example: Example) -> list[Any]:
    jax = library("jax")
    import numpy as np

    found = example.model(example.weights, *example.args)
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(found)]


def _compare(row: Row, imported: Any, inputs: Any, expected: list[Any]) -> None:
    """The imported model on the reference executor, against the framework."""
    import numpy as np

    from tilewright.reference.executor import Executor

    given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    arrays = [np.asarray(value) for value in given]
    state = [imported.weights[name] for name in imported.state]
    found = Executor(imported.module, imported.weights).run([*arrays, *state])
    found = found[: len(found) - len(state)]
    if len(found) != len(expected):
        row.state, row.reason = "wrong", f"{len(found)} outputs, the framework has {len(expected)}"
        return
    worst = 0.0
    for mine, theirs in zip(found, expected, strict=True):
        mine = np.asarray(mine, np.float64)
        if mine.shape != theirs.shape:
            row.state, row.reason = "wrong", f"shape {mine.shape}, expected {theirs.shape}"
            return
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        finite = theirs[np.isfinite(theirs)]
        spread = float(np.std(finite)) + 1e-6 if finite.size else 1.0
        if finite.size and np.ptp(finite) == 0:  # of a single number its size counts
            spread = float(np.abs(finite).max()) + 1e-6
        with np.errstate(invalid="ignore"):
            gap = np.where(same, 0.0, np.abs(mine - theirs)) / spread
        gap = np.where(np.isnan(gap), np.inf, gap)
        worst = max(worst, float(gap.max(initial=0.0)))
    if worst > CLOSE:
        row.state, row.reason = "wrong", f"{worst:.3g} of the spread away from the framework"


def _compile(row: Row, imported: Any, target: str) -> Any:
    from tilewright.compiling import compile_imported
    from tilewright.program import Program

    compiled = compile_imported(imported, target)
    row.host_share = compiled.provenance.get("host_share")
    parts = [getattr(part, "reasons", ()) for part in compiled.parts]
    reasons = Counter(reason for part in parts for reason in part)
    row.host = dict(reasons.most_common(8))
    return Program(compiled, original=imported)


def _verify(row: Row, program: Any) -> None:
    result = program.verify()
    if not result.ok:
        row.state, row.reason = "wrong", " ".join(result.text().split())[:400]
    bound = program.report().bound
    if bound:
        row.ratio = result.cycles / bound


# --------------------------------------------------------------------------- processes


def preload(architectures: Sequence[Architecture]) -> None:
    """Import what models need once; the processes of models are forked from this one.

    jax starts threads, which a fork does not survive: its models import it themselves.
    """
    from tilewright.compiling.sources import as_imported

    libraries = {a.library for a in architectures}
    if libraries - {"flax"}:
        torch = library("torch")

        from zoo_models.image_models import compiled_operators

        torch.set_num_threads(1)
        compiled_operators()
        as_imported(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # loads torch's exporter
    for name in ("transformers", "timm", "torchvision"):
        if name in libraries:
            importlib.import_module(name)


@dataclass
class Job:
    architecture: Architecture
    process: int
    pipe: int
    ends: float
    text: bytes = b""


def start(architecture: Architecture, options: argparse.Namespace) -> Job:
    """A process for one model, which writes its row into a pipe."""
    read, write = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        return Job(architecture, process, read, time.monotonic() + WALL * options.limit)
    os.close(read)
    resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 5))
    last = Row(architecture.key, state="limit", reason=f"more than {options.limit} s")

    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGXCPU, late)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if not options.loud:
        os.dup2(quiet, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn of themselves
            row = run(architecture, options.stage, options.target)
        if row.state == "crashed" and row.reason.startswith("TimeoutError"):
            last.stage, last.seconds = row.stage, row.seconds
            row = last
        os.write(write, json.dumps(asdict(row)).encode())
    finally:
        os._exit(0)


def collect(job: Job, limit: int) -> Row:
    """The row of a process that ended, or what can be said when it wrote none."""
    os.close(job.pipe)
    _, status = os.waitpid(job.process, 0)
    if job.text:
        return Row(**json.loads(job.text))
    row = Row(job.architecture.key, state="crashed", reason=f"the process ended with {status}")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU):
        row.state, row.reason = "limit", f"more than {limit} s"
    return row


def run_all(architectures: Sequence[Architecture], options: argparse.Namespace) -> Iterator[Row]:
    """Rows as models finish, `jobs` at a time."""
    waiting, jobs = list(architectures), []
    while waiting or jobs:
        while waiting and len(jobs) < options.jobs:
            jobs.append(start(waiting.pop(0), options))
        ready, _, _ = select.select([job.pipe for job in jobs], [], [], 1.0)
        for job in list(jobs):
            if job.pipe in ready:
                part = os.read(job.pipe, 1 << 16)
                job.text += part
                if part:
                    continue
            elif time.monotonic() < job.ends:
                continue
            else:
                os.kill(job.process, signal.SIGKILL)
            jobs.remove(job)
            yield collect(job, options.limit)


# --------------------------------------------------------------------------- the table


def reached(row: Row, stage: str) -> bool:
    """Whether a model came through a stage."""
    order = ("build", *STAGES)
    return order.index(row.stage) > order.index(stage) or (row.stage == stage and row.state == "ok")


def summary(rows: Sequence[Row]) -> list[str]:
    lines = [f"{len(rows)} architectures"]
    for stage in STAGES:
        tried = [r for r in rows if stage in r.seconds]
        through = sum(reached(r, stage) for r in tried)
        if tried:
            lines.append(f"{stage}: {through} of {len(tried)} ({through / len(tried):.1%})")
    shares = sorted(r.host_share for r in rows if r.host_share is not None)
    if shares:
        lines.append(
            f"arithmetic on the host: median {shares[len(shares) // 2]:.1%}, "
            f"nine of ten at most {shares[len(shares) * 9 // 10]:.1%}"
        )
    ratios = sorted(r.ratio for r in rows if r.ratio is not None)
    if ratios:
        lines.append(f"cycles over the bound: median {ratios[len(ratios) // 2]:.2f}")
    states = Counter(r.state for r in rows if r.state != "ok")
    lines.append("stopped: " + (", ".join(f"{n} {s}" for s, n in states.items()) or "none"))
    return lines


def table(rows: Sequence[Row]) -> str:
    """The page `results/zoo.md`."""
    text = [
        "# The zoo",
        "",
        f"`python benchmarks/zoo.py`, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}. Seconds are of processor time. A model whose stage is import was "
        "not tried further.",
        "",
        *(f"- {line}" for line in summary(rows)),
        "",
        "| model | stage | state | operations | import s | compile s | host | x bound | reason |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: r.key):
        share = "" if row.host_share is None else f"{row.host_share:.1%}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        reason = PLACES.sub("", row.reason).replace("|", "\\|")
        text.append(
            f"| {row.key} | {row.stage} | {row.state} | {row.operations or ''} "
            f"| {row.seconds.get('import', '')} | {row.seconds.get('compile', '')} "
            f"| {share} | {ratio} | {reason} |"
        )
    return "\n".join(text) + "\n"


CELLS = re.compile(r"(?<!\\)\|")  # what stands between the columns of a table


def kept_rows(page: str) -> list[Row]:
    """The rows of a page that was written before, as far as it shows them."""
    found = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in CELLS.split(line)[1:-1]]
        if len(cells) != 9 or cells[0] == "model" or cells[0].startswith("---"):
            continue
        key, stage, state, operations, imported, compiled, share, ratio, reason = cells
        seconds = {"import": imported, "compile": compiled}
        row = Row(key, stage, state, reason=reason.replace("\\|", "|"))
        row.operations = int(operations or 0)
        row.seconds = {name: float(text) for name, text in seconds.items() if text}
        if stage == "verify":
            row.seconds["verify"] = 0.0
        row.host_share = float(share.rstrip("%")) / 100 if share else None
        row.ratio = float(ratio) if ratio else None
        found.append(row)
    return found


def refreshed(page: str, rows: Sequence[Row]) -> str:
    """A page with some of its rows of another run, and what stands below its table."""
    found = {row.key: row for row in [*kept_rows(page), *rows]}
    notes = page.partition("\n\n## ")
    return table(list(found.values())) + "".join(notes[1:]).removeprefix("\n")


def read_rows(paths: Sequence[str]) -> list[Row]:
    """Rows of earlier runs; of a model with several the last counts."""
    found: dict[str, Row] = {}
    known = {architecture.key for architecture in chosen([], None)}
    for path in paths:
        for line in Path(path).read_text().splitlines():
            if line.startswith("{"):
                row = Row(**json.loads(line))
                found[row.key] = row
    return [row for key, row in found.items() if key in known]


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--stage", choices=STAGES, default="verify", help="the last stage")
    parser.add_argument("--only", action="append", default=[], help="models with this in the name")
    parser.add_argument("--exact", action="store_true", help="names given are whole")
    parser.add_argument("--sample", type=int, help="so many models, the same ones every time")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time")
    parser.add_argument("--limit", type=int, default=300, help="processor seconds of a model")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--json", action="store_true", help="a line of JSON for every model")
    parser.add_argument("--loud", action="store_true", help="what libraries write to stderr")
    parser.add_argument("--list", action="store_true", help="names only")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--table", nargs="+", metavar="ROWS", help="write the table of these rows")
    parser.add_argument("--refresh", nargs="+", metavar="ROWS", help="the same, other rows stay")
    parser.add_argument(
        "--resume", metavar="ROWS", help="append rows to a file; models that have one are left out"
    )
    options = parser.parse_args()
    if options.table:
        RESULTS.write_text(table(read_rows(options.table)))
        return 0
    if options.refresh:
        RESULTS.write_text(refreshed(RESULTS.read_text(), read_rows(options.refresh)))
        return 0
    architectures = chosen(options.only, options.sample)
    if options.exact:  # in the order of the names
        architectures = [a for a in architectures if a.key in options.only]
        architectures.sort(key=lambda a: options.only.index(a.key))
    if options.resume and Path(options.resume).exists():
        known = {row.key for row in read_rows([options.resume])}
        architectures = [a for a in architectures if a.key not in known]
    if options.list:
        print("\n".join(a.key for a in architectures))
        return 0
    preload(architectures)
    rows = []
    for row in run_all(architectures, options):
        rows.append(row)
        if options.resume:
            with Path(options.resume).open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        if options.json:
            print(json.dumps(asdict(row)), flush=True)
        else:
            seconds = sum(row.seconds.values())
            print(
                f"{row.state:8} {row.stage:8} {seconds:6.1f} s  {row.key}  {row.reason}", flush=True
            )
    print("\n".join(summary(rows)), file=sys.stderr)
    if options.write:
        RESULTS.write_text(table(rows))
    return int(any(row.state in ("wrong", "crashed") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
