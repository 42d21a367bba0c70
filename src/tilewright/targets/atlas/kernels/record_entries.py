"""Kernels of the library that are kernels of whole models on one matrix: a record with options.

A record works on a batch, [B, M, N], the library on [M, N]: the same body runs on tensors that seem
to have a batch of one. Names of parameters are the library's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.types import TensorSpec

BATCH = "B"
EPSILON = 1e-6  # of norms


@dataclass(frozen=True)
class RecordEntry:
    """What a kernel of the library is. names: its parameters -> those of the record."""

    doc: str
    record: str
    options: Mapping[str, Any]
    names: Mapping[str, str]

    def kernel(self, name: str) -> Kernel:
        """The kernel, under a name of the library."""
        made = RECORDS[self.record].build(self.options)
        specs = {own: self._without_batch(made.specs[role]) for own, role in self.names.items()}

        def run(**tensors: Any) -> None:
            made.function(
                **{
                    role: tensors[own]
                    if specs[own] == made.specs[role]
                    else OneMatrix(tensors[own])
                    for own, role in self.names.items()
                }
            )

        run.__doc__ = self.doc
        return kernel_of(name, specs, run)

    def exact(self, profile: Profile, *codes: np.ndarray) -> np.ndarray:
        """What it computes, bit for bit, by the reference of the record."""
        record = RECORDS[self.record]
        specs = record.build(self.options).specs
        operands = {
            role: x if self._without_batch(specs[role]) == specs[role] else x[None]
            for x, role in zip(codes, self.names.values(), strict=False)
        }
        out = record.compute(profile, self.options, operands)["out"]
        return np.array(out[0])

    def _without_batch(self, spec: TensorSpec) -> TensorSpec:
        alone = spec.sizes[0] == BATCH
        return replace(spec, sizes=spec.sizes[1:]) if alone else spec


class OneMatrix:
    """A tensor [M, N] as [1, M, N]."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.B, self.shape = tensor, 1, (1, *tensor.shape)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)

    def __getitem__(self, place: tuple[Any, ...]) -> Any:
        return self.tensor[place[1:]]

    def __setitem__(self, place: tuple[Any, ...], value: Any) -> None:
        self.tensor[place[1:]] = value


def elementwise(doc: str, inputs: str, *program: list[Any], out: str = "bf16") -> RecordEntry:
    """Operations on whole matrices, element by element."""
    names = inputs.split()
    options = {
        "inputs": [[name, "full"] for name in names], "program": list(program), "out": out,
        "guarded": False,
    }  # fmt: skip
    return RecordEntry(doc, "pointwise", options, {name: name for name in (*names, "out")})


def function(doc: str, name: str) -> RecordEntry:
    """A function of every element."""
    return elementwise(doc, "x", [name, "y", ["x"]])


def operation(doc: str, name: str) -> RecordEntry:
    """An operation on the elements of two matrices."""
    return elementwise(doc, "a b", [name, "y", ["a", "b"]])


def norm(doc: str, kind: str, *rows: str) -> RecordEntry:
    """A norm of rows, times and plus a row."""
    options = {"kind": kind, "epsilon": EPSILON, "out": "bf16", "guarded": False, "passes": True}
    names = {name: name for name in ("x", *rows, "out")}
    return RecordEntry(doc, "norm", {**options, **dict.fromkeys(rows, True)}, names)


def product(doc: str, *more: str, out: str = "bf16", activation: str | None = None) -> RecordEntry:
    """A product of matrices and what follows it: more are `scale`, `bias` and `residual`."""
    options = {"out": out, "blocks": True, "activation": activation, **dict.fromkeys(more, True)}
    names = {"a": "a", "b": "w", **{name: name for name in (*more, "out")}}
    return RecordEntry(doc, "linear", options, names)


RECORD_ENTRIES: dict[str, RecordEntry] = {
    "elementwise_add": operation("a + b", "add"),
    "elementwise_sub": operation("a - b", "sub"),
    "elementwise_mul": operation("a * b", "mul"),
    "elementwise_div": operation("a times the rounded reciprocal of b", "div"),
    "elementwise_max": operation("the larger of a and b", "max"),
    "elementwise_min": operation("the smaller of a and b", "min"),
    "silu": function("x / (1 + exp(-x))", "silu"),
    "silu_gate": elementwise(
        "silu(gate) * up", "gate up", ["silu", "open", ["gate"]], ["mul", "y", ["open", "up"]]
    ),
    "gelu_tanh": function("x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))", "gelu_tanh"),
    "cos": function("cos(x), also known as rope_frequency", "cos"),
    "exp": function("e to the x", "exp"),
    "tanh": function("tanh(x)", "tanh"),
    "sigmoid": function("1 / (1 + exp(-x))", "sigmoid"),
    "relu": function("x where positive, else 0", "relu"),
    "norm_scale": elementwise(
        "matrix / sqrt(variance)", "variance matrix",
        ["rsqrt", "scale", ["variance"]], ["mul", "y", ["matrix", "scale"]],
    ),
    "vector_arithmetic": elementwise(
        "((x + x) - x)^2 * x^3", "x",
        ["add", "twice", ["x", "x"]], ["sub", "once", ["twice", "x"]],
        ["square", "squared", ["once"]], ["cube", "cubed", ["x"]],
        ["mul", "y", ["squared", "cubed"]],
    ),
    "bias_add_cast": elementwise("fp8 of x + bias", "x bias", ["add", "y", ["x", "bias"]], out="fp8"),
    "softmax": RecordEntry("exp(x - row maximum) over its row sum", "softmax", {"passes": True}, {"x": "x", "out": "out"}),
    "rms_norm": norm("x / sqrt(mean of x^2 + 1e-6), row by row", "rms"),
    "rms_norm_weight": norm("rms_norm(x) * weight", "rms", "weight"),
    "layer_norm": norm("(x - mean) / sqrt(variance + 1e-6) * weight + bias, row by row", "layer", "weight", "bias"),
    "matmul": product("a @ b"),
    "linear": product("a @ b + bias, the bias one row", "bias"),
    "linear_residual": product("a @ b + bias + residual", "bias", "residual"),
    "linear_gelu": product("gelu(a @ b + bias)", "bias", activation="gelu_tanh"),
    "linear_silu": product("silu(a @ b + bias)", "bias", activation="silu"),
    "matmul_requant": product("fp8 of a @ b", out="fp8"),
    "linear_scaled": product("(a @ b) * scale + bias, a scale and a bias for each column", "scale", "bias"),
    "linear_requant": product(
        "fp8 of (a @ b) * scale + bias, a scale and a bias for each column", "scale", "bias", out="fp8"
    ),
    "matmul_bias": RecordEntry(
        "a @ b + bias, the bias a full matrix (or a residual)", "linear",
        {"out": "bf16", "blocks": True, "residual": True}, {"a": "a", "b": "w", "bias": "residual", "out": "out"},
    ),
}  # fmt: skip
