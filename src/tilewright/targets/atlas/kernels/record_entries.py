"""Kernels of the library that are kernels of whole models: a record with options.

A record works on a batch, [B, M, N], the library on [M, N]: the same body runs on tensors that seem
to have a batch of one. Names of parameters and sizes are the library's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.targets.atlas.model.blocking import cut
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.layouts import SIDE
from tilewright.tile.types import TensorSpec

Size = str | int
MATRIX = {"B": "", "L": 1}  # sizes of records -> those of the library: one matrix has no batch
BATCH: dict[str, Size] = {}  # all as they are
REDUCED = {**MATRIX, "K": "N"}
HEADS = {"B": "G", "H": "R", "G": "", "S": "N"}  # a batch of groups, each of one head of keys
EPSILON = 1e-6  # of norms
KEYS = 4  # tiles of keys at a time, where there may be any number of them
HALF = SIDE // 2  # columns of a result that is kept in halves of tiles


@dataclass(frozen=True)
class RecordEntry:
    """What a kernel of the library is. names: its parameters -> those of the record. sizes: of the
    record -> its own, where they are called otherwise or are a number; without a name one is 1, and
    left out. halves: the result, one number of every row, is kept in equal columns, as left halves
    of tiles. chosen: options that depend on the sizes of tensors and on the machine, of which
    neither results nor parameters do."""

    doc: str
    record: str
    options: Mapping[str, Any]
    names: Mapping[str, str]
    sizes: Mapping[str, Size] = field(default_factory=lambda: MATRIX)
    halves: bool = False
    chosen: Callable[[Mapping[str, Any], Profile], Mapping[str, Any]] | None = None

    def kernel(self, name: str) -> Kernel:
        """The kernel, under a name of the library."""
        record = RECORDS[self.record]
        made = record.build(self.options)
        specs = {own: self._spec(made.specs[role]) for own, role in self.names.items()}
        if self.halves:
            specs["out"] = replace(specs["out"], sizes=(*specs["out"].sizes[:-1], HALF)).halves()

        def run(**tensors: Any) -> None:
            sized = made
            if self.chosen is not None:
                more = self.chosen(tensors, active_profile())
                sized = record.build({**self.options, **more})
            sized.function(
                **{
                    role: AsRecord(tensors[own], made.specs[role], self.sizes)
                    for own, role in self.names.items()
                }
            )

        run.__doc__ = self.doc
        return kernel_of(name, specs, run)

    def exact(self, profile: Profile, *codes: np.ndarray) -> np.ndarray:
        """What it computes, bit for bit, by the reference of the record."""
        record = RECORDS[self.record]
        left_out = {
            role: left_out_of(spec, self.sizes)
            for role, spec in record.build(self.options).specs.items()
        }
        operands = {
            role: np.expand_dims(x, left_out[role])
            for x, role in zip(codes, self.names.values(), strict=False)
        }
        out = record.compute(profile, self.options, operands)["out"].squeeze(left_out["out"])
        return np.repeat(out, HALF, axis=-1) if self.halves else np.array(out)

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        """A parameter of the record as the library has it."""
        names = (
            self.sizes.get(size, size) if isinstance(size, str) else size for size in spec.sizes
        )
        return replace(spec, sizes=tuple(size for size in names if size != ""))


def left_out_of(spec: TensorSpec, sizes: Mapping[str, Size]) -> tuple[int, ...]:
    """The dimensions of a parameter of a record that the library does not have."""
    return tuple(k for k, size in enumerate(spec.sizes) if sizes.get(str(size)) == "")


class AsRecord:
    """A tensor of the library as a record sees it: with the dimensions of 1, by the names of its sizes."""

    def __init__(self, tensor: Any, spec: TensorSpec, sizes: Mapping[str, Size]) -> None:
        self.tensor, self.sizes = tensor, sizes
        self.left_out = left_out_of(spec, sizes)
        shape = list(tensor.shape)
        for k in self.left_out:
            shape.insert(k, 1)
        self.shape = tuple(shape)

    def __getattr__(self, name: str) -> Any:
        own = self.sizes.get(name, name)
        return getattr(self.tensor, own) if isinstance(own, str) and own else 1

    def __getitem__(self, place: Any) -> Any:
        return self.tensor[self._own(place)]

    def __setitem__(self, place: Any, value: Any) -> None:
        self.tensor[self._own(place)] = value

    def _own(self, place: Any) -> Any:
        if not self.left_out:
            return place
        return tuple(part for k, part in enumerate(place) if k not in self.left_out)


def elementwise(doc: str, inputs: str, *program: list[Any], out: str = "bf16") -> RecordEntry:
    """Operations element by element: on whole matrices, or `name:row` and `name:column` repeated."""
    spread = [name.partition(":") for name in inputs.split()]
    options = {
        "inputs": [[name, kind or "full"] for name, _, kind in spread], "program": list(program),
        "out": out, "guarded": False,
    }  # fmt: skip
    names = {name: name for name in (*(name for name, _, _ in spread), "out")}
    return RecordEntry(doc, "pointwise", options, names)


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


def batched(doc: str, right: str, sizes: Mapping[str, Size]) -> RecordEntry:
    """A product of two activations, b plain or transposed."""
    options = {"left": "plain", "right": right, "out": "bf16", "blocks": True}
    return RecordEntry(doc, "product", options, {name: name for name in ("a", "b", "out")}, sizes)


def parts_of_rows(tensors: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    """How a product is cut that is too large for the chip, as in whole models."""
    a, out = tensors["a"], tensors["out"]
    found = cut(out.M, a.K, out.N, profile, sums=False)
    return {"rows": found.rows if found else None}


def reduction(doc: str, kind: str) -> RecordEntry:
    """One number of every row."""
    options = {"kind": kind, "along": "row", "passes": True}
    return RecordEntry(doc, "reduce", options, {"x": "x", "out": "out"}, REDUCED, halves=True)


def attention(
    doc: str, mask: str | None = None, *more: str, keys: int | None = None
) -> RecordEntry:
    """Attention of whole heads; more: names of other operands. keys: so many tiles at a time."""
    names = {name: name for name in ("q", "kt", "v", *more, "out")}
    options = {"mask": mask, "out": "bf16", "keys": keys}
    return RecordEntry(doc, "attention", options, names, HEADS)


RECORD_ENTRIES: dict[str, RecordEntry] = {
    "attention": attention("softmax(q @ kt) @ v for every head"),
    "attention_causal": attention(
        "Attention in which the last query sees all keys, the one before all but the last, …", "causal"
    ),
    "attention_key_mask": attention(
        "Attention with a number added to all scores of a key (0, or -3e38 to hide it)", "key", "mask"
    ),
    "attention_mask": attention(
        "Attention with a number added to every score (0, or -3e38 to hide a key from a query)", "full", "mask"
    ),
    "attention_flash": attention(
        "softmax(q @ kt) @ v with a running maximum: any number of keys", keys=KEYS
    ),
    "attention_flash_causal": attention(
        "attention_flash in which the last query sees all keys, the one before all but the last, …",
        "causal", keys=KEYS,
    ),
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
    "add_row": elementwise("a + row, the row repeated for each row of a", "a row:row", ["add", "y", ["a", "row"]]),
    "mul_row": elementwise("a * row, the row repeated for each row of a", "a row:row", ["mul", "y", ["a", "row"]]),
    "add_column": elementwise(
        "a + column, the column repeated for each column of a", "a column:column", ["add", "y", ["a", "column"]]
    ),
    "mul_column": elementwise(
        "a * column, the column repeated for each column of a", "a column:column", ["mul", "y", ["a", "column"]]
    ),
    "requant": RecordEntry("fp8 of x, saturating at 448", "quantise", {}, {"x": "x", "out": "out"}),
    "requant_channels": elementwise(
        "fp8 of x * scale, a scale for each column", "x scale:row", ["mul", "y", ["x", "scale"]], out="fp8"
    ),
    "requant_rows": elementwise(
        "fp8 of x * scale, a scale for each row", "x scale:column", ["mul", "y", ["x", "scale"]], out="fp8"
    ),
    "reduction_sum": reduction("the sum of each row, in 16 equal columns", "sum"),
    "reduction_max": reduction("the largest of each row, in 16 equal columns", "max"),
    "reduction_mean": reduction("the mean of each row, in 16 equal columns", "mean"),
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
    "matmul_transposed": batched("a @ b.T, b stored row by row", "transposed", MATRIX),
    "batch_matmul": batched("a[i] @ b[i] for each i", "plain", BATCH),
    "gemm": RecordEntry(
        "a @ b, b in column panels, cut into as few parts as the chip has room for", "linear", {"out": "bf16"},
        {"a": "a", "b": "w", "out": "out"}, chosen=parts_of_rows,
    ),
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
