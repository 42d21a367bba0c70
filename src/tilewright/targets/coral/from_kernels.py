"""A model's npu_kernel function as a Coral program.

before: kernel intents on tensors in the layouts of the source
after:  nodes on NHWC images; one-dimensional and two-dimensional convolutions are the same node

What the core cannot compute ends with an error that names the operation and its place.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.dialects.npu_kernel import Contraction
from tilewright.errors import Location
from tilewright.frontend.imported import Imported
from tilewright.model.capture import Node as KernelNode
from tilewright.model.capture import capture, dtype_of
from tilewright.model.simplify import simplify
from tilewright.targets.coral.from_kernels_rows import Rows
from tilewright.targets.coral.program import (
    BINARY,
    DTYPES,
    REAL,
    UNARY,
    Access,
    Program,
    Value,
    check_dtype,
    identity,
)

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # NCHW to NHWC and back
FLOAT_ONLY = REAL | {"silu_gate"}
ARITHMETIC = frozenset(
    ["add", "sub", "mul", "div", "pow", "neg", "abs", "square", "cube", "relu", "clamp"]
)
INTEGERS = frozenset(DTYPES) - {"f32", "i1"}


def program_of(imported: Imported) -> Program:
    """The program of an imported model."""
    return Adapter(capture(simplify(imported)), imported.source).run()


class Adapter(Rows):
    """Converts a graph of kernel calls, one call after the other."""

    def run(self) -> Program:
        inputs = []
        place = Location(self.source)
        for index, (value, name) in enumerate(self.graph.inputs.items()):
            inputs.append(self.declare(value, f"input_{index}", f"argument {name}", place))
        for value, data in self.graph.constants.items():
            made = self.declare(value, self.fresh("constant"), "a constant", place)
            made.data = np.ascontiguousarray(data).astype(DTYPES[made.dtype]).reshape(made.shape)
        for node in self.graph.nodes:
            self.current = node
            check_dtype(dtype_of(node.result), f"the result of {node.family}", node.location)
            self.values[node.result] = self.convert(node)
        outputs = [self.values[value] for _, value in self.graph.outputs]
        return Program(
            inputs,
            outputs,
            self.nodes,
            list(self.graph.inputs.values()),
            [name for name, _ in self.graph.outputs],
            self.source,
        )

    def convert(self, node: KernelNode) -> Value:
        family = node.family.removeprefix("elementwise_")
        if family == "dequant" or (family == "requant" and self.scale()):
            return self.scaled(family)
        if family in UNARY | BINARY or family == "select":
            return self.elementwise(family)
        method = getattr(self, f"on_{node.family}", None)
        for prefix in ("reduction_", "pool_"):
            if node.family.startswith(prefix):
                method = getattr(self, f"on_{prefix[:-1]}")
        if method is None:
            raise self.fail("this operation is not compiled for Coral")
        return method()

    # Element by element

    def elementwise(self, kind: str) -> Value:
        node, call = self.node, self.call
        shape, dtype = self.result
        roles = ("cond", "a", "b") if kind == "select" else ("lhs", "rhs")
        if kind == "silu_gate":
            roles = ("gate", "up")
        if kind in UNARY:
            roles = ("x",)
        maps = self.maps()
        inputs: list[Value] = []
        accesses: list[Access] = []
        other = next(
            (self.operand(r).dtype for r in roles if r in node.inputs and r != "cond"), dtype
        )
        for role in roles:
            if role in node.inputs:
                value = self.operand(role)
                access = maps.get(role, identity(len(value.shape)))
                if len(access) != len(value.shape) or (role not in maps and value.shape != shape):
                    raise self.fail(f"operand {role} has shape {value.shape}, the result {shape}")
                inputs.append(value)
                accesses.append(access)
                continue
            literal = call.value(f"scalar_{role}")
            if literal is None:
                raise self.fail(f"operand {role} is missing")
            kept = dtype if kind == "select" else other
            inputs.append(self.constant(np.asarray(literal), kept))
            accesses.append(())
        self.check_elementwise(kind, inputs, dtype)
        attributes: dict[str, Any] = {}
        if kind == "compare":
            attributes["predicate"] = call.string("predicate")
        if kind == "clamp":
            attributes |= {"min": call.value("min"), "max": call.value("max")}
        if kind in ("gelu_tanh", "gelu_erf"):
            attributes["inner_scale"] = call.floating("inner_scale")
        return self.emit(kind, inputs, shape, dtype, accesses, **attributes)

    def check_elementwise(self, kind: str, inputs: list[Value], dtype: str) -> None:
        """Refuse element types that the generated code would get wrong."""
        if kind == "requant" and (
            inputs[0].dtype != "f32" or dtype not in ("i8", "ui8", "i16", "i32")
        ):
            raise self.fail(f"of {inputs[0].dtype} to {dtype} is not compiled for Coral")
        refused = (
            (kind in FLOAT_ONLY and dtype != "f32")
            or (kind in ARITHMETIC and dtype == "i1")
            or (kind == "pow" and dtype == "i64")
        )
        if refused:
            raise self.fail(f"on {dtype} is not compiled for Coral")

    def scale(self) -> tuple[Value, Access] | None:
        """The scale of a quantisation, and how the result indexes it."""
        call = self.call
        if "scale" in self.node.inputs:
            if call.attributes.get("block") is not None or "scale_encoding" in call.attributes:
                raise self.fail("scales of blocks are not compiled for Coral")
            value, maps = self.operand("scale"), self.maps()
            if "scale" not in maps:
                if value.elements != 1:
                    raise self.fail(f"the scale has shape {value.shape}")
                return value, (None,) * len(value.shape)
            return value, maps["scale"]
        factor = call.floating("scale")
        return None if factor is None else (self.constant(np.asarray(factor), "f32"), ())

    def scaled(self, family: str) -> Value:
        """dequant is x * scale in f32; requant divides by the scale and rounds."""
        x, found = self.operand("x"), self.scale()
        shape, dtype = self.result
        if x.shape != shape or (dtype if family == "dequant" else x.dtype) != "f32":
            raise self.fail(f"of {x.dtype} to {dtype} is not compiled for Coral")
        full = identity(len(shape))
        if self.maps().get("x", full) != full:
            raise self.fail("a quantisation that moves elements is not compiled for Coral")
        if family == "dequant":
            wide = x if x.dtype == "f32" else self.emit("cast", [x], shape, "f32", [full])
            if found is None:
                return wide
            return self.emit("mul", [wide, found[0]], shape, "f32", [full, found[1]])
        assert found is not None
        if dtype not in ("i8", "ui8", "i16", "i32"):
            raise self.fail(f"of {x.dtype} to {dtype} is not compiled for Coral")
        quotient = self.emit("div", [x, found[0]], shape, "f32", [full, found[1]])
        return self.emit("requant", [quotient], shape, dtype, [full])

    # Windows

    def window(self) -> dict[str, Any]:
        return {
            "strides": self.call.integers("strides") or (1, 1),
            "padding": self.call.integers("padding") or (0, 0, 0, 0),
            "dilations": self.call.integers("dilations") or (1, 1),
        }

    def image(self, x: Value) -> tuple[Value, dict[str, Any]]:
        """An NHWC image and its window, without negative padding: what that cuts off is cut."""
        window = self.window()
        top, left, bottom, right = window["padding"]
        cut = tuple(min(0, n) for n in (top, left, bottom, right))
        if any(cut):
            low, high = (0, cut[0], cut[1], 0), (0, cut[2], cut[3], 0)
            x = self.bordered(x, low, high, 0)
            window["padding"] = tuple(max(0, n) for n in window["padding"])
        return x, window

    def check_product(self, x: Value, w: Value, dtype: str) -> None:
        floats = (x.dtype, w.dtype, dtype) == ("f32", "f32", "f32")
        if not floats and not INTEGERS.issuperset((x.dtype, w.dtype, dtype)):
            raise self.fail(f"of {x.dtype} and {w.dtype} to {dtype} is not compiled for Coral")

    def on_conv2d(self) -> Value:
        x, w = self.operand("x"), self.operand("w")
        shape, dtype = self.result
        self.check_product(x, w, dtype)
        first = self.call.string("layout") == "nchw_fchw"
        if first:
            x, w = self.transposed(x, TO_LAST), self.transposed(w, (2, 3, 1, 0))
            shape = tuple(shape[p] for p in TO_LAST)
        x, window = self.image(x)
        inputs = [x, w]
        if "bias" in self.node.inputs:
            inputs.append(self.operand("bias"))
            if inputs[2].dtype != dtype:
                raise self.fail(f"with a bias of {inputs[2].dtype} is not compiled for Coral")
        groups = self.call.integer("groups") or 1
        out = self.emit("conv", inputs, shape, dtype, groups=groups, **window)
        return self.transposed(out, TO_FIRST) if first else out

    def on_pool(self) -> Value:
        x, kind = self.operand("x"), self.node.family.removeprefix("pool_")
        shape, dtype = self.result
        if dtype in ("i1", "i64") or (kind == "avg" and dtype != "f32"):
            raise self.fail(f"on {dtype} is not compiled for Coral")
        first = self.call.string("layout") == "nchw"
        if first:
            x, shape = self.transposed(x, TO_LAST), tuple(shape[p] for p in TO_LAST)
        x, window = self.image(x)
        out = self.emit(
            "pool",
            [x],
            shape,
            dtype,
            reduce=kind,
            kernel=self.call.integers("kernel"),
            count_include_pad=self.call.flag("count_include_pad"),
            **window,
        )
        return self.transposed(out, TO_FIRST) if first else out

    # Products

    def on_matmul(self) -> Value:
        """[.., m, k] x [.., k, n] as a convolution of height 1 when rhs is one matrix."""
        lhs, rhs = self.operand("lhs"), self.operand("rhs")
        shape, dtype = self.result
        self.check_product(lhs, rhs, dtype)
        left, right = self.call.flag("transpose_lhs"), self.call.flag("transpose_rhs")
        if isinstance(self.node.op, Contraction):
            left, right = self.node.op.transposes()
        lhs, rhs = (self.swapped(x) if swap else x for x, swap in ((lhs, left), (rhs, right)))
        k, n = rhs.shape[-2:]
        if lhs.shape[-1] != k or len(lhs.shape) < 2:
            raise self.fail(f"shapes {lhs.shape} and {rhs.shape} do not fit")
        m = lhs.shape[-2]
        if prod(rhs.shape[:-2]) == 1:
            rows = lhs.elements // k
            x, w = self.reshaped(lhs, (1, 1, rows, k)), self.reshaped(rhs, (1, 1, k, n))
            plain = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilations": (1, 1)}
            out = self.emit("conv", [x, w], (1, 1, rows, n), dtype, groups=1, **plain)
            out = self.reshaped(out, shape)
        else:
            outer = shape[:-2]
            batch = prod(outer)
            lhs, rhs = self.batched(lhs, outer), self.batched(rhs, outer)
            out = self.emit("batch_matmul", [lhs, rhs], (batch, m, n), dtype)
            out = self.reshaped(out, shape)
        if "acc" not in self.node.inputs:
            return out
        full = identity(len(shape))
        return self.emit("add", [out, self.operand("acc")], shape, dtype, [full, full])

    def swapped(self, x: Value) -> Value:
        rank = len(x.shape)
        return self.transposed(x, (*range(rank - 2), rank - 1, rank - 2))

    def batched(self, x: Value, outer: tuple[int, ...]) -> Value:
        """An operand of a batched product, with the whole batch."""
        own, matrix = x.shape[:-2], x.shape[-2:]
        if prod(own) != prod(outer):
            own = (1,) * (len(outer) - len(own)) + own
            x = self.reshaped(x, (*own, *matrix))
            x = self.repeated(x, (*outer, *matrix), range(len(outer) + 2))
        return self.reshaped(x, (prod(outer), *matrix))
