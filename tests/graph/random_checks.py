"""One random model through the compiler: compiled, run, verified, compared with float32."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from random_formats import as_given
from random_noise import AGAIN, WORST, limits_of
from random_operations import Array
from random_programs import RandomProgram
from random_sources import as_array, compiled, framework_run, given_inputs, narrow

import tilewright
from tilewright.errors import TilewrightError
from tilewright.program import Program
from tilewright.runtime.verification import Verification

PACKAGE = str(Path(tilewright.__file__).parent)
BAD = ("wrong", "unverified", "crashed")


class GeneratorError(Exception):
    """The generator contradicts the framework: nothing is said about the compiler."""


@dataclass
class Outcome:
    """What became of a model.

    state: ok; refused: an error with a code at compile time; wrong: an output is further from
    float32 than rounding explains; unverified: `verify` found something; crashed: anything else
    key: what failures of the same kind share; whole, worst: the largest errors, in spreads
    cycles, bound: of the device's part; kernels: the same of all steps of a kernel; host_share: the
    part of the model's arithmetic that the host does
    """

    state: str
    key: str = ""
    detail: str = ""
    whole: float = 0.0
    worst: float = 0.0
    blunt: int = 0  # outputs that could hide an error
    outputs: int = 0
    seconds: float = 0.0  # of processor time
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    cycles: int = 0
    bound: int = 0
    host_share: float = 0.0
    kernels: dict[str, tuple[int, int]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)  # of the host


def check(program: RandomProgram, source: str, target: str = "atlas-v1") -> Outcome:
    """Compile, run on both samples, verify, compare."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # frameworks warn of themselves
        outcome = _check(program, source, target)
    outcome.seconds = time.process_time() - began
    return outcome


def _check(program: RandomProgram, source: str, target: str) -> Outcome:
    try:
        model = compiled(program, source, target)
    except TilewrightError as error:
        if error.location is not None and PACKAGE in str(error.location.file):
            return _crash(error)  # the compiler's own kernels are not the user's business
        return Outcome("refused", error.code, str(error))
    except Exception as error:
        return _crash(error)
    outcome = Outcome("ok")
    for sample in (1, 0):
        try:
            given = given_inputs(program, source, sample)
            found = model(**given) if source == "onnx" else model(*given)
            results = [as_array(a) for a in (found if isinstance(found, tuple) else (found,))]
        except Exception as error:
            return _crash(error)
        _compare(program, source, sample, results, outcome)
        if outcome.state != "ok":
            return outcome
    try:
        verified = model.verify(_by_port(program, source, model))
    except Exception as error:
        return _crash(error)
    if not verified.ok:
        outcome.state, outcome.key = "unverified", _finding(verified)
        outcome.detail = str(verified)[:3000]
    _measure(model, outcome)
    return outcome


def _measure(model: Program, outcome: Outcome) -> None:
    """How long the model takes and what no program can beat, from the run before."""
    report = model.report()
    outcome.cycles, outcome.bound = report.cycles, report.bound
    outcome.host_share = float(model.model.provenance.get("host_share") or 0.0)
    outcome.reasons = [reason for part in report.host for reason in part["reasons"]]
    for step in report.steps:
        cycles, bound = outcome.kernels.get(step.kernel, (0, 0))
        outcome.kernels[step.kernel] = (cycles + step.cycles, bound + step.bound)


def _finding(verified: Verification) -> str:
    """What verification found, in a word."""
    if verified.hazards:
        return "hazard"
    if verified.strays:
        return "stray"
    return "far from float32" if not verified.close and _exact(verified) else "differs"


def _exact(verified: Verification) -> bool:
    return all(output.difference is None for output in verified.outputs)


def _by_port(program: RandomProgram, source: str, model: Program) -> dict[str, Array]:
    """The first sample by the names that the compiled model has for its inputs."""
    drawn = zip(program.arrays(0).values(), program.inputs.values(), strict=True)
    arrays = [as_given(array, spec) for array, spec in drawn]
    arrays = [narrow(array) if source == "jax" else array for array in arrays]
    return dict(zip((port.name for port in model.inputs), arrays, strict=True))


def _crash(error: Exception) -> Outcome:
    """An error by where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "tilewright" in frame.filename] or frames
    place = f"{ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].name}"
    code = getattr(error, "code", "")
    detail = "".join(traceback.format_exception(error))[-3000:]
    return Outcome("crashed", f"{type(error).__name__} {code} in {place}", detail)


def _compare(
    program: RandomProgram, source: str, sample: int, results: list[Array], outcome: Outcome
) -> None:
    limits = limits_of(program, sample)
    exact = program.run(sample)
    for number, name in enumerate(program.outputs):
        result = results[number]
        if name not in limits:  # integers and masks
            if not np.array_equal(result.astype(np.int64), exact[name].astype(np.int64)):
                _wrong(program, source, sample, outcome, f"{name}: other integers")
            continue
        limit = limits[name]
        if not limit.holds(result):
            limit = limits_of(program, sample, AGAIN)[name]
        outcome.outputs += 1
        outcome.blunt += limit.blunt
        whole, worst = limit.judge(result)
        outcome.whole, outcome.worst = max(outcome.whole, whole), max(outcome.worst, worst)
        outcome.limits[name] = (
            limit.most * limit.whole,
            float(WORST * limit.spread.max(initial=0.0)),
        )
        if not limit.holds(result):
            shape = list(limit.exact.shape)
            what = f"{name} {shape}: {whole:.1f} spreads as a whole, {worst:.1f} at worst"
            _wrong(program, source, sample, outcome, what)


def _wrong(program: RandomProgram, source: str, sample: int, outcome: Outcome, detail: str) -> None:
    confirm(program, source, sample)
    outcome.state, outcome.key = "wrong", "wrong"
    outcome.detail += f"sample {sample}, {detail}\n"


def confirm(program: RandomProgram, source: str, sample: int) -> None:
    """The framework computes what the generator says; otherwise the generator is wrong."""
    exact = program.run(sample)
    # In narrow floats it rounds as the machine does, and is judged by the same limits.
    limits = limits_of(program, sample, AGAIN) if program.format != "float32" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # frameworks warn of themselves
        results = framework_run(program, source, sample)
    for name, found in zip(program.outputs, results, strict=True):
        want, found = exact[name].astype(np.float64), np.asarray(found, np.float64)
        if name in limits and limits[name].holds(found):
            continue
        close = want.shape == found.shape and np.allclose(
            want, found, rtol=1e-3, atol=2e-4 * (1 + np.abs(want).max(initial=0.0))
        )
        if not close:
            raise GeneratorError(f"{source} computes another {name} than the generator says")
