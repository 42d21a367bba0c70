"""Products on codes: exact sums in 32 bits, bias, rescaling, bounds.

before: matmul f32 with weights, + bias, relu
after:  matmul i8 x i8 -> i32, + i32 bias, rescale to codes or floats, clamp of the codes

Error codes: TW1713 a sum that could leave 32 bits, TW1714 scales that are too far apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.dialects.encodings import ChannelScaleAttr, ScaleAttr, encoded
from tilewright.dialects.family_checks import resolve_transposes
from tilewright.dialects.intents import map_attribute
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    SSAValue,
    TensorType,
    f32,
    i8,
    i32,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.model.capture import Graph, Node, shape_of
from tilewright.model.encoder import CODES, ELEMENTS, Encoder
from tilewright.model.formats import Format, Product, QuantisedWeights, quantise_weights
from tilewright.model.ranges import MAXIMUM, RangeRule
from tilewright.model.weights import weight_of
from tilewright.reference import codes as code_arithmetic
from tilewright.reference import dtypes

LIMIT = 2**31


@dataclass(frozen=True)
class Chain:
    """An operation with the bias and the bounds that follow and nobody else sees."""

    node: Node
    bias: SSAValue | None = None
    low: float | None = None
    high: float | None = None
    absorbed: tuple[Node, ...] = ()

    @property
    def result(self) -> SSAValue:
        return self.absorbed[-1].result if self.absorbed else self.node.result


def product_chain(node: Node, graph: Graph, formats: dict[Node, Format]) -> Chain:
    """What belongs to an operation on codes."""
    bias, absorbed, at = node.inputs.get("bias"), [], node
    if isinstance(formats[node], Product) and bias is None:
        user = _only_user(at, graph, formats)
        if user is not None and user.family == "elementwise_add":
            other = next((v for v in user.operands if v is not at.result), None)
            if other is not None and _is_channel(user, other, node, graph):
                bias = other
                absorbed.append(user)
                at = user
    low = high = None
    user = _only_user(at, graph, formats)
    found = _bounds(user)
    if user is not None and found is not None:
        low, high = found
        absorbed.append(user)
    return Chain(node, bias, low, high, tuple(absorbed))


def _only_user(node: Node, graph: Graph, formats: dict[Node, Format]) -> Node | None:
    """The one operation of the device that reads a result, element by element."""
    if not graph.used_once(node.result):
        return None
    users = graph.users.get(node.result, [])
    if len(users) != 1 or users[0] not in formats:
        return None
    place = users[0].operands.index(node.result)
    return users[0] if users[0].reads_plainly(place) else None


def _bounds(node: Node | None) -> tuple[float | None, float | None] | None:
    if node is None:
        return None
    if node.family == "elementwise_relu":
        return 0.0, None
    if node.family == "clamp":
        low, high = node.call.value("min"), node.call.value("max")
        return (None if low is None else float(low), None if high is None else float(high))
    if node.family == "elementwise_max" and node.call.value("scalar_rhs") == 0:
        return 0.0, None
    return None


def channel_axis(node: Node) -> int:
    """The dimension of a product's result that counts output channels."""
    rank = len(shape_of(node.result))
    if node.family == "conv2d":
        return rank - 1 if node.call.string("layout") == "nhwc_hwcf" else 1
    return rank - 1


def weight_axis(node: Node) -> int:
    """The dimension of the weights that counts output channels."""
    if node.family == "conv2d":
        return 3 if node.call.string("layout") == "nhwc_hwcf" else 0
    rank = len(shape_of(node.inputs["rhs"]))
    return rank - 2 if transposes(node)[1] else rank - 1


def transposes(node: Node) -> tuple[bool, bool]:
    """Whether the operands of a matmul are read transposed."""
    found = resolve_transposes(
        shape_of(node.inputs["lhs"]),
        shape_of(node.inputs["rhs"]),
        shape_of(node.result),
        node.call.flag("transpose_lhs"),
        node.call.flag("transpose_rhs"),
    )
    assert found is not None, "the verifier accepts only operands that fit"
    return found


def _is_channel(user: Node, other: SSAValue, node: Node, graph: Graph) -> bool:
    """Whether a constant is added along the channels of a product."""
    if other not in graph.constants or user.operands.count(other) != 1:
        return False
    axis = channel_axis(node)
    size = shape_of(node.result)[axis]
    read = user.reads(user.operands.index(other))
    sizes = [n for n in shape_of(other) if n != 1]
    return sizes == [size] and read == [axis]


def channel_maps(rank: int, axis: int, count: int) -> dict[str, Attribute]:
    """Maps of an element-wise operation whose operands after the first have one value a channel."""
    whole, one = map_attribute(rank, range(rank)), map_attribute(rank, [axis])
    return {"operand_maps": ArrayAttr([whole, *[one] * count])}


def quantised_product(
    encoder: Encoder,
    node: Node,
    form: Product,
    chain: Chain,
    wanted: set[str],
    per_channel: bool,
    rule: RangeRule = MAXIMUM,
) -> None:
    """Make a product with all that belongs to it."""
    _ProductMaker(encoder, node, form, chain, wanted, per_channel, rule).run()


class _ProductMaker:
    def __init__(
        self,
        encoder: Encoder,
        node: Node,
        form: Product,
        chain: Chain,
        wanted: set[str],
        per_channel: bool,
        rule: RangeRule,
    ) -> None:
        self.encoder, self.node, self.form, self.chain = encoder, node, form, chain
        roles = ("x", "w") if node.family == "conv2d" else ("lhs", "rhs")
        self.x, self.w = (node.inputs[role] for role in roles)
        self.axis = channel_axis(node)
        self.shape = shape_of(node.result)
        self.kind = TensorType(i32, self.shape)
        weights = np.asarray(encoder.graph.constants[self.w])
        self.weight_axis = weight_axis(node)
        self.quantised = quantise_weights(
            weights, self.weight_axis, form.weights, per_channel, rule
        )
        self.codes = form.result == CODES or (form.result == "auto" and wanted == {CODES})

    def run(self) -> None:
        if self.form.activations == "row":
            self._by_rows()
            return
        x = self.encoder.get(self.x, CODES)
        scale = x.type.encoding if isinstance(x.type, TensorType) else None
        assert isinstance(scale, ScaleAttr)
        largest = max(127 - scale.zero.data, 128 + scale.zero.data)
        bias = self._integer_bias(scale.factor, largest)
        acc = self._accumulated(x, largest, bias)
        late = self.chain.bias if bias is None else None
        if self.codes and late is None:
            self._as_codes(acc, scale.factor, largest, bias)
        else:
            factors = self._factors(scale.factor)
            value = self._rescaled(acc, factors, ELEMENTS[self.form.floats])
            self._float_rest(value, late)

    # --- integers -----------------------------------------------------------------------

    def _weights(self) -> SSAValue:
        found: QuantisedWeights = self.quantised
        if found.axis is None:
            encoding: ScaleAttr | ChannelScaleAttr = ScaleAttr.of(float(found.scales))
        else:
            encoding = ChannelScaleAttr(IntAttr(found.axis))
        kind = TensorType(ELEMENTS[found.element], found.codes.shape, encoding)
        return self.encoder.constant(found.codes, kind, f"{self._name()}.{found.element}")

    def _name(self) -> str:
        return weight_of(self.w) or self.w.name_hint or self.node.layer or "weights"

    def _accumulated(self, x: SSAValue, largest: int, bias: np.ndarray | None) -> SSAValue:
        """The exact sums, with an integer bias."""
        encoder = self.encoder
        sums = self.quantised.widest_sum(self.weight_axis) * largest
        if int(sums.max(initial=0)) >= LIMIT:
            raise TilewrightError(
                "TW1713",
                f"{self.node.layer or self.node.family}: a sum of {self.node.family} could leave "
                f"32 bits",
                self.node.location,
                "keep the layer in floats with --keep, or give it to the host",
            )
        operands = [x, self._weights()]
        made = self._bare(operands)
        acc = encoder.emit(made)
        if bias is None:
            return acc
        data = encoder.constant(bias, TensorType(i32, bias.shape), f"{self._name()}.bias.i32")
        maps = channel_maps(len(self.shape), self.axis, 1)
        return encoder.call("elementwise_add", [acc, data], self.kind, maps)

    def _bare(self, operands: list[SSAValue]):
        """The product itself, without a bias operand."""
        op = self.node.op
        made = type(op).create(
            operands=operands,
            result_types=[self.kind],
            properties={k: v for k, v in op.properties.items() if k != "operandSegmentSizes"},
            attributes={k: v for k, v in op.attributes.items() if k != "roles"},
        )
        made.results[0].name_hint = self.node.result.name_hint
        return made

    def _integer_bias(self, scale: float, largest: int) -> np.ndarray | None:
        """The bias in units of the sums, if it fits beside them."""
        if self.chain.bias is None:
            return None
        values = np.asarray(self.encoder.graph.constants[self.chain.bias]).astype(np.float64)
        values = values.reshape(-1)
        exact = np.rint(values / (scale * self.quantised.scales.astype(np.float64)))
        sums = self.quantised.widest_sum(self.weight_axis) * float(largest)
        if not np.isfinite(exact).all() or np.any(np.abs(exact) + sums >= LIMIT):
            return None
        return exact.astype(np.int32)

    # --- rescaling ----------------------------------------------------------------------

    def _factors(self, scale: float, result: float = 1.0) -> np.ndarray:
        """From units of the sums to those of the result: divided in float64."""
        return float(scale) * self.quantised.scales.astype(np.float64) / float(result)

    def _rescaled(self, acc: SSAValue, factors: np.ndarray, element: Attribute) -> SSAValue:
        kind = TensorType(element, self.shape)
        return self._by_factors(acc, factors, kind)

    def _by_factors(self, acc: SSAValue, factors: np.ndarray, kind: TensorType) -> SSAValue:
        encoder = self.encoder
        if factors.ndim == 0:
            factor = FloatAttr(float(np.float32(factors)), f32)
            return encoder.call("rescale", [acc], kind, {"factor": factor})
        data = encoder.constant(
            factors.astype(np.float32), TensorType(f32, factors.shape), f"{self._name()}.factor"
        )
        maps = channel_maps(len(self.shape), self.axis, 1)
        return encoder.call("rescale", [acc, data], kind, maps)

    def _as_codes(self, acc: SSAValue, scale: float, largest: int, bias: np.ndarray | None) -> None:
        encoder, result = self.encoder, self.chain.result
        target = encoder.encoding(result)
        kind = encoded(self.kind, i8, target)
        factors = self._factors(scale, target.factor)
        if encoder.rules.arithmetic == "fixed":
            sums = self.quantised.widest_sum(self.weight_axis) * float(largest)
            if bias is not None:
                sums = sums + np.abs(bias.astype(np.float64))
            value = fixed_rescale(
                encoder, self.node, acc, np.atleast_1d(factors), sums, kind, self.axis, self._name()
            )
        else:
            value = self._by_factors(acc, factors, kind)
        encoder.put(result, clamped(encoder, value, self.chain.low, self.chain.high))

    # --- floats after the sums ------------------------------------------------------------

    def _float_rest(self, value: SSAValue, bias: SSAValue | None) -> None:
        """A bias that is no integer, and bounds, in the float type of the result."""
        encoder = self.encoder
        kind = value.type
        assert isinstance(kind, TensorType)
        if bias is not None:
            flat = np.asarray(encoder.graph.constants[bias]).reshape(-1)
            data = dtypes.stored(flat.astype(np.float32), dtypes.element_type(kind))
            vector = TensorType(kind.element_type, flat.shape)
            name = f"{self._name()}.bias.{kind.element_type}"
            maps = channel_maps(len(self.shape), self.axis, 1)
            operand = encoder.constant(data, vector, name)
            value = encoder.call("elementwise_add", [value, operand], kind, maps)
        value = clamped(encoder, value, self.chain.low, self.chain.high)
        encoder.put(self.chain.result, value)

    def _by_rows(self) -> None:
        """Activations with a scale per row that is computed when it runs."""
        encoder, rank = self.encoder, len(shape_of(self.x))
        x = encoder.get(self.x, "f32")
        kind = x.type
        assert isinstance(kind, TensorType)
        codes, factor = _row_codes(encoder, self.x, x, kind)
        acc = self._accumulated(codes, 128, None)
        wide = self._rescaled(acc, self._factors(1.0), f32)
        count = len(self.shape)
        offset = count - rank
        reads = [None if d == rank - 1 else d + offset for d in range(rank)]
        maps = ArrayAttr([map_attribute(count, range(count)), map_attribute(count, reads)])
        result = TensorType(f32, self.shape)
        value = encoder.call("elementwise_div", [wide, factor], result, {"operand_maps": maps})
        self._float_rest(value, self.chain.bias)


def _row_codes(
    encoder: Encoder, old: SSAValue, x: SSAValue, kind: TensorType
) -> tuple[SSAValue, SSAValue]:
    """Codes of the rows of a value, and the factors they were made with; once per value."""
    forms = encoder.forms.setdefault(old, {}) if old not in encoder.graph.constants else {}
    if "row codes" not in forms:
        shape = tuple(kind.get_shape())
        rank = len(shape)
        host = "in front of the product" if x in encoder.outside else None
        factor = encoder.call("absmax_factor", [x], TensorType(f32, (*shape[:-1], 1)), {}, host)
        reads = [None if d == rank - 1 else d for d in range(rank)]
        maps = ArrayAttr([map_attribute(rank, range(rank)), map_attribute(rank, reads)])
        codes = encoder.call(
            "quantise", [x, factor], TensorType(i8, shape), {"operand_maps": maps}, host
        )
        forms["row codes"], forms["row factors"] = codes, factor
    return forms["row codes"], forms["row factors"]


def clamped(encoder: Encoder, value: SSAValue, low: float | None, high: float | None) -> SSAValue:
    """Bounds on codes, or on floats of the value's type."""
    if low is None and high is None:
        return value
    kind = value.type
    assert isinstance(kind, TensorType)
    encoding = kind.encoding
    attributes: dict[str, Attribute] = {}
    for name, bound in (("min", low), ("max", high)):
        if bound is None:
            continue
        if isinstance(encoding, ScaleAttr):
            code = code_of(bound, encoding)
            if code != (-128 if name == "min" else 127):  # else it bounds nothing
                attributes[name] = IntegerAttr(code, i8)
        else:
            number = dtypes.literal(bound, dtypes.element_type(kind))
            attributes[name] = FloatAttr(number, kind.element_type)  # type: ignore[arg-type]
    return encoder.call("clamp", [value], kind, attributes) if attributes else value


def code_of(number: float, encoding: ScaleAttr) -> int:
    """The 8-bit code of a number."""
    if np.isinf(number):
        return 127 if number > 0 else -128
    return int(np.clip(np.rint(number / encoding.factor) + encoding.zero.data, -128, 127))


def fixed_rescale(
    encoder: Encoder,
    node: Node,
    acc: SSAValue,
    factors: np.ndarray,
    largest: np.ndarray,
    kind: TensorType,
    axis: int | None,
    name: str,
) -> SSAValue:
    """Rescaling by a 32-bit multiplier and a shift. largest: bounds of the sums' magnitudes."""
    left = 0
    while float(np.max(factors)) / 2.0**left >= 0.5:
        left += 1
    if left > 31 or np.any(largest * 2.0**left >= LIMIT):
        raise TilewrightError(
            "TW1714",
            f"{node.layer or node.family}: sums leave 32 bits, the scales are too far apart",
            node.location,
            "calibrate with more typical inputs, or keep the layer in floats with --keep",
        )
    multipliers, shifts = code_arithmetic.multiplier_and_shift(factors / 2.0**left)
    rank = len(kind.get_shape())
    reads = [] if axis is None or len(factors) == 1 else [axis]
    if not reads:
        multipliers, shifts = multipliers[0], shifts[0]
    operands = [
        acc,
        encoder.constant(
            np.asarray(multipliers), TensorType(i32, np.shape(multipliers)), f"{name}.multiplier"
        ),
        encoder.constant(
            np.asarray(shifts), TensorType(ELEMENTS["i16"], np.shape(shifts)), f"{name}.shift"
        ),
    ]
    one = map_attribute(rank, reads)
    maps = ArrayAttr([map_attribute(rank, range(rank)), one, one])
    attributes: dict[str, Attribute] = {"operand_maps": maps}
    if left:
        attributes["left"] = IntegerAttr(left, i64)
    return encoder.call("rescale_fixed", operands, kind, attributes)
