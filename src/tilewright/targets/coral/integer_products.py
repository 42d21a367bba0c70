"""Models that arrive quantised: products of dequantised codes in integers.

before: conv((q - z) * s, w) in f32, where w are multiples of one number per filter
after:  (conv(q, k) - z * sum(k) + bias) in 32 bits, times s * step, with w = k * step

A quantised file states scale and zero point of an activation in front of a product and the weights
behind another dequantisation, which import has computed. The integers behind the weights are found
again and accepted only if every weight is exactly the f32 product of its integer and the step.
Sums are exact then, where f32 rounds after every product; what follows stays as the file says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.coral.program import Node, Program, Value, identity

CODES = ("i8", "ui8")
MOVES = ("reshape", "transpose")


def integer_products(program: Program) -> Program:
    """The program with integer sums where codes meet weights that are multiples."""
    rewriter = _Rewriter(program)
    for node in program.nodes:
        if node.kind != "conv" or not rewriter.product(node):
            rewriter.nodes.append(node)
    program.nodes[:] = rewriter.nodes
    return program


def steps_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Integers from -127 to 127 and one f32 step per filter whose products are the weights."""
    filters = weights.shape[-1]
    flat = weights.reshape(-1, filters)
    codes = np.zeros(flat.shape, dtype=np.int64)
    steps = np.ones(filters, dtype=np.float32)
    for f in range(filters):
        found = _multiples(flat[:, f])
        if found is None:
            return None
        codes[:, f], steps[f] = found
    return codes.astype(np.int8).reshape(weights.shape), steps


def _multiples(column: np.ndarray) -> tuple[np.ndarray, np.float32] | None:
    """One filter's weights as integers times a step; the largest integer is tried from 127 down."""
    peak = float(np.abs(column).max())
    if peak == 0:
        return np.zeros(column.shape), np.float32(1)
    for most in range(127, 0, -1):
        near = np.float32(peak / most)
        if not np.abs(column / near - np.rint(column / near)).max() < 1e-3:
            continue
        # The largest weight was rounded: the step may be a neighbour.
        below, above = np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))
        for step in (near, below, above):
            k = np.rint(column / step)
            if np.abs(k).max() <= 127 and np.array_equal((k * step).astype(np.float32), column):
                return k, step
    return None


class _Rewriter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.definitions = program.definitions()
        self.nodes: list[Node] = []
        self.narrow: dict[tuple[Value, tuple], Value] = {}
        self.count = 0

    def emit(
        self,
        node: Node,
        kind: str,
        inputs: list[Value],
        like: Value,
        dtype: str,
        **more: Any,
    ) -> Value:
        """A node whose result has the shape of `like`."""
        self.count += 1
        output = Value(f"{node.output.name}_{kind}{self.count}", like.shape, dtype)
        accesses = [identity(len(v.shape)) if v.elements > 1 else () for v in inputs]
        self.nodes.append(Node(kind, inputs, output, more, accesses, node.location))
        return output

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        self.count += 1
        return Value(f"whole_{self.count}", array.shape, dtype, array)

    def code_of(self, value: Value) -> tuple[Value, float, int, list[Node]] | None:
        """The codes behind a float, their scale and zero point, and the moves in between."""
        moves: list[Node] = []
        node = self.definitions.get(value)
        while node is not None and node.kind in MOVES:
            moves.append(node)
            node = self.definitions.get(node.inputs[0])
        if node is None or node.kind != "mul":
            return None
        scale = _scalar(node.inputs[1])
        found = self.centred(node.inputs[0])
        if scale is None or found is None or node.accesses[0] != identity(len(node.output.shape)):
            return None
        return found[0], scale, found[1], moves

    def centred(self, value: Value) -> tuple[Value, int] | None:
        """Codes and zero point behind q - z, in whatever type it is computed."""
        zero, node = 0, self.definitions.get(value)
        while node is not None and node.kind in ("cast", "sub"):
            if node.accesses[0] != identity(len(node.output.shape)):
                return None
            source = node.inputs[0]
            if node.kind == "sub":
                point = _scalar(node.inputs[1])
                if point is None or point != int(point) or abs(point) > 255 or zero:
                    return None
                zero = int(point)
            elif source.dtype in CODES:
                return source, zero
            elif source.dtype not in ("i16", "i32", "f32"):
                return None
            if node.output.dtype not in ("i32", "f32"):
                return None
            node = self.definitions.get(source)
        return None

    def product(self, node: Node) -> bool:
        """Rewrite one product; False leaves it."""
        if node.inputs[0].dtype == "i32":
            return self.whole_product(node)
        weights = node.inputs[1].data
        if node.output.dtype != "f32" or weights is None or not np.isfinite(weights).all():
            return False
        bias = node.inputs[2].data if len(node.inputs) > 2 else None
        found = self.code_of(node.inputs[0])
        if found is None or (len(node.inputs) > 2 and bias is None):
            return False
        whole = steps_of(weights)
        if whole is None:
            return False
        (code, scale, zero, moves), (k, steps) = found, whole
        factor = (np.float64(np.float32(scale)) * steps.astype(np.float64)).astype(np.float32)
        offset = np.zeros(len(steps), dtype=np.int64)
        if bias is not None:
            offset = np.rint(bias.astype(np.float64) / factor).astype(np.int64)
            near = np.abs(offset * factor.astype(np.float64) - bias) <= 2.0**-20 * np.abs(bias)
            if not np.all(near | (np.abs(bias) < 2.0**-20 * factor)):
                return False
        total = self.sums(node, code, zero, moves, k, offset)
        if total is None:
            return False
        out = node.output
        real = self.emit(node, "cast", [total], out, "f32")
        factors = self.constant(factor, "f32")
        last = len(out.shape) - 1
        if len(set(factor.tolist())) == 1:
            factors = self.constant(factor[:1].reshape(()), "f32")
        access = () if not factors.shape else (last,)
        accesses = [identity(len(out.shape)), access]
        self.nodes.append(Node("mul", [real, factors], out, {}, accesses, node.location))
        return True

    def whole_product(self, node: Node) -> bool:
        """q - z in 32 bits times small weights: the same sums from the codes themselves."""
        weights = node.inputs[1].data
        bias = node.inputs[2].data if len(node.inputs) > 2 else None
        if node.output.dtype != "i32" or weights is None or (len(node.inputs) > 2 and bias is None):
            return False
        if weights.min() < -128 or weights.max() > 127:
            return False
        moves: list[Node] = []
        value = node.inputs[0]
        while (move := self.definitions.get(value)) is not None and move.kind in MOVES:
            moves.append(move)
            value = move.inputs[0]
        found = self.centred(value)
        if found is None:
            return False
        offset = np.zeros(weights.shape[-1], dtype=np.int64)
        if bias is not None:
            offset = bias.astype(np.int64)
        total = self.sums(node, found[0], found[1], moves, weights.astype(np.int8), offset)
        if total is None:
            return False
        accesses = [identity(len(node.output.shape))]
        self.nodes.append(Node("copy", [total], node.output, {}, accesses, node.location))
        return True

    def sums(
        self,
        node: Node,
        code: Value,
        zero: int,
        moves: list[Node],
        k: np.ndarray,
        offset: np.ndarray,
    ) -> Value | None:
        """conv(q - z, k) + offset in 32 bits; None if it could leave them."""
        shift = 128 if code.dtype == "ui8" else 0  # ui8 codes as i8: 128 less, like the zero point
        zero -= shift
        sums = k.astype(np.int64).reshape(-1, k.shape[-1])
        offset = offset - zero * sums.sum(0)
        if np.any(128 * np.abs(sums).sum(0) + np.abs(offset) >= 2**31):
            return None
        x = self.codes(node, code, shift, moves)
        attributes = dict(node.attributes)
        if zero and any(attributes["padding"]):
            x = self.padded(node, x, zero)
            attributes["padding"] = (0, 0, 0, 0)
        inputs = [x, self.constant(k, "i8")]
        if offset.any():
            inputs.append(self.constant(offset.astype(np.int32), "i32"))
        total = self.emit(node, "conv", inputs, node.output, "i32", **attributes)
        self.nodes[-1].accesses = []
        return total

    def codes(self, node: Node, code: Value, shift: int, moves: list[Node]) -> Value:
        """The codes as i8, where the product wants them."""
        key = (code, tuple(id(m) for m in moves))
        if key in self.narrow:
            return self.narrow[key]
        x = code
        if shift:
            wide = self.emit(node, "cast", [x], x, "i16")
            wide = self.emit(node, "sub", [wide, self.constant(np.array(shift), "i16")], x, "i16")
            x = self.emit(node, "cast", [wide], x, "i8")
        for move in reversed(moves):
            moved = Value(f"{move.output.name}_codes", move.output.shape, "i8")
            self.nodes.append(Node(move.kind, [x], moved, dict(move.attributes), [], node.location))
            x = moved
        self.narrow[key] = x
        return x

    def padded(self, node: Node, x: Value, zero: int) -> Value:
        top, left, bottom, right = node.attributes["padding"]
        n, height, width, channels = x.shape
        shape = (n, height + top + bottom, width + left + right, channels)
        self.count += 1
        output = Value(f"{node.output.name}_pad{self.count}", shape, "i8")
        at = {"low": (0, top, left, 0), "value": zero}
        self.nodes.append(Node("pad", [x], output, at, [], node.location))
        return output


def _scalar(value: Value) -> float | None:
    return (
        float(value.data.reshape(-1)[0]) if value.data is not None and value.elements == 1 else None
    )
