"""Goldens: every kernel against its reference, on ordinary, ragged and extreme inputs.

A check compiles a kernel for some sizes, lints the program, runs it from poisoned memory with
transfers that move their bytes as late as they may, and compares every bit of the result with
the reference that follows the machine's arithmetic. Ordinary inputs are also compared with
float64, within the bound the reference states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.measure import execute
from tilewright.targets.atlas.kernels.references import Reference
from tilewright.targets.atlas.kernels.registry import Entry
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

POLICY = Policy(initial="poison", dma="late")
# Sizes that are not whole tiles, by name.
RAGGED = {"M": 50, "N": 33, "K": 97, "B": 3, "S": 70, "D": 64, "E": 45}
SEVERAL = {"M": 64, "N": 96, "K": 64, "B": 2, "S": 96, "D": 64, "E": 64}

# Bit patterns of special values. Zeros, largest numbers, smallest ones, infinities, NaN.
EDGES = {
    "bf16": [
        0x0000, 0x8000, 0x7F7F, 0xFF7F, 0x0001, 0x8001, 0x7F80, 0xFF80, 0x7FC0, 0x43E0, 0xC3E0, 0x3F80,
    ],
    "fp8": [0x00, 0x80, 0x7E, 0xFE, 0x01, 0x81, 0x7F, 0xFF, 0x38, 0xB8],
}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """The outcome of one golden."""

    kernel: str
    profile: str
    what: str
    sizes: Mapping[str, int]
    cycles: int
    problem: str | None
    worst: float | None = None  # largest error over the stated bound, float64

    @property
    def ok(self) -> bool:
        return self.problem is None


def check(which: Entry, profile: str, seed: int = 0) -> Iterator[Check]:
    """Every golden of a kernel on a profile."""
    yield check_one(which, profile, "fixed", {}, seed)
    for what, sizes in _goldens(which).items():
        yield check_one(which, profile, what, sizes, seed + 1)
    for what in ("zeros", "448", "edges"):
        yield check_one(which, profile, what, {}, seed + 2)


def _goldens(which: Entry) -> Mapping[str, Mapping[str, int]]:
    """Sizes beside the default ones, by name."""
    if which.goldens:
        return which.goldens
    found = {
        what: {name: wanted[name] for name in which.sizes if name in wanted}
        for what, wanted in (("several tiles", SEVERAL), ("ragged", RAGGED))
    }
    return {what: sizes for what, sizes in found.items() if sizes}


def check_one(which: Entry, profile: str, what: str, sizes: Mapping[str, int], seed: int) -> Check:
    """One golden: compile, lint, run, compare."""
    compiled = which.build(profile, sizes)
    inputs = which.sample(sizes, seed)
    if what in ("zeros", "448", "edges"):
        inputs = [_special(which, name, codes, what) for name, codes in
                  zip(which.inputs, inputs, strict=True)]  # fmt: skip
    findings = lint(compiled.program, compiled.profile).findings
    serious = [f for f in findings if f.severity in ("error", "warning")]
    run = execute(which, compiled, inputs, policy=POLICY)
    reference = which.reference_at(sizes)
    expected = reference.exact(load_profile(profile), *inputs)
    wanted = list(expected) if isinstance(expected, tuple) else [expected]
    problem, worst = None, None
    if serious:
        problem = f"lint {serious[0].code}: {serious[0].message}"
    for name, got, want in zip(compiled.outputs, run.results(), wanted, strict=True):
        problem = problem or _difference(name, canonical(got), canonical(want))
    if reference.ideal is not None and what not in ("zeros", "448", "edges"):
        worst = _against_ideal(reference, inputs, run.results()[0])
        if worst > 1:
            problem = problem or f"off by {worst:.2f} times the stated float64 bound"
    return Check(which.name, profile, what, sizes, run.cycles, problem, worst)


def canonical(codes: np.ndarray) -> np.ndarray:
    """The patterns with every NaN written alike."""
    if codes.dtype == np.uint16:
        nan = (codes & 0x7FFF) > 0x7F80
        return np.where(nan, np.uint16(arith.BF16_NAN), codes)
    return np.where((codes & 0x7F) == 0x7F, np.uint8(arith.FP8_NAN), codes)


def _special(which: Entry, name: str, codes: np.ndarray, what: str) -> np.ndarray:
    dtype = "bf16" if codes.dtype == np.uint16 else "fp8"
    if what == "zeros":
        return np.zeros_like(codes)
    if what == "448":
        large, negative = EDGES[dtype][-3:-1] if dtype == "bf16" else EDGES[dtype][2:4]
        return np.where(np.indices(codes.shape).sum(0) % 2, large, negative).astype(codes.dtype)
    edges = np.array(EDGES[dtype], codes.dtype)
    random = np.random.default_rng(len(name))
    scattered = random.random(codes.shape) < 0.05
    result = np.where(scattered, random.choice(edges, codes.shape), codes)
    if which.kernel.specs[name].order == "halves":
        return np.repeat(result[:, :1], result.shape[1], axis=1)
    return result


def _difference(name: str, got: np.ndarray, want: np.ndarray) -> str | None:
    if got.shape != want.shape:
        return f"{name} has shape {got.shape}, the reference {want.shape}"
    wrong = got != want
    if not wrong.any():
        return None
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return (
        f"{name}{list(place)} is {got[place]:#06x}, the reference says {want[place]:#06x} "
        f"({int(wrong.sum())} of {wrong.size} differ)"
    )


def _against_ideal(reference: Reference, inputs: list[np.ndarray], got: np.ndarray) -> float:
    """Largest error in units of the stated bound."""
    values = [_float64(codes) for codes in inputs]
    assert reference.ideal is not None
    ideal, allowed = reference.ideal(*values)
    error = np.abs(_float64(got) - ideal)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / allowed)
    return float(np.nanmax(share))


def _float64(codes: np.ndarray) -> np.ndarray:
    wide = arith.bf16_to_f32(codes) if codes.dtype == np.uint16 else arith.fp8_to_f32(codes)
    return wide.astype(np.float64)
