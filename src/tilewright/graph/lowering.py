"""From a graph to kernel calls: which operations become one kernel, in which form values travel.

Every value can exist in several forms on the device: bf16 [B, M, C], fp8 of the same shape for
matrix products, fp8 heads for attention. Forms are made when something asks for them, so nothing
is computed that nobody reads. What no rule covers is computed by the host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.graph.calls import (
    Call,
    Magnitude,
    Tensor,
    Unsupported,
    channel_scales,
    power_of_two,
)
from tilewright.graph.capture import Graph, Node, dtype_of, scalars, shape_of
from tilewright.graph.images import Images
from tilewright.graph.kernels import BINARY, LOW, UNARY
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.masks import LOWEST

FLOATS = ("f32", "bf16", "f16", "f64")
WHOLE = 800  # tiles of a product's left operand that are held on chip at a time
SMALLEST = 2.0**-126  # the smallest normal number of bf16
CHAIN = 8  # element-wise operations in one kernel, at most


@dataclass(frozen=True)
class Linear:
    """act(x @ weight + bias), as found in the graph."""

    x: SSAValue
    weight: np.ndarray  # [K, N]
    bias: np.ndarray | None
    activation: str | None
    nodes: tuple[Node, ...]  # the product first

    @property
    def name(self) -> str:
        return self.nodes[0].layer or "linear"


@dataclass
class HostValue:
    """A value the host computes for the device, after `conversion`: "", "mask", "clip", or one of
    those of images."""

    value: SSAValue
    conversion: str
    tensor: Tensor


@dataclass
class Lowered:
    """What the device does, what it needs from the host, and why the rest is not on it."""

    calls: list[Call] = field(default_factory=list)
    inputs: list[HostValue] = field(default_factory=list)
    outputs: dict[SSAValue, Tensor] = field(default_factory=dict)  # device results by value
    host: dict[Node, str] = field(default_factory=dict)  # with the reason
    magnitudes: list[Magnitude] = field(default_factory=list)


def canonical(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """[B, M, C] of a tensor."""
    whole = (1,) * (3 - len(shape)) + shape
    return math.prod(whole[:-2]), whole[-2], whole[-1]


def padded(size: int) -> int:
    return -(-size // SIDE) * SIDE


class Lowering:
    """Makes calls for the values that are asked for."""

    def __init__(
        self,
        graph: Graph,
        fuse: bool = True,
        host: Iterable[str] = (),
        keep: Iterable[str] = (),
        per_tensor: bool = False,
    ) -> None:
        self.graph, self.fuse, self.per_tensor = graph, fuse, per_tensor
        self.kept_layers = tuple(keep)
        self.result = Lowered()
        self.forms: dict[tuple[Any, ...], Tensor] = {}
        self.names: dict[str, int] = {}
        self.unsupported: dict[SSAValue, str] = {}
        self.host_layers = tuple(host)
        refused = {node: self._reason_for_host(node) for node in graph.nodes}
        self.images = Images(self, {n: reason for n, reason in refused.items() if reason})

    def run(self) -> Lowered:
        for _, value in self.graph.outputs:
            self._outside(value)
        self._drop_unread()
        return self.result

    def _drop_unread(self) -> None:
        """Leave out calls whose result nobody reads: those of a rule that did not fit in the end."""
        wanted, calls = set(self.result.outputs.values()), []
        for call in reversed(self.result.calls):
            if call.output in wanted:
                calls.append(call)
                wanted |= set(call.operands.values())
        self.result.calls = calls[::-1]
        self.result.inputs = [row for row in self.result.inputs if row.tensor in wanted]

    # --- the border to the host ---------------------------------------------------------------

    def _outside(self, value: SSAValue) -> None:
        """Make the value available to the host."""
        if value in self.graph.inputs or value in self.graph.constants:
            return
        if value in self.result.outputs:
            return
        node = self.graph.definition[value]
        if node in self.result.host:
            return
        reason = self._reason_for_host(node)
        if reason is None:
            try:
                tensor = self.images.outside(value) if value in self.images else self.bf16(value)
                if tensor.kind in ("activation", "output"):
                    self.result.outputs[value] = tensor
                    tensor.kind = "output"
                    return
                if node in self.result.host:  # found on the way, with the reason
                    return
                reason = "it is only a view"
            except Unsupported as error:
                reason = str(error)
        self.result.host[node] = reason
        for operand in node.operands:
            self._outside(operand)

    def _reason_for_host(self, node: Node) -> str | None:
        if dtype_of(node.result) not in FLOATS:
            return f"{dtype_of(node.result)} values are not for the NPU"
        return "asked for" if _named(node.layer, self.host_layers) else None

    def kept(self, layer: str) -> bool:
        """Whether a layer's products are to be as precise as bf16."""
        return _named(layer, self.kept_layers)

    def from_host(
        self, value: SSAValue, shape: tuple[int, ...], conversion: str = "", order: str = "tiles"
    ) -> Tensor:
        """A tensor the host fills: an input of the model, or what it computes."""
        key = (value, "host", shape, conversion, order)
        if key not in self.forms:
            name = self.graph.inputs.get(value) or self.hint(value)
            layout = Layout(shape, "bf16", order)
            tensor = Tensor(self.unique(name), layout, "input", value=value)
            self.forms[key] = tensor
            self.take_from_host(value, conversion, tensor)
        return self.forms[key]

    def take_from_host(self, value: SSAValue, conversion: str, tensor: Tensor) -> None:
        """Have the host fill a tensor with a value."""
        self.result.inputs.append(HostValue(value, conversion, tensor))
        self._outside(value)

    # --- names and forms ----------------------------------------------------------------------

    def unique(self, name: str) -> str:
        name = re.sub(r"[^\w.]+", "_", name).strip("_") or "value"
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return f"{name}~{count}" if count else name

    def hint(self, value: SSAValue) -> str:
        node = self.graph.definition.get(value)
        return value.name_hint or (node.layer or node.family if node else "value")

    def remembered(self, key: tuple[Any, ...], make: Callable[[], Tensor]) -> Tensor:
        if key not in self.forms:
            self.forms[key] = make()
        return self.forms[key]

    def magnitude(
        self, value: SSAValue, function: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> Magnitude:
        found = Magnitude(value, function)
        self.result.magnitudes.append(found)
        return found

    def weight(self, name: str, layout: Layout, content: Callable[[], np.ndarray]) -> Tensor:
        return Tensor(self.unique(name), layout, "weight", content)

    def call(
        self,
        name: str,
        kernel: str,
        operands: dict[str, Tensor],
        output: Tensor,
        nodes: tuple[Node, ...],
        macs: int = 0,
        late: dict[str, Callable[[], float]] | None = None,
        noted: tuple[Magnitude, ...] = (),
        **options: Any,
    ) -> Tensor:
        sources = tuple(dict.fromkeys(_source(node) for node in nodes))
        value = nodes[-1].result if nodes else output.value
        made = Call(name, kernel, operands, output, options, late or {}, sources, macs, value)
        made.magnitudes = list(noted)
        if output.scale is not None and output.scale not in made.magnitudes:
            made.magnitudes.append(output.scale)
        self.result.calls.append(made)
        return output

    def activation(
        self, name: str, shape: tuple[int, ...], dtype: str, order: str = "tiles", **more: Any
    ) -> Tensor:
        return Tensor(self.unique(name), Layout(shape, dtype, order), "activation", **more)

    # --- bf16 [B, M, C] -----------------------------------------------------------------------

    def bf16(self, value: SSAValue) -> Tensor:
        """The value as bf16 [B, M, C]."""
        if value in self.unsupported:
            raise Unsupported(self.unsupported[value])
        try:
            return self.remembered((value, "bf16"), lambda: self._make_bf16(value))
        except Unsupported as error:
            self.unsupported[value] = str(error)
            raise

    def _make_bf16(self, value: SSAValue) -> Tensor:
        shape = canonical(shape_of(value))
        if value in self.graph.constants:
            array = self.graph.constants[value]
            layout = Layout(shape, "bf16")
            name = self.unique(self.hint(value))
            return Tensor(name, layout, "constant", lambda: array.reshape(shape), value)
        if value in self.graph.inputs:
            return self.from_host(value, shape)
        if value in self.images:  # stored in another order: by way of the host
            return self.from_host(value, shape)
        node = self.graph.definition[value]
        reason = self._reason_for_host(node) or self.images.reason(node)
        if reason is None:
            try:
                return self._from_node(node, shape)
            except Unsupported as error:
                reason = str(error)
        self.result.host.setdefault(node, reason)
        for operand in node.operands:
            self._outside(operand)
        return self.from_host(value, shape)

    def _from_node(self, node: Node, shape: tuple[int, int, int]) -> Tensor:
        value = node.result
        mean = self.images.mean(value, "bf16")
        if mean is not None:
            return mean
        found = self._linear(value)
        if found is not None:
            return self._emit_linear(found, value, "bf16")
        residual = self._residual(node)
        if residual is not None:
            linear, other = residual
            return self._emit_linear(linear, value, "bf16", other)
        if node.family in ("rms_norm", "layer_norm"):
            return self._norm(node, "bf16")
        if node.family in ("reshape", "cast"):
            return self._view(node, shape)
        if (
            node.family == "softmax"
            and node.call.axis(len(shape_of(value))) == len(shape_of(value)) - 1
        ):
            x = self.bf16(node.inputs["x"])
            out = self.activation(self.hint(value), shape, "bf16", value=value)
            return self.call(node.layer or "softmax", "softmax", {"x": x}, out, (node,))
        return self._pointwise(node, shape, "bf16")

    def _view(self, node: Node, shape: tuple[int, int, int]) -> Tensor:
        """A value with the same elements in the same tiles as another."""
        source = node.operands[0]
        if dtype_of(source) not in FLOATS:
            raise Unsupported(f"{dtype_of(source)} values are not for the NPU")
        before = canonical(shape_of(source))
        if source in self.graph.inputs:
            return self.from_host(source, shape)
        whole = before[1] % SIDE == 0 and shape[1] % SIDE == 0
        if before != shape and not (before[2] == shape[2] and whole):
            raise Unsupported(
                f"a reshape from {'x'.join(map(str, shape_of(source)))} to "
                f"{'x'.join(map(str, shape_of(node.result)))} moves values between tiles"
            )
        inner = self.bf16(source)
        if before == shape:
            return inner
        raise Unsupported("a reshape that joins batches")

    # --- products -----------------------------------------------------------------------------

    def _linear(self, value: SSAValue) -> Linear | None:
        """act(x @ weight + bias) that ends in the value, inner values used nowhere else."""
        graph, nodes = self.graph, []
        activation = bias = None
        node = graph.definition.get(value)
        if node is None:
            return None
        if self.fuse:
            name = _unary_name(node)
            if name in UNARY and len(node.operands) == 1 and graph.used_once(node.operands[0]):
                inner = graph.node_of(node.operands[0])
                if inner is not None and inner.family in ("matmul", "elementwise_add"):
                    activation, node = name, inner
                    nodes.append(graph.definition[value])
        if node.family == "elementwise_add" and len(node.operands) == 2:
            first, second = node.operands
            for x, other in ((first, second), (second, first)):
                row = graph.constants.get(other)
                product = graph.node_of(x, "matmul")
                if row is not None and product is not None and graph.used_once(x):
                    columns = shape_of(node.result)[-1]
                    if (
                        row.size == columns
                        and shape_of(other)[-1] == columns
                        and shape_of(x) == shape_of(node.result)
                    ):
                        bias = np.asarray(row, np.float32).reshape(-1)
                        nodes.append(node)
                        node = product
                        break
        part = None
        if node.family == "slice" and not nodes:
            part = _column_slice(node)
            product = graph.node_of(node.operands[0]) if part is not None else None
            inner = self._linear(node.operands[0]) if product is not None else None
            if inner is None or inner.activation is not None or part is None:
                return None
            bias = None if inner.bias is None else inner.bias[part]
            return Linear(inner.x, inner.weight[:, part], bias, None, (*inner.nodes, node))
        if node.family != "matmul" or (activation and not nodes):
            return None
        lhs, rhs = node.inputs["lhs"], node.inputs["rhs"]
        weight = graph.constants.get(rhs)
        if weight is None or weight.ndim < 2 or math.prod(weight.shape[:-2]) != 1:
            return None
        if "acc" in node.inputs or node.call.flag("transpose_lhs"):
            return None
        matrix = np.asarray(weight, np.float32).reshape(weight.shape[-2], weight.shape[-1])
        if node.call.flag("transpose_rhs") or matrix.shape[0] != shape_of(lhs)[-1]:
            matrix = matrix.T
        return Linear(lhs, matrix, bias, activation, (node, *reversed(nodes)))

    def _residual(self, node: Node) -> tuple[Linear, SSAValue] | None:
        """linear + other, the linear's own result used nowhere else."""
        if not self.fuse or node.family != "elementwise_add" or len(node.operands) != 2:
            return None
        first, second = node.operands
        shape = shape_of(node.result)
        if shape_of(first) != shape or shape_of(second) != shape or first is second:
            return None
        for inner, other in ((second, first), (first, second)):
            if not self.graph.used_once(inner) or other in self.graph.constants:
                continue
            linear = self._linear(inner)
            if linear is not None:
                return linear, other
        return None

    def _emit_linear(
        self, linear: Linear, value: SSAValue, dtype: str, residual: SSAValue | None = None
    ) -> Tensor:
        a, weight, offset, factor, heads = self._operand(linear)
        batch, rows, columns = canonical(shape_of(value))
        bias = linear.bias
        if offset is not None:
            bias = offset if bias is None else bias + offset
        operands, channel = {"a": a}, self.channel_scales(weight)
        target = self.magnitude(value) if dtype == "fp8" else None
        early = target is not None and linear.activation is None  # the result's scale folds in

        def share() -> float:
            return 1.0 / target.scale() if target is not None and early else 1.0

        operands["w"] = self.weight(
            f"{linear.name}.weight",
            Layout(weight.shape, "fp8", "panels"),
            lambda: weight / channel,
        )
        options: dict[str, Any] = {}
        if self.kept(linear.name):
            fixed = heads or (linear.x, "flat") in self.forms  # fp8 to begin with
            options["precise"] = "weights" if fixed else "both"
            operands |= self._left_out(linear, a, weight / channel, fixed)
        operands["scale"] = self.weight(
            f"{linear.name}.scale",
            Layout((columns,), "bf16"),
            lambda: channel * (factor() * share()),
        )
        if bias is not None:
            operands["bias"] = self.weight(
                f"{linear.name}.bias", Layout((columns,), "bf16"), lambda: bias * share()
            )
        if residual is not None:
            operands["residual"] = self.bf16(residual)
        out = self.activation(
            self.hint(value), (batch, rows, columns), dtype, value=value, scale=target
        )
        late = {}
        if target is not None and not early:
            late["factor"] = lambda: 1.0 / target.scale()
        nodes = linear.nodes
        if residual is not None:
            nodes = (*nodes, self.graph.definition[value])
        macs = batch * rows * weight.size
        block = _row_block(rows, weight.shape[0])
        if block:
            options["rows"] = block
        return self.call(
            linear.name, "linear", operands, out, nodes, macs, late,
            out=dtype, scale=True, bias=bias is not None, residual=residual is not None,
            activation=linear.activation, heads=heads, **options,
        )  # fmt: skip

    def _left_out(
        self, linear: Linear, a: Tensor, weight: np.ndarray, fixed: bool
    ) -> dict[str, Tensor]:
        """What rounding to fp8 leaves out of a product's operands, LOW times larger."""
        high = weight.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        found = {
            "w_low": self.weight(
                f"{linear.name}.weight.low",
                Layout(weight.shape, "fp8", "panels"),
                lambda: (weight - high) * LOW,
            )
        }
        if fixed:  # heads of attention, pixels of images
            return found

        def make() -> Tensor:
            x, scale = self.bf16(linear.x), a.scale
            assert scale is not None
            out = self.activation(f"{a.name}.low", a.layout.shape, "fp8", value=linear.x)
            late = {"factor": lambda: 1.0 / scale.scale()}
            operands = {"x": x, "high": a}
            return self.call(f"{a.name} residue", "residue", operands, out, (), 0, late)

        return {**found, "a_low": self.remembered((linear.x, "low"), make)}

    def channel_scales(self, weight: np.ndarray) -> np.ndarray:
        """One scale per column, or the same for all of them."""
        scales = channel_scales(weight)
        return np.full_like(scales, scales.max()) if self.per_tensor else scales

    def _operand(
        self, linear: Linear
    ) -> tuple[Tensor, np.ndarray, np.ndarray | None, Callable[[], float], bool]:
        """The product's left operand as fp8, the weight that fits it, a row to add to the bias,
        the factor between what the operand holds and its values, and whether it is in heads."""
        weight = linear.weight
        try:
            heads = self._merged_heads(linear.x)
        except Unsupported:  # the host attends, the product stays here
            heads = None
        if heads is not None:
            tensor, scale, width = heads
            count = tensor.layout.shape[1]
            rows = weight.reshape(count, width, -1)
            wide = np.zeros((count, tensor.layout.shape[-1], rows.shape[-1]), np.float32)
            wide[:, :width] = rows
            return tensor, wide.reshape(-1, rows.shape[-1]), None, scale.scale, True
        flat = self.images.flattened(linear.x, weight)
        if flat is not None:
            tensor, weight = flat
            assert tensor.scale is not None
            return tensor, weight, None, tensor.scale.scale, False
        norm = self.graph.node_of(linear.x, "rms_norm", "layer_norm")
        if norm is not None and self._folds(norm):
            tensor = self.remembered((linear.x, "normed"), lambda: self._norm(norm, "fp8"))
            assert tensor.scale is not None
            offset = None
            if "bias" in norm.inputs:
                offset = np.asarray(self.graph.constants[norm.inputs["bias"]], np.float32)
                offset = offset.reshape(-1) @ weight
            if "weight" in norm.inputs:
                gain = np.asarray(self.graph.constants[norm.inputs["weight"]], np.float32)
                weight = gain.reshape(-1, 1) * weight
            return tensor, weight, offset, tensor.scale.scale, False
        tensor = self.fp8(linear.x)
        assert tensor.scale is not None
        return tensor, weight, None, tensor.scale.scale, False

    def _folds(self, norm: Node) -> bool:
        """Whether weight and bias of a norm go into the products that read it."""
        constants, result = self.graph.constants, norm.result
        for role in ("weight", "bias"):
            if role in norm.inputs and norm.inputs[role] not in constants:
                return False
        if any(self.kept(user.layer) for user in self.graph.users.get(result, ())):
            return False
        if any(result is value for _, value in self.graph.outputs):
            return False
        return all(
            user.family == "matmul"
            and user.inputs["lhs"] is result
            and user.inputs["rhs"] in constants
            for user in self.graph.users.get(result, ())
        )

    def _norm(self, node: Node, dtype: str) -> Tensor:
        """A norm: fp8 without weight and bias for products that fold them in, or bf16 with them."""
        rank = len(shape_of(node.result))
        if node.call.axis(rank) != rank - 1:
            raise Unsupported("a norm along another dimension than the last")
        # Beyond the edge rows may be 0; so that they do not become NaN the square root is not.
        epsilon = max(node.call.floating("epsilon") or 0.0, SMALLEST)
        kind = node.family.removesuffix("_norm")
        x = self.bf16(node.inputs["x"])
        shape = canonical(shape_of(node.result))
        operands = {"x": x}
        if dtype == "fp8":
            scale = self.magnitude(node.inputs["x"], lambda v: _normed(v, kind, epsilon))
            out = self.activation(
                self.hint(node.result), shape, "fp8", value=node.result, scale=scale
            )
            late = {"factor": lambda: 1.0 / scale.scale()}
            return self.call(
                node.layer or kind + "_norm", "norm", operands, out, (node,), 0, late,
                kind=kind, epsilon=epsilon, out="fp8",
            )  # fmt: skip
        for role in ("weight", "bias"):
            if role in node.inputs:
                row = self.graph.constants.get(node.inputs[role])
                if row is None:
                    raise Unsupported(f"a norm whose {role} is computed")
                layout = Layout((shape[2],), "bf16")
                operands[role] = self.weight(
                    f"{node.layer or kind}.{role}", layout, lambda row=row: row.reshape(-1)
                )
        out = self.activation(self.hint(node.result), shape, "bf16", value=node.result)
        return self.call(
            node.layer or kind + "_norm", "norm", operands, out, (node,),
            kind=kind, epsilon=epsilon, out="bf16",
            weight="weight" in operands, bias="bias" in operands,
        )  # fmt: skip

    # --- fp8 [B, M, C] ------------------------------------------------------------------------

    def fp8(self, value: SSAValue) -> Tensor:
        """The value as fp8, for matrix products."""
        return self.remembered((value, "fp8"), lambda: self._make_fp8(value))

    def _make_fp8(self, value: SSAValue) -> Tensor:
        graph, shape = self.graph, canonical(shape_of(value))
        node = graph.definition.get(value)
        only_products = all(
            user.family == "matmul" and user.inputs["lhs"] is value
            for user in graph.users.get(value, ())
        ) and not any(value is result for _, result in graph.outputs)
        if self.fuse and node is not None and only_products and (value, "bf16") not in self.forms:
            mean = self.images.mean(value, "fp8")
            if mean is not None:
                return mean
            if node.family == "silu_gate":
                gated = self._gated(node, shape)
                if gated is not None:
                    return gated
            linear = self._linear(value)
            if linear is not None:
                return self._emit_linear(linear, value, "fp8")
            if (
                node.family in ("reshape", "cast")
                and canonical(shape_of(node.operands[0])) == shape
            ):
                return self.fp8(node.operands[0])
        x = self.bf16(value)
        scale = self.magnitude(value)
        out = self.activation(f"{self.hint(value)}.fp8", shape, "fp8", value=value, scale=scale)
        late = {"factor": lambda: 1.0 / scale.scale()}
        return self.call(
            f"{x.name} to fp8", "quantise", {"x": x}, out, (node,) if node else (), 0, late
        )

    def _gated(self, node: Node, shape: tuple[int, int, int]) -> Tensor | None:
        """silu(gate) * up where both are products of the same value."""
        gate_value, up_value = node.inputs["gate"], node.inputs["up"]
        if not (self.graph.used_once(gate_value) and self.graph.used_once(up_value)):
            return None
        gate, up = self._linear(gate_value), self._linear(up_value)
        if gate is None or up is None or gate.x is not up.x or gate.activation or up.activation:
            return None
        if self.kept(gate.name) or self.kept(up.name):
            return None
        if (gate.bias is None) != (up.bias is None):
            return None
        a, w_gate, offset_gate, factor, heads = self._operand(gate)
        _, w_up, offset_up, _, _ = self._operand(up)
        if heads:
            return None
        target = self.magnitude(node.result)
        operands = {"a": a}
        rows = (
            ("gate", gate, w_gate, offset_gate, lambda: 1.0),
            ("up", up, w_up, offset_up, lambda: 1.0 / target.scale()),
        )
        biased = gate.bias is not None or offset_gate is not None
        for name, linear, weight, offset, share in rows:
            channel = self.channel_scales(weight)
            operands[f"w_{name}"] = self.weight(
                f"{linear.name}.weight",
                Layout(weight.shape, "fp8", "panels"),
                lambda weight=weight, channel=channel: weight / channel,
            )
            operands[f"scale_{name}"] = self.weight(
                f"{linear.name}.scale",
                Layout((shape[2],), "bf16"),
                lambda channel=channel, share=share: channel * (factor() * share()),
            )
            if biased:
                bias = np.zeros(shape[2], np.float32)
                for part in (linear.bias, offset):
                    bias = bias if part is None else bias + part
                operands[f"bias_{name}"] = self.weight(
                    f"{linear.name}.bias",
                    Layout((shape[2],), "bf16"),
                    lambda bias=bias, share=share: bias * share(),
                )
        out = self.activation(self.hint(node.result), shape, "fp8", value=node.result, scale=target)
        macs = shape[0] * shape[1] * (w_gate.size + w_up.size)
        nodes = (*gate.nodes, *up.nodes, node)
        name = _common([gate.name, up.name])
        return self.call(
            name, "gated", operands, out, nodes, macs, scale=True, bias=biased, activation="silu"
        )

    # --- element by element -------------------------------------------------------------------

    def _pointwise(self, node: Node, shape: tuple[int, int, int], dtype: str) -> Tensor:
        """A chain of element-wise operations in one kernel."""
        program: list[tuple[str, str, list[Any]]] = []
        inputs: dict[SSAValue, tuple[str, str, Tensor]] = {}
        nodes: list[Node] = []

        def visit(value: SSAValue, top: bool = False) -> str:
            inner = self.graph.definition.get(value)
            full = canonical(shape_of(value)) == shape
            name = _unary_name(inner) if inner is not None else ""
            fits = inner is not None and (name in UNARY or name in BINARY or name == "silu_gate")
            if not top and not (
                self.fuse
                and fits
                and full
                and self.graph.used_once(value)
                and len(program) < CHAIN
                and self._linear(value) is None
                and (value, "bf16") not in self.forms
            ):
                return argument(value)
            if inner is None or not fits:
                family = inner.family if inner is not None else "this"
                raise Unsupported(f"{family} has no kernel on the NPU")
            arguments: list[Any] = []
            literal = scalars(inner)
            if "scalar_lhs" in literal:
                arguments.append(literal["scalar_lhs"])
            arguments += [visit(operand) for operand in inner.operands]
            if "scalar_rhs" in literal:
                arguments.append(literal["scalar_rhs"])
            nodes.append(inner)
            if name == "silu_gate":
                program.append(("silu", f"t{len(program)}", arguments[:1]))
                arguments, name = [program[-1][1], arguments[1]], "mul"
            program.append((name, f"t{len(program)}", arguments))
            return program[-1][1]

        def argument(value: SSAValue) -> str:
            if value not in inputs:
                kind, tensor = self._broadcast(value, shape)
                inputs[value] = (f"x{len(inputs)}", kind, tensor)
            return inputs[value][0]

        visit(node.result, top=True)
        if not any(kind == "full" for _, kind, _ in inputs.values()):
            raise Unsupported("every operand is broadcast")
        out = self.activation(self.hint(node.result), shape, dtype, value=node.result)
        operands = {name: tensor for name, _, tensor in inputs.values()}
        return self.call(
            node.layer or node.family.removeprefix("elementwise_"), "pointwise", operands, out,
            tuple(nodes), inputs=[[n, k] for n, k, _ in inputs.values()], program=program, out=dtype,
        )  # fmt: skip

    def _broadcast(self, value: SSAValue, shape: tuple[int, int, int]) -> tuple[str, Tensor]:
        """How an operand of an element-wise operation is spread over [B, M, N]."""
        own = shape_of(value)
        batch, rows, columns = canonical(own)
        if (batch, rows, columns) == shape:
            return "full", self.bf16(value)
        array = self.graph.constants.get(value)
        if array is None:
            raise Unsupported(f"an operand of {'x'.join(map(str, own))} is broadcast")
        if columns == 1 and math.prod(own) == 1:
            number = np.full(shape[2], float(array.reshape(())), np.float32)
            return "row", self.weight(self.hint(value), Layout((shape[2],), "bf16"), lambda: number)
        if columns == shape[2] and math.prod(own) == columns:
            layout = Layout((columns,), "bf16")
            return "row", self.weight(self.hint(value), layout, lambda: array.reshape(-1))
        if columns == shape[2] and rows == shape[1] and batch == 1:
            layout = Layout((rows, columns), "bf16")
            return "matrix", self.weight(
                self.hint(value), layout, lambda: array.reshape(rows, columns)
            )
        raise Unsupported(f"a constant of {'x'.join(map(str, own))} is broadcast")

    # --- attention ----------------------------------------------------------------------------

    def _merged_heads(self, value: SSAValue) -> tuple[Tensor, Magnitude, int] | None:
        """Attention's result if the value is its heads side by side: (heads, scale, head width)."""
        graph = self.graph
        reshape = graph.node_of(value, "reshape")
        if reshape is None or not graph.used_once(value):
            return None
        inside = reshape.operands[0]
        turn = graph.node_of(inside, "transpose")
        if turn is not None:
            if not graph.used_once(inside) or turn.call.integers("permutation") != (0, 2, 1, 3):
                return None
            inside = turn.operands[0]
        node = graph.node_of(inside, "gemma_attention")
        if node is None or not graph.used_once(inside) or len(shape_of(inside)) != 4:
            return None
        batch, heads, rows, width = shape_of(inside)
        # With one head or one row, turning heads to the front moves nothing.
        if turn is None and heads != 1 and rows != 1:
            return None
        if canonical(shape_of(value)) != (batch, rows, heads * width):
            return None
        tensor = self._attention(node)
        assert tensor.scale is not None
        return tensor, tensor.scale, width

    def _attention(self, node: Node) -> Tensor:
        call, (q, k, v) = node.call, (node.inputs[n] for n in "qkv")
        batch, heads, rows, width = shape_of(node.result)
        groups = heads // (call.integer("kv_group") or 1)
        if call.flag("transpose_k") or call.flag("transpose_v"):
            raise Unsupported("attention on transposed keys or values")
        depth, keys = shape_of(q)[-1], shape_of(k)[-2]
        factor = call.floating("scale")
        factor = 1 / math.sqrt(depth) if factor is None else factor
        if call.integer("valid_keys") is not None:
            raise Unsupported("attention with padded keys")
        # q' k' are the scores: what q is multiplied by, k is divided by.
        sizes = self.magnitude(q, lambda x: x * factor), self.magnitude(k)

        def balance() -> float:
            first, second = (m.largest for m in sizes)
            return power_of_two(math.sqrt(second / first)) if first and second else 1.0

        out_scale = self.magnitude(v)
        sources = [self._head_source(x, n) for x, n in ((q, heads), (k, groups), (v, groups))]
        order = _head_order(depth, [s[1] for s in sources[:2] if s is not None and s[1]])
        natural = _head_order(width, [])
        operands = {
            "q": self._heads(q, heads, "heads", order, sources[0], lambda: factor * balance()),
            "kt": self._heads(k, groups, "columns", order, sources[1], lambda: 1 / balance()),
            "v": self._heads(
                v, groups, "values", natural, sources[2], lambda: 1 / out_scale.scale()
            ),
        }
        options: dict[str, Any] = {}
        if call.flag("causal"):
            options["mask"] = "causal"
        if "mask" in node.inputs:
            if "mask" in options:
                raise Unsupported("attention with a causal and another mask")
            tensor, kind, per_batch = self._mask(node.inputs["mask"], batch, rows, keys)
            operands["mask"] = self._staged(tensor) if heads > 1 else tensor
            options |= {"mask": kind, "batch": per_batch}
        out = self.activation(
            node.layer or "attention", (batch, heads, rows, padded(width)), "fp8",
            value=node.result, scale=out_scale,
            undo=lambda content: content[..., :width] * out_scale.scale(),
        )  # fmt: skip
        macs = batch * heads * rows * keys * (depth + width)
        return self.call(
            node.layer or "attention", "attention", operands, out, (node,), macs, None, sizes,
            **options,
        )  # fmt: skip

    def _staged(self, tensor: Tensor) -> Tensor:
        """A copy that may stay in VMEM, of a tensor that one kernel reads many times."""
        layout = tensor.layout
        out = Tensor(self.unique(f"{tensor.name}.staged"), layout, "activation")
        return self.call(
            f"{tensor.name} to VMEM", "copy", {"x": tensor}, out, (),
            rank=len(layout.shape), dtype=layout.dtype,
        )  # fmt: skip

    def _mask(self, value: SSAValue, batch: int, rows: int, keys: int) -> tuple[Tensor, str, bool]:
        own = shape_of(value)
        whole = (1,) * (4 - len(own)) + own
        if whole[1] != 1:
            raise Unsupported("a mask that differs between heads")
        conversion = "mask" if dtype_of(value) == "i1" else "clip"
        per_batch = whole[0] > 1
        if per_batch and whole[0] != batch:
            raise Unsupported("a mask for another batch")
        shape = (batch, rows, keys) if per_batch else (rows, keys)
        array = self.graph.constants.get(value)
        if array is not None:
            numbers = np.where(array, 0.0, LOWEST) if conversion == "mask" else array
            numbers = np.maximum(np.asarray(numbers, np.float32), LOWEST).reshape(shape)
            tensor = self.remembered(
                (value, "mask"),
                lambda: self.weight(self.hint(value), Layout(shape, "bf16"), lambda: numbers),
            )
            return tensor, "full", per_batch
        return self.from_host(value, shape, conversion), "full", per_batch

    def _heads(
        self,
        value: SSAValue,
        count: int,
        kind: str,
        order: list[int],
        source: tuple[Linear, Node | None] | None,
        factor: Callable[[], float],
    ) -> Tensor:
        """Queries, keys or values of attention in fp8, times `factor`."""
        if source is None:
            if order != list(range(shape_of(value)[-1])):
                raise Unsupported("heads from elsewhere would have to be rearranged")
            return self._split_heads(value, count, kind, factor)
        linear, rope = source
        a, weight, offset, scale, merged = self._operand(linear)
        if merged:
            raise Unsupported("heads made of merged heads")
        batch, _, rows, width = shape_of(value)
        wide = len(order)
        columns = np.array([k for k in order if k >= 0])
        places = np.array([p for p, k in enumerate(order) if k >= 0])
        weights = np.zeros((count, weight.shape[0], wide), np.float32)
        heads = weight.reshape(weight.shape[0], count, width).transpose(1, 0, 2)
        weights[:, :, places] = heads[:, :, columns]
        channel = self.channel_scales(weights)
        bias = (
            linear.bias if offset is None else offset + (0 if linear.bias is None else linear.bias)
        )
        operands = {
            "a": a,
            "w": self.weight(
                f"{linear.name}.weight",
                Layout(weights.shape, "fp8", "panels"),
                lambda: weights / channel,
            ),
            "scale": self.weight(
                f"{linear.name}.scale",
                Layout((count, wide), "bf16", "rows"),
                lambda: channel[:, 0, :] * (scale() * factor()),
            ),
        }
        if bias is not None:
            spread = np.zeros((count, wide), np.float32)
            spread[:, places] = bias.reshape(count, width)[:, columns]
            operands["bias"] = self.weight(
                f"{linear.name}.bias",
                Layout((count, wide), "bf16", "rows"),
                lambda: spread * factor(),
            )
        options: dict[str, Any] = {"out": kind, "scale": True, "bias": bias is not None}
        nodes = linear.nodes
        if rope is not None:
            tables, options["rope"] = self._tables(rope, batch, rows, width)
            operands |= tables
            nodes = (*nodes, rope)
        shape = (batch, count, wide, rows) if kind == "columns" else (batch, count, rows, wide)
        order_name = "panels" if kind == "columns" else "tiles"

        def undo(content: np.ndarray) -> np.ndarray:
            apart = content.swapaxes(2, 3) if kind == "columns" else content
            natural = np.empty((*apart.shape[:-1], width), apart.dtype)
            natural[..., columns] = apart[..., places] / factor()
            return natural

        out = self.activation(
            f"{linear.name}.{kind}", shape, "fp8", order_name, value=value, undo=undo
        )
        macs = batch * rows * linear.weight.size
        return self.call(linear.name, "project", operands, out, nodes, macs, **options)

    def _head_source(self, value: SSAValue, count: int) -> tuple[Linear, Node | None] | None:
        """The product (and rotation) that heads [B, H, M, D] come from."""
        graph, rope, turned = self.graph, None, False
        batch, _, rows, width = shape_of(value)
        while True:
            node = graph.definition.get(value)
            if node is None or not graph.used_once(value):
                return None
            if node.family == "rope" and rope is None:
                rope, value = node, node.inputs["x"]
            elif node.family == "transpose" and not turned:
                if node.call.integers("permutation") != (0, 2, 1, 3):
                    return None
                turned, value = True, node.operands[0]
            elif node.family == "reshape":
                inside = shape_of(node.operands[0])
                # With one head or one row, turning heads to the front moves nothing.
                turned = turned or count == 1 or rows == 1
                if not turned or canonical(inside) != (batch, rows, count * width):
                    return None
                linear = self._linear(node.operands[0])
                if linear is None or linear.activation or not graph.used_once(node.operands[0]):
                    return None
                if self.kept(linear.name):
                    raise TilewrightError(
                        "TW1709",
                        f"{linear.name} cannot be kept in bf16: attention takes its result as fp8",
                        graph.definition[value].location,
                        "keep other layers",
                    )
                return linear, rope
            else:
                return None

    def _tables(
        self, rope: Node, batch: int, rows: int, width: int
    ) -> tuple[dict[str, Tensor], str]:
        """cos and sin as [M, width / 2], or with a batch in front."""
        tables, half = {}, width // 2
        for name in ("cos", "sin"):
            value = rope.inputs[name]
            own = shape_of(value)
            count = math.prod(own)
            if own[-1] != half or count not in (rows * half, batch * rows * half):
                raise Unsupported(f"rotary tables of {'x'.join(map(str, own))}")
            shape = (rows, half) if count == rows * half else (batch, rows, half)
            array = self.graph.constants.get(value)
            if array is not None:
                tables[name] = self.remembered(
                    (value, "table"),
                    lambda value=value, array=array, shape=shape: self.weight(
                        self.hint(value), Layout(shape, "bf16"), lambda: array.reshape(shape)
                    ),
                )
            else:
                tables[name] = self.from_host(value, shape)
        kinds = {len(t.layout.shape) for t in tables.values()}
        if len(kinds) != 1:
            raise Unsupported("cos and sin of different shapes")
        return tables, "batch" if kinds == {3} else "shared"

    def _split_heads(
        self, value: SSAValue, count: int, kind: str, factor: Callable[[], float]
    ) -> Tensor:
        """Heads [B, H, M, D] that come from elsewhere: cut out of bf16 [B, M, H * D]."""
        graph, batch = self.graph, shape_of(value)[0]
        _, _, rows, width = shape_of(value)
        turn = graph.node_of(value, "transpose")
        if turn is None or turn.call.integers("permutation") != (0, 2, 1, 3):
            raise Unsupported("attention whose heads are not made by a product")
        inner = turn.operands[0]
        if inner in graph.inputs:
            source = self.from_host(inner, (batch, rows, count * width))
        else:
            reshape = graph.node_of(inner, "reshape")
            if reshape is None or canonical(shape_of(reshape.operands[0])) != (
                batch, rows, count * width,
            ):  # fmt: skip
                raise Unsupported("attention whose heads are not made by a product")
            source = self.bf16(reshape.operands[0])
        if width % SIDE:
            raise Unsupported(f"heads of {width} columns cut out of a wider tensor")
        shape = (batch, count, width, rows) if kind == "columns" else (batch, count, rows, width)
        order = "panels" if kind == "columns" else "tiles"

        def undo(content: np.ndarray) -> np.ndarray:
            return (content.swapaxes(2, 3) if kind == "columns" else content) / factor()

        out = self.activation(f"{source.name}.{kind}", shape, "fp8", order, value=value, undo=undo)
        return self.call(
            f"{source.name} to heads", "split_heads", {"x": source}, out, (turn,), 0,
            {"factor": factor}, out=kind, heads=count,
        )  # fmt: skip


def _row_block(rows: int, deep: int) -> int:
    """Rows to hold on chip at a time when all of them are too many; 0: all."""
    down, across = padded(rows) // SIDE, padded(deep) // SIDE
    if down * across <= WHOLE:
        return 0
    blocks = -(-down // max(1, WHOLE // across))
    return -(-down // blocks) * SIDE


# --- small things -----------------------------------------------------------------------------


def _unary_name(node: Node) -> str:
    """The operation of a node by its short name.

    The exact GELU is computed in its tanh form, which is never more than 0.0005 away from it.
    """
    if node.family == "gelu_erf":
        return "gelu_tanh"
    return node.family.removeprefix("elementwise_")


def _column_slice(node: Node) -> slice | None:
    """The columns a slice takes, if it takes all of everything else."""
    offsets, sizes = node.call.integers("offsets"), node.call.integers("sizes")
    steps = node.call.integers("strides")
    shape = shape_of(node.operands[0])
    if offsets is None or sizes is None or (steps is not None and set(steps) != {1}):
        return None
    if any(offsets[:-1]) or tuple(sizes[:-1]) != shape[:-1]:
        return None
    return slice(offsets[-1], offsets[-1] + sizes[-1])


def _normed(x: np.ndarray, kind: str, epsilon: float) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True) if kind == "layer" else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def _head_order(width: int, ropes: list[Node]) -> list[int]:
    """Which column of a head goes where; -1 is padding. Pairs of a rotation end up in halves
    that are whole tiles."""
    if not ropes:
        return [*range(width), *[-1] * (padded(width) - width)]
    half = width // 2
    styles = {rope.call.string("style") for rope in ropes}
    if len(styles) > 1:
        raise Unsupported("queries and keys rotated in different styles")
    if styles == {"interleaved"}:
        first, second = list(range(0, width, 2)), list(range(1, width, 2))
    else:
        first, second = list(range(half)), list(range(half, width))
    rest = [-1] * (padded(half) - half)
    return [*first, *rest, *second, *rest]


def _named(layer: str, names: tuple[str, ...]) -> bool:
    """Whether a layer is one of the names, or inside of one."""
    return any(layer == name or layer.startswith(f"{name}.") for name in names if layer)


def _source(node: Node) -> str:
    place = node.location
    where = f" {place.file}:{place.line}" if place is not None else ""
    return f"{node.layer or node.family}: {node.family}{where}"


def _common(names: list[str]) -> str:
    """What two layers have in common: mlp of mlp.gate_proj and mlp.up_proj."""
    parts = [name.split(".") for name in names]
    shared = []
    for pieces in zip(*parts, strict=False):
        if len(set(pieces)) > 1:
            break
        shared.append(pieces[0])
    return ".".join(shared) or "+".join(names)
