"""The four models as linalg text, written the way exporters to MLIR write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from same_models import EPSILON, HEADS, INPUTS, KV_HEADS, SHAPES, rotary_tables

Shape = tuple[int, ...]
Value = tuple[str, Shape]


def tensor(shape: Sequence[int], element: str = "f32") -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


class Text:
    """Lines of a function; every method returns a value and its shape."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.lines: list[str] = []
        self.count = 0
        self.x: Value = ("%x", INPUTS[model])

    def new(self, expression: str, shape: Sequence[int]) -> Value:
        self.count += 1
        self.lines.append(f"    %v{self.count} = {expression}")
        return f"%v{self.count}", tuple(shape)

    def number(self, value: float) -> str:
        text = "0xFF800000" if value == -math.inf else f"{value:.9e}"
        return self.new(f"arith.constant {text} : f32", ())[0]

    def weight(self, name: str) -> Value:
        shape = SHAPES[self.model][name]
        return self.new(f"arith.constant dense_resource<{name}> : {tensor(shape)}", shape)

    def literal(self, array: np.ndarray) -> Value:
        data = array.astype("<f4").tobytes().hex()
        return self.new(f'arith.constant dense<"0x{data}"> : {tensor(array.shape)}', array.shape)

    def empty(self, shape: Sequence[int]) -> Value:
        return self.new(f"tensor.empty() : {tensor(shape)}", shape)

    def filled(self, shape: Sequence[int], value: float = 0.0) -> Value:
        number, (target, _) = self.number(value), self.empty(shape)
        kind = tensor(shape)
        return self.new(f"linalg.fill ins({number} : f32) outs({target} : {kind}) -> {kind}", shape)

    def generic(
        self, body: Sequence[str], shape: Sequence[int], *inputs: tuple[Value, Sequence[int]]
    ) -> Value:
        """An element-wise generic; each input with the loops it reads, %a, %b, … in the body."""
        loops = ", ".join(f"d{i}" for i in range(len(shape)))
        reads = [places for _, places in inputs] + [list(range(len(shape)))]
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(f'd{p}' for p in places)})>" for places in reads
        )
        target, _ = self.empty(shape)
        names = ", ".join(value[0] for value, _ in inputs)
        types = ", ".join(tensor(value[1]) for value, _ in inputs)
        arguments = ", ".join(f"%{chr(97 + i)}: f32" for i in range(len(inputs)))
        kinds = ", ".join(['"parallel"'] * len(shape))
        lines = "\n      ".join(body)
        return self.new(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"ins({names} : {types}) outs({target} : {tensor(shape)}) {{\n"
            f"    ^bb0({arguments}, %out: f32):\n      {lines}\n    }} -> {tensor(shape)}",
            shape,
        )

    def pointwise(self, operation: str, *inputs: Value) -> Value:
        """One operation on tensors that line up from the last dimension."""
        shape = inputs[0][1]
        rank = len(shape)
        reads = [(value, list(range(rank - len(value[1]), rank))) for value in inputs]
        names = ", ".join(f"%{chr(97 + i)}" for i in range(len(inputs)))
        body = [f"%r = {operation} {names} : f32", "linalg.yield %r : f32"]
        return self.generic(body, shape, *reads)

    def reshaped(self, x: Value, shape: Sequence[int], groups: Sequence[Sequence[int]]) -> Value:
        kind = "collapse" if len(shape) < len(x[1]) else "expand"
        listed = ", ".join(f"[{', '.join(map(str, group))}]" for group in groups)
        sizes = "" if kind == "collapse" else f" output_shape [{', '.join(map(str, shape))}]"
        return self.new(
            f"tensor.{kind}_shape {x[0]} [{listed}]{sizes} : {tensor(x[1])} into {tensor(shape)}",
            shape,
        )

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        shape = [x[1][p] for p in order]
        target, _ = self.empty(shape)
        self.count += 1
        self.lines.append(
            f"    %v{self.count} = linalg.transpose ins({x[0]} : {tensor(x[1])}) "
            f"outs({target} : {tensor(shape)}) permutation = [{', '.join(map(str, order))}]"
        )
        return f"%v{self.count}", tuple(shape)

    def matmul(self, a: Value, b: Value, name: str = "linalg.matmul") -> Value:
        shape = (*a[1][:-1], b[1][-1])
        start, _ = self.filled(shape)
        return self.new(
            f"{name} ins({a[0]}, {b[0]} : {tensor(a[1])}, {tensor(b[1])}) "
            f"outs({start} : {tensor(shape)}) -> {tensor(shape)}",
            shape,
        )

    def linear(self, name: str, x: Value) -> Value:
        """Rows by a transposed weight, and the bias."""
        product = self.matmul(x, self.transposed(self.weight(f"{name}.weight"), [1, 0]))
        if f"{name}.bias" not in SHAPES[self.model]:
            return product
        return self.pointwise("arith.addf", product, self.weight(f"{name}.bias"))

    def reduced(self, x: Value, operation: str, start: float) -> Value:
        """Over the last dimension."""
        shape = x[1][:-1]
        first, _ = self.filled(shape, start)
        self.count += 1
        self.lines.append(
            f"    %v{self.count} = linalg.reduce ins({x[0]} : {tensor(x[1])}) "
            f"outs({first} : {tensor(shape)}) dimensions = [{len(shape)}]\n"
            f"      (%a: f32, %b: f32) {{\n        %r = {operation} %a, %b : f32\n"
            "        linalg.yield %r : f32\n      }"
        )
        return f"%v{self.count}", shape

    def rows(self, operation: str, x: Value, row: Value) -> Value:
        """x combined with one number per row."""
        whole = list(range(len(x[1])))
        body = [f"%r = {operation} %a, %b : f32", "linalg.yield %r : f32"]
        return self.generic(body, x[1], (x, whole), (row, whole[:-1]))

    def inverse_root(self, mean: Value, count: int) -> Value:
        """1 / sqrt(sum / count + epsilon)"""
        n, epsilon = self.number(count), self.number(EPSILON)
        body = [
            f"%m = arith.divf %a, {n} : f32",
            f"%s = arith.addf %m, {epsilon} : f32",
            "%r = math.rsqrt %s : f32",
            "linalg.yield %r : f32",
        ]
        return self.generic(body, mean[1], (mean, list(range(len(mean[1])))))

    def divided(self, x: Value, by: float) -> Value:
        body = [f"%r = arith.divf %a, {self.number(by)} : f32", "linalg.yield %r : f32"]
        return self.generic(body, x[1], (x, list(range(len(x[1])))))

    def layer_norm(self, name: str, x: Value) -> Value:
        mean = self.divided(self.reduced(x, "arith.addf", 0.0), x[1][-1])
        centred = self.rows("arith.subf", x, mean)
        squares = self.pointwise("arith.mulf", centred, centred)
        factor = self.inverse_root(self.reduced(squares, "arith.addf", 0.0), x[1][-1])
        normal = self.rows("arith.mulf", centred, factor)
        scaled = self.pointwise("arith.mulf", normal, self.weight(f"{name}.weight"))
        return self.pointwise("arith.addf", scaled, self.weight(f"{name}.bias"))

    def rms_norm(self, name: str, x: Value) -> Value:
        squares = self.pointwise("arith.mulf", x, x)
        factor = self.inverse_root(self.reduced(squares, "arith.addf", 0.0), x[1][-1])
        normal = self.rows("arith.mulf", x, factor)
        return self.pointwise("arith.mulf", normal, self.weight(f"{name}.weight"))

    def heads(self, x: Value, batch: int, count: int) -> Value:
        """[batch * tokens, width] as [batch * heads, tokens, width of a head]"""
        rows, width = x[1]
        tokens, each = rows // batch, width // count
        split = self.reshaped(x, (batch, tokens, count, each), [[0, 1], [2, 3]])
        turned = self.transposed(split, [0, 2, 1, 3])
        return self.reshaped(turned, (batch * count, tokens, each), [[0, 1], [2], [3]])

    def joined(self, x: Value, batch: int) -> Value:
        groups, tokens, each = x[1]
        heads = groups // batch
        split = self.reshaped(x, (batch, heads, tokens, each), [[0, 1], [2], [3]])
        turned = self.transposed(split, [0, 2, 1, 3])
        return self.reshaped(turned, (batch * tokens, heads * each), [[0, 1], [2, 3]])

    def gelu(self, x: Value, tanh: bool) -> Value:
        whole = list(range(len(x[1])))
        half, one = self.number(0.5), self.number(1.0)
        if tanh:
            inner, cubic = self.number(math.sqrt(2 / math.pi)), self.number(0.044715)
            body = [
                f"%x3 = math.powf %a, {self.number(3.0)} : f32",
                f"%c = arith.mulf %x3, {cubic} : f32",
                "%s = arith.addf %a, %c : f32",
                f"%t = arith.mulf %s, {inner} : f32",
                "%u = math.tanh %t : f32",
            ]
        else:
            body = [
                f"%t = arith.divf %a, {self.number(math.sqrt(2))} : f32",
                "%u = math.erf %t : f32",
            ]
        body += [
            f"%p = arith.addf %u, {one} : f32",
            f"%h = arith.mulf %p, {half} : f32",
            "%r = arith.mulf %a, %h : f32",
            "linalg.yield %r : f32",
        ]
        return self.generic(body, x[1], (x, whole))

    def function(self, result: Value) -> str:
        body = "\n".join(self.lines)
        return (
            f"func.func @{self.model}(%x: {tensor(self.x[1])}) -> {tensor(result[1])} {{\n"
            f"{body}\n    return {result[0]} : {tensor(result[1])}\n}}\n"
        )


def mlp() -> str:
    text = Text("mlp")
    h = text.gelu(text.linear("fc1", text.x), tanh=True)
    return text.function(text.linear("fc2", h))


def cnn() -> str:
    text = Text("cnn")

    def conv(name: str, x: Value, stride: int) -> Value:
        """Zeros around, the bias as the start, then the convolution."""
        n, c, height, width = x[1]
        zero = text.number(0.0)
        wide = (n, c, height + 2, width + 2)
        padded = text.new(
            f"tensor.pad {x[0]} low[0, 0, 1, 1] high[0, 0, 1, 1] {{\n"
            "    ^bb0(%i: index, %j: index, %k: index, %l: index):\n"
            f"      tensor.yield {zero} : f32\n    }} : {tensor(x[1])} to {tensor(wide)}",
            wide,
        )
        weight, bias = text.weight(f"{name}.weight"), text.weight(f"{name}.bias")
        shape = (n, weight[1][0], (height - 1) // stride + 1, (width - 1) // stride + 1)
        start = text.generic(["linalg.yield %a : f32"], shape, (bias, [1]))
        return text.new(
            f"linalg.conv_2d_nchw_fchw {{dilations = dense<1> : tensor<2xi64>, "
            f"strides = dense<{stride}> : tensor<2xi64>}} "
            f"ins({padded[0]}, {weight[0]} : {tensor(wide)}, {tensor(weight[1])}) "
            f"outs({start[0]} : {tensor(shape)}) -> {tensor(shape)}",
            shape,
        )

    def relu(x: Value) -> Value:
        body = [f"%r = arith.maximumf %a, {text.number(0.0)} : f32", "linalg.yield %r : f32"]
        return text.generic(body, x[1], (x, [0, 1, 2, 3]))

    h = conv("conv1", text.x, 1)
    epsilon = text.number(EPSILON)
    names = ("running_mean", "running_var", "weight", "bias")
    body = [
        "%m = arith.subf %a, %b : f32",
        f"%s = arith.addf %c, {epsilon} : f32",
        "%i = math.rsqrt %s : f32",
        "%n = arith.mulf %m, %i : f32",
        "%w = arith.mulf %n, %d : f32",
        "%r = arith.addf %w, %e : f32",
        "linalg.yield %r : f32",
    ]
    vectors = [(text.weight(f"bn.{name}"), [1]) for name in names]
    h = relu(text.generic(body, h[1], (h, [0, 1, 2, 3]), *vectors))
    shape = (*h[1][:2], h[1][2] // 2, h[1][3] // 2)
    window, (low, _) = text.empty((2, 2)), text.filled(shape, -math.inf)
    h = text.new(
        f"linalg.pooling_nchw_max {{dilations = dense<1> : tensor<2xi64>, "
        f"strides = dense<2> : tensor<2xi64>}} ins({h[0]}, {window[0]} : {tensor(h[1])}, "
        f"tensor<2x2xf32>) outs({low} : {tensor(shape)}) -> {tensor(shape)}",
        shape,
    )
    h = conv("conv2", h, 2)
    flat = text.reshaped(relu(h), (2, 8, 9), [[0], [1], [2, 3]])
    mean = text.divided(text.reduced(flat, "arith.addf", 0.0), 9)
    return text.function(text.linear("fc", mean))


def encoder() -> str:
    """Attention spelled out around linalg.softmax."""
    text = Text("encoder")
    batch = INPUTS["encoder"][0]
    x = text.reshaped(text.x, (12, 32), [[0, 1], [2]])
    q, k, v = (text.heads(text.linear(name, x), batch, HEADS) for name in ("q", "k", "v"))
    scores = text.matmul(q, text.transposed(k, [0, 2, 1]), "linalg.batch_matmul")
    scores = text.divided(scores, math.sqrt(8))
    target, _ = text.empty(scores[1])
    kind = tensor(scores[1])
    chances = text.new(
        f"linalg.softmax dimension(2) ins({scores[0]} : {kind}) outs({target} : {kind}) -> {kind}",
        scores[1],
    )
    mixed = text.joined(text.matmul(chances, v, "linalg.batch_matmul"), batch)
    x = text.layer_norm("norm1", text.pointwise("arith.addf", x, text.linear("o", mixed)))
    h = text.gelu(text.linear("fc1", x), tanh=False)
    x = text.layer_norm("norm2", text.pointwise("arith.addf", x, text.linear("fc2", h)))
    return text.function(text.reshaped(x, INPUTS["encoder"], [[0, 1], [2]]))


def llama() -> str:
    """Attention as IREE keeps it, keys and values repeated, an additive mask."""
    text = Text("llama")
    x = text.reshaped(text.x, (7, 32), [[0, 1], [2]])
    tables = [text.literal(table) for table in rotary_tables(7, 8)]

    def turned(x: Value) -> Value:
        """By halves along the last dimension."""
        n, tokens, width = x[1]
        half = (n, tokens, width // 2)
        a, b = (
            text.new(
                f"tensor.extract_slice {x[0]}[0, 0, {start}] [{n}, {tokens}, {width // 2}] "
                f"[1, 1, 1] : {tensor(x[1])} to {tensor(half)}",
                half,
            )
            for start in (0, width // 2)
        )
        cos, sin = tables
        first = text.pointwise(
            "arith.subf", text.pointwise("arith.mulf", a, cos), text.pointwise("arith.mulf", b, sin)
        )
        last = text.pointwise(
            "arith.addf", text.pointwise("arith.mulf", b, cos), text.pointwise("arith.mulf", a, sin)
        )
        kind = tensor(half)
        return text.new(
            f"tensor.concat dim(2) {first[0]}, {last[0]} : ({kind}, {kind}) -> {tensor(x[1])}", x[1]
        )

    def repeated(x: Value) -> Value:
        n, tokens, width = x[1]
        wide = text.generic(["linalg.yield %a : f32"], (n, 2, tokens, width), (x, [0, 2, 3]))
        return text.reshaped(wide, (2 * n, tokens, width), [[0, 1], [2], [3]])

    h = text.rms_norm("norm1", x)
    q = turned(text.heads(text.linear("q", h), 1, HEADS))
    k = repeated(turned(text.heads(text.linear("k", h), 1, KV_HEADS)))
    v = repeated(text.heads(text.linear("v", h), 1, KV_HEADS))
    mask = text.literal(np.where(np.tri(7, dtype=bool), 0.0, -np.inf).astype(np.float32))
    scale, (target, _) = text.number(8**-0.5), text.empty(q[1])
    dims = "(d0, d1, d2, d3, d4)"
    results = ("d0, d1, d3", "d0, d4, d3", "d0, d4, d2", "", "d1, d4", "d0, d1, d2")
    maps = ", ".join(f"affine_map<{dims} -> ({r})>" for r in results)
    types = ", ".join([*(tensor(t[1]) for t in (q, k, v)), "f32", tensor(mask[1])])
    mixed = text.new(
        f"iree_linalg_ext.attention <indexing_maps = [{maps}]> "
        f"ins({q[0]}, {k[0]}, {v[0]}, {scale}, {mask[0]} : {types}) "
        f"outs({target} : {tensor(q[1])}) {{\n    ^bb0(%score: f32):\n"
        f"      iree_linalg_ext.yield %score : f32\n    }} -> {tensor(q[1])}",
        q[1],
    )
    x = text.pointwise("arith.addf", x, text.linear("o", text.joined(mixed, 1)))
    h = text.rms_norm("norm2", x)
    gate, up = text.linear("gate", h), text.linear("up", h)
    one = text.number(1.0)
    body = [
        "%m = arith.negf %a : f32",
        "%e = math.exp %m : f32",
        f"%p = arith.addf %e, {one} : f32",
        f"%s = arith.divf {one}, %p : f32",
        "%g = arith.mulf %a, %s : f32",
        "%r = arith.mulf %g, %b : f32",
        "linalg.yield %r : f32",
    ]
    gated = text.generic(body, gate[1], (gate, [0, 1]), (up, [0, 1]))
    x = text.pointwise("arith.addf", x, text.linear("down", gated))
    return text.function(text.reshaped(x, INPUTS["llama"], [[0, 1], [2]]))


TEXTS = {"mlp": mlp, "cnn": cnn, "encoder": encoder, "llama": llama}
