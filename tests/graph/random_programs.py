"""Random models as data: values, operations on them, outputs; independent of any framework.

A program is small enough to print, to run on numpy in float64, to write as source (see
random_sources.py) and to shrink. Its numbers follow from its seed and the names of its values, so
what remains of a program after shrinking keeps the numbers it had.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from random_layers import OPERATIONS
from random_operations import Array, Options, Rounding

EXACT = Rounding()
ALONG = ("batch_norm", "add", "relu", "silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "hardswish", "clamp")  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """An input or a weight: its shape and what its numbers are like.

    normal: of standard deviation `gain`; near_one, positive: weights and variances of norms; ids:
    integers below `limit`; positions: ascending from `limit`; mask: bools, most of them true, at
    least one in every row; causal: a triangle; frequencies, cos, sin: tables of rotary embeddings
    format: in which floats are given, float32, bfloat16 or float16; arrays here are float32 that
    the format holds exactly
    """

    shape: tuple[int, ...]
    kind: str = "normal"
    gain: float = 1.0
    limit: int = 0
    format: str = "float32"

    def draw(self, seed: int, name: str, sample: int = 0) -> Array:
        array = self._drawn(seed, name, sample)
        if array.dtype.kind != "f" or self.format == "float32":
            return array
        if self.format == "float16":
            return array.astype(np.float16).astype(np.float32)
        bits = array.view(np.uint32)  # bfloat16: the upper half, to nearest even
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)

    def _drawn(self, seed: int, name: str, sample: int) -> Array:
        random = np.random.default_rng([seed, zlib.crc32(name.encode()), sample])
        shape = self.shape
        if self.kind == "ids":
            return random.integers(0, self.limit, shape)
        if self.kind == "positions":
            return np.broadcast_to(np.arange(shape[-1]) + random.integers(0, self.limit + 1), shape)
        if self.kind == "mask":
            mask = random.random(shape) < 0.8
            mask[..., 0] = True
            return mask
        if self.kind == "causal":
            return np.tri(*shape, dtype=bool)
        if self.kind in ("frequencies", "cos", "sin"):
            half = -(-shape[-1] // 2) if self.kind != "frequencies" else shape[-1]
            wave = 1000.0 ** (-np.arange(half) / half)
            if self.kind == "frequencies":
                return wave.astype(np.float32)
            angle = np.arange(shape[-2])[:, None] * np.concatenate([wave, wave])[: shape[-1]]
            return getattr(np, self.kind)(angle).astype(np.float32)
        noise = random.standard_normal(shape)
        if self.kind == "near_one":
            return (1 + 0.2 * noise).astype(np.float32)
        if self.kind == "positive":
            return (0.6 + np.abs(noise)).astype(np.float32)
        return (self.gain * noise).astype(np.float32)


@dataclass(frozen=True)
class Node:
    """One operation on values by name."""

    operation: str
    operands: tuple[str, ...]
    result: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class RandomProgram:
    """A model: inputs, weights, operations in order, outputs (any values, also inputs).

    format: in which floats the model computes; inputs and weights have formats of their own, and
    where they differ the model casts them first
    """

    seed: int
    inputs: Mapping[str, Spec]
    weights: Mapping[str, Spec]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    style: str = "functions"  # how torch holds weights: functions, modules or digits
    format: str = "float32"

    def arrays(self, sample: int) -> dict[str, Array]:
        """Inputs of a sample."""
        return {name: spec.draw(self.seed, name, sample) for name, spec in self.inputs.items()}

    def parameters(self) -> dict[str, Array]:
        return {name: spec.draw(self.seed, name) for name, spec in self.weights.items()}

    def run(self, sample: int, rounding: Rounding = EXACT) -> dict[str, Array]:
        """All values, in float64."""
        values = {k: _wide(v) for k, v in (self.parameters() | self.arrays(sample)).items()}
        images = _images(self) if rounding is not EXACT else {}
        for node in self.nodes:
            if node.result in images:
                given = {name: _image(values[name], rounding) for name in node.operands}
                result = evaluate(node, given, rounding)
                values[node.result] = rounding.fp8(result) if images[node.result] else result
            else:
                values[node.result] = evaluate(node, values, rounding)
        return values


def _images(program: RandomProgram) -> dict[str, bool]:
    """Results that belong to a network over images, and whether anything reads them.

    Such a network keeps its images as fp8: what convolutions and poolings make, and sums and
    activations of it.
    """
    found: dict[str, bool] = {}
    for node in program.nodes:
        read = [name for name in node.operands if name in found]
        chain = bool(read) and node.operation in ALONG
        if node.operation in ("conv", "pool") or chain:
            found[node.result] = False
        for name in read:
            found[name] = True
    return found


def _image(array: Array, rounding: Rounding) -> Array:
    return rounding.fp8(array) if array.ndim == 4 and array.dtype.kind == "f" else array


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def evaluate(node: Node, values: Mapping[str, Array], rounding: Rounding = EXACT) -> Array:
    """What a node computes."""
    operands = [values[name] for name in node.operands]
    with np.errstate(all="ignore"):
        return np.asarray(OPERATIONS[node.operation].meaning(rounding, operands, node.options))


def tidied(program: RandomProgram, outputs: tuple[str, ...] | None = None) -> RandomProgram:
    """The program without what its outputs do not need; inputs that nothing reads stay out too."""
    wanted = set(program.outputs if outputs is None else outputs)
    kept: list[Node] = []
    for node in reversed(program.nodes):
        if node.result in wanted:
            kept.append(node)
            wanted.update(node.operands)
    return replace(
        program,
        inputs={name: spec for name, spec in program.inputs.items() if name in wanted},
        weights={name: spec for name, spec in program.weights.items() if name in wanted},
        nodes=tuple(reversed(kept)),
        outputs=program.outputs if outputs is None else outputs,
    )


def describe(program: RandomProgram) -> str:
    """One line per value."""
    shapes = {name: value.shape for name, value in program.run(0).items()}
    lines = [f"{n}: {s.kind} {list(s.shape)} {s.format}" for n, s in program.inputs.items()]
    if program.format != "float32":
        lines.insert(0, f"computes in {program.format}")
    for node in program.nodes:
        options: dict[str, Any] = node.options
        extra = "".join(f", {k}={v}" for k, v in options.items())
        what = f"{node.operation}({', '.join(node.operands)}{extra})"
        lines.append(f"{node.result} = {what}: {list(shapes[node.result])}")
    return "\n".join([*lines, f"return {', '.join(program.outputs)}"])
