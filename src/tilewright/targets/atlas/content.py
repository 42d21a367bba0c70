"""What is known about the elements of a register before a program runs.

A `Content` says of each element whether it is a constant (the same for all inputs), and between
which numbers it lies. Padding is zero, tables are what they are, inputs are anything. Operations
carry this on; some of them turn out to do nothing to an element (adding 0, the smaller of it and
infinity), others to hide it (adding minus infinity). Nothing here knows about time: `work.py` asks
which elements of a result some program has to compute.

NaN is left out: an element that is a constant unless some input is NaN counts as a constant. That
makes the work smaller, never larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.tile.layouts import SIDE

HUGE = np.float32(2.9e38)  # sums with numbers from here on are these numbers
INFINITE = np.float32(np.inf)
MEMORY = 1 << 16  # how many different arguments a function remembers


@dataclass(frozen=True, eq=False)
class Content:
    """The elements of a register (or accumulator): 32 rows of 16 bf16 numbers or 32 others.

    kind: bf16, fp8, sums (of an accumulator), or raw: bytes that nobody has looked at yet, whose
    numbers are 0 to 255. Contents that say the same are one object.
    """

    kind: str
    constant: np.ndarray  # bool
    low: np.ndarray  # float32
    high: np.ndarray

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def zero(self) -> np.ndarray:
        """Elements known to be 0."""
        return self.constant & (self.low == 0) & (self.high == 0)


_known: dict[tuple[str, bytes, bytes, bytes], Content] = {}


def content(kind: str, constant: np.ndarray, low: np.ndarray, high: np.ndarray) -> Content:
    """The one object with these facts."""
    low = np.ascontiguousarray(low, np.float32) + np.float32(0)  # one zero only
    high = np.ascontiguousarray(high, np.float32) + np.float32(0)
    constant = np.ascontiguousarray(constant, bool)
    key = (kind, constant.tobytes(), low.tobytes(), high.tobytes())
    if len(_known) > MEMORY:
        _known.clear()
    return _known.setdefault(key, Content(kind, constant, low, high))


def bytes_of(raw: np.ndarray, constant: np.ndarray) -> Content:
    """1024 bytes of memory: those marked constant are known."""
    values = raw.reshape(SIDE, SIDE).astype(np.float32)
    fixed = constant.reshape(SIDE, SIDE)
    return content("raw", fixed, np.where(fixed, values, 0), np.where(fixed, values, 255))


@lru_cache(MEMORY)
def unknown_constant(kind: str) -> Content:
    """Constants of which nothing else is known: what a program finds in memory."""
    shape = (SIDE, 16 if kind == "bf16" else SIDE)
    most = INFINITE if kind != "raw" else np.float32(255)
    low = np.full(shape, 0 if kind == "raw" else -most, np.float32)
    return content(kind, np.ones(shape, bool), low, np.full(shape, most, np.float32))


def filled(pattern: int, places: str) -> Content:
    """A bf16 number in all elements, the first row, the first column or the first element."""
    codes = np.zeros((SIDE, 16), np.uint16)
    where = {"all": np.s_[:], "row": np.s_[0, :], "col": np.s_[:, 0], "one": np.s_[0, 0]}[places]
    codes[where] = pattern
    values = arith.bf16_to_f32(codes)
    return content("bf16", np.ones(codes.shape, bool), values, values)


@lru_cache(MEMORY)
def as_kind(given: Content, kind: str) -> Content:
    """The same bytes read as bf16 or fp8."""
    if given.kind == kind:
        return given
    if given.kind != "raw":
        return as_kind(_as_bytes(given), kind)
    known = given.constant & (given.low == given.high)
    codes = np.where(known, given.low, 0).astype(np.uint8)
    if kind == "bf16":
        constant = given.constant[:, ::2] & given.constant[:, 1::2]
        known = known[:, ::2] & known[:, 1::2]
        values = arith.bf16_to_f32(np.ascontiguousarray(codes).view("<u2"))
    else:
        constant, values = given.constant, arith.fp8_to_f32(codes)
    known &= ~np.isnan(values)
    low, high = np.where(known, values, -INFINITE), np.where(known, values, INFINITE)
    return content(kind, constant, low, high)


def _as_bytes(given: Content) -> Content:
    """The bytes of numbers, where these are known; of fp8 only zeros are."""
    if given.kind == "raw":
        return given
    known, constant = given.zero, given.constant
    codes = np.zeros(known.shape, np.uint8)
    if given.kind == "bf16":
        known = constant & (given.low == given.high)
        numbers = np.where(known, given.low, np.float32(0)).astype(np.float32)
        codes = (numbers.view(np.uint32) >> 16).astype("<u2").view(np.uint8).reshape(SIDE, SIDE)
        known, constant = np.repeat(known, 2, axis=1), np.repeat(constant, 2, axis=1)
    return content("raw", constant, np.where(known, codes, 0), np.where(known, codes, 255))


def with_bytes(given: Content, at: int, raw: bytes, count: int) -> Content:
    """The same with some bytes of every row set."""
    given = _as_bytes(given)
    constant, low, high = given.constant.copy(), given.low.copy(), given.high.copy()
    constant[:, at : at + count] = True
    low[:, at : at + count] = high[:, at : at + count] = np.frombuffer(raw[:count], np.uint8)
    return content("raw", constant, low, high)


@lru_cache(MEMORY)
def gathered(rows: tuple[tuple[Content, int], ...]) -> Content:
    """A register put together from rows of others."""
    kinds = {source.kind for source, _ in rows}
    if len(kinds) > 1:
        rows = tuple((_as_bytes(s) if s.kind != "raw" else s, part) for s, part in rows)
    parts = [
        np.stack([getattr(source, name)[part] for source, part in rows])
        for name in ("constant", "low", "high")
    ]
    return content(rows[0][0].kind, *parts)


# --- operations ------------------------------------------------------------------------------
# `passes` says of each element of a result: 0 it is computed, 1 or 2 it is that of an operand.


@lru_cache(MEMORY)
def pairwise(name: str, a: Content, b: Content) -> tuple[Content, np.ndarray]:
    """vadd, vsub, vmul, vminimum, vmaximum on bf16 registers."""
    a, b = as_kind(a, "bf16"), as_kind(b, "bf16")
    passes = np.zeros(a.constant.shape, np.int8)
    constant = a.constant & b.constant
    low, high = np.full(passes.shape, -INFINITE), np.full(passes.shape, INFINITE)

    def equal(x: Content, number: float) -> np.ndarray:
        return x.constant & (x.low == number) & (x.high == number)

    def beyond(x: Content, sign: int) -> np.ndarray:
        return x.constant & (x.low == x.high) & (x.low * sign >= HUGE)

    if name in ("vminimum.bf16", "vmaximum.bf16"):
        pick = np.minimum if name == "vminimum.bf16" else np.maximum
        low, high = pick(a.low, b.low), pick(a.high, b.high)
        constant = constant | (low == high)
        sign = 1 if pick is np.minimum else -1
        passes[beyond(b, sign)], passes[beyond(a, sign)] = 1, 2
    elif name in ("vadd.bf16", "vsub.bf16"):
        minus = name == "vsub.bf16"
        passes[equal(b, 0.0)] = 1
        if not minus:
            passes[equal(a, 0.0)] = 2
        large = [beyond(x, 1) | beyond(x, -1) for x in (a, b)]
        for x, turn, mine, others in ((a, 1, *large), (b, -1 if minus else 1, *large[::-1])):
            absorbs = mine & ~others
            constant = constant | absorbs
            low = np.where(absorbs, turn * x.low, low)
            high = np.where(absorbs, turn * x.low, high)
    else:
        passes[equal(b, 1.0)], passes[equal(a, 1.0)] = 1, 2
        none = a.zero | b.zero
        constant = constant | none
        low, high = np.where(none, 0, low), np.where(none, 0, high)
    for x, number in ((a, 1), (b, 2)):
        low = np.where(passes == number, x.low, low)
        high = np.where(passes == number, x.high, high)
        constant = np.where(passes == number, x.constant, constant)
    return content("bf16", constant, low, high), passes


@lru_cache(MEMORY)
def each(name: str, a: Content) -> Content:
    """A function of every element of a bf16 register."""
    a = as_kind(a, "bf16")
    low, high = np.full(a.low.shape, -INFINITE), np.full(a.low.shape, INFINITE)
    if name in ("vexp.bf16", "vexp2.bf16"):
        gone = a.constant & (a.high <= -HUGE)
        low = np.zeros_like(low)
        high = np.where(gone, 0, high)
    elif name == "vmov":
        return a
    return content("bf16", a.constant, low, high)


@lru_cache(MEMORY)
def over_rows(parts: tuple[Content, ...]) -> Content:
    """One number of each row, in all its elements."""
    constant = np.logical_and.reduce([as_kind(p, "bf16").constant.all(1) for p in parts])
    whole = np.repeat(constant[:, None], 16, axis=1)
    edge = np.full(whole.shape, INFINITE)
    return content("bf16", whole, -edge, edge)


@lru_cache(MEMORY)
def over_columns(a: Content) -> Content:
    """One number of each column, in all its elements."""
    constant = np.logical_and.reduce(as_kind(a, "bf16").constant, axis=0)
    whole = np.repeat(constant[None, :], SIDE, axis=0)
    edge = np.full(whole.shape, INFINITE)
    return content("bf16", whole, -edge, edge)


def only_row(a: Content) -> int | None:
    """The one row that is no constant, where all others are zero."""
    a = as_kind(a, "bf16")
    rows = np.flatnonzero(~a.constant.all(1))
    if len(rows) != 1 or not np.delete(a.zero, rows[0], axis=0).all():
        return None
    return int(rows[0])


@lru_cache(MEMORY)
def spread(a: Content, row: int) -> Content:
    """A row in all rows."""
    a = as_kind(a, "bf16")
    return content(
        "bf16", *(np.repeat(x[row : row + 1], SIDE, 0) for x in (a.constant, a.low, a.high))
    )


@lru_cache(MEMORY)
def packed(left: Content, right: Content) -> Content:
    """fp8 of two bf16 registers; of the numbers only zeros are known."""
    sides = [as_kind(x, "bf16") for x in (left, right)]
    constant = np.concatenate([x.constant for x in sides], axis=1)
    zero = np.concatenate([x.zero for x in sides], axis=1)
    edge = np.where(zero, 0, INFINITE)
    return content("fp8", constant, -edge, edge)


@lru_cache(MEMORY)
def unpacked(a: Content) -> tuple[Content, Content]:
    """bf16 of fp8; of the numbers only zeros are known."""
    a = as_kind(a, "fp8")
    edge = np.where(a.zero, 0, INFINITE)
    left, right = (
        content("bf16", a.constant[:, half], -edge[:, half], edge[:, half])
        for half in (np.s_[:16], np.s_[16:])
    )
    return left, right


@lru_cache(MEMORY)
def turned(a: Content) -> Content:
    a = as_kind(a, "fp8")
    return content("fp8", a.constant.T, a.low.T, a.high.T)


@lru_cache(MEMORY)
def sums_of(parts: tuple[Content, ...]) -> Content:
    """An accumulator that starts as one fp8 register or two bf16 registers."""
    sides = [as_kind(x, "fp8" if len(parts) == 1 else "bf16") for x in parts]
    joined = [
        np.concatenate([getattr(x, n) for x in sides], axis=1) for n in ("constant", "low", "high")
    ]
    return content("sums", *joined)


@lru_cache(MEMORY)
def halves(a: Content) -> tuple[Content, Content]:
    """An accumulator as two bf16 registers."""
    left, right = (
        content("bf16", a.constant[:, half], a.low[:, half], a.high[:, half])
        for half in (np.s_[:16], np.s_[16:])
    )
    return left, right


@lru_cache(MEMORY)
def terms(a: Content, w: Content) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which elements of both sides of a product count (are not 0), and how many terms each sum has
    that are no constants."""
    a, w = as_kind(a, "fp8"), as_kind(w, "fp8")
    left, right = ~a.zero, ~w.zero
    fixed = (left & a.constant).astype(np.float32) @ (right & w.constant).astype(np.float32)
    count = left.astype(np.float32) @ right.astype(np.float32) - fixed
    return left, right, count


@lru_cache(MEMORY)
def product(start: Content | None, a: Content, w: Content) -> Content:
    """The accumulator after a product."""
    count = terms(a, w)[2]
    constant = count == 0
    low, high = np.full(count.shape, -INFINITE), np.full(count.shape, INFINITE)
    if start is None:
        left, right, _ = terms(a, w)
        empty = constant & (left.astype(np.float32) @ right.astype(np.float32) == 0)
        low, high = np.where(empty, 0, low), np.where(empty, 0, high)
    else:
        absorbs = start.constant & (start.low == start.high) & (np.abs(start.low) >= HUGE)
        constant = (constant & start.constant) | absorbs
        low, high = np.where(absorbs, start.low, low), np.where(absorbs, start.low, high)
    return content("sums", constant, low, high)
