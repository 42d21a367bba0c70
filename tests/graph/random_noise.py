"""How far a right result may be from float32: measured by disturbing the model, not guessed.

A program runs several times in float64 with noise wherever the machine rounds: bf16 after every
operation, fp8 on operands of products, partial sums in bf16. The spread of these runs says, element
by element, what rounding can do to this model on these inputs. A result is judged twice: its error
as a whole, and the error of its worst element. `blunt` says for which outputs the limits are so wide
that a value in the wrong place would not be noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from random_operations import Array, Rounding
from random_programs import RandomProgram

RUNS = 8
AGAIN = 120  # before a result is called wrong: a few runs may all miss a knee that it is near to
WHOLE, ALONE = 6.0, 7.0  # times the spread of an output, for its error as a whole; see `most`
WORST = 20.0  # times the spread of an element, for the worst
BF16, FP8 = 2.0**-9, 0.03


class Noise(Rounding):
    """Disturbs numbers as much as rounding does, at random."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def bf16(self, x: Array) -> Array:
        return x * (1 + BF16 * self.random.standard_normal(x.shape))

    def fp8(self, x: Array) -> Array:
        """Three bits of mantissa, and steps of equal size below the smallest normal number."""
        least = np.abs(x).max(initial=0.0) * 2.0**-15
        noise = self.random.standard_normal((2, *x.shape))
        return x * (1 + FP8 * noise[0]) + least * noise[1]

    def sums(self, x: Array, axes: tuple[int, ...]) -> Array:
        size = np.sqrt(np.mean(x**2, axis=axes, keepdims=True))
        return x + 2 * BF16 * size * self.random.standard_normal(x.shape)


@dataclass(frozen=True)
class Limit:
    """What an output has to be like."""

    exact: Array
    spread: Array  # of every element
    whole: float  # the spread of the output as a whole

    def judge(self, result: Array) -> tuple[float, float]:
        """Errors as multiples of the spreads: of the output as a whole, of its worst element."""
        result = np.asarray(result, np.float64)
        if result.shape != self.exact.shape:
            return np.inf, np.inf
        error = np.abs(result - self.exact)
        if not np.isfinite(error).all():
            return np.inf, np.inf
        whole = float(np.sqrt(np.mean(error**2)))
        return whole / self.whole, float((error / self.spread).max(initial=0.0))

    @property
    def most(self) -> float:
        """Spreads that the error as a whole may have. The spread is known from few runs, and that of
        a single number only from as many numbers: then more is left to chance."""
        return WHOLE + ALONE / np.sqrt(max(1, self.exact.size))

    def holds(self, result: Array) -> bool:
        whole, worst = self.judge(result)
        return whole <= self.most and worst <= WORST

    @property
    def blunt(self) -> bool:
        """Whether values in the wrong place would go unnoticed."""
        if np.ptp(self.exact) == 0:
            return False  # there is no wrong place
        moved = np.roll(self.exact, 1)
        if np.array_equal(moved, self.exact):
            return False
        return self.holds(moved)


def limits_of(program: RandomProgram, sample: int, runs: int = RUNS) -> dict[str, Limit]:
    """Limits of all outputs on a sample."""
    exact = program.run(sample)
    names = [name for name in program.outputs if exact[name].dtype.kind == "f"]
    squares = {name: np.zeros(exact[name].shape) for name in names}
    for number in range(runs):
        noise = Noise(number)
        found = program.run(sample, noise)
        for name in names:  # what leaves the machine was bf16 at least once
            squares[name] += (noise.bf16(found[name]) - exact[name]) ** 2
    limits = {}
    for name in names:
        least = (BF16 * np.abs(exact[name]).max(initial=0.0)) ** 2 * 1e-4 + 1e-30
        whole = squares[name].mean() / runs + least
        # Few runs say little about one element: the others have a say.
        spread = (squares[name] + 2 * whole) / (runs + 2)
        limits[name] = Limit(exact[name], np.sqrt(spread), float(np.sqrt(whole)))
    return limits
