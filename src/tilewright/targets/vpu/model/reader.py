"""An encoded function of the device as a network.

before: kernels on tensors in the layouts of the source; products as exact sums, bias and rescaling
after:  calls of the VPU: products with their epilogues, images with channels last, heads side by side
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from tilewright.dialects.encodings import scale_of
from tilewright.dialects.xdsl_api import AffineDimExpr, ModuleOp, func
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported, TensorSpec
from tilewright.model.capture import Node, dtype_of, shape_of
from tilewright.model.parts import INPUT_PORTS, OUTPUT_PORTS, texts_of
from tilewright.targets.vpu.lowering.network import Network, Shape
from tilewright.targets.vpu.model.emitter import TO_LAST, simplified
from tilewright.targets.vpu.model.heads import HeadReader
from tilewright.targets.vpu.model.supports import (
    ATTENTION,
    BINARY,
    MOVEMENT,
    POOLS,
    REDUCTIONS,
    ROWS,
    UNARY,
)
from tilewright.targets.vpu.model.value_reader import Product

_LARGEST = 3.0e38


@dataclass(slots=True)
class Entry:
    """A function of the device: its network, and which values its ports are."""

    name: str
    network: Network
    inputs: dict[str, str]  # port -> value
    outputs: dict[str, str]
    state: tuple[str, ...] = ()  # inputs that stay in DDR


def read_function(function: func.FuncOp, weights: dict[str, np.ndarray]) -> Entry:
    """The network of a function of the device."""
    block = function.body.block
    inputs, outputs = texts_of(function, INPUT_PORTS), texts_of(function, OUTPUT_PORTS)
    last = block.last_op
    assert last is not None
    model = Imported(
        ModuleOp([function.clone()]),
        weights,
        tuple(
            TensorSpec(n, shape_of(v), dtype_of(v)) for n, v in zip(inputs, block.args, strict=True)
        ),
        tuple(
            TensorSpec(n, shape_of(v), dtype_of(v))
            for n, v in zip(outputs, last.operands, strict=True)
        ),
        function.sym_name.data,
    )
    return _Reader(model).run()


class _Reader(HeadReader):
    def run(self) -> Entry:
        network, inputs, outputs = self.network, {}, {}
        for value, port in self.graph.inputs.items():
            dtype, scale = self.format(value)
            inputs[port] = self.names[value] = network.input(port, self.rank(value), dtype, scale)
        for node in self.graph.nodes:
            self.label = node.layer or node.family
            self.sources = (node.layer,) if node.layer else ()
            self.convert(node)
        self.label, taken = "output", set()
        for port, value in self.graph.outputs:
            name = self.converted(self.plain(value), *self.format(value))
            if name in taken or name in network.inputs or network.values[name].data is not None:
                own = network.values[name]
                name = self.emit("cast", {"x": name}, own.shape, own.dtype, own.scale)  # type: ignore[arg-type]
            taken.add(name)
            outputs[port] = name
            network.outputs.append(name)
        return Entry(self.entry_name, simplified(network), inputs, outputs)

    # --- Operations ----------------------------------------------------------------------------

    def convert(self, node: Node) -> None:
        family = node.family
        if family == "elementwise_add" and node.inputs.get("lhs") in self.products:
            self.add_bias(node)
        elif family == "matmul":
            self.matmul(node)
        elif family == "conv2d":
            self.convolution(node)
        elif family == "rescale":
            self.rescale(node)
        elif family in UNARY:
            self.elements(node, "unary", ["x"], function=UNARY[family])
        elif family in BINARY or family == "encoded_add":
            self.elements(node, "binary", ["lhs", "rhs"], function=BINARY.get(family, "add"))
        elif family == "silu_gate":
            self.elements(node, "silu_gate", ["gate", "up"])
        elif family in ("cast", "quantise", "dequantise"):
            if "factor" in node.inputs:
                raise TilewrightError("TW7086", f"{self.label}: codes with a scale per row")
            self.elements(node, "cast", ["x"])
        elif family == "clamp":
            self.clamp(node)
        elif family in ROWS:
            self.row(node)
        elif family in REDUCTIONS:
            self.reduction(node)
        elif family in POOLS:
            self.pool(node)
        elif family in ATTENTION:
            self.attention(node)
        elif family == "rope":
            self.rope(node)
        else:
            self.movement(node)

    def add_bias(self, node: Node) -> None:
        product = self.products.pop(node.inputs["lhs"])
        bias = self.data(node.inputs["rhs"]).astype(np.int32).reshape(-1)
        self.products[node.result] = replace(product, bias=bias)

    def matmul(self, node: Node) -> None:
        lhs, rhs = node.inputs["lhs"], node.inputs["rhs"]
        constant = rhs in self.graph.constants and len(shape_of(rhs)) == 2
        left = self.plain(lhs)
        if node.call.flag("transpose_lhs"):
            left = self.transpose(left, _swapped(len(self.shape(left))))
        if not constant:
            right = self.plain(rhs)
            if not node.call.flag("transpose_rhs"):
                right = self.transpose(right, _swapped(len(self.shape(right))))
            if self.network.values[left].dtype == "i8":
                raise TilewrightError("TW7086", f"{self.label}: i8 products of two activations")
            self.made(node, "matmul", {"x": left, "y": right})
            return
        weight = self.data(rhs)
        if not node.call.flag("transpose_rhs"):
            weight = weight.T
        product = Product("linear", left, np.ascontiguousarray(weight), self.rank(node.result))
        if dtype_of(node.result) == "i32":
            self.products[node.result] = product
        else:
            self.names[node.result] = self.finish(product, node, None)

    def convolution(self, node: Node) -> None:
        call = node.call
        first = call.string("layout") == "nchw_fchw"
        weight = self.data(node.inputs["w"])
        weight = weight.transpose((0, 2, 3, 1) if first else (3, 0, 1, 2))
        shape = shape_of(node.result)
        attributes: dict[str, Any] = {
            name: tuple(call.integers(name) or ()) for name in ("strides", "padding", "dilations")
        }
        attributes["groups"] = call.integer("groups") or 1
        x = self.image(node.inputs["x"]) if first else self.plain(node.inputs["x"])
        out = (shape[0], shape[2], shape[3], shape[1]) if first else shape
        product = Product("convolution", x, np.ascontiguousarray(weight), out, attributes,
                          image=first)  # fmt: skip
        bias = node.inputs.get("bias")
        late = bias is not None and bias not in self.graph.constants
        if bias is not None and (not late or dtype_of(node.result) == "i32"):
            product.bias = self.data(bias)
        if dtype_of(node.result) == "i32":
            self.products[node.result] = product
            return
        made = self.finish(product, node, None, "f32" if late else None)
        if bias is not None and late:  # computed: added before the only rounding
            row = self.reshape(self.plain(bias), (1, 1, 1, out[3]))
            made = self.emit("binary", {"lhs": made, "rhs": row}, out, *self.format(node.result),
                             function="add")  # fmt: skip
        self._keep(node, product, made)

    def _keep(self, node: Node, product: Product, name: str) -> None:
        (self.images if product.image else self.names)[node.result] = name

    def rescale(self, node: Node) -> None:
        product = self.products.pop(node.inputs["x"])
        if "factor" in node.inputs:
            factor = self.data(node.inputs["factor"]).astype(np.float32).reshape(-1)
        else:
            factor = np.float32(node.call.floating("factor") or 1.0).reshape(1)
        factor = np.broadcast_to(factor, product.weight.shape[0]).copy()
        self._keep(node, product, self.finish(product, node, factor))

    def finish(
        self, product: Product, node: Node, factor: np.ndarray | None, wide: str | None = None
    ) -> str:
        """The call of a product, with what comes behind its sums; `wide`: not yet rounded."""
        dtype, scale = (wide, None) if wide else self.format(node.result)
        weight = product.weight
        if factor is None:
            weight = weight.astype(np.float16)
        operands = {"x": product.x, "weight": self.constant(weight, f"{self.label}.weight")}
        if factor is not None:
            operands["factor"] = self.constant(factor, f"{self.label}.factor")
        if product.bias is not None:
            kind = np.int32 if factor is not None else np.float32
            operands["bias"] = self.constant(product.bias.astype(kind), f"{self.label}.bias")
        return self.emit(
            product.family, operands, product.shape, dtype, scale, **product.attributes
        )

    def elements(self, node: Node, family: str, roles: list[str], **attributes: Any) -> None:
        """Element by element; images stay images."""
        values = [node.inputs[role] for role in roles if role in node.inputs]
        shape = self.rank(node.result)
        as_images = len(shape) == 4 and any(
            value in self.images and value not in self.names and shape_of(value) == shape
            for value in values
        )
        dtype, scale = self.format(node.result)
        operands, index = {}, 0
        for role in roles:
            literal = node.call.value(f"scalar_{role}")
            if role not in node.inputs and literal is not None:
                kind = np.float16 if dtype == "f16" else np.float32
                array = np.full((1,) * len(shape), kind(literal)).astype(np.float32)
                operands[role] = self.constant(array)
                continue
            operands[role] = self.aligned(node, index, as_images, shape)
            index += 1
        if family == "unary" and attributes["function"] == "relu":
            family, attributes = "bound", {"low": 0.0, "high": _LARGEST}
        out = tuple(shape[d] for d in TO_LAST) if as_images else shape
        if out and all(self.shape(name)[-1:] == (1,) for name in operands.values()):
            role = next(iter(operands))  # nobody has whole rows: one operand is repeated along them
            operands[role] = self.along_rows(operands[role], out[-1])
        made = self.emit(family, operands, out, dtype, scale, **attributes)
        (self.images if as_images else self.names)[node.result] = made

    def aligned(self, node: Node, index: int, as_image: bool, shape: Shape) -> str:
        """An operand with the rank of the result, 1 where it is repeated."""
        value = node.operands[index]
        if as_image and value in self.images and shape_of(value) == shape:
            return self.images[value]
        own, expressions = shape_of(value), node.call.operand_maps()[index].results
        full = [1] * len(shape)
        for expression, size in zip(expressions, own, strict=True):
            if isinstance(expression, AffineDimExpr):
                full[expression.position] = size
        name = self.reshape(self.plain(value), full)
        if as_image:
            name = self.transpose(name, TO_LAST)
            shape = tuple(shape[d] for d in TO_LAST)
        return self.broadcast(name, shape)

    def clamp(self, node: Node) -> None:
        low, high = node.call.value("min"), node.call.value("max")
        unit = scale_of(node.result) if dtype_of(node.result) == "i8" else None
        factor = 1.0 if unit is None else unit
        bounds = (
            -_LARGEST if low is None else float(low) * factor,
            _LARGEST if high is None else float(high) * factor,
        )
        self.elements(node, "bound", ["x"], low=bounds[0], high=bounds[1])

    def row(self, node: Node) -> None:
        shape = self.rank(node.result)
        axis = node.call.axis(len(shape))
        order = [d for d in range(len(shape)) if d != axis] + [axis]
        x = self.transpose(self.plain(node.inputs["x"]), order)
        operands = {"x": x}
        attributes: dict[str, Any] = {}
        if node.family != "softmax":
            attributes["epsilon"] = float(node.call.floating("epsilon") or 0.0)
            for role in ("weight", "bias"):
                if role in node.inputs:
                    operands[role] = self.reshape(self.plain(node.inputs[role]), (shape[axis],))
            if "bias" in operands and "weight" not in operands:
                one = np.ones(shape[axis], np.float16)
                operands = {"x": x, "weight": self.constant(one), "bias": operands["bias"]}
        dtype, scale = self.format(node.result)
        turned = tuple(shape[d] for d in order)
        made = self.emit(node.family, operands, turned, dtype, scale, **attributes)
        back = [order.index(d) for d in range(len(shape))]
        self.names[node.result] = self.transpose(made, back)

    def reduction(self, node: Node) -> None:
        x = node.inputs["x"]
        shape = self.rank(x)
        axes = sorted(axis % len(shape) for axis in node.call.integers("axes") or ())
        dtype, scale = self.format(node.result)
        mean = REDUCTIONS[node.family] == "mean"
        if mean and axes == [2, 3] and x in self.images and x not in self.names:
            made = self.emit(
                "pool", {"x": self.images[x]}, (shape[0], 1, 1, shape[1]), dtype, scale,
                function="avg", kernel=(shape[2], shape[3]),
            )  # fmt: skip
            self.names[node.result] = self.reshape(made, self.rank(node.result))
            return
        kept = [d for d in range(len(shape)) if d not in axes]
        moved = self.transpose(self.plain(x), [*kept, *axes])
        size = prod(shape[d] for d in axes)
        flat = self.reshape(moved, (*(shape[d] for d in kept), size) if kept else (1, size))
        rows = self.shape(flat)[:-1]
        made = self.emit("reduce", {"x": flat}, (*rows, 1), dtype, scale,
                         function=REDUCTIONS[node.family])  # fmt: skip
        self.names[node.result] = self.reshape(made, self.rank(node.result))

    def pool(self, node: Node) -> None:
        call, shape = node.call, shape_of(node.result)
        first = call.string("layout") == "nchw"
        x = self.image(node.inputs["x"]) if first else self.plain(node.inputs["x"])
        out = (shape[0], shape[2], shape[3], shape[1]) if first else shape
        dtype, scale = self.format(node.result)
        made = self.emit(
            "pool", {"x": x}, out, dtype, scale, function=POOLS[node.family],
            kernel=call.integers("kernel"), strides=call.integers("strides"),
            padding=call.integers("padding"), count_padding=call.flag("count_include_pad"),
        )  # fmt: skip
        (self.images if first else self.names)[node.result] = made

    def movement(self, node: Node) -> None:
        family, call = node.family, node.call
        if family == "concat":
            self.concat(node)
            return
        if family not in MOVEMENT:
            raise TilewrightError("TW7086", f"{self.label}: the VPU has no {family}")
        x = self.plain(node.inputs["x"])
        if family == "reshape":
            made = self.reshape(x, self.rank(node.result))
        elif family == "transpose":
            made = self.transpose(x, call.integers("permutation") or ())
        else:
            made = self.emit(
                "slice", {"x": x}, self.rank(node.result), self.network.values[x].dtype,
                self.unit(x), offsets=call.integers("offsets"), sizes=call.integers("sizes"),
                steps=call.integers("strides"),
            )  # fmt: skip
        self.names[node.result] = self.moved(node, made)

    def concat(self, node: Node) -> None:
        shape = self.rank(node.result)
        axis = node.call.axis(len(shape))
        parts = node.inputs["parts"]
        as_images = len(shape) == 4 and all(p in self.images and p not in self.names for p in parts)
        if as_images:
            operands = {f"part{n}": self.images[part] for n, part in enumerate(parts)}
            out, axis = tuple(shape[d] for d in TO_LAST), TO_LAST.index(axis)
        else:
            operands = {f"part{n}": self.plain(part) for n, part in enumerate(parts)}
            out = shape
        found = {(self.network.values[n].dtype, self.unit(n)) for n in operands.values()}
        dtype, scale = found.pop() if len(found) == 1 else self.format(node.result)
        operands = {role: self.converted(name, dtype, scale) for role, name in operands.items()}
        made = self.moved(node, self.emit("concat", operands, out, dtype, scale, axis=axis))
        (self.images if as_images else self.names)[node.result] = made


def _swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]
