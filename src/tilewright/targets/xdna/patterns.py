"""Access patterns: the order in which a transfer visits the elements of a buffer.

A pattern is an offset and a nest of loops, outermost first; loop i visits `sizes[i]` places,
`strides[i]` elements apart. Everything a DMA engine does is such a walk, so a question about a
design (is every byte read? is the order the kernel's order?) is a question about patterns.
Proofs work on sizes and strides; walks are enumerated only where a pattern has no such proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError

_ENUMERABLE = 1 << 24  # elements of a walk that a fallback may write out


@dataclass(frozen=True)
class Pattern:
    """A walk: offset, sizes and strides in elements, outermost first."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.strides):
            raise TilewrightError(
                "TW8010", f"a pattern with {len(self.sizes)} sizes has {len(self.strides)} strides"
            )
        if any(size < 1 for size in self.sizes):
            raise TilewrightError("TW8010", f"a pattern has an empty dimension: {self.sizes}")

    @property
    def count(self) -> int:
        """Elements visited, repetitions included."""
        return math.prod(self.sizes)

    @property
    def lowest(self) -> int:
        """The smallest element visited."""
        return self.offset + sum(
            (n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True) if s < 0
        )

    @property
    def highest(self) -> int:
        """The largest element visited."""
        return self.offset + sum(
            (n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True) if s > 0
        )

    def walk(self) -> np.ndarray:
        """Every element visited, in order."""
        places = np.full((1,), self.offset, dtype=np.int64)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            places = (places[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
        return places

    def view(self, data: np.ndarray) -> np.ndarray:
        """The visited elements of a flat array as an n-dimensional view, without a copy."""
        if data.ndim != 1 or not data.flags.c_contiguous:
            raise TilewrightError("TW8010", "a pattern walks over flat arrays")
        if self.lowest < 0 or self.highest >= data.size:
            raise TilewrightError(
                "TW8011",
                f"the walk {self} reaches element {self.highest} of a buffer of {data.size}"
                if self.highest >= data.size
                else f"the walk {self} reaches element {self.lowest}",
            )
        step = data.itemsize
        return np.lib.stride_tricks.as_strided(
            data[self.offset :], self.sizes, tuple(s * step for s in self.strides)
        )

    def canonical(self) -> Pattern:
        """The same walk with the fewest dimensions.

        before: sizes [4, 1, 8, 16], strides [128, 7, 16, 1]
        after:  sizes [512], strides [1]
        """
        sizes: list[int] = []
        strides: list[int] = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if size == 1:
                continue
            if sizes and strides[-1] == stride * size:
                sizes[-1] *= size
                strides[-1] = stride
            else:
                sizes.append(size)
                strides.append(stride)
        if not sizes:
            return Pattern((1,), (1,), self.offset)
        return Pattern(tuple(sizes), tuple(strides), self.offset)

    def moved(self, offset: int) -> Pattern:
        return Pattern(self.sizes, self.strides, self.offset + offset)

    def split(self, dimension: int, inner: int) -> Pattern:
        """One loop as two: the inner one has `inner` steps.

        before: sizes [12], strides [5], inner = 4
        after:  sizes [3, 4], strides [20, 5]
        """
        size, stride = self.sizes[dimension], self.strides[dimension]
        if inner < 1 or size % inner:
            raise TilewrightError(
                "TW8010",
                f"a loop of {size} steps does not split into runs of {inner}",
                hint=f"divisors: {', '.join(str(d) for d in range(1, size + 1) if size % d == 0)}"
                if size <= 4096
                else None,
            )
        sizes = (*self.sizes[:dimension], size // inner, inner, *self.sizes[dimension + 1 :])
        strides = (
            *self.strides[:dimension],
            stride * inner,
            stride,
            *self.strides[dimension + 1 :],
        )
        return Pattern(sizes, strides, self.offset)

    def compose(self, order: Pattern) -> Pattern:
        """The walk that visits this pattern's elements in another order.

        Element i of the result is element `order.walk()[i]` of this walk. Symbolic; an order
        that crosses this pattern's loops at an angle has no such pattern and is refused.
        """
        base = self.canonical()
        if order.lowest < 0 or order.highest >= base.count:
            raise TilewrightError(
                "TW8010", f"the order {order} leaves the {base.count} elements of the walk"
            )
        weights = [math.prod(base.sizes[i + 1 :]) for i in range(len(base.sizes))]
        digits = [order.offset // w % n for w, n in zip(weights, base.sizes, strict=True)]
        offset = base.offset + sum(d * s for d, s in zip(digits, base.strides, strict=True))
        room = [n - 1 - d for n, d in zip(base.sizes, digits, strict=True)]
        sizes: list[int] = []
        strides: list[int] = []
        for size, stride in zip(order.sizes, order.strides, strict=True):
            for n, s in _through(base, weights, room, size, stride):
                sizes.append(n)
                strides.append(s)
        return Pattern(tuple(sizes), tuple(strides), offset).canonical()

    def inverse(self) -> Pattern:
        """The order that undoes this permutation: where in the walk each element comes.

        before: sizes [2, 3], strides [1, 2]   (0 2 4 1 3 5)
        after:  sizes [3, 2], strides [1, 3]   (0 3 1 4 2 5)
        """
        if not self.covers(self.count, exactly=True) or self.offset:
            raise TilewrightError("TW8010", f"{self} visits some element twice or never")
        base = self.canonical()
        weights = [math.prod(base.sizes[i + 1 :]) for i in range(len(base.sizes))]
        loops = sorted(zip(base.strides, base.sizes, weights, strict=True), reverse=True)
        return Pattern(
            tuple(size for _, size, _ in loops), tuple(weight for _, _, weight in loops)
        ).canonical()

    def covers(self, count: int, exactly: bool = False) -> bool:
        """Whether the walk visits each of the elements 0 .. count - 1 (exactly: once, no other)."""
        base = self.canonical()
        if base.lowest < 0 or base.lowest > 0 or base.highest < count - 1:
            return False
        if exactly and (base.count != count or base.highest != count - 1):
            return False
        expected = 1
        for stride, size in sorted(zip(base.strides, base.sizes, strict=True)):
            if stride == expected:
                expected *= size
        if expected == base.count:
            return base.count >= count  # a mixed-radix system: each place once
        if base.count > _ENUMERABLE:
            return False
        seen = np.bincount(base.walk(), minlength=count)[:count]
        return bool((seen == 1).all() if exactly else (seen >= 1).all())

    @property
    def injective(self) -> bool:
        """Whether no element is visited twice."""
        base = self.canonical()
        reach = 0
        for stride, size in sorted(
            (abs(s), n) for s, n in zip(base.strides, base.sizes, strict=True)
        ):
            if stride <= reach:
                break
            reach += stride * (size - 1)
        else:
            return True
        if 0 in base.strides or base.count > base.highest - base.lowest + 1:
            return False
        if base.count > _ENUMERABLE:
            return False
        walk = base.walk()
        return bool(np.unique(walk).size == walk.size)

    @property
    def run(self) -> int:
        """Elements of the longest contiguous piece."""
        base = self.canonical()
        return base.sizes[-1] if base.strides[-1] == 1 else 1

    def __str__(self) -> str:
        return f"{self.offset}:{list(self.sizes)}/{list(self.strides)}"


def _through(
    base: Pattern, weights: list[int], room: list[int], size: int, stride: int
) -> list[tuple[int, int]]:
    """One loop over positions of `base` as loops over its elements, outermost first."""
    if size == 1:
        return []
    if stride == 0:
        return [(size, 0)]
    for i, weight in enumerate(weights):
        if stride < weight or stride % weight:
            continue
        step = stride // weight
        if step * (size - 1) <= room[i]:
            room[i] -= step * (size - 1)
            return [(size, step * base.strides[i])]
        inner, rest = divmod(base.sizes[i], step)
        if rest == 0 and i > 0 and size % inner == 0 and step * (inner - 1) <= room[i]:
            room[i] -= step * (inner - 1)
            outer = _through(base, weights, room, size // inner, weights[i - 1])
            return [*outer, (inner, step * base.strides[i])]
        break
    raise TilewrightError(
        "TW8010", f"an order with {size} steps of {stride} crosses the loops of the walk {base}"
    )


def row_major(*shape: int) -> Pattern:
    """A whole array in its own order."""
    return Pattern(shape, tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))


def step_tiles(
    matrix: tuple[int, int], tile: tuple[int, int], group: tuple[int, int], step: tuple[int, int]
) -> list[Pattern]:
    """Walks over tiles that lie `step` tiles apart, `group` of them in each direction.

    before: a row of 8 tiles, groups of 4, step 2
    after:  two patterns: tiles 0 2 4 6 and tiles 1 3 5 7
    """
    rows, columns = matrix
    for extent, size, many, apart, name in (
        (rows, tile[0], group[0], step[0], "rows"),
        (columns, tile[1], group[1], step[1], "columns"),
    ):
        if extent % (size * many * apart):
            raise TilewrightError(
                "TW8010",
                f"{extent} {name} are not whole groups of {many} tiles of {size} in steps of {apart}",
                hint=f"nearest legal: {-(-extent // (size * many * apart)) * size * many * apart}",
            )
    patterns = []
    for first in range(0, rows, tile[0] * group[0] * step[0]):
        for left in range(0, columns, tile[1] * group[1] * step[1]):
            for i in range(step[0]):
                for j in range(step[1]):
                    patterns.append(
                        Pattern(
                            (group[0], group[1], tile[0], tile[1]),
                            (tile[0] * step[0] * columns, tile[1] * step[1], columns, 1),
                            (first + i * tile[0]) * columns + left + j * tile[1],
                        )
                    )
    return patterns
