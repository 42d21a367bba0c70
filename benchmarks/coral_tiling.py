"""Models whose intermediate values do not fit data memory: how many compile, and whether they are right.

python benchmarks/coral_tiling.py [--count 24] [--seed 0] [--target coral] [--family time]

Inputs, outputs and weights are small; the largest value in between takes 0.4 to 3 times the data
memory of the small machine. Families: convolutions along time and over images, products over rows,
attention heads, elementwise chains, branches that are joined, pools, gates, norms over channels.
Each accepted program is verified bit by bit and compared with its source in float32.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from math import prod

import numpy as np

import tilewright as tw
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tape, Tensor, TensorType, _tapes
from tilewright.model.options import CompileOptions
from tilewright.runtime.verify import verify

ROOM = 30 * 1024  # data memory of the small machine without its stack
FAMILIES = ("time", "image", "rows", "heads", "chain", "joined", "pooled", "gated", "normed")


class Drawn:
    """A model that is being drawn."""

    def __init__(self, seed: int, family: str | None) -> None:
        self.rng = np.random.default_rng([seed, 77])
        self.tape = Tape([])
        self.factor = float(self.rng.uniform(0.4, 3.0))
        self.family = family or FAMILIES[int(self.rng.integers(len(FAMILIES)))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def weights(self, *shape: int) -> np.ndarray:
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 8
        return (self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)

    def wide(self, pixels: int, most: int = 64) -> int:
        """Channels that make a value of so many pixels as large as was drawn."""
        return max(2, min(most, round(self.factor * ROOM / 4 / pixels)))

    def activation(self, x: Tensor) -> Tensor:
        kind = self.number(0, 4)
        return (x.relu, x.tanh, x.sigmoid, lambda: x.clip(0.0, 6.0), lambda: x)[kind]()

    def convolution(
        self,
        x: Tensor,
        taps: tuple[int, int],
        filters: int,
        strides: tuple[int, int] = (1, 1),
        dilations: tuple[int, int] = (1, 1),
        groups: int = 1,
    ) -> Tensor:
        """With padding that keeps the size, or divides it by the strides, and a bias."""
        pads, out = [], []
        for size, tap, stride, dilation in zip(x.shape[1:3], taps, strides, dilations, strict=True):
            made = -(-size // stride)
            total = max((made - 1) * stride + (tap - 1) * dilation + 1 - size, 0)
            pads.append(f"[{total // 2}, {total - total // 2}]")
            out.append(made)
        w = tw.constant(self.weights(*taps, x.shape[3] // groups, filters))
        result = TensorType("f32", (x.shape[0], *out, filters))
        window = (
            f"stride = {list(strides)}, pad = [{', '.join(pads)}], rhs_dilate = {list(dilations)}"
        )
        made = x.tape.add(
            f"stablehlo.convolution({x.name}, {w.name}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
            f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
            f"({x.type}, {w.type}) -> {result}",
            result,
        )
        return made + self.weights(filters)

    def concatenate(self, parts: list[Tensor], axis: int) -> Tensor:
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        result = TensorType("f32", tuple(shape))
        names, types = ", ".join(p.name for p in parts), ", ".join(str(p.type) for p in parts)
        text = f"stablehlo.concatenate {names}, dim = {axis} : ({types}) -> {result}"
        return parts[0].tape.add(text, result)

    def part(self, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
        shape = tuple(stop - start if k == axis else n for k, n in enumerate(x.shape))
        ranges = [f"{start}:{stop}" if k == axis else f"0:{n}" for k, n in enumerate(x.shape)]
        result = TensorType("f32", shape)
        return x.tape.add(
            f"stablehlo.slice {x.name} [{', '.join(ranges)}] : ({x.type}) -> {result}", result
        )

    def pool(self, x: Tensor, size: int) -> Tensor:
        rows, columns = (max(1, (n - size) // size + 1) for n in x.shape[1:3])
        high = min(size, x.shape[1])
        result = TensorType("f32", (x.shape[0], rows, columns, x.shape[3]))
        scalar = TensorType("f32", ())
        kind, start = (("add", "0.0"), ("maximum", "0xFF800000"))[self.number(0, 1)]
        first = x.tape.add(f"stablehlo.constant dense<{start}> : {scalar}", scalar)
        return x.tape.add(
            f'"stablehlo.reduce_window"({x.name}, {first.name}) ({{^bb0(%a: {scalar}, %b: {scalar}):\n'
            f"      %r = stablehlo.{kind} %a, %b : {scalar}\n      stablehlo.return %r : {scalar} }}) "
            f"{{window_dimensions = array<i64: 1, {high}, {size}, 1>, "
            f"window_strides = array<i64: 1, {high}, {size}, 1>}} : ({x.type}, {scalar}) -> {result}",
            result,
        )

    def finish(self, x: Tensor) -> Tensor:
        """A few numbers from an image."""
        kind = self.number(0, 2)
        x = (x.mean(1, 2), x.max(1, 2), x.sum(1, 2))[kind]
        return x.matmul(self.weights(x.shape[1], 5)) + self.weights(5)

    # Families: the type of the input, and what is made of it

    def time(self):
        channels, steps = self.number(1, 4), self.number(100, 600)
        images = self.number(1, 2)

        def build(x: Tensor) -> Tensor:
            h = x.reshape(images, 1, steps, channels)
            for depth in range(self.number(2, 4)):
                filters = self.wide(prod(h.shape[:3]), 24) if depth == 0 else h.shape[3]
                taps, stride = (1, self.number(2, 7)), (1, self.number(1, 2))
                h = self.activation(
                    self.convolution(h, taps, filters, stride, (1, self.number(1, 3)))
                )
                if self.number(0, 1):
                    h = h + self.activation(self.convolution(h, (1, 3), filters, groups=h.shape[3]))
            if self.number(0, 1):
                return self.finish(h)
            h = h.reshape(images, h.shape[2], h.shape[3])
            h = h.max(1) if self.number(0, 1) else h.mean(1)
            return h.matmul(self.weights(h.shape[1], 6)).softmax()

        return TensorType("f32", (images, steps, channels)), build

    def image(self):
        shape = (self.number(1, 2), self.number(12, 32), self.number(12, 32), self.number(1, 2))

        def build(x: Tensor) -> Tensor:
            h = x
            for depth in range(self.number(2, 4)):
                filters = self.wide(prod(h.shape[:3]), 16) if depth == 0 else self.number(4, 16)
                taps = (self.number(1, 3), self.number(1, 3))
                strides = (self.number(1, 2), self.number(1, 2)) if depth else (1, 1)
                h = self.activation(self.convolution(h, taps, filters, strides))
                if self.number(0, 1):
                    h = h + self.activation(self.convolution(h, (3, 3), filters, groups=filters))
            return self.finish(h)

        return TensorType("f32", shape), build

    def rows(self):
        rows, width = self.number(10, 200), self.number(4, 16)

        def build(x: Tensor) -> Tensor:
            wide = self.wide(rows, 160)
            h = self.activation(x.matmul(self.weights(width, wide)) + self.weights(wide))
            if self.number(0, 1):
                h = h.softmax()
            if self.number(0, 1):
                h = h - h.mean(1).reshape(rows, 1).broadcast(h.shape)
            return x + self.activation(h.matmul(self.weights(wide, width)))

        return TensorType("f32", (rows, width)), build

    def heads(self):
        heads, steps, width = self.number(2, 4), self.number(16, 60), self.number(4, 8)
        steps = max(8, min(80, round((self.factor * ROOM / 4 / heads) ** 0.5)))

        def build(x: Tensor) -> Tensor:
            q, k, v = (
                x.matmul(self.weights(width, heads * width))
                .reshape(steps, heads, width)
                .transpose(1, 0, 2)
                for _ in range(3)
            )
            scores = q.matmul(k.transpose(0, 2, 1)) / float(np.sqrt(width))
            out = scores.softmax().matmul(v).transpose(1, 0, 2).reshape(steps, heads * width)
            return x + out.matmul(self.weights(heads * width, width))

        return TensorType("f32", (steps, width)), build

    def chain(self):
        rows = self.number(20, 400)
        columns = self.wide(rows, 400)

        def build(x: Tensor) -> Tensor:
            h = x.reshape(rows, 1).broadcast((rows, columns)) * self.weights(columns)
            h = (h.tanh() + self.weights(columns)).sigmoid()
            g = h - h.max(1).reshape(rows, 1).broadcast(h.shape)
            return (g * h).sum(1)

        return TensorType("f32", (rows,)), build

    def joined(self):
        shape = (1, self.number(10, 28), self.number(10, 28), self.number(1, 3))
        if self.number(0, 1):
            shape = (1, 1, self.number(100, 500), self.number(1, 4))

        def build(x: Tensor) -> Tensor:
            wide = self.wide(prod(x.shape[:3]), 24)
            tall = min(3, x.shape[1])
            branches = [
                self.activation(self.convolution(x, taps, max(1, wide // 3)))
                for taps in ((1, 1), (tall, 3), (1, 5))
            ]
            h = self.concatenate(branches, 3)
            h = self.activation(self.convolution(h, (1, 1), 8))
            return self.finish(h)

        return TensorType("f32", shape), build

    def pooled(self):
        shape = (1, self.number(12, 32), self.number(12, 32), self.number(1, 2))
        if self.number(0, 1):
            shape = (1, 1, self.number(100, 600), self.number(1, 3))

        def build(x: Tensor) -> Tensor:
            tall = min(3, x.shape[1])
            h = self.convolution(x, (tall, 3), self.wide(prod(x.shape[:3]), 16)).relu()
            h = self.pool(h, self.number(2, 3))
            h = self.convolution(h, (min(2, h.shape[1]), 3), self.number(4, 12)).relu()
            return self.finish(self.pool(h, 2) if min(h.shape[2:3]) > 2 else h)

        return TensorType("f32", shape), build

    def gated(self):
        shape = (1, 1, self.number(100, 500), self.number(1, 4))

        def build(x: Tensor) -> Tensor:
            wide = 2 * max(1, self.wide(prod(x.shape[:3]), 24) // 2)
            h = self.convolution(x, (1, 3), wide)
            for dilation in (1, 2):
                a = self.part(h, 3, 0, wide // 2).tanh()
                b = self.part(h, 3, wide // 2, wide).sigmoid()
                h = self.convolution(a * b, (1, 2), wide, (1, 1), (1, dilation)) + h
            return self.finish(h.relu())

        return TensorType("f32", shape), build

    def normed(self):
        shape = (1, self.number(10, 24), self.number(10, 24), self.number(1, 3))
        if self.number(0, 1):
            shape = (1, 1, self.number(100, 500), self.number(1, 4))

        def build(x: Tensor) -> Tensor:
            wide = self.wide(prod(x.shape[:3]), 24)
            h = self.convolution(x, (min(3, x.shape[1]), 3), wide)
            g = self.convolution(h, (1, 5), wide, groups=wide)
            kept = (*g.shape[:3], 1)
            g = g - g.mean(3).reshape(*kept).broadcast(g.shape)
            g = g / ((g * g).mean(3) + 1e-3).sqrt().reshape(*kept).broadcast(g.shape)
            h = h + self.activation(self.convolution(g, (1, 1), wide))
            return self.finish(h)

        return TensorType("f32", shape), build

    def module(self) -> str:
        kind, build = getattr(self, self.family)()
        _tapes.append(self.tape)
        try:
            result = build(Tensor(self.tape, "%x", kind))
        finally:
            _tapes.pop()
        body = "\n".join(self.tape.lines)
        text = f"func.func @main(%x: {kind}) -> {result.type} {{\n{body}\n"
        return f"{text}  return {result.name} : {result.type}\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="models that are larger than data memory")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="coral")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--int8", action="store_true", help="every second model quantised")
    chosen = parser.parse_args()
    began, outcomes = time.monotonic(), Counter[str]()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        drawn = Drawn(seed, chosen.family)
        imported = import_mlir(drawn.module(), f"{drawn.family}{seed}.mlir")
        quantize = "int8" if chosen.int8 and seed % 2 else None
        head = f"{seed:>5} {drawn.family:<8}{quantize or 'f32':<5}{drawn.factor:4.1f}x"
        options = CompileOptions(quantize=quantize, no_host=True, seed=seed)
        try:
            made = compile_imported(imported, chosen.target, options)
        except TilewrightError as error:
            outcomes["refused"] += 1
            print(f"{head} REFUSED {str(error).splitlines()[0][:230]}", flush=True)
            continue
        source = made.artifact.emit("c").decode()
        ways = [
            n for n, mark in (("rows", "k_rows_"), ("parts", "/* the part */")) if mark in source
        ]
        found = verify(made, seed=seed, original=imported)
        outcomes["verified" if found.ok else "wrong"] += 1
        outcomes["tiled"] += bool(ways)
        said = f"{'+'.join(ways) or 'whole':<11} {found.cycles:>11,} cycles"
        print(f"{head} {'verified' if found.ok else 'WRONG'} {said}", flush=True)
    spent = time.monotonic() - began
    print(f"{chosen.count} models in {spent:.0f} s: {dict(outcomes)}; Tilewright {tw.__version__}")
    return 1 if outcomes["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
