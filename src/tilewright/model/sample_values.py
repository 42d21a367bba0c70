"""Numbers for inputs that nobody gave, drawn from a seed so that they mean what the model takes.

An input that selects rows of a table is drawn over all of its rows, positions ascend from somewhere
in the range the model knows, masks keep a beginning of every row, times are times. What an input is
for is found in the graph when a model is compiled (`model.meanings`), and kept in the bundle. So is
how large the numbers of its samples were, where they are not of the size of normal ones.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("ids", "positions", "mask", "time", "cos", "sin", "numbers")
FAR = 4096  # positions and times are below this where the model has no bound of its own
LAST_TIME = 1000
LARGEST = 1e30  # numbers beyond are those of masks
WHOLE = 2**53  # and whole numbers beyond are none in float64


@dataclass(frozen=True)
class Meaning:
    """What an input is for. below: ids and positions are smaller. The others are what samples had
    where `kind` is numbers."""

    kind: str
    below: int = FAR
    mean: float = 0.0
    spread: float = 1.0
    least: float = 0.0
    most: float = 0.0

    def to_json(self) -> dict[str, Any]:
        if self.kind == "numbers":
            return {"kind": self.kind, **{name: getattr(self, name) for name in SEEN}}
        return {"kind": self.kind, "below": self.below}

    @staticmethod
    def from_json(value: Any) -> Meaning | None:
        """A meaning that a file says, if it is one."""
        if not isinstance(value, Mapping) or value.get("kind") not in KINDS:
            return None
        if value["kind"] == "numbers":
            seen = [value.get(name) for name in SEEN]
            return _numbers(
                *(x for x in seen if isinstance(x, int | float) and not isinstance(x, bool))
            )
        below = value.get("below", FAR)
        if not isinstance(below, int) or isinstance(below, bool) or not 0 < below < 2**31:
            return None
        return Meaning(str(value["kind"]), below)

    def __str__(self) -> str:
        return {
            "ids": f"ids below {self.below}",
            "positions": f"ascending positions below {self.below}",
            "mask": "a mask that keeps the beginning of each row",
            "time": f"times below {LAST_TIME}",
            "cos": "cosines",
            "sin": "sines",
            "numbers": f"numbers from {self.least:.3g} to {self.most:.3g}",
        }[self.kind]


SEEN = ("mean", "spread", "least", "most")


def _numbers(*seen: float) -> Meaning | None:
    """Numbers of such a mean and spread, between two others; None if there are none like that."""
    if len(seen) != len(SEEN) or not all(abs(number) <= LARGEST for number in seen):
        return None
    mean, spread, least, most = map(float, seen)
    if not (spread > 0 and least <= mean <= most):
        return None
    return Meaning("numbers", mean=mean, spread=spread, least=least, most=most)


def seen_in(samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Meaning]:
    """The size of the numbers that samples have for an input, where normal ones are not like them:
    a program with scales from pixels of 0 to 255 says little about numbers around 1."""
    found = {}
    for name in samples[0] if samples else ():
        arrays = [np.asarray(sample[name], np.float64) for sample in samples if name in sample]
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        if flat.size < 2 or not (np.abs(flat) <= LARGEST).all():
            continue
        mean, spread = float(flat.mean()), float(flat.std())
        least, most = float(flat.min()), float(flat.max())
        usual = least < 0 < most and 0.5 < spread < 2 and abs(mean) < spread / 2
        meaning = None if usual else _numbers(mean, spread, least, most)
        if meaning is not None:
            found[name] = meaning
    return found


def named_meaning(name: str, is_float: bool) -> Meaning | None:
    """What an input is for by its name, where the graph does not tell."""
    if is_float:
        for kind in ("cos", "sin"):
            if name == kind or name.endswith("_" + kind):
                return Meaning(kind)
        return None
    return Meaning("mask") if "mask" in name.lower() else None


def draw(
    shape: tuple[int, ...], is_float: bool, meaning: Meaning | None, random: np.random.Generator
) -> np.ndarray:
    """Numbers of the shape, as float64 or int64: normal ones, and 0 or 1, if nothing is known."""
    kind = meaning.kind if meaning is not None else ""
    if kind in ("cos", "sin"):
        return (np.cos if kind == "cos" else np.sin)(random.uniform(0, 2 * np.pi, shape))
    if kind == "time":
        times = random.uniform(0, LAST_TIME, shape)
        return times if is_float else np.floor(times).astype(np.int64)
    if kind == "positions" and meaning is not None:
        return _positions(shape, meaning.below, random).astype(float if is_float else np.int64)
    if kind == "mask":
        return _mask(shape, random).astype(float if is_float else np.int64)
    if kind == "numbers" and meaning is not None:
        if not is_float:
            ends = np.clip([meaning.least, meaning.most], -WHOLE, WHOLE)
            return random.integers(math.floor(ends[0]), math.floor(ends[1]) + 1, shape)
        drawn = meaning.mean + meaning.spread * random.standard_normal(shape)
        return np.clip(drawn, meaning.least, meaning.most)
    if is_float:
        return random.standard_normal(shape)
    return random.integers(0, meaning.below if kind == "ids" and meaning else 2, shape)


def _positions(shape: tuple[int, ...], below: int, random: np.random.Generator) -> np.ndarray:
    """Positions that follow each other along the last dimension."""
    count = shape[-1] if shape else 1
    first = random.integers(0, max(1, below - count + 1))
    row = np.minimum(first + np.arange(count), below - 1)
    return np.broadcast_to(row if shape else row[0], shape)


def _mask(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """True at the beginning of every row, further from row to row, and never all or nothing: so
    there is something left whether true means keep or leave out."""
    if not shape or shape[-1] == 1:
        return np.ones(shape, bool)
    keys, rows = shape[-1], shape[-2] if len(shape) > 1 else 1
    behind = random.integers(0, max(1, keys // 4), (*shape[:-2], 1) if len(shape) > 1 else (1,))
    reach = keys - rows + np.arange(rows) + 1 - behind if rows > 1 else keys - behind
    length = np.clip(reach, 1, keys - 1)
    result = np.arange(keys) < length[..., None]
    return np.broadcast_to(result.reshape((*result.shape[: len(shape) - 1], keys))
                           if len(shape) > 1 else result.reshape(keys), shape)  # fmt: skip


def with_others_like_it(
    sample: Mapping[str, np.ndarray],
    count: int,
    seed: int,
    meanings: Mapping[str, Meaning] | None = None,
    fixed: Container[str] = (),
) -> list[Mapping[str, np.ndarray]]:
    """A single sample and random ones of its mean and spread: one alone says little of ranges.

    The spread of a few numbers is uncertain, and is taken larger by twice that; numbers that are all
    alike, such as the zeros of a first state, say nothing of it. Integers, which may be indices, are
    the sample's own in another order. Masks, angles, positions and
    times, and the inputs `fixed`, stay as they are.
    """
    random = np.random.default_rng(seed)

    def other(name: str, array: np.ndarray) -> np.ndarray:
        meaning = (meanings or {}).get(name)
        if name in fixed:
            return array
        if meaning is not None and meaning.kind in ("mask", "cos", "sin", "positions", "time"):
            return array
        if array.dtype.kind not in "iub" and array.size and np.isfinite(array).all():
            numbers = array.astype(np.float64)
            mean, spread = float(numbers.mean()), float(numbers.std())
            spread = (spread or abs(mean) or 1.0) * (1 + 2 / np.sqrt(2 * array.size))
            return (mean + spread * random.standard_normal(array.shape)).astype(array.dtype)
        return random.permutation(array.reshape(-1)).reshape(array.shape)

    others = ({n: other(n, array) for n, array in sample.items()} for _ in range(count - 1))
    return [sample, *others]
