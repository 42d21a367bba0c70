"""Kernels of the tile language with mistakes in them, as an author would type them."""

from __future__ import annotations

import linecache
import math
import random
from typing import Any

import numpy as np

import tilewright as tw
from fuzzing.mutations import mutated_text
from fuzzing.running import Keep, Subject
from tilewright.errors import TilewrightError

UNARY = [
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh", "sin", "cos", "relu", "abs", "square", "cube",
    "sigmoid", "silu", "gelu", "row_sum", "row_max", "row_min", "col_sum", "col_max", "col_min", "transpose",
    "to_fp8", "to_bf16", "park", "state", "accumulator", "neutral", "zeros", "ones", "full", "scratch", "keep",
    "causal", "where", "maximum", "minimum", "row_products",
]  # fmt: skip
TYPES = [
    'tw.bf16["M", "N"]', 'tw.fp8["M", "K"]', 'tw.fp8["K", "N"]', 'tw.bf16["N"]', 'tw.bf16["M", 1]',
    'tw.bf16["H", "M", "N"]', 'tw.bf16[32, 32]', 'tw.fp8["N", "N"]', 'tw.bf16["M"]', 'tw.bf16["M", "M"]',
]  # fmt: skip
ODD_TYPES = [
    "tw.bf16", 'tw.bf16["M", -1]', "tw.bf16[0, 0]", 'tw.fp8["M"]', "int", '"M"', "tw.bf16[1.5, 2]", "None",
    'tw.bf16["M", "N", "K", "H", "L"]', "tw.bf16[()]", "tw.bf16[2**40, 2**40]", 'tw.fp8["é", "N"]',
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "2.0", "0.5", "1e400", "float('nan')", "2**70", "32", "31", "64", "'a'", "None", "[]", "1j", "True",
]  # fmt: skip


class Author:
    """Writes a kernel, line by line."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.names: list[str] = []  # of tensors
        self.values: list[str] = []  # of tiles
        self.loops: list[str] = []

    def kernel(self) -> str:
        choose = self.choose
        lines = ["import tilewright as tw", "", "@tw.kernel"]
        self.names = [f"p{k}" for k in range(choose.randrange(1, 4))]
        parameters = [f"{name}: {self.type()}" for name in self.names]
        self.names.append("out")
        parameters.append(f"out: {TYPES[0] if choose.random() < 0.8 else self.type()}")
        if choose.random() < 0.15:
            parameters += ["*", f"scale: float = {choose.choice(NUMBERS)}"]
            self.values.append("scale")
        lines.append(f"def kernel({', '.join(parameters)}):")
        self.body(lines, 1, choose.randrange(2, 9))
        return "\n".join(lines) + "\n"

    def type(self) -> str:
        return self.choose.choice(ODD_TYPES if self.choose.random() < 0.05 else TYPES)

    def body(self, lines: list[str], depth: int, length: int) -> None:
        choose = self.choose
        pad = "    " * depth
        for number in range(length):
            kind = choose.randrange(10)
            if depth < 4 and (kind < 3 or (number == 0 and depth == 1)):
                name = f"i{len(self.loops)}"
                lines.append(f"{pad}for {name} in {self.loop()}:")
                self.loops.append(name)
                self.body(lines, depth + 1, choose.randrange(1, 5))
                if choose.random() < 0.9:
                    self.loops.remove(name)
            elif kind < 6:
                name = f"t{len(self.values)}"
                lines.append(f"{pad}{name} = {self.expression(3)}")
                self.values.append(name)
            elif kind == 6 and self.values:
                lines.append(f"{pad}{choose.choice(self.values)}.set({self.expression(2)})")
            elif kind == 7 and self.values:
                operator = choose.choice(("+=", "-=", "@=", "="))
                lines.append(f"{pad}{choose.choice(self.values)} {operator} {self.expression(2)}")
            else:
                target = "out" if choose.random() < 0.8 else choose.choice(self.names)
                lines.append(f"{pad}{target}[{self.index()}] = {self.expression(3)}")

    def loop(self) -> str:
        choose = self.choose
        extent = f"{choose.choice(self.names)}.{choose.choice('MNKHMNX')}"
        extent = extent if choose.random() < 0.85 else choose.choice((*NUMBERS, "100", "33"))
        more = choose.choice(
            ("", "", "", ", 32", ", 64", ", 48", ", unroll=2", ", 0", ", -32", ", 32, 2", ", x=1")
        )
        return f"tw.{choose.choice(('grid', 'grid', 'steps', 'each', 'options', 'before'))}({extent}{more})"

    def index(self) -> str:
        choose = self.choose
        parts = [self.place() for _ in range(choose.choice((1, 2, 2, 2, 2, 3)))]
        return ", ".join(parts)

    def place(self) -> str:
        choose = self.choose
        if self.loops and choose.random() < 0.75:
            return choose.choice(self.loops)
        return choose.choice(
            (":", ":", ":", "0", "0:32", "-1", "...", "None", "1.5", "'m'", "::2", "99")
        )

    def expression(self, depth: int) -> str:
        choose = self.choose
        kind = choose.randrange(10)
        if depth == 0 or kind < 3:
            if self.values and choose.random() < 0.4:
                return choose.choice(self.values)
            if choose.random() < 0.15:
                return choose.choice(NUMBERS)
            return f"{choose.choice(self.names)}[{self.index()}]"
        if kind < 6:
            operator = choose.choice(("+", "-", "*", "/", "@", "**", "%", "<", "==", "and"))
            return f"({self.expression(depth - 1)} {operator} {self.expression(depth - 1)})"
        if kind == 6:
            tail = choose.choice((".T", ".x", ".shape", "[0]", ".set(1)", "()", ".dtype", ".rows"))
            return f"{self.expression(depth - 1)}{tail}"
        count = choose.choice((1, 1, 1, 1, 2, 2, 0, 3))
        arguments = [self.expression(depth - 1) for _ in range(count)]
        if choose.random() < 0.1:
            arguments.append(
                f"{choose.choice(('scale', 'axis', 'unit', 'dtype', 'value'))}={choose.choice(NUMBERS)}"
            )
        return f"tw.{choose.choice(UNARY)}({', '.join(arguments)})"


GOOD = """import tilewright as tw

@tw.kernel
def kernel(p0: tw.fp8["M", "K"], p1: tw.fp8["K", "N"], p2: tw.bf16["N"], out: tw.bf16["M", "N"]):
    for n in tw.grid(out.N, 32):
        for m in tw.grid(out.M, 64):
            acc = tw.zeros()
            for k in tw.steps(p0.K, 32):
                acc += p0[m, k] @ p1[k, n]
            out[m, n] = tw.gelu(acc + p2[n])
"""
ATTENTION = """import tilewright as tw

@tw.kernel
def kernel(p0: tw.fp8["H", "M", "K"], p1: tw.fp8["H", "N", "K"], out: tw.bf16["H", "M", "K"]):
    for h in tw.each(p0.H):
        for m in tw.grid(p0.M):
            top, total = tw.state(-100.0), tw.state(0.0)
            for n in tw.steps(p1.N):
                s = tw.causal(p0[h, m, :] @ p1[h, n, :].T, m, n)
                best = tw.maximum(top, tw.row_max(s))
                total.set(total * tw.exp(top - best) + tw.row_sum(tw.exp(s - best)))
                top.set(best)
            out[h, m, :] = p0[h, m, :] / total
"""


def _run_kernel(seeds: Any, choose: random.Random, keep: Keep) -> None:
    if choose.random() < 0.75:
        text = Author(choose).kernel()
    else:
        text = mutated_text(choose.choice((GOOD, ATTENTION)), choose)
    keep.text(text, ".py")
    kernel = _kernel(text)
    if kernel is None:
        return  # not even Python
    sizes = {name: choose.choice((1, 31, 32, 33, 64, 70)) for name in "MNKH"}
    if choose.random() < 0.05:
        sizes[choose.choice("MNKH")] = choose.choice((0, -1, 2**40))  # type: ignore[arg-type]
    symbols = {s for spec in kernel.specs.values() for s in spec.sizes if isinstance(s, str)}
    given = {name: size for name, size in sizes.items() if name in symbols}
    target = choose.choice(("atlas-v1", "atlas-v0"))
    failures = []
    for work in (_eager, _trace, _compile):
        try:
            work(kernel, given, target)
        except TilewrightError as error:
            failures.append(error)
    if failures:
        raise choose.choice(failures)


def _kernel(text: str) -> Any:
    """The kernel of a text; None if Python itself has something against it."""
    name = "<fuzz kernel>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    try:
        exec(compile(text, name, "exec"), scope)
    except TilewrightError:
        raise
    except Exception as error:
        frames = error.__traceback__
        last = frames
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        ours = last is not None and "/tilewright/" in last.tb_frame.f_code.co_filename
        # Types of parameters are checked with TypeErrors, and the language has no other names.
        if ours and not isinstance(error, TypeError | AttributeError):
            raise
        return None
    found = scope.get("kernel")
    return found if isinstance(found, tw.Kernel) else None


def _eager(kernel: Any, sizes: dict[str, int], target: str) -> None:
    shapes = {n: layout.shape for n, layout in kernel.layouts(sizes).items()}
    if max(math.prod(shape) for shape in shapes.values()) > 1 << 22:
        return  # not even made
    arrays = [np.ones(shapes[name], np.float32) for name in kernel.inputs]
    kernel.eager(*arrays, profile=target, **sizes)


def _trace(kernel: Any, sizes: dict[str, int], target: str) -> None:
    kernel.ir(target=target, **sizes)


def _compile(kernel: Any, sizes: dict[str, int], target: str) -> None:
    kernel.compile(target=target, **sizes)


SUBJECTS = [Subject("tile", lambda: None, _run_kernel)]
