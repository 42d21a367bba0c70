"""Numbers for inputs that nobody gave, drawn from a seed so that they mean what the model takes.

An input that selects rows of a table is drawn over all of its rows, positions ascend from somewhere
in the range the model knows, masks keep a beginning of every row, times are times. What an input is
for is found in the graph when a model is compiled (`model.meanings`), and kept in the bundle.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

KINDS = ("ids", "positions", "mask", "time", "cos", "sin")
FAR = 4096  # positions and times are below this where the model has no bound of its own
LAST_TIME = 1000


@dataclass(frozen=True)
class Meaning:
    """What an input is for. below: ids and positions are smaller."""

    kind: str
    below: int = FAR

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "below": self.below}

    @staticmethod
    def from_json(value: Any) -> Meaning | None:
        """A meaning that a file says, if it is one."""
        if not isinstance(value, Mapping) or value.get("kind") not in KINDS:
            return None
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
        }[self.kind]


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
