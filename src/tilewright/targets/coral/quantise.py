"""Post-training quantisation to int8, with integers that are exact by definition.

Weights are symmetric per output channel, activations affine per tensor with ranges from calibration,
sums have 32 bits, results are requantised by a 32-bit multiplier and a shift (evaluate.requantise).
What has no integer form (softmax, norms, products of two activations) runs in f32 between a
dequantise and a quantise.

Error codes: TW5040 nothing to calibrate with, TW5041 a sum or scale that leaves the 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.model.ranges import MAXIMUM, Range, RangeRule, channel_peaks
from tilewright.targets.coral.evaluate import evaluate_all
from tilewright.targets.coral.program import REAL, Node, Program, Shape, Value, identity

LARGEST_BIAS = 2.0**28  # of the integers that sums are
MOVES = frozenset(["reshape", "transpose", "slice", "pad", "gather", "copy"])
TABLES = REAL | {"neg", "abs", "square", "cube", "pow"}
CLAMPS = frozenset(["relu", "clamp", "max", "min"])


def scale_and_zero(seen: Range) -> tuple[float, int]:
    """Scale and zero point of the codes of a value."""
    low, high = seen.limits(symmetric=False)
    if low == high:
        return 1.0, int(np.clip(np.rint(-128.0), -128, 127))
    exact = (high - low) / 255.0
    scale = float(np.float32(exact))
    return scale, int(np.clip(np.rint(-128.0 - low / exact), -128, 127))


def multiplier_and_shift(m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M and r with m = M / 2^(32 + r), 2^30 <= M < 2^31; for m below 0.5. A shift over 31 gives 0."""
    multipliers, shifts = [], []
    for value in np.asarray(m, dtype=np.float64).reshape(-1):
        if value <= 0:
            multipliers.append(0)
            shifts.append(0)
            continue
        r = 0
        while value * 2.0 ** (32 + r) < 2.0**30 and r <= 32:
            r += 1
        if r > 31:
            multipliers.append(0)
            shifts.append(0)
            continue
        multipliers.append(min(int(np.rint(value * 2.0 ** (32 + r))), 2**31 - 1))
        shifts.append(r)
    return np.array(multipliers, dtype=np.int32), np.array(shifts, dtype=np.int16)


def quantise(
    program: Program, samples: Sequence[Sequence[np.ndarray]], rule: RangeRule = MAXIMUM
) -> Program:
    """An int8 program for a float one; programs without floats stay as they are.

    rule: how ranges follow from what the samples show.
    """
    if not samples:
        raise TilewrightError("TW5040", "quantisation needs calibration inputs", hint="at least 32")
    floats = any(v.dtype == "f32" for v in program.inputs)
    if not floats and not any(n.kind == "conv" and n.output.dtype == "f32" for n in program.nodes):
        return program
    ranges: dict[Value, Range] = {}
    for sample in samples:
        for value, array in evaluate_all(program, sample).items():
            if value.dtype == "f32" and value.data is None:
                ranges.setdefault(value, Range(rule=rule)).observe(array)
    return _Quantiser(program, ranges, rule).run()


class _Quantiser:
    def __init__(self, program: Program, ranges: dict[Value, Range], rule: RangeRule) -> None:
        self.program, self.rule = program, rule
        self.ranges = ranges
        self.users = program.users()
        self.narrow: dict[Value, Value] = {}  # float value -> its int8 form
        self.wide: dict[Value, Value] = {}  # float value -> its f32 form
        self.nodes: list[Node] = []
        self.count = 0
        self.node: Node | None = None
        self.skip: set[Node] = set()

    def run(self) -> Program:
        inputs = []
        for value in self.program.inputs:
            if value.dtype == "f32":
                made = self.value(value.shape, "i8", value)
                made.name = value.name
                self.narrow[value] = made
                inputs.append(made)
            else:
                self.wide[value] = value
                inputs.append(value)
        for node in self.program.nodes:
            self.node = node
            if node not in self.skip:
                self.convert(node)
        outputs = []
        for value in self.program.outputs:
            outputs.append(self.as_narrow(value) if value.dtype == "f32" else self.wide[value])
        return Program(
            inputs,
            outputs,
            self.nodes,
            self.program.input_names,
            self.program.output_names,
            self.program.source,
        )

    # Values and nodes

    def value(self, shape: Shape, dtype: str, like: Value | None = None) -> Value:
        self.count += 1
        made = Value(f"q_{self.count}", shape, dtype)
        if like is not None:
            made.scale, made.zero = scale_and_zero(self.ranges.get(like, Range()))
        return made

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        self.count += 1
        return Value(f"k_{self.count}", array.shape, dtype, array)

    def add(self, kind: str, inputs: list[Value], output: Value, **attributes: object) -> Value:
        place = self.node.location if self.node else None
        accesses = [identity(len(v.shape)) for v in inputs] if kind.startswith("q_") else []
        self.nodes.append(Node(kind, inputs, output, dict(attributes), accesses, place))
        return output

    def as_narrow(self, value: Value) -> Value:
        """The int8 form of a float value."""
        if value not in self.narrow:
            source = self.as_wide(value)
            made = self.value(value.shape, "i8", value)
            self.narrow[value] = self.add(
                "q_quantise", [source], made, scale=made.scale, zero=made.zero
            )
        return self.narrow[value]

    def as_wide(self, value: Value) -> Value:
        """The f32 form, or the value itself if it is no float."""
        if value.data is not None or value in self.wide:
            return self.wide.get(value, value)
        source = self.narrow[value]
        made = self.value(value.shape, "f32")
        self.wide[value] = self.add(
            "q_dequantise", [source], made, scale=source.scale, zero=source.zero
        )
        return made

    # Converting

    def convert(self, node: Node) -> None:
        kind = node.kind
        if node.output.dtype != "f32":
            return self.keep(node)
        if kind == "conv" and node.inputs[1].data is not None and node.inputs[0].dtype == "f32":
            return self.convolution(node)
        if kind in MOVES and node.inputs[0].data is None and node.inputs[0] in self.narrow:
            return self.move(node)
        if kind == "pool" and node.attributes["reduce"] == "max" and node.inputs[0] in self.narrow:
            # Outside of the image counts as the lowest number either way.
            return self.move(node)
        if (
            kind == "reduce"
            and node.attributes["reduce"] in ("max", "min")
            and node.inputs[0] in self.narrow
        ):
            return self.move(node)
        if kind == "reduce" and node.attributes["reduce"] in ("mean", "sum") and self.mean(node):
            return None
        handled = (
            (kind == "pool" and self.window_mean(node))
            or (kind == "add" and self.sum(node))
            or (kind in TABLES | CLAMPS and self.table(node))
        )
        return None if handled else self.keep(node)

    def keep(self, node: Node) -> None:
        """The node as it is, on f32 operands."""
        inputs = [self.as_wide(v) for v in node.inputs]
        output = self.value(node.output.shape, node.output.dtype)
        self.nodes.append(
            Node(node.kind, inputs, output, node.attributes, node.accesses, node.location)
        )
        self.wide[node.output] = output

    def move(self, node: Node) -> None:
        """Scale and zero point stay."""
        source = self.narrow[node.inputs[0]]
        output = self.value(node.output.shape, "i8")
        output.scale, output.zero = source.scale, source.zero
        attributes = dict(node.attributes)
        if node.kind == "pad":
            level = np.rint(float(attributes["value"]) / (source.scale or 1.0)) + source.zero
            attributes["value"] = int(np.clip(level, -128, 127))
        rest = [self.wide.get(v, v) for v in node.inputs[1:]]
        self.nodes.append(
            Node(node.kind, [source, *rest], output, attributes, node.accesses, node.location)
        )
        self.narrow[node.output] = output

    def activation(self, node: Node) -> tuple[Node, float | None, float | None]:
        """The node whose result is kept, and the bounds, when a clamp follows that nobody else sees."""
        users = self.users.get(node.output, [])
        if len(users) != 1 or node.output in self.program.outputs:
            return node, None, None
        clamp = users[0]
        if clamp.accesses and clamp.accesses[0] != identity(len(node.output.shape)):
            return node, None, None
        if clamp.kind == "relu":
            return clamp, 0.0, None
        if clamp.kind == "clamp" and clamp.attributes["min"] in (0, 0.0, None):
            low, high = clamp.attributes["min"], clamp.attributes["max"]
            return clamp, low, None if high is None else float(high)
        if clamp.kind == "max" and clamp.inputs[0] is node.output:
            other = clamp.inputs[1]
            if (
                other.data is not None
                and other.elements == 1
                and float(other.data.reshape(-1)[0]) == 0.0
            ):
                return clamp, 0.0, None
        return node, None, None

    def bounds(self, output: Value, low: float | None, high: float | None) -> dict[str, int]:
        scale = output.scale or 1.0
        lower = -128 if low is None else int(np.clip(np.rint(low / scale) + output.zero, -128, 127))
        upper = (
            127 if high is None else int(np.clip(np.rint(high / scale) + output.zero, -128, 127))
        )
        return {"lower": lower, "upper": upper}

    def fail(self, why: str) -> TilewrightError:
        assert self.node is not None
        return TilewrightError("TW5041", f"{self.node.kind}: {why}", self.node.location)

    def scaling(self, factors: np.ndarray, largest: np.ndarray) -> tuple[Value, Value, int]:
        """Multipliers and shifts for factors, and how far sums are shifted left before."""
        left = 0
        while np.max(factors) / 2.0**left >= 0.5:
            left += 1
        if np.any(largest * 2.0**left >= 2.0**31):
            raise self.fail("sums leave 32 bits, the scales are too far apart")
        multipliers, shifts = multiplier_and_shift(np.asarray(factors) / 2.0**left)
        return self.constant(multipliers, "i32"), self.constant(shifts, "i16"), left

    def convolution(self, node: Node) -> None:
        x = self.as_narrow(node.inputs[0])
        assert node.inputs[1].data is not None and x.scale is not None
        weights = node.inputs[1].data.astype(np.float64)
        filters = weights.shape[-1]
        peak = channel_peaks(weights, -1, self.rule)
        bias = np.zeros(filters)
        if len(node.inputs) > 2:
            assert node.inputs[2].data is not None
            bias = node.inputs[2].data.astype(np.float64)
        # Steps beside which the bias fits into 32 bits, also where weights are tiny or all 0.
        steps = np.maximum(peak / 127.0, np.abs(bias) / (x.scale * LARGEST_BIAS))
        scales = np.where(steps == 0, 1.0, steps).astype(np.float32).astype(np.float64)
        q = np.clip(np.rint(weights / scales), -127, 127).astype(np.int8)
        sums = q.astype(np.int64).reshape(-1, filters).sum(0)
        offset = np.rint(bias / (x.scale * scales)) - x.zero * sums
        largest = 128.0 * np.abs(q.astype(np.int64)).reshape(-1, filters).sum(0) + np.abs(offset)
        if np.any(largest >= 2.0**31):
            raise self.fail("the sum of a channel leaves 32 bits")
        kept, low, high = self.activation(node)
        if kept is not node:
            self.skip.add(kept)
        output = self.value(node.output.shape, "i8", kept.output)
        assert output.scale is not None
        multiplier, shift, left = self.scaling(x.scale * scales / output.scale, largest)
        attributes = {k: v for k, v in node.attributes.items() if k != "order"}
        attributes |= {
            "zero_x": x.zero,
            "zero_y": output.zero,
            "left": left,
            **self.bounds(output, low, high),
        }
        inputs = [
            x,
            self.constant(q, "i8"),
            self.constant(offset.astype(np.int32), "i32"),
            multiplier,
            shift,
        ]
        self.nodes.append(Node("q_conv", inputs, output, attributes, [], node.location))
        self.narrow[kept.output] = output
        if kept is not node:
            self.narrow[node.output] = output

    def mean(self, node: Node) -> bool:
        if node.inputs[0] not in self.narrow and node.inputs[0] not in self.wide:
            return False
        x = self.as_narrow(node.inputs[0])
        axes = node.attributes["axes"]
        count = prod(x.shape[a] for a in axes)
        self.averaged(node, x, axes, count if node.attributes["reduce"] == "mean" else 1, count)
        return True

    def averaged(
        self, node: Node, x: Value, axes: tuple[int, ...], divisor: int, count: int
    ) -> None:
        output = self.value(node.output.shape, "i8", node.output)
        assert x.scale is not None and output.scale is not None
        factor = np.array([x.scale / (divisor * output.scale)])
        multiplier, shift, left = self.scaling(factor, np.array([255.0 * count]))
        at = {
            "axes": axes,
            "zero_x": x.zero,
            "zero_y": output.zero,
            "left": left,
            "lower": -128,
            "upper": 127,
        }
        self.nodes.append(Node("q_mean", [x, multiplier, shift], output, at, [], node.location))
        self.narrow[node.output] = output

    def window_mean(self, node: Node) -> bool:
        """A mean over windows that tile the image exactly: a mean over two of six dimensions."""
        at = node.attributes
        if at["reduce"] not in ("avg", "sum") or node.inputs[0] not in self.narrow:
            return False
        x = self.narrow[node.inputs[0]]
        (kh, kw), strides = at["kernel"], tuple(at["strides"])
        n, height, width, channels = x.shape
        _, oh, ow, _ = node.output.shape
        if (
            any(at["padding"])
            or (strides != (kh, kw) and (oh, ow) != (1, 1))
            or (oh * kh, ow * kw) != (height, width)
        ):
            return False
        split = Value(
            f"{x.name}_w", (n, oh, kh, ow, kw, channels), "i8", scale=x.scale, zero=x.zero
        )
        self.nodes.append(Node("reshape", [x], split, {}, [], node.location))
        self.averaged(node, split, (2, 4), kh * kw if at["reduce"] == "avg" else 1, kh * kw)
        return True

    def sum(self, node: Node) -> bool:
        """a + b of two activations of one shape."""
        full = identity(len(node.output.shape))
        if any(v.data is not None or v.dtype != "f32" for v in node.inputs) or node.accesses != [
            full,
            full,
        ]:
            return False
        a, b = (self.as_narrow(v) for v in node.inputs)
        kept, low, high = self.activation(node)
        output = self.value(node.output.shape, "i8", kept.output)
        assert a.scale and b.scale and output.scale
        ma, mb = (int(np.rint(2.0**20 * v.scale / output.scale)) for v in (a, b) if v.scale)
        if 255 * (ma + mb) >= 2**31:
            return False
        if kept is not node:
            self.skip.add(kept)
        self.add(
            "q_add",
            [a, b],
            output,
            zero_a=a.zero,
            zero_b=b.zero,
            multiplier_a=ma,
            multiplier_b=mb,
            zero_y=output.zero,
            **self.bounds(output, low, high),
        )
        self.narrow[kept.output] = output
        if kept is not node:
            self.narrow[node.output] = output
        return True

    def table(self, node: Node) -> bool:
        """A function of one int8 value is a table of 256 results."""
        full = identity(len(node.output.shape))
        tensors = [v for v in node.inputs if v.data is None]
        if len(tensors) != 1 or node.inputs[0] is not tensors[0] or node.accesses[0] != full:
            return False
        if any(v.elements != 1 for v in node.inputs[1:]) or tensors[0] not in self.narrow:
            return False
        x = self.narrow[tensors[0]]
        assert x.scale is not None
        levels = (np.arange(-128, 128).astype(np.float64) - x.zero) * x.scale
        result = _function(node)(levels)
        # The range is what the table can give, where the samples saw a part of it.
        output = self.value(node.output.shape, "i8", node.output)
        assert output.scale is not None
        with np.errstate(all="ignore"):
            steps = (
                np.rint(np.nan_to_num(result / output.scale, nan=0.0, posinf=1e9, neginf=-1e9))
                + output.zero
            )
        table = np.clip(steps, -128, 127).astype(np.int8)
        self.narrow[node.output] = self.add("q_table", [x], output, table=table)
        return True


def _function(node: Node) -> Callable[[np.ndarray], np.ndarray]:
    """A unary node in float64, for its table."""
    others = [v.data.reshape(-1)[0] for v in node.inputs[1:] if v.data is not None]

    def gelu(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(node.attributes["inner_scale"] * (x + 0.044715 * x**3)))

    def bounded(x: np.ndarray) -> np.ndarray:
        low, high = node.attributes["min"], node.attributes["max"]
        return np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)

    def erf(x: np.ndarray) -> np.ndarray:
        return np.array([math.erf(v) for v in x])

    def gelu_erf(x: np.ndarray) -> np.ndarray:
        scale = node.attributes["inner_scale"]
        return 0.5 * x * (1 + erf(x * (math.sqrt(0.5) if scale is None else scale)))

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    functions: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "neg": np.negative,
        "abs": np.abs,
        "exp": np.exp,
        "exp2": np.exp2,
        "log2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "erf": erf,
        "gelu_erf": gelu_erf,
        "pow": lambda x: np.power(x, others[0]),
        "log": np.log,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "recip": lambda x: 1 / x,
        "tanh": np.tanh,
        "sigmoid": sigmoid,
        "square": np.square,
        "cube": lambda x: x**3,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": np.rint,
        "silu": lambda x: x * sigmoid(x),
        "gelu_tanh": gelu,
        "relu": lambda x: np.maximum(x, 0),
        "clamp": bounded,
        "max": lambda x: np.maximum(x, others[0]),
        "min": lambda x: np.minimum(x, others[0]),
    }

    def run(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return functions[node.kind](x)

    return run
