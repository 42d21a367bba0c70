"""Things of the wrong kind as arguments of everything the tile language has: functions, operators,
methods and indices answer with a sentence of their own, not with one about Python's objects.

`PYTHONPATH=tests python tests/tile/test_wrong_arguments.py` tries all of them.
"""

from __future__ import annotations

import inspect
import operator
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from fresh_seeds import repeatable_seed
from tilewright import tile as language
from tilewright.errors import TilewrightError

TRIED = 700
Things = dict[str, Any]
Attempt = Callable[[Things], Any]

OWN = ("tile", "fp8", "block", "single", "tensor", "state", "sum")
FOREIGN: dict[str, Any] = {
    "None": None, "text": "a", "real": 1.5, "nan": float("nan"), "infinite": float("inf"), "huge": 2**70,
    "negative": -1, "zero": 0, "one": 1, "True": True, "complex": 1j, "list": [], "tuple": (1, 2), "dict": {},
    "array": np.ones(3), "function": len, "ellipsis": ..., "slice": slice(None),
}  # fmt: skip
BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.lt, operator.eq, operator.and_, operator.getitem, operator.iadd, operator.imul,
    operator.contains, divmod,
]  # fmt: skip
UNARY = [
    operator.neg, operator.pos, operator.invert, operator.index, abs, len, iter, bool, float, int, round, repr, list,
]  # fmt: skip
SIZES: dict[str, Any] = {"M": 70, "N": 33, "K": 40, "H": 2}
ARRAYS = [np.ones((70, 33)), np.ones((70, 40)), np.ones((2, 70, 33))]


def author(attempt: Attempt) -> tw.Kernel:
    """A kernel with all kinds of things at hand in its innermost loop."""

    @tw.kernel
    def written(
        x: tw.bf16["M", "N"], q: tw.fp8["M", "K"], h: tw.bf16["H", "M", "N"], out: tw.bf16["M", "N"]
    ):
        for i in tw.each(h.H):
            for m in tw.grid(x.M):
                for n in tw.grid(x.N):
                    things = {"tile": x[m, n], "fp8": q[m, :], "block": m, "single": i, "tensor": x}
                    attempt(
                        FOREIGN
                        | things
                        | {"state": tw.state(0.0), "sum": tw.zeros(), "tiles": [x[m, n]]}
                    )
                    out[m, n] = x[m, n]

    return written


def attempts() -> Iterator[tuple[str, Attempt]]:
    names = [*FOREIGN, *OWN, "tiles"]
    yield from _functions(names)
    for call in BINARY:
        for own in OWN:
            for other in names:
                yield f"{call.__name__}({own}, {other})", _both(call, own, other)
                yield f"{call.__name__}({other}, {own})", _both(call, other, own)
    for call in UNARY:
        for own in OWN:
            yield f"{call.__name__}({own})", lambda t, call=call, own=own: call(t[own])
    yield from _methods(names)
    for row in names:
        for column in names:
            yield f"tensor[{row}, {column}]", lambda t, r=row, c=column: t["tensor"][t[r], t[c]]


def _both(call: Callable[..., Any], left: str, right: str) -> Attempt:
    return lambda t: call(t[left], t[right])


def _functions(names: list[str]) -> Iterator[tuple[str, Attempt]]:
    for name in language.__all__:
        call = getattr(language, name)
        if not inspect.isfunction(call) and name != "options":
            continue
        if name == "kernel":
            continue
        parameters = [
            p
            for p in inspect.signature(call).parameters.values()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)
        ]
        needed = [p.name for p in parameters if p.default is p.empty]
        for parameter in parameters:
            for wrong in names:
                for rest in ("tile", "block", "fp8"):
                    given = {n: rest for n in needed} | {parameter.name: wrong}
                    text = ", ".join(f"{n}={value}" for n, value in given.items())
                    yield f"tw.{name}({text})", _named(call, given)


def _named(call: Callable[..., Any], given: dict[str, str]) -> Attempt:
    return lambda t: call(**{name: t[value] for name, value in given.items()})


def _methods(names: list[str]) -> Iterator[tuple[str, Attempt]]:
    found: dict[str, list[str]] = {}

    def look(things: Things) -> None:
        for own in OWN:
            kind = type(things[own])
            found[own] = [n for n in dir(kind) if n[0] != "_" and callable(getattr(kind, n, None))]

    author(look).ir(**SIZES)
    for own, methods in found.items():
        for method in methods:
            yield f"{own}.{method}()", lambda t, o=own, m=method: getattr(t[o], m)()
            for wrong in names:
                yield (
                    f"{own}.{method}({wrong})",
                    lambda t, o=own, m=method, w=wrong: getattr(t[o], m)(t[w]),
                )


def leak(attempt: Attempt, eager: bool) -> str:
    """What an attempt says of Python's objects; empty if it has an answer of its own, or Python's
    at the author's line."""
    kernel = author(attempt)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if eager:
                kernel.eager(*ARRAYS, profile="atlas-v1")
            else:
                kernel.ir(**SIZES)
    except TilewrightError as error:
        if error.code != "TW1651" or error.__cause__ is None:
            return ""
        last = error.__cause__.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        inner = last is not None and last.tb_frame.f_code.co_filename != __file__
        return error.message if inner else ""
    return ""


def test_wrong_arguments_are_said():
    choose = random.Random(repeatable_seed())
    everything = list(attempts())
    assert len(everything) > 5000
    for name, attempt in choose.sample(everything, TRIED):
        found = leak(attempt, eager=choose.random() < 0.5)
        assert not found, f"{name}: {found}"


def test_leaks_are_seen():
    """Something of Python that fails far from the author's line is one."""
    assert "TypeError" in leak(lambda t: inspect.signature(t["None"]), eager=False)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda t: tw.full("a"), "a number is needed here, not str"),  # pyright: ignore
        (lambda t: t["block"].within(3), "a block lies within another block, not within int"),
        (lambda t: tw.row_max(t["tile"], nonnegative=np.ones(2)), "nonnegative is True or False"),  # pyright: ignore
    ],
)
def test_sentences(attempt: Attempt, sentence: str):
    with pytest.raises(TilewrightError) as error:
        author(attempt).ir(**SIZES)
    assert sentence in error.value.message


if __name__ == "__main__":
    leaks = [
        f"{name}: {found}"
        for name, attempt in attempts()
        for eager in (False, True)
        if (found := leak(attempt, eager))
    ]
    print("\n".join(leaks) or "no leaks")
