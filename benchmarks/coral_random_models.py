"""Random small models on Coral by the public path: compiled, verified, and against their source.

python benchmarks/coral_random_models.py [--count 20] [--seed 0] [--target coral]

Models are written in the model language: perceptrons, convolution stacks with skips, one-dimensional
convolutions, attention blocks, gated cells; sizes, strides, paddings, activations and number formats
are drawn. Each is compiled, verified bit by bit, and compared with the reference executor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

import tilewright as tw
from tilewright.compiling import compile_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.model_language import Tape, Tensor, TensorType, _tapes
from tilewright.model.options import CompileOptions
from tilewright.runtime.verify import verify

FEW_BYTES = ("TW5030", "TW5012")


class Drawn:
    """A model that is being drawn."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tape = Tape([])

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def weights(self, *shape: int) -> np.ndarray:
        fan = int(np.prod(shape[:-1])) if len(shape) > 1 else 8
        return (self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32)

    def activation(self, x: Tensor) -> Tensor:
        kind = self.number(0, 5)
        choices = (x.relu, x.tanh, x.sigmoid, lambda: x.clip(0.0, 6.0), lambda: x * x.sigmoid())
        return x if kind == 5 else choices[kind]()

    def perceptron(self) -> tuple[TensorType, object]:
        rows, width = self.number(1, 5), self.number(3, 70)

        def build(x: Tensor) -> Tensor:
            wide = width
            for _ in range(self.number(1, 4)):
                narrow = self.number(2, 48)
                x = self.activation(x.matmul(self.weights(wide, narrow)) + self.weights(narrow))
                wide = narrow
            return x.softmax() if self.number(0, 1) else x

        return TensorType("f32", (rows, width)), build

    def images(self) -> tuple[TensorType, object]:
        shape = (self.number(1, 2), self.number(6, 20), self.number(5, 20), self.number(1, 4))

        def build(x: Tensor) -> Tensor:
            for _ in range(self.number(1, 4)):
                channels, filters = x.shape[3], self.number(2, 20)
                kernel = (min(self.number(1, 4), x.shape[1]), min(self.number(1, 3), x.shape[2]))
                strides = (self.number(1, 2), self.number(1, 2))
                h = x.conv2d(self.weights(*kernel, channels, filters), strides)
                h = self.activation(h + self.weights(filters))
                if self.number(0, 1):
                    depth = h.conv2d(self.weights(3, 3, 1, filters), groups=filters)
                    h = h + self.activation(depth)
                x = h
            kind = self.number(0, 2)
            if kind == 0:
                return x
            x = x.mean(1, 2) if kind == 1 else x.max(1, 2)
            return x.matmul(self.weights(x.shape[1], 7)) + self.weights(7)

        return TensorType("f32", shape), build

    def sequence(self) -> tuple[TensorType, object]:
        steps, width = self.number(4, 30), self.number(3, 16)

        def build(x: Tensor) -> Tensor:
            h = x.reshape(1, 1, steps, width)
            for _ in range(self.number(1, 3)):
                filters = self.number(3, 24)
                h = h.conv2d(self.weights(1, self.number(1, 5), h.shape[3], filters))
                h = self.activation(h + self.weights(filters))
            return h.reshape(1, steps, h.shape[3]).max(1)

        return TensorType("f32", (1, steps, width)), build

    def attention(self) -> tuple[TensorType, object]:
        steps, width = self.number(2, 10), 4 * self.number(2, 6)

        def build(x: Tensor) -> Tensor:
            q, k, v = (x.matmul(self.weights(width, width)) for _ in range(3))
            scores = q.matmul(k.transpose(1, 0)) / float(np.sqrt(width))
            x = x + scores.softmax().matmul(v)
            mean = x.mean(1).reshape(steps, 1)
            x = x - mean
            h = self.activation(x.matmul(self.weights(width, 2 * width)) + self.weights(2 * width))
            return x + h.matmul(self.weights(2 * width, width))

        return TensorType("f32", (steps, width)), build

    def gated(self) -> tuple[TensorType, object]:
        steps, width, hidden = self.number(2, 5), self.number(2, 10), self.number(2, 12)

        def build(x: Tensor) -> Tensor:
            weights = [self.weights(width + hidden, hidden) for _ in range(3)]
            h = x.matmul(np.zeros((width, hidden), np.float32))  # of every step, zeros
            state = h
            for _ in range(steps):
                z = (x.matmul(weights[0][:width]) + state.matmul(weights[0][width:])).sigmoid()
                r = (x.matmul(weights[1][:width]) + state.matmul(weights[1][width:])).sigmoid()
                n = (x.matmul(weights[2][:width]) + (r * state).matmul(weights[2][width:])).tanh()
                state = (1.0 - z) * n + z * state
            return state

        return TensorType("f32", (self.number(1, 3), width)), build

    def module(self) -> tuple[str, str]:
        """The family of the model, and its StableHLO."""
        families = ("perceptron", "images", "images", "sequence", "attention", "gated")
        family = families[self.number(0, len(families) - 1)]
        kind, build = getattr(self, family)()
        _tapes.append(self.tape)
        try:
            result = build(Tensor(self.tape, "%x", kind))
        finally:
            _tapes.pop()
        body = "\n".join(self.tape.lines)
        text = f"func.func @main(%x: {kind}) -> {result.type} {{\n{body}\n"
        return family, f"{text}  return {result.name} : {result.type}\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="random small models on Coral")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="coral")
    chosen = parser.parse_args()
    began, outcomes = time.monotonic(), Counter[str]()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        family, text = Drawn(seed).module()
        quantize = "int8" if seed % 2 else None
        imported = import_mlir(text, f"{family}{seed}.mlir")
        head = f"{seed:>5} {family:<11}{quantize or 'f32':<5}"
        options = CompileOptions(quantize=quantize, no_host=True, seed=seed)
        try:
            try:
                made = compile_imported(imported, chosen.target, options)
            except TilewrightError as error:
                if error.code not in FEW_BYTES or chosen.target != "coral":
                    raise
                print(f"{head} {error.message.splitlines()[0][:110]}")
                outcomes["too large for coral"] += 1
                made = compile_imported(imported, "coral-highmem", options)
            found = verify(made, seed=seed, original=imported)
        except TilewrightError as error:
            outcomes["refused"] += 1
            print(f"{head} REFUSED {str(error).splitlines()[0][:150]}")
            continue
        outcomes["verified" if found.ok else "wrong"] += 1
        error = found.outputs[0].accuracy
        far = f"relative error {error.relative:.1e}" if error else ""
        print(f"{head} {'verified' if found.ok else 'WRONG'} {found.cycles:>10,} cycles {far}")
    spent = time.monotonic() - began
    print(f"{chosen.count} models in {spent:.0f} s: {dict(outcomes)}; Tilewright {tw.__version__}")
    return 1 if outcomes["wrong"] or outcomes["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
