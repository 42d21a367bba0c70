"""From a graph to kernel calls: which operations become one kernel, in which form values travel.

Every value can exist in several forms on the device: bf16 [B, M, C], fp8 of the same shape for
matrix products, fp8 heads for attention. Forms are made when something asks for them, so nothing
is computed that nobody reads. What no rule covers is computed by the host.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.angles import angles_of
from tilewright.model.capture import Graph, Node, dtype_of, shape_of
from tilewright.model.places import POSITIONS
from tilewright.model.positions import positions_of
from tilewright.model.ranges import MAXIMUM, RangeRule
from tilewright.targets.atlas.model.attention_products import with_products
from tilewright.targets.atlas.model.calls import (
    ONE,
    Call,
    Factor,
    Function,
    JoinedNumbers,
    Numbers,
    RangeObserver,
    Tensor,
    Unsupported,
    content_codes,
    inverse_of,
)
from tilewright.targets.atlas.model.heads import Heads
from tilewright.targets.atlas.model.images import Images
from tilewright.targets.atlas.model.matching import (
    Linear,
    canonical,
    find_linear,
    find_residual,
)
from tilewright.targets.atlas.model.narrow_ranges import channel_scales, narrower_of
from tilewright.targets.atlas.model.pointwise import Pointwise, shape_text
from tilewright.targets.atlas.model.products import Products
from tilewright.targets.atlas.model.rearranging import REDUCTIONS, Rearranging
from tilewright.targets.atlas.model.recurrent_layers import RecurrentLayers
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE, Layout

HOST_WEIGHT = "host_"  # what names of the host's weights begin with, beside those of the device
FLOATS = ("f32", "bf16", "f16", "f64")
FP8 = "f8E4M3FN"
LARGE = 1 << 16  # numbers of a weight that is rounded at once
IN_PASSES = ("norm", "softmax", "reduce")  # kernels that can do without whole rows on the chip
FRAMES = 30  # calls inside of calls per operation of a model, at most


@dataclass
class HostValue:
    """A value the host computes for the device, after `conversion`: "", "mask", "clip", "heads",
    one of those of caches (times `factor`) or of images; columns: only these of its last dimension."""

    value: SSAValue
    conversion: str
    tensor: Tensor
    columns: tuple[int, int] | None = None
    factor: Factor | None = None


@dataclass
class Lowered:
    """What the device does, what it needs from the host, and why the rest is not on it."""

    calls: list[Call] = field(default_factory=list)
    inputs: list[HostValue] = field(default_factory=list)
    outputs: dict[SSAValue, Tensor] = field(default_factory=dict)  # device results by value
    host: dict[Node, str] = field(default_factory=dict)  # with the reason
    observers: list[RangeObserver] = field(default_factory=list)


class Lowering:
    """Makes calls for the values that are asked for."""

    def __init__(
        self,
        graph: Graph,
        profile: Profile,
        fuse: bool = True,
        host: Iterable[str] = (),
        keep: Iterable[str] = (),
        per_tensor: bool = False,
        rule: RangeRule = MAXIMUM,
        merge: bool = False,
        refused: Counter[SSAValue] | None = None,
        resident: Collection[str] = (),
    ) -> None:
        """merge: all rows of a batch lie below each other, in one matrix. refused: results of
        several layers that cannot be one kernel together. resident: inputs that stay on the device
        from run to run."""
        self.graph, self.profile, self.rule, self.merge = graph, profile, rule, merge
        self.fuse, self.per_tensor, self.refused = fuse, per_tensor, refused or Counter[SSAValue]()
        self.kept_layers = tuple(keep)
        self.resident = {value for value, name in graph.inputs.items() if name in resident}
        self.products, self.heads = Products(self), Heads(self)
        self.rearranging, self.pointwise = Rearranging(self), Pointwise(self)
        self.result = Lowered()
        self.forms: dict[tuple[Any, ...], Tensor] = {}
        self.names: dict[str, int] = {}
        self.sources = _sources(graph)
        self.unsupported: dict[SSAValue, str] = {}
        self.host_layers = tuple(host)
        self.angles, self.positions = angles_of(graph), positions_of(graph)
        self.collapse = not _attends_to_single_rows(graph)
        reasons = {node: self.reason_for_host(node) for node in graph.nodes}
        self.images = Images(self, {n: reason for n, reason in reasons.items() if reason})
        self.recurrent = RecurrentLayers(self)

    def canonical(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """[B, M, C] of a tensor in this model."""
        batch, rows, columns = canonical(shape, self.collapse)
        return (1, batch * rows, columns) if self.merge else (batch, rows, columns)

    def linear(self, value: SSAValue) -> Linear | None:
        found = find_linear(self.graph, value, self.fuse)
        if found is not None and any(self.reason_for_host(node) for node in found.nodes):
            return None
        return found

    def run(self) -> Lowered:
        with _deep_recursion(FRAMES * len(self.graph.nodes)):
            for _, value in self.graph.outputs:
                self._outside(value)
        self._drop_unread()
        if self.fuse:
            wanted = set(self.result.outputs.values())
            self.result.calls = with_products(self.result.calls, self.profile, wanted, self.refused)
        return self.result

    def _drop_unread(self) -> None:
        """Leave out calls whose result nobody reads: those of a rule that did not fit in the end."""
        wanted, calls = set(self.result.outputs.values()), []
        for call in reversed(self.result.calls):
            if not wanted.isdisjoint(call.results.values()):
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
        reason = self.reason_for_host(node)
        if reason is None:
            try:
                tensor = self.images.outside(value) if value in self.images else None
                if value in self.recurrent:
                    tensor = self.recurrent.outside(value)
                tensor = self.bf16(value) if tensor is None else tensor
                if tensor.kind in ("activation", "output"):
                    self.result.outputs[value] = tensor
                    tensor.kind = "output"
                    return
                if node in self.result.host:  # found on the way, with the reason
                    return
                reason = "it has the numbers of an input or a constant, which are with the host"
            except Unsupported as error:
                reason = str(error)
        self.result.host[node] = reason
        for operand in node.operands:
            self._outside(operand)

    def reason_for_host(self, node: Node) -> str | None:
        """Why the host computes a node whatever kernels there are; None: nothing says it does."""
        if dtype_of(node.result) not in FLOATS:
            return f"{dtype_of(node.result)} values are not for the NPU"
        if not all(all(shape_of(value)) for value in (node.result, *node.operands)):
            return (
                "it makes or reads a tensor without elements, for which there is nothing to compute"
            )
        if node in self.angles:
            return "angles of sin and cos stay in float32: in bf16 they would be off by radians"
        if node in self.positions:
            return POSITIONS
        if self._is_between_flags(node):
            return "it is between whole numbers or flags, which are with the host"
        return "asked for" if _named(node.layer, self.host_layers) else None

    def _is_between_flags(self, node: Node) -> bool:
        """Whether a node only turns numbers that are with the host into others: masks, counts."""
        if node.family == "cast":
            return dtype_of(node.operands[0]) not in FLOATS and self._is_for_flags(node)
        made = [self.graph.definition.get(value) for value in node.operands]
        if node.family not in REDUCTIONS or not all(
            one is not None and one.family == "cast" and dtype_of(one.operands[0]) not in FLOATS
            for one in made
        ):
            return False
        return self._is_for_flags(node)

    def _is_for_flags(self, node: Node) -> bool:
        """Whether only values that are not for the device are made of a node's."""
        users = self.graph.users.get(node.result, ())
        return bool(users) and all(
            dtype_of(user.result) not in FLOATS
            or (user.family in REDUCTIONS and self._is_for_flags(user))
            for user in users
        )

    def kept(self, layer: str) -> bool:
        """Whether a layer's products are to be as precise as bf16."""
        return _named(layer, self.kept_layers)

    def from_host(
        self,
        value: SSAValue,
        shape: tuple[int, ...],
        conversion: str = "",
        columns: tuple[int, int] | None = None,
    ) -> Tensor:
        """A tensor the host fills: an input of the model, or what it computes."""
        key = (value, "host", shape, conversion, columns)
        if key not in self.forms:
            name = self.graph.inputs.get(value) or self.hint(value)
            layout = Layout(shape, "bf16", "tiles")
            stays = value in self.resident and not conversion and columns is None
            kind = "state" if stays else "input"
            tensor = Tensor(self.unique(name), layout, kind, value=value)
            self.forms[key] = tensor
            self.take_from_host(value, conversion, tensor, columns)
        return self.forms[key]

    def take_from_host(
        self,
        value: SSAValue,
        conversion: str,
        tensor: Tensor,
        columns: tuple[int, int] | None = None,
        factor: Factor | None = None,
    ) -> None:
        """Have the host fill a tensor with a value."""
        self.result.inputs.append(HostValue(value, conversion, tensor, columns, factor))
        self._outside(value)

    # --- names and forms ----------------------------------------------------------------------

    def unique(self, name: str) -> str:
        name = re.sub(r"[^\w.]+", "_", name).strip("_") or "value"
        if name.startswith(HOST_WEIGHT):
            name = f"device.{name}"
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
        self, value: SSAValue, function: Function | None = None, stored: SSAValue | None = None
    ) -> RangeObserver:
        """The range of a value, or of a function of it that is `stored` as another value."""
        found = RangeObserver(value, function)
        read = stored if function is not None else value
        if self.rule.kind != "max" and read is not None:
            plain = stored is not None
            found.narrower = narrower_of(self.graph, read, self.rule, self.kept, plain)
        self.result.observers.append(found)
        return found

    def weight(
        self,
        name: str,
        layout: Layout,
        array: np.ndarray,
        over: np.ndarray | None = None,
        factor: Factor = ONE,
        parts: tuple[tuple[int, Factor], ...] = (),
    ) -> Tensor:
        """A weight, over some numbers, times a factor. parts: how many of its input channels have
        which factor beside that."""
        numbers = (
            JoinedNumbers(array, over, factor, parts) if parts else Numbers(array, over, factor)
        )
        made = Tensor(self.unique(name), layout, "weight", numbers)
        if parts:
            return made
        if array.size >= LARGE and factor == ONE:  # no range is waited for
            content_codes(made)
        return made

    def call(
        self,
        name: str,
        kernel: str,
        operands: dict[str, Tensor],
        output: Tensor,
        nodes: tuple[Node, ...],
        macs: int = 0,
        deferred: dict[str, Factor] | None = None,
        noted: tuple[RangeObserver, ...] = (),
        others: dict[str, Tensor] | None = None,
        **options: Any,
    ) -> Tensor:
        sources = tuple(
            dict.fromkeys(self.sources.get(node.result) or _source(node) for node in nodes)
        )
        value = nodes[-1].result if nodes else output.value
        if kernel in IN_PASSES and output.value in self.refused:
            options["passes"] = True
        made = Call(
            name, kernel, operands, output, options, deferred or {}, sources, macs, value, noted,
            others=others or {},
        )  # fmt: skip
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
        if dtype_of(value) not in FLOATS:
            raise Unsupported(f"{dtype_of(value)} values are not for the NPU")
        shape = self.canonical(shape_of(value))
        if value in self.graph.constants:
            array = self.graph.constants[value]
            layout = Layout(shape, "bf16")
            name = self.unique(self.hint(value))
            return Tensor(name, layout, "constant", Numbers(array.reshape(shape)), value)
        if value in self.graph.inputs:
            return self.from_host(value, shape)
        if value in self.images:  # stored in another order: by way of the host
            return self.from_host(value, shape)
        node = self.graph.definition[value]
        reason = self.reason_for_host(node) or self.images.reason(node)
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
        recurrent = self.recurrent.bf16(value) if value in self.recurrent else None
        if recurrent is not None:
            return recurrent
        mean = self.images.mean(value, "bf16")
        if mean is not None:
            return mean
        found = self.linear(value)
        if found is not None:
            return self.products.emit_linear(found, value, "bf16")
        residual = find_residual(self.graph, node, self.fuse)
        if residual is not None and not any(map(self.reason_for_host, residual[0].nodes)):
            linear, other = residual
            return self.products.emit_linear(linear, value, "bf16", other)
        if node.family == "matmul":
            product = self.products.of_two(node)
            if product is not None:
                return product
        if node.family in ("rms_norm", "layer_norm"):
            return self.products.norm(node, "bf16")
        if node.family == "gemma_attention":
            return self.heads.apart(node)
        if node.family in ("reshape", "cast"):
            beside = self.heads.beside(value) if node.family == "reshape" else None
            return beside if beside is not None else self._view(node, shape)
        if (
            node.family == "softmax"
            and node.call.axis(len(shape_of(value))) == len(shape_of(value)) - 1
        ):
            x = self.bf16(node.inputs["x"])
            out = self.activation(self.hint(value), shape, "bf16", value=value)
            return self.call(node.layer or "softmax", "softmax", {"x": x}, out, (node,))
        moved = self.rearranging.of(node, shape)
        return moved if moved is not None else self.pointwise.emit(node, shape, "bf16")

    def _view(self, node: Node, shape: tuple[int, int, int]) -> Tensor:
        """A value with the same elements in the same tiles as another."""
        source = node.operands[0]
        if dtype_of(source) not in FLOATS:
            raise Unsupported(f"{dtype_of(source)} values are not for the NPU")
        if node.family == "cast" and not node.reads_plainly():
            raise Unsupported(
                f"{shape_text(source)} repeated to {shape_text(node.result)} is a copy"
            )
        before = self.canonical(shape_of(source))
        if source in self.graph.inputs:
            return self.from_host(source, shape)
        whole = before[1] % SIDE == 0 and shape[1] % SIDE == 0
        if before != shape and not (before[2] == shape[2] and whole):
            raise Unsupported(
                f"a reshape from {shape_text(source)} to {shape_text(node.result)} moves values between "
                "tiles"
            )
        if before == shape:
            return self.bf16(source)
        return self.rearranging.regrouped(node, source, shape)

    # --- products -----------------------------------------------------------------------------

    def channel_scales(self, weight: np.ndarray) -> np.ndarray:
        """One scale per column, or the same for all of them."""
        if not self.per_tensor:
            return channel_scales(weight, self.rule)
        scales = channel_scales(weight, MAXIMUM)
        return np.full_like(scales, scales.max())

    # --- fp8 [B, M, C] ------------------------------------------------------------------------

    def fp8(self, value: SSAValue) -> Tensor:
        """The value as fp8, for matrix products."""
        return self.remembered((value, "fp8"), lambda: self._make_fp8(value))

    def _only_fp8(self, value: SSAValue) -> bool:
        """Whether nobody reads a value but products, at once or as parts of it put together.

        Products that are kept read what rounding leaves out too, so they need it in bf16 first.
        """
        if (value, "bf16") in self.forms or any(value is end for _, end in self.graph.outputs):
            return False

        def takes_fp8(user: Node) -> bool:
            if user.family == "matmul":
                return user.inputs["lhs"] is value and not self.kept(user.layer)
            return user.family in ("slice", "concat") and self._only_fp8(user.result)

        users = self.graph.users.get(value, ())
        return bool(users) and all(map(takes_fp8, users))

    def _given_fp8(self, value: SSAValue, shape: tuple[int, int, int]) -> Tensor:
        """An input or constant of fp8 numbers, as it is."""
        array, scale = self.graph.constants.get(value), RangeObserver(value, fixed=True)
        name, layout = self.unique(self.hint(value)), Layout(shape, "fp8")
        if array is not None:
            numbers = np.asarray(array, np.float32).reshape(shape)
            return Tensor(name, layout, "weight", Numbers(numbers), value, scale)
        if value not in self.graph.inputs:
            raise Unsupported("fp8 values are for the NPU as inputs and constants only")
        tensor = Tensor(name, layout, "input", value=value, scale=scale)
        self.take_from_host(value, "", tensor)
        return tensor

    def _make_fp8(self, value: SSAValue) -> Tensor:
        graph, shape = self.graph, self.canonical(shape_of(value))
        if dtype_of(value) == FP8:
            return self._given_fp8(value, shape)
        node = graph.definition.get(value)
        if self.fuse and node is not None and value not in self.recurrent and self._only_fp8(value):
            mean = self.images.mean(value, "fp8")
            if mean is not None:
                return mean
            if node.family == "silu_gate":
                gated = self.products.gated(node, shape)
                if gated is not None:
                    return gated
            linear = self.linear(value)
            if linear is not None:
                return self.products.emit_linear(linear, value, "fp8")
            if self._same_elements(node) and self.canonical(shape_of(node.operands[0])) == shape:
                return self.fp8(node.operands[0])
            if self.products.is_plain_norm(node) and self.reason_for_host(node) is None:
                return self.products.norm(node, "fp8", whole=True)
            moved = self.rearranging.joined_fp8(node, shape)
            if moved is not None:
                return moved
        scale = self.magnitude(value)
        array = graph.constants.get(value)
        if array is not None:
            numbers = Numbers(np.asarray(array, np.float32).reshape(shape), None, inverse_of(scale))
            name, layout = self.unique(self.hint(value)), Layout(shape, "fp8")
            return Tensor(name, layout, "weight", numbers, value, scale)
        x = self.bf16(value)
        out = self.activation(f"{self.hint(value)}.fp8", shape, "fp8", value=value, scale=scale)
        deferred = {"factor": inverse_of(scale)}
        return self.call(
            f"{x.name} to fp8", "quantise", {"x": x}, out, (node,) if node else (), 0, deferred
        )

    def _same_elements(self, node: Node) -> bool:
        """Whether a node only gives its operand another shape, or another type of floats."""
        if dtype_of(node.operands[0]) not in FLOATS:
            return False
        return node.family == "reshape" or (node.family == "cast" and node.reads_plainly())


# --- small things -----------------------------------------------------------------------------


@contextmanager
def _deep_recursion(frames: int):
    """Room for calls inside of calls: a value asks for those it is made of, back to the inputs."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 1000 + frames))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _attends_to_single_rows(graph: Graph) -> bool:
    """Whether attention wants every batch in tiles of its own though it has a single row."""
    for node in graph.nodes:
        if node.family == "gemma_attention" and len(shape_of(node.result)) == 4:
            rows = [shape_of(node.inputs[name])[-2] for name in "qkv"]
            if shape_of(node.result)[0] > 1 and 1 in rows:
                return True
    return False


def _named(layer: str, names: tuple[str, ...]) -> bool:
    """Whether a layer is one of the names, or inside of one."""
    return any(layer == name or layer.startswith(f"{name}.") for name in names if layer)


def _source(node: Node) -> str:
    """What steps call a node they do the work of."""
    place = node.location
    where = f" {place.file}:{place.line}" if place is not None else ""
    return f"{node.layer or node.family}: {node.family}{where}"


def _sources(graph: Graph) -> dict[SSAValue, str]:
    """The same by the results of nodes, with which of several that would be called the same it is."""
    alike: dict[tuple[str, str], list[Node]] = {}
    for node in graph.nodes:
        alike.setdefault((node.layer or node.family, node.family), []).append(node)
    return {
        node.result: f"{_source(node)} ({number} of {len(nodes)})"
        if len(nodes) > 1
        else _source(node)
        for nodes in alike.values()
        for number, node in enumerate(nodes, 1)
    }
