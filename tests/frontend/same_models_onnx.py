"""The four models as ONNX graphs, built by hand in the spellings exporters have."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from same_models import (
    EPSILON,
    HEADS,
    INPUTS,
    KV_HEADS,
    Array,
    rotary_tables,
    weights_of,
)


class Graph:
    """Nodes in order; every method returns the name of its result."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.weights = dict(weights_of(model))
        self.nodes: list[onnx.NodeProto] = []

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))  # type: ignore[arg-type]
        return name

    def constant(self, name: str, array: Array) -> str:
        self.weights[name] = array
        return name

    def linear(self, name: str, x: str) -> str:
        turned = self.node("Transpose", f"{name}.weight", perm=[1, 0])
        product = self.node("MatMul", x, turned)
        bias = f"{name}.bias"
        return self.node("Add", product, bias) if bias in self.weights else product

    def heads(self, x: str, count: int) -> str:
        """[batch, tokens, width] as [batch, heads, tokens, width of a head]"""
        batch, tokens, _ = INPUTS[self.model]
        shape = self.constant(f"heads_{count}", np.array([batch, tokens, count, 8], np.int64))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def joined(self, x: str) -> str:
        shape = self.constant("joined", np.array(INPUTS[self.model], np.int64))
        return self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1, 3]), shape)

    def proto(self, result: str, opset: int = 23) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.model,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, INPUTS[self.model])],
            [helper.make_empty_tensor_value_info(result)],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def mlp() -> onnx.ModelProto:
    graph = Graph("mlp")
    h = graph.node("Gelu", graph.linear("fc1", "x"), approximate="tanh")
    return graph.proto(graph.linear("fc2", h))


def cnn() -> onnx.ModelProto:
    graph = Graph("cnn")
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    h = graph.node("Conv", "x", "conv1.weight", "conv1.bias", **window)
    names = ("weight", "bias", "running_mean", "running_var")
    h = graph.node("BatchNormalization", h, *(f"bn.{n}" for n in names), epsilon=EPSILON)
    h = graph.node("MaxPool", graph.node("Relu", h), kernel_shape=[2, 2], strides=[2, 2])
    h = graph.node("Conv", h, "conv2.weight", "conv2.bias", strides=[2, 2], **window)
    axes = graph.constant("axes", np.array([2, 3], np.int64))
    h = graph.node("ReduceMean", graph.node("Relu", h), axes, keepdims=0)
    return graph.proto(graph.linear("fc", h))


def encoder() -> onnx.ModelProto:
    """Attention and GELU spelled out, as exporters for older operator sets do."""
    graph = Graph("encoder")

    def norm(name: str, x: str) -> str:
        weights = (f"{name}.weight", f"{name}.bias")
        return graph.node("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)

    q, k, v = (graph.heads(graph.linear(name, "x"), HEADS) for name in ("q", "k", "v"))
    scores = graph.node("MatMul", q, graph.node("Transpose", k, perm=[0, 1, 3, 2]))
    root = graph.constant("root", np.array(8**0.5, np.float32))
    chances = graph.node("Softmax", graph.node("Div", scores, root), axis=-1)
    mixed = graph.joined(graph.node("MatMul", chances, v))
    x = norm("norm1", graph.node("Add", "x", graph.linear("o", mixed)))
    h = graph.linear("fc1", x)
    root_two = graph.constant("root_two", np.array(2**0.5, np.float32))
    one, half = (graph.constant(n, np.array(c, np.float32)) for n, c in (("one", 1), ("half", 0.5)))
    bend = graph.node("Add", graph.node("Erf", graph.node("Div", h, root_two)), one)
    h = graph.node("Mul", graph.node("Mul", h, bend), half)
    return graph.proto(norm("norm2", graph.node("Add", x, graph.linear("fc2", h))), opset=18)


def llama() -> onnx.ModelProto:
    graph = Graph("llama")
    cos, sin = rotary_tables(7, 8)
    graph.constant("cos", cos)
    graph.constant("sin", sin)
    places = graph.constant("places", np.arange(7, dtype=np.int64)[None])

    def norm(name: str, x: str) -> str:
        return graph.node("RMSNormalization", x, f"{name}.weight", axis=-1, epsilon=EPSILON)

    def turned(x: str) -> str:
        return graph.node("RotaryEmbedding", x, "cos", "sin", places)

    h = norm("norm1", "x")
    q = turned(graph.heads(graph.linear("q", h), HEADS))
    k = turned(graph.heads(graph.linear("k", h), KV_HEADS))
    v = graph.heads(graph.linear("v", h), KV_HEADS)
    mixed = graph.joined(graph.node("Attention", q, k, v, is_causal=1))
    x = graph.node("Add", "x", graph.linear("o", mixed))
    h = norm("norm2", x)
    gate = graph.linear("gate", h)
    silu = graph.node("Mul", gate, graph.node("Sigmoid", gate))
    gated = graph.node("Mul", silu, graph.linear("up", h))
    return graph.proto(graph.node("Add", x, graph.linear("down", gated)))


GRAPHS = {"mlp": mlp, "cnn": cnn, "encoder": encoder, "llama": llama}
