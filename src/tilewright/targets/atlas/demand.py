"""Which elements an operation has to compute, and which it needs for them.

Going backwards through a run, a `Mask` says which elements of a value some result depends on. An
element that is a constant, or that an operation hands on unchanged, is no work. What remains is
put in relation to what one instruction does: a register that is one row in 32 of an image needs a
32nd of an instruction, for a program can put rows of many tiles into one register.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.targets.atlas import content as facts
from tilewright.targets.atlas.content import MEMORY, SIDE, Content


@dataclass(frozen=True, eq=False)
class Mask:
    """Bytes of a register, or sums of an accumulator: 32 x 32. Equal masks are one object."""

    bits: np.ndarray

    @property
    def any(self) -> bool:
        return bool(self.bits.any())


_masks: dict[bytes, Mask] = {}


def mask(bits: np.ndarray) -> Mask:
    """The one object with these bits."""
    bits = np.ascontiguousarray(bits, bool)
    if len(_masks) > MEMORY:
        _masks.clear()
    return _masks.setdefault(bits.tobytes(), Mask(bits))


ALL = mask(np.ones((SIDE, SIDE), bool))
NONE = mask(np.zeros((SIDE, SIDE), bool))


@lru_cache(MEMORY)
def union(a: Mask, b: Mask) -> Mask:
    return mask(a.bits | b.bits)


@dataclass(frozen=True)
class Demand:
    """share: instructions of this kind that a program needs for it, at most 1.
    needs: elements of each operand. mixed: operands of which one row of the result needs all rows.
    """

    share: float
    needs: tuple[Mask, ...]
    mixed: frozenset[int] = frozenset()


@lru_cache(MEMORY)
def demand(
    name: str, wanted: tuple[Mask, ...], sources: tuple[Content, ...], results: tuple[Content, ...]
) -> Demand:
    """What is needed of one operation when these elements of its results are wanted."""
    live = [_live(w, r) for w, r in zip(wanted, results, strict=True)]
    if name in _PAIRWISE:
        return _pairwise(name, live, sources)
    if name in _OVER_COLUMNS:
        return _over_columns(name, live, sources)
    if name in _OVER_ROWS:
        rows = np.logical_or.reduce(np.concatenate(live, axis=1), axis=1)
        whole = mask(np.repeat(rows[:, None], SIDE, axis=1))
        return Demand(rows.sum() / SIDE, (whole,) * len(sources))
    if name.startswith("vmatmul"):
        return _product(live[0], sources)
    share = sum(int(x.sum()) for x in live) / sum(x.size for x in live)
    if name == "vpack.bf16.fp8":
        return Demand(share, (_bytes(live[0][:, :16]), _bytes(live[0][:, 16:])))
    if name in ("vunpack.fp8.bf16", "vmatpop.bf16.acc"):
        return Demand(share, (mask(np.concatenate(live, axis=1)),))
    if name == "vmatpush.acc.bf16":
        return Demand(share, (_bytes(live[0][:, :16]), _bytes(live[0][:, 16:])))
    if name == "vtrpose.xlu":
        return Demand(share, (mask(live[0].T),), frozenset({0}))
    if results[0].kind == "bf16":  # element by element, register by register
        return Demand(share, tuple(map(_bytes, live)))
    return Demand(share, (mask(live[0]),) * len(sources))


_PAIRWISE = ("vadd.bf16", "vsub.bf16", "vmul.bf16", "vminimum.bf16", "vmaximum.bf16")
_OVER_COLUMNS = ("vredsum.bf16", "vredmin.bf16", "vredmax.bf16")
_OVER_ROWS = ("vredsum.row.bf16", "vredmin.row.bf16", "vredmax.row.bf16")


def _live(wanted: Mask, result: Content) -> np.ndarray:
    """Wanted elements that are no constants."""
    bits = wanted.bits
    if result.kind == "bf16":
        bits = bits[:, ::2] | bits[:, 1::2]
    return bits & ~result.constant


def _bytes(elements: np.ndarray) -> Mask:
    return mask(np.repeat(elements, 2, axis=1))


def _pairwise(name: str, live: list[np.ndarray], sources: tuple[Content, ...]) -> Demand:
    count = len(live)
    first, second, computed = [], [], 0
    for k, wanted in enumerate(live):
        _, passes = facts.pairwise(name, sources[k], sources[count + k])
        first.append(_bytes(wanted & (passes != 2)))
        second.append(_bytes(wanted & (passes != 1)))
        computed += int((wanted & (passes == 0)).sum())
    return Demand(computed / (count * live[0].size), (*first, *second))


def _over_columns(name: str, live: list[np.ndarray], sources: tuple[Content, ...]) -> Demand:
    needs, columns, mixed = [], 0, set()
    for k, (wanted, source) in enumerate(zip(live, sources, strict=True)):
        used = np.asarray(wanted.any(axis=0))
        row = facts.only_row(source) if name == "vredsum.bf16" else None
        whole = np.repeat(used[None, :], SIDE, axis=0)
        if row is None:
            columns += int(used.sum())
            mixed.add(k)
        else:  # a row repeated: transfers can do that too
            whole[np.arange(SIDE) != row] = False
        needs.append(_bytes(whole))
    return Demand(columns / (16 * len(live)), tuple(needs), frozenset(mixed))


def _product(live: np.ndarray, sources: tuple[Content, ...]) -> Demand:
    *start, a, w = sources
    left, right, count = facts.terms(a, w)
    wanted = live.astype(np.float32)
    volume = float((wanted * count).sum()) / SIDE**3
    of_a = (wanted @ right.T.astype(np.float32) > 0) & left
    of_w = (left.T.astype(np.float32) @ wanted > 0) & right
    needs = (*(mask(live) for _ in start), mask(of_a), mask(of_w))
    return Demand(volume, needs, frozenset({len(sources) - 1}))


def outcome(name: str, sources: tuple[Content, ...], count: int) -> tuple[Content, ...]:
    """What is known of the results of an operation on these."""
    if name in _PAIRWISE:
        return tuple(facts.pairwise(name, sources[k], sources[count + k])[0] for k in range(count))
    if name in _OVER_COLUMNS:
        rows = [(source, facts.only_row(source)) for source in sources]
        return tuple(
            facts.over_columns(source)
            if row is None or name != "vredsum.bf16"
            else facts.spread(source, row)
            for source, row in rows
        )
    if name in _OVER_ROWS:
        return (facts.over_rows(sources),) * count
    if name == "vpack.bf16.fp8":
        return (facts.packed(*sources),)
    if name == "vunpack.fp8.bf16":
        return facts.unpacked(sources[0])
    if name == "vtrpose.xlu":
        return (facts.turned(sources[0]),)
    if name == "vmatpush.weight":
        return (facts.as_kind(sources[0], "fp8"),)
    if name.startswith("vmatpush.acc"):
        return (facts.sums_of(sources),)
    if name == "vmatpop.bf16.acc":
        return facts.halves(sources[0])
    if name == "vmatpop.fp8.acc":
        zero = sources[0].zero
        edge = np.where(zero, 0, facts.INFINITE)
        return (facts.content("fp8", sources[0].constant, -edge, edge),)
    if name.startswith("vmatmul"):
        start = sources[0] if len(sources) == 3 else None
        return (facts.product(start, *sources[-2:]),)
    return tuple(facts.each(name, source) for source in sources)
