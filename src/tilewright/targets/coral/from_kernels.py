"""A model's npu_kernel function as a Coral program.

before: kernel intents on tensors in the layouts of the source
after:  nodes on NHWC images; one-dimensional and two-dimensional convolutions are the same node

What the core cannot compute ends with an error that names the operation and its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.npu_kernel import Contraction
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.imported import Imported
from tilewright.model.capture import Graph, capture, dtype_of, shape_of
from tilewright.model.capture import Node as KernelNode
from tilewright.model.simplify import simplify
from tilewright.targets.coral.program import (
    BINARY,
    DTYPES,
    UNARY,
    Access,
    Node,
    Program,
    Shape,
    Value,
    check_dtype,
    identity,
    refuse,
)

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # NCHW to NHWC and back


def program_of(imported: Imported) -> Program:
    """The program of an imported model."""
    return _Adapter(capture(simplify(imported)), imported.source).run()


class _Adapter:
    def __init__(self, graph: Graph, source: str) -> None:
        self.graph = graph
        self.source = source
        self.values: dict[SSAValue, Value] = {}
        self.nodes: list[Node] = []
        self.count = 0
        self.node: KernelNode | None = None

    def run(self) -> Program:
        inputs = []
        for index, (value, name) in enumerate(self.graph.inputs.items()):
            inputs.append(self.declare(value, f"input_{index}", f"argument {name}"))
        for value, data in self.graph.constants.items():
            made = self.declare(value, self.fresh("constant"), "a constant")
            made.data = np.ascontiguousarray(data).astype(DTYPES[made.dtype]).reshape(made.shape)
        for node in self.graph.nodes:
            self.node = node
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

    # Making values and nodes

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def declare(self, value: SSAValue, name: str, what: str) -> Value:
        check_dtype(dtype_of(value), what)
        made = Value(name, shape_of(value), dtype_of(value))
        if 0 in made.shape:
            raise refuse(f"{what} has no elements")
        self.values[value] = made
        return made

    def emit(
        self,
        kind: str,
        inputs: list[Value],
        shape: Shape,
        dtype: str,
        accesses: list[Access] | None = None,
        **attributes: Any,
    ) -> Value:
        if 0 in shape:
            raise self.fail("its result has no elements")
        output = Value(self.fresh("value"), tuple(shape), dtype)
        place = self.node.location if self.node else None
        self.nodes.append(Node(kind, inputs, output, attributes, accesses or [], place))
        return output

    def fail(self, why: str, hint: str | None = None) -> Exception:
        node = self.node
        assert node is not None
        return refuse(f"{node.family}: {why}", node.location, hint)

    def operand(self, name: str) -> Value:
        assert self.node is not None
        return self.values[self.node.inputs[name]]

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        data = np.asarray(array).astype(DTYPES[dtype])
        return Value(self.fresh("constant"), data.shape, dtype, data)

    # Converting

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

    def elementwise(self, kind: str) -> Value:
        node = self.node
        assert node is not None
        call = node.call
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        roles = ("cond", "a", "b") if kind == "select" else ("lhs", "rhs")
        if kind == "silu_gate":
            roles = ("gate", "up")
        if kind in UNARY:
            roles = ("x",)
        maps = {}
        if "operand_maps" in call.attributes:
            maps = dict(zip(call.role_names(), call.operand_maps(), strict=True))
        inputs: list[Value] = []
        accesses: list[Access] = []
        other = next(
            (self.operand(r).dtype for r in roles if r in node.inputs and r != "cond"), dtype
        )
        for role in roles:
            if role in node.inputs:
                value = self.operand(role)
                access: Access = identity(len(value.shape))
                if role in maps:
                    access = tuple(getattr(e, "position", None) for e in maps[role].results)
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
        attributes: dict[str, Any] = {}
        if kind == "compare":
            attributes["predicate"] = call.string("predicate")
        if kind == "clamp":
            attributes |= {"min": call.value("min"), "max": call.value("max")}
        if kind == "requant" and (
            inputs[0].dtype != "f32" or dtype not in ("i8", "ui8", "i16", "i32")
        ):
            raise self.fail(f"of {inputs[0].dtype} to {dtype} is not compiled for Coral")
        if kind in ("gelu_tanh", "gelu_erf"):
            attributes["inner_scale"] = call.floating("inner_scale")
        floats = {
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "recip",
            "tanh",
            "sigmoid",
            "silu",
            "gelu_tanh",
            "gelu_erf",
            "erf",
        }
        if kind in floats | {"floor", "ceil", "round", "silu_gate"} and dtype != "f32":
            raise self.fail(f"on {dtype} is not compiled for Coral")
        return self.emit(kind, inputs, shape, dtype, accesses, **attributes)

    def scale(self) -> tuple[Value, Access] | None:
        """The scale of a quantisation, and how the result indexes it."""
        node = self.node
        assert node is not None
        call = node.call
        if "scale" in node.inputs:
            if call.attributes.get("block") is not None or "scale_encoding" in call.attributes:
                raise self.fail("scales of blocks are not compiled for Coral")
            value = self.operand("scale")
            if "operand_maps" not in call.attributes:
                if value.elements != 1:
                    raise self.fail(f"the scale has shape {value.shape}")
                return value, (None,) * len(value.shape)
            maps = dict(zip(call.role_names(), call.operand_maps(), strict=True))
            return value, tuple(getattr(e, "position", None) for e in maps["scale"].results)
        factor = call.floating("scale")
        return None if factor is None else (self.constant(np.asarray(factor), "f32"), ())

    def scaled(self, family: str) -> Value:
        """dequant is x * scale in f32; requant divides by the scale and rounds."""
        node = self.node
        assert node is not None
        x, found = self.operand("x"), self.scale()
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if x.shape != shape or (dtype if family == "dequant" else x.dtype) != "f32":
            raise self.fail(f"of {x.dtype} to {dtype} is not compiled for Coral")
        full = identity(len(shape))
        if "operand_maps" in node.call.attributes:
            maps = dict(zip(node.call.role_names(), node.call.operand_maps(), strict=True))
            if tuple(getattr(e, "position", None) for e in maps["x"].results) != full:
                raise self.fail("a quantisation that moves elements is not compiled for Coral")
        if family == "dequant":
            wide = x if x.dtype == "f32" else self.emit("cast", [x], shape, "f32", [full])
            if found is None:
                return wide
            return self.emit("mul", [wide, found[0]], shape, "f32", [full, found[1]])
        assert found is not None
        quotient = self.emit("div", [x, found[0]], shape, "f32", [full, found[1]])
        return self.emit("requant", [quotient], shape, dtype, [full])

    def transposed(self, value: Value, permutation: tuple[int, ...]) -> Value:
        if value.data is not None:
            return self.constant(value.data.transpose(permutation), value.dtype)
        shape = tuple(value.shape[p] for p in permutation)
        return self.emit("transpose", [value], shape, value.dtype, permutation=permutation)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        if value.data is not None:
            return self.constant(value.data.reshape(shape), value.dtype)
        return self.emit("reshape", [value], shape, value.dtype)

    def window(self) -> dict[str, Any]:
        assert self.node is not None
        call = self.node.call
        return {
            "strides": call.integers("strides") or (1, 1),
            "padding": call.integers("padding") or (0, 0, 0, 0),
            "dilations": call.integers("dilations") or (1, 1),
        }

    def on_conv2d(self) -> Value:
        node = self.node
        assert node is not None
        x, w = self.operand("x"), self.operand("w")
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if (x.dtype, w.dtype, dtype) not in (("f32", "f32", "f32"), ("i8", "i8", "i32")):
            raise self.fail(f"of {x.dtype} and {w.dtype} to {dtype} is not compiled for Coral")
        if min(node.call.integers("padding") or (0,)) < 0:
            raise self.fail("negative padding is not compiled for Coral")
        first = node.call.string("layout") == "nchw_fchw"
        if first:
            x, w = self.transposed(x, TO_LAST), self.transposed(w, (2, 3, 1, 0))
            shape = tuple(shape[p] for p in TO_LAST)
        inputs = [x, w]
        if "bias" in node.inputs:
            inputs.append(self.operand("bias"))
        groups = node.call.integer("groups") or 1
        out = self.emit("conv", inputs, shape, dtype, groups=groups, **self.window())
        return self.transposed(out, TO_FIRST) if first else out

    def on_pool(self) -> Value:
        node = self.node
        assert node is not None
        x, kind = self.operand("x"), node.family.removeprefix("pool_")
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if dtype not in ("f32", "i32", "i8") or (kind == "avg" and dtype != "f32"):
            raise self.fail(f"on {dtype} is not compiled for Coral")
        first = node.call.string("layout") == "nchw"
        if first:
            x, shape = self.transposed(x, TO_LAST), tuple(shape[p] for p in TO_LAST)
        kernel = node.call.integers("kernel")
        counts = node.call.flag("count_include_pad")
        out = self.emit(
            "pool",
            [x],
            shape,
            dtype,
            reduce=kind,
            kernel=kernel,
            count_include_pad=counts,
            **self.window(),
        )
        return self.transposed(out, TO_FIRST) if first else out

    def on_matmul(self) -> Value:
        """[.., m, k] x [.., k, n] as a convolution of height 1 when rhs is one matrix."""
        node = self.node
        assert node is not None
        lhs, rhs = self.operand("lhs"), self.operand("rhs")
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if (lhs.dtype, rhs.dtype, dtype) not in (("f32", "f32", "f32"), ("i8", "i8", "i32")):
            raise self.fail(f"of {lhs.dtype} and {rhs.dtype} to {dtype} is not compiled for Coral")
        if "acc" in node.inputs:
            raise self.fail("with an accumulator is not compiled for Coral")
        left, right = node.call.flag("transpose_lhs"), node.call.flag("transpose_rhs")
        if isinstance(node.op, Contraction):
            left, right = node.op.transposes()
        if left:
            lhs = self.transposed(
                lhs, (*range(len(lhs.shape) - 2), len(lhs.shape) - 1, len(lhs.shape) - 2)
            )
        if right:
            rhs = self.transposed(
                rhs, (*range(len(rhs.shape) - 2), len(rhs.shape) - 1, len(rhs.shape) - 2)
            )
        k, n = rhs.shape[-2:]
        if lhs.shape[-1] != k or len(lhs.shape) < 2:
            raise self.fail(f"shapes {lhs.shape} and {rhs.shape} do not fit")
        if int(np.prod(rhs.shape[:-2])) == 1:
            rows = lhs.elements // k
            x = self.reshaped(lhs, (1, 1, rows, k))
            w = self.reshaped(rhs, (1, 1, k, n))
            out = self.emit(
                "conv",
                [x, w],
                (1, 1, rows, n),
                dtype,
                groups=1,
                strides=(1, 1),
                padding=(0, 0, 0, 0),
                dilations=(1, 1),
            )
            return self.reshaped(out, shape)
        batch = int(np.prod(shape[:-2]))
        if lhs.elements // (lhs.shape[-2] * k) != batch or rhs.elements // (k * n) != batch:
            raise self.fail("batches that are broadcast are not compiled for Coral")
        out = self.emit(
            "batch_matmul",
            [self.reshaped(lhs, (batch, lhs.shape[-2], k)), self.reshaped(rhs, (batch, k, n))],
            (batch, lhs.shape[-2], n),
            dtype,
        )
        return self.reshaped(out, shape)

    def on_reduction(self) -> Value:
        node = self.node
        assert node is not None
        x, kind = self.operand("x"), node.family.removeprefix("reduction_")
        if "init" in node.inputs:
            raise self.fail("with an initial value is not compiled for Coral")
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if dtype not in ("f32", "i32", "i8") or (kind == "mean" and dtype != "f32"):
            raise self.fail(f"on {dtype} is not compiled for Coral")
        axes = tuple(a % len(x.shape) for a in node.call.integers("axes") or ())
        kept = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        out = self.emit("reduce", [x], kept, dtype, reduce=kind, axes=axes)
        return out if kept == shape else self.reshaped(out, shape)

    def on_softmax(self) -> Value:
        node = self.node
        assert node is not None
        x = self.operand("x")
        if x.dtype != "f32":
            raise self.fail(f"on {x.dtype} is not compiled for Coral")
        axis = node.call.axis(len(x.shape))
        return self.rows("softmax", x, axis, [])

    def rows(self, kind: str, x: Value, axis: int, more: list[Value], **attributes: Any) -> Value:
        """A function of rows along an axis; others are moved there and back."""
        last = len(x.shape) - 1
        if axis == last:
            return self.emit(kind, [x, *more], x.shape, x.dtype, **attributes)
        order = (*(k for k in range(last + 1) if k != axis), axis)
        moved = self.transposed(x, order)
        out = self.emit(kind, [moved, *more], moved.shape, x.dtype, **attributes)
        return self.transposed(out, tuple(order.index(k) for k in range(last + 1)))

    def on_layer_norm(self) -> Value:
        return self.normalisation("layer_norm")

    def on_rms_norm(self) -> Value:
        return self.normalisation("rms_norm")

    def normalisation(self, kind: str) -> Value:
        node = self.node
        assert node is not None
        x = self.operand("x")
        if x.dtype != "f32":
            raise self.fail(f"on {x.dtype} is not compiled for Coral")
        axis = node.call.axis(len(x.shape))
        more, roles = [], []
        for role in ("weight", "bias"):
            if role in node.inputs:
                value = self.operand(role)
                if value.elements != x.shape[axis]:
                    raise self.fail(f"{role} has shape {value.shape}")
                more.append(value)
                roles.append(role)
        return self.rows(
            kind, x, axis, more, epsilon=node.call.floating("epsilon"), roles=tuple(roles)
        )

    def on_gemma_attention(self) -> Value:
        """softmax(scale * q k^T) v as two products and rows of softmax."""
        node = self.node
        assert node is not None
        call = node.call
        if "mask" in node.inputs or call.flag("causal") or call.integer("valid_keys") is not None:
            raise self.fail("with a mask is not compiled for Coral")
        if (call.integer("kv_group") or 1) != 1 or dtype_of(node.result) != "f32":
            raise self.fail("with shared heads, or not on f32, is not compiled for Coral")
        q, k, v = (self.operand(role) for role in ("q", "k", "v"))
        if any(x.dtype != "f32" or x.shape[:-2] != q.shape[:-2] for x in (q, k, v)):
            raise self.fail(f"of {q.shape}, {k.shape} and {v.shape} is not compiled for Coral")
        batch = int(np.prod(q.shape[:-2]))
        m, depth = q.shape[-2:]
        q, k, v = (self.reshaped(x, (batch, *x.shape[-2:])) for x in (q, k, v))
        if not call.flag("transpose_k"):
            k = self.transposed(k, (0, 2, 1))
        if call.flag("transpose_v"):
            v = self.transposed(v, (0, 2, 1))
        scale = call.floating("scale")
        factor = self.constant(np.asarray(depth**-0.5 if scale is None else scale), "f32")
        n = k.shape[2]
        scores = self.emit("batch_matmul", [q, k], (batch, m, n), "f32")
        scores = self.emit("mul", [scores, factor], (batch, m, n), "f32", [identity(3), ()])
        weights = self.emit("softmax", [scores], (batch, m, n), "f32")
        out = self.emit("batch_matmul", [weights, v], (batch, m, v.shape[2]), "f32")
        return self.reshaped(out, shape_of(node.result))

    # Movement

    def on_transpose(self) -> Value:
        assert self.node is not None
        return self.transposed(self.operand("x"), self.node.call.integers("permutation") or ())

    def on_reshape(self) -> Value:
        assert self.node is not None
        return self.reshaped(self.operand("x"), shape_of(self.node.result))

    def on_slice(self) -> Value:
        node = self.node
        assert node is not None
        x = self.operand("x")
        offsets = node.call.integers("offsets") or ()
        strides = node.call.integers("strides") or (1,) * len(x.shape)
        return self.emit(
            "slice", [x], shape_of(node.result), x.dtype, offsets=offsets, strides=strides
        )

    def on_insert_slice(self) -> Value:
        node = self.node
        assert node is not None
        x, into = self.operand("x"), self.operand("into")
        offsets = node.call.integers("offsets") or ()
        sizes = node.call.integers("sizes") or ()
        strides = node.call.integers("strides") or (1,) * len(into.shape)
        part = self.reshaped(x, sizes) if x.shape != sizes else x
        return self.emit(
            "insert", [into, part], into.shape, into.dtype, offsets=offsets, strides=strides
        )

    def on_concat(self) -> Value:
        node = self.node
        assert node is not None
        parts = [self.values[v] for v in node.inputs["parts"]]
        axis = node.call.axis(len(parts[0].shape))
        return self.emit("concat", parts, shape_of(node.result), parts[0].dtype, axis=axis)

    def on_pad(self) -> Value:
        node = self.node
        assert node is not None
        x = self.operand("x")
        low, high = node.call.integers("low") or (), node.call.integers("high") or ()
        if min((*low, *high), default=0) < 0:
            raise self.fail("negative padding is not compiled for Coral")
        return self.emit(
            "pad", [x], shape_of(node.result), x.dtype, low=low, value=node.call.value("value")
        )

    def on_fill(self) -> Value:
        node = self.node
        assert node is not None
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        if "value" in node.inputs:
            return self.emit("copy", [self.operand("value")], shape, dtype, [()])
        return self.constant(np.full(shape, node.call.value("value")), dtype)

    def on_iota(self) -> Value:
        node = self.node
        assert node is not None
        shape, dtype = shape_of(node.result), dtype_of(node.result)
        axis = node.call.axis(len(shape))
        index = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        return self.constant(np.broadcast_to(index, shape), dtype)

    def on_gather(self) -> Value:
        node = self.node
        assert node is not None
        x, indices = self.operand("x"), self.operand("indices")
        if indices.dtype != "i32":
            raise self.fail(f"indices of {indices.dtype} are not compiled for Coral")
        axis = node.call.axis(len(x.shape))
        return self.emit("gather", [x, indices], shape_of(node.result), x.dtype, axis=axis)

    on_embedding = on_gather
