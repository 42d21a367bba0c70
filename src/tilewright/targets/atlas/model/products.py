"""Lowering of products and the norms before them: fp8 operands, folded weights, what follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node, dtype_of, shape_of
from tilewright.model.fold_layers import common_prefix
from tilewright.model.smooth import SMOOTHED
from tilewright.targets.atlas.model.blocking import (
    Cut,
    below_each_other,
    cut,
    most_together,
    padded,
    rows_pass_by,
    staged_rows,
    weights_wait,
)
from tilewright.targets.atlas.model.calls import (
    ONE,
    Factor,
    Normed,
    Tensor,
    Unsupported,
    inverse_of,
    scale_of,
)
from tilewright.targets.atlas.model.kernels import LOW
from tilewright.targets.atlas.model.matching import Linear
from tilewright.tile.layouts import SIDE, Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

FLOATS = ("f32", "bf16", "f16", "f64")
SMALLEST = 2.0**-126  # the smallest normal number of bf16


class Products:
    """Makes the calls of linear layers, gates and norms."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering

    def emit_linear(
        self, linear: Linear, value: SSAValue, dtype: str, residual: SSAValue | None = None
    ) -> Tensor:
        a, weight, offset, factor, heads = self.operand(linear)
        batch, rows, columns = self.at.canonical(shape_of(value))
        bias = linear.bias
        if offset is not None:
            bias = offset if bias is None else bias + offset
        operands, channel = {"a": a}, self.at.channel_scales(weight)
        target = self.at.magnitude(value) if dtype == "fp8" else None
        early = target is not None and linear.activation is None  # the result's scale folds in

        share = inverse_of(target if early else None)
        options: dict[str, Any] = {}
        kept = self.at.kept(linear.name)
        parts, stacked = self._cut(a, (batch, rows), weight.shape, sums=not kept, heads=heads)
        if stacked:
            options["stacked"] = True
        apart = heads and not kept and batch > 1 and parts is not None and rows <= parts.rows
        if apart and weights_wait(rows, self.at.profile):
            options["matrices"] = self._together(batch, rows, weight.shape)
        other = batch * rows * columns * (1 + (dtype == "bf16") + 2 * (residual is not None))
        if (
            parts is not None
            and not kept
            and (batch == 1 or stacked)
            and rows_pass_by(
                stacked or rows, weight.shape[0], columns, other, parts.rows, self.at.profile
            )
        ):
            options["resident"] = True
        elif parts is not None:
            options["rows"] = parts.rows
            if parts.depth:
                options["depth"] = parts.depth
        operands["w"] = self.at.weight(
            f"{linear.name}.weight",
            Layout(weight.shape, "fp8", "tiles" if "depth" in options else "panels"),
            weight,
            channel,
        )
        if kept:
            fixed = heads or (linear.x, "flat") in self.at.forms  # fp8 to begin with
            options["precise"] = "weights" if fixed else "both"
            operands |= self._left_out(linear, a, weight / channel, fixed)
        operands["scale"] = self.at.weight(
            f"{linear.name}.scale",
            Layout((columns,), "bf16"),
            channel,
            factor=factor * share,
        )
        if bias is not None:
            operands["bias"] = self.at.weight(
                f"{linear.name}.bias", Layout((columns,), "bf16"), bias, factor=share
            )
        if residual is not None:
            operands["residual"] = self.at.bf16(residual)
        out = self.at.activation(
            self.at.hint(value), (batch, rows, columns), dtype, value=value, scale=target
        )
        deferred = {}
        if target is not None and not early:
            deferred["factor"] = inverse_of(target)
        nodes = linear.nodes
        if residual is not None:
            nodes = (*nodes, self.at.graph.definition[value])
        macs = batch * rows * weight.size
        return self.at.call(
            linear.name, "linear", operands, out, nodes, macs, deferred,
            out=dtype, scale=True, bias=bias is not None, residual=residual is not None,
            activation=linear.activation, heads=heads, **options,
        )  # fmt: skip

    def _cut(
        self, a: Tensor, matrices: tuple[int, int], weight: tuple[int, ...], sums: bool, heads: bool
    ) -> tuple[Cut | None, int]:
        """How the rows of a batch are cut, and how many there are below each other if all matrices
        are one to the kernel: that is so where nothing is between them, or they do not fit."""
        (batch, rows), (deep, columns) = matrices, weight
        if heads:  # matrix by matrix
            parts = cut(rows, deep, columns, self.at.profile, sums=False)
            all_fit = cut(batch * padded(rows), deep, columns, self.at.profile, sums=False) is None
            return (parts, 0) if parts or all_fit else (Cut(padded(rows)), 0)
        stacked = below_each_other(batch, rows, a.layout)
        parts = cut(stacked or rows, deep, columns, self.at.profile, sums)
        return parts, stacked if parts or rows % SIDE == 0 else 0

    def _together(self, batch: int, rows: int, weight: tuple[int, ...]) -> int:
        """How many matrices of a batch are on chip while weights pass by."""
        deep, columns = weight
        return most_together(
            batch, lambda n: not cut(n * padded(rows), deep, columns, self.at.profile, sums=False)
        )

    def _left_out(
        self, linear: Linear, a: Tensor, weight: np.ndarray, fixed: bool
    ) -> dict[str, Tensor]:
        """What rounding to fp8 leaves out of a product's operands, LOW times larger."""
        high = weight.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        found = {
            "w_low": self.at.weight(
                f"{linear.name}.weight.low",
                Layout(weight.shape, "fp8", "panels"),
                weight - high,
                factor=Factor(LOW),
            )
        }
        if fixed:  # heads of attention, pixels of images
            return found

        def make() -> Tensor:
            x, scale = self.at.bf16(linear.x), a.scale
            assert scale is not None
            out = self.at.activation(f"{a.name}.low", a.layout.shape, "fp8", value=linear.x)
            deferred = {"factor": inverse_of(scale)}
            operands = {"x": x, "high": a}
            return self.at.call(f"{a.name} residue", "residue", operands, out, (), 0, deferred)

        return {**found, "a_low": self.at.remembered((linear.x, "low"), make)}

    def operand(
        self, linear: Linear, merged: bool = True
    ) -> tuple[Tensor, np.ndarray, np.ndarray | None, Factor, bool]:
        """The product's left operand as fp8, the weight that fits it, a row to add to the bias,
        the factor between what the operand holds and its values, and whether it is in heads, which
        it never is without `merged`."""
        weight = linear.weight
        try:
            heads = self.at.heads.merged(linear.x) if merged else None
        except Unsupported:  # the host attends, the product stays here
            heads = None
        if heads is not None:
            tensor, scale, width = heads
            count = tensor.layout.shape[1]
            rows = weight.reshape(count, width, -1)
            wide = np.zeros((count, tensor.layout.shape[-1], rows.shape[-1]), np.float32)
            wide[:, :width] = rows
            return tensor, wide.reshape(-1, rows.shape[-1]), None, scale_of(scale), True
        flat = self.at.images.flattened(linear.x, weight)
        if flat is not None:
            tensor, weight = flat
            assert tensor.scale is not None
            return tensor, weight, None, scale_of(tensor.scale), False
        norm = self.at.graph.node_of(linear.x, "rms_norm", "layer_norm")
        if norm is not None and self._folds(norm):
            tensor = self.at.remembered((linear.x, "normed"), lambda: self.norm(norm, "fp8"))
            assert tensor.scale is not None
            weight, offset = self._folded(norm, weight)
            return tensor, weight, offset, scale_of(tensor.scale), False
        tensor = self.at.fp8(linear.x)
        assert tensor.scale is not None
        return tensor, weight, None, scale_of(tensor.scale), False

    def _folded(self, norm: Node, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The weight of a product that follows a norm with the norm's own weight in it, and the row
        that the norm's bias adds."""
        offset = None
        if "bias" in norm.inputs:
            offset = np.asarray(self.at.graph.constants[norm.inputs["bias"]], np.float32)
            offset = offset.reshape(-1) @ weight
        if "weight" in norm.inputs:
            gain = np.asarray(self.at.graph.constants[norm.inputs["weight"]], np.float32)
            weight = gain.reshape(-1, 1) * weight
        return weight, offset

    def of_two(self, node: Node) -> Tensor | None:
        """The product of two activations, batch by batch."""
        if "acc" in node.inputs:
            return None
        left, turned_left = self._side(node, "lhs")
        right, turned_right = self._side(node, "rhs")
        batch, rows, columns = _matrices(shape_of(node.result))
        shapes = [_matrices(shape_of(value)) for value in (left, right)]
        for value, shape in zip((left, right), shapes, strict=True):
            if self.at.canonical(shape_of(value)) != shape:
                raise Unsupported("a product of batches of single rows moves values between tiles")
        if self.at.canonical(shape_of(node.result)) != (batch, rows, columns):
            raise Unsupported("a product of batches of single rows moves values between tiles")
        counts = [shape[0] for shape in shapes]
        if any(
            count not in (1, batch) or (count == batch and not _same_batch(value, node.result))
            for count, value in zip(counts, (left, right), strict=True)
        ):
            raise Unsupported("a product whose operands are repeated over parts of the batch")
        deep = shapes[0][1] if turned_left else shapes[0][2]
        # Where one side has zeros beyond the contraction's edge, the other may have any numbers.
        known = any(value in self.at.graph.constants for value in (left, right))
        a = self.at.fp8(left) if known else self._filled(left, deep, turned_left)
        b = self.at.fp8(right)
        out = self.at.activation(
            self.at.hint(node.result), (batch, rows, columns), "bf16", value=node.result
        )
        options: dict[str, Any] = {}
        parts = cut(rows, deep, columns, self.at.profile, sums=False)
        if parts is not None:
            options["rows"] = parts.rows
        if batch > 1 and 1 in counts:
            options["shared"] = "ab"[counts.index(1)]
        return self.at.call(
            node.layer or "matmul", "product", {"a": a, "b": b}, out, (node,),
            batch * rows * columns * deep, {"factor": scale_of(a.scale) * scale_of(b.scale)},
            left="transposed" if turned_left else "plain",
            right="transposed" if turned_right else "plain", out="bf16", **options,
        )  # fmt: skip

    def _side(self, node: Node, role: str) -> tuple[SSAValue, bool]:
        """An operand of a product, and whether its last two dimensions are swapped in it."""
        value = node.inputs[role]
        turned = node.call.flag(f"transpose_{role}")
        before = self.at.graph.node_of(value, "transpose")
        if before is not None:
            order = before.call.integers("permutation") or ()
            rank = len(order)
            if rank > 1 and order == (*range(rank - 2), rank - 1, rank - 2):
                return before.operands[0], not turned
        return value, turned

    def _filled(self, value: SSAValue, deep: int, turned: bool) -> Tensor:
        """An operand as fp8 with zeros where the contraction goes beyond its edge: down its columns
        if it is turned, else along its rows."""
        along = "rows" if turned else "columns"
        if deep % SIDE == 0 or dtype_of(value) not in FLOATS:
            return self.at.fp8(value)

        def make() -> Tensor:
            x, scale = self.at.bf16(value), self.at.magnitude(value)
            name, shape = f"{self.at.hint(value)}.fp8", self.at.canonical(shape_of(value))
            out = self.at.activation(name, shape, "fp8", value=value, scale=scale)
            deferred = {"factor": inverse_of(scale)}
            name = f"{x.name} to fp8"
            return self.at.call(name, "quantise", {"x": x}, out, (), 0, deferred, edges=along)

        return self.at.remembered((value, "fp8", along), make)

    def _folds(self, norm: Node) -> bool:
        """Whether weight and bias of a norm go into the products that read it."""
        constants, result = self.at.graph.constants, norm.result
        if not self.known_rows(norm) or SMOOTHED in norm.op.attributes:
            return False
        if any(self.at.kept(user.layer) for user in self.at.graph.users.get(result, ())):
            return False
        if any(result is value for _, value in self.at.graph.outputs):
            return False
        return all(
            user.family == "matmul"
            and user.inputs["lhs"] is result
            and user.inputs["rhs"] in constants
            for user in self.at.graph.users.get(result, ())
        )

    def known_rows(self, norm: Node) -> bool:
        """Whether weight and bias of a norm are constants."""
        rows = (norm.inputs[role] for role in ("weight", "bias") if role in norm.inputs)
        return all(row in self.at.graph.constants for row in rows)

    def is_plain_norm(self, node: Node) -> bool:
        """Whether a node is a norm of rows with known weight and bias."""
        if node.family not in ("rms_norm", "layer_norm") or not self.known_rows(node):
            return False
        rank = len(shape_of(node.result))
        return node.call.axis(rank) == rank - 1

    def norm(self, node: Node, dtype: str, whole: bool = False) -> Tensor:
        """A norm: fp8 without weight and bias for products that fold them in, or with them if
        `whole`; or bf16 with them."""
        rank = len(shape_of(node.result))
        if node.call.axis(rank) != rank - 1:
            raise Unsupported("a norm along another dimension than the last")
        kind, epsilon = _kind_of(node)
        x = self.at.bf16(node.inputs["x"])
        shape = self.at.canonical(shape_of(node.result))
        stacked = bool(shape[1] % SIDE == 0 and below_each_other(*shape[:2], x.layout))
        options: dict[str, Any] = {"stacked": True} if stacked else {}
        operands = {"x": x}
        if dtype == "fp8" and not whole:
            scale = self.at.magnitude(node.inputs["x"], Normed(kind, epsilon), node.result)
            out = self.at.activation(
                self.at.hint(node.result), shape, "fp8", value=node.result, scale=scale
            )
            deferred = {"factor": inverse_of(scale)}
            return self.at.call(
                node.layer or kind + "_norm", "norm", operands, out, (node,), 0, deferred,
                kind=kind, epsilon=epsilon, out="fp8", **options,
            )  # fmt: skip
        scale = self.at.magnitude(node.result) if dtype == "fp8" else None
        for role in ("weight", "bias"):
            if role in node.inputs:
                row = self.at.graph.constants.get(node.inputs[role])
                if row is None:
                    raise Unsupported(f"a norm whose {role} is computed")
                layout = Layout((shape[2],), "bf16")
                share = inverse_of(scale if role == "bias" else None)
                operands[role] = self.at.weight(
                    f"{node.layer or kind}.{role}", layout, row.reshape(-1), factor=share
                )
        out = self.at.activation(
            self.at.hint(node.result), shape, dtype, value=node.result, scale=scale
        )
        deferred = {"factor": inverse_of(scale)} if scale is not None else None
        return self.at.call(
            node.layer or kind + "_norm", "norm", operands, out, (node,), 0, deferred,
            kind=kind, epsilon=epsilon, out=dtype,
            weight="weight" in operands, bias="bias" in operands, **options,
        )  # fmt: skip

    def gated(self, node: Node, shape: tuple[int, int, int]) -> Tensor | None:
        """silu(gate) * up where both are products of the same value."""
        gate_value, up_value = node.inputs["gate"], node.inputs["up"]
        if not (node.reads_plainly(0) and node.reads_plainly(1)):
            return None
        if not (self.at.graph.used_once(gate_value) and self.at.graph.used_once(up_value)):
            return None
        gate, up = self.at.linear(gate_value), self.at.linear(up_value)
        if gate is None or up is None or gate.x is not up.x or gate.activation or up.activation:
            return None
        if self.at.kept(gate.name) or self.at.kept(up.name):
            return None
        if (gate.bias is None) != (up.bias is None):
            return None
        in_parts = self._in_parts(shape, gate.weight.shape[0], Layout(shape, "bf16"))
        norm = self._norm_before(gate, up, shape) if "rows" in in_parts else None
        options: dict[str, Any] = {}
        deferred: dict[str, Factor] = {}
        if norm is not None:
            # Rows in parts are normed on their way to the chip: nobody else reads them.
            kind, epsilon = _kind_of(norm)
            a = self.at.bf16(norm.inputs["x"])
            scale = self.at.magnitude(norm.inputs["x"], Normed(kind, epsilon), norm.result)
            deferred["norm_factor"] = inverse_of(scale)
            options |= {"norm": kind, "epsilon": epsilon}
            w_gate, offset_gate = self._folded(norm, gate.weight)
            w_up, offset_up = self._folded(norm, up.weight)
            factor = scale_of(scale)
        else:
            a, w_gate, offset_gate, factor, heads = self.operand(gate)
            _, w_up, offset_up, _, _ = self.operand(up)
            if heads:
                return None
        options |= self._in_parts(shape, w_gate.shape[0], a.layout)
        target = self.at.magnitude(node.result)
        operands = {"a": a}
        rows = (
            ("gate", gate, w_gate, offset_gate, ONE),
            ("up", up, w_up, offset_up, inverse_of(target)),
        )
        biased = gate.bias is not None or offset_gate is not None
        for name, linear, weight, offset, share in rows:
            channel = self.at.channel_scales(weight)
            operands[f"w_{name}"] = self.at.weight(
                f"{linear.name}.weight",
                Layout(weight.shape, "fp8", "panels"),
                weight,
                channel,
            )
            operands[f"scale_{name}"] = self.at.weight(
                f"{linear.name}.scale",
                Layout((shape[2],), "bf16"),
                channel,
                factor=factor * share,
            )
            if biased:
                bias = np.zeros(shape[2], np.float32)
                for part in (linear.bias, offset):
                    bias = bias if part is None else bias + part
                operands[f"bias_{name}"] = self.at.weight(
                    f"{linear.name}.bias",
                    Layout((shape[2],), "bf16"),
                    bias,
                    factor=share,
                )
        out = self.at.activation(
            self.at.hint(node.result), shape, "fp8", value=node.result, scale=target
        )
        macs = shape[0] * shape[1] * (w_gate.size + w_up.size)
        nodes = (*gate.nodes, *up.nodes, node)
        if norm is not None:
            nodes = (norm, *nodes)
        name = common_prefix([gate.name, up.name]) or f"{gate.name}+{up.name}"
        return self.at.call(
            name, "gated", operands, out, nodes, macs, deferred, scale=True, bias=biased,
            activation="silu", **options,
        )  # fmt: skip

    def _in_parts(self, shape: tuple[int, int, int], deep: int, layout: Layout) -> dict[str, Any]:
        """How many rows of a gate's operand are on chip at a time, if not all are; whether matrices of
        a batch are one."""
        batch, rows, _ = shape
        stacked = below_each_other(batch, rows, layout)
        parts = staged_rows(stacked or rows, deep, 2, 4, self.at.profile)
        if parts is None:
            return {"stacked": True} if stacked and rows % SIDE == 0 else {}
        return {"rows": parts, **({"stacked": True} if stacked else {})}

    def _norm_before(self, gate: Linear, up: Linear, shape: tuple[int, int, int]) -> Node | None:
        """The norm in front of a gate, if no other product reads it."""
        norm = self.at.graph.node_of(gate.x, "rms_norm", "layer_norm")
        if norm is None or not self._folds(norm) or (gate.x, "normed") in self.at.forms:
            return None
        rank, before = len(shape_of(norm.result)), self.at.canonical(shape_of(norm.inputs["x"]))
        readers = self.at.graph.users.get(gate.x, ())
        if norm.call.axis(rank) != rank - 1 or len(readers) != 2 or before[:2] != shape[:2]:
            return None
        return norm if all(node in (*gate.nodes, *up.nodes) for node in readers) else None


def _kind_of(norm: Node) -> tuple[str, float]:
    """Which norm it is, and its epsilon: beyond the edge rows may be 0; so that they do not become
    NaN the square root is not."""
    epsilon = max(norm.call.floating("epsilon") or 0.0, SMALLEST)
    return norm.family.removesuffix("_norm"), epsilon


def _matrices(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """[B, M, N] of matrices of a batch."""
    whole = (1,) * (3 - len(shape)) + shape
    return math.prod(whole[:-2]), whole[-2], whole[-1]


def _same_batch(value: SSAValue, result: SSAValue) -> bool:
    """Whether a value has the batch of a result, not another of as many matrices."""
    mine, wanted = shape_of(value)[:-2], shape_of(result)[:-2]
    return [n for n in mine if n != 1] == [n for n in wanted if n != 1] and len(mine) <= len(wanted)
