"""What each kernel family is in abstract instructions.

Instructions work element by element, and an axis of size 1 meets any size, as in numpy. What a
number or a name says stands in attributes of the instruction: the literal of `vli`, the axes of a
reduction, the transposes of a product, the window of a pooling, the order of a move. Operands that
are read through a map are spread out first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.npu_isa import COMPUTE
from tilewright.dialects.xdsl_api import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)

Value = tuple[int, SSAValue]  # a register and the tensor in it
Attributes = Mapping[str, Attribute]


@dataclass
class Instructions:
    """The instructions of one launch; registers are numbered as they are needed."""

    operations: list[Operation] = field(default_factory=list)
    next_register: int = 0

    def add(self, op: Operation) -> Operation:
        self.operations.append(op)
        return op

    def register(self) -> int:
        self.next_register += 1
        return self.next_register - 1

    def compute(
        self,
        name: str,
        sources: Sequence[Value],
        result: Attribute,
        attributes: Attributes | None = None,
    ) -> Value:
        """One compute instruction on (register, tensor) pairs."""
        target = self.register()
        op = COMPUTE[name]([target, *(r for r, _ in sources)], [v for _, v in sources], result)
        op.attributes.update(attributes or {})
        self.add(op)
        return target, op.results[0]


@dataclass
class Recipe:
    """The instructions of a call as they are written down, its operands by role."""

    s: Instructions
    call: KernelCall
    loaded: list[Value]

    @property
    def result(self) -> TensorType:
        return self.call.result

    def given(self, role: str) -> Value | None:
        """The operand or literal in a role, spread to the result's shape where it has a map."""
        names = self.call.role_names()
        if role not in names:
            literal = self.call.attributes.get(f"scalar_{role}")
            return None if literal is None else self.literal(literal, self._scalar_type(role))
        number = names.index(role)
        value = self.loaded[number]
        if "operand_maps" not in self.call.attributes:
            return value
        map_ = self.call.operand_maps()[number]
        if map_ == type(map_).identity(map_.num_dims):
            return value
        element = _type(value).element_type
        attributes = {"operand_maps": ArrayAttr([AffineMapAttr(map_)])}
        spread = TensorType(element, self.result.get_shape())
        return self.s.compute("vmov", [value], spread, attributes)

    def need(self, role: str) -> Value:
        found = self.given(role)
        assert found is not None, role
        return found

    def _scalar_type(self, role: str) -> TensorType:
        """Literals have the type of the operands they stand beside, or of what is chosen."""
        if role in ("a", "b"):
            return self.result
        element = self.call.tensor_types()[0].element_type
        return TensorType(element, self.result.get_shape())

    def literal(self, number: Attribute | float, type_: TensorType) -> Value:
        """A tensor that holds one number everywhere."""
        return self.s.compute("vli", [], type_, {"value": _number(number, type_.element_type)})

    def binary(
        self, name: str, a: Value, b: Value | float, type_: TensorType | None = None
    ) -> Value:
        """An instruction of two operands, the second perhaps a number."""
        type_ = type_ or _joined(_type(a), _type(b) if isinstance(b, tuple) else None)
        other = b if isinstance(b, tuple) else self.literal(b, type_)
        return self.s.compute(name, [a, other], type_)

    def unary(self, name: str, a: Value, type_: TensorType | None = None) -> Value:
        return self.s.compute(name, [a], type_ or _type(a))

    def reduced(
        self, name: str, x: Value, axes: Sequence[int], attributes: Attributes | None = None
    ) -> Value:
        """A reduction along axes, which stay with size 1."""
        type_ = _type(x)
        shape = [1 if d in axes else n for d, n in enumerate(type_.get_shape())]
        noted = {"axes": _integers(axes), **(attributes or {})}
        return self.s.compute(name, [x], TensorType(type_.element_type, shape), noted)

    def moved(self, x: Value, type_: TensorType, attributes: Attributes) -> Value:
        return self.s.compute("vmov", [x], type_, attributes)


def _type(value: Value) -> TensorType:
    type_ = value[1].type
    assert isinstance(type_, TensorType)
    return type_


def _joined(a: TensorType, b: TensorType | None) -> TensorType:
    """The type of an operation on two tensors, axes of size 1 stretched."""
    if b is None or len(a.get_shape()) < len(b.get_shape()):
        return a if b is None else TensorType(a.element_type, b.get_shape())
    tail = [1] * (a.get_num_dims() - b.get_num_dims()) + list(b.get_shape())
    return TensorType(a.element_type, [max(m, n) for m, n in zip(a.get_shape(), tail, strict=True)])


def _number(number: Attribute | float, element: Attribute) -> Attribute:
    if isinstance(number, Attribute):
        return number
    if isinstance(element, AnyFloat):
        return FloatAttr(float(number), element)
    return IntegerAttr(int(number), element)  # type: ignore[arg-type]


def _integers(numbers: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(numbers))


def _own(call: KernelCall) -> dict[str, Attribute]:
    """The attributes of a call that qualify what an instruction does."""
    return {
        name: value
        for name, value in call.attributes.items()
        if "." not in name and name not in ("operand_maps", "roles", "slot", "unit")
    }


# --- element by element -----------------------------------------------------------------


def _one(name: str) -> Callable[[Recipe], Value]:
    """A family that is one instruction on all its operands."""

    def recipe(r: Recipe) -> Value:
        roles = [role.name for role in r.call.family.roles]
        return r.s.compute(name, [r.need(role) for role in roles], r.result)

    return recipe


def _divide(r: Recipe) -> Value:
    return r.binary("vmul", r.need("lhs"), r.unary("vrcp", r.need("rhs")), r.result)


def _power(r: Recipe) -> Value:
    logarithm = r.unary("vlog", r.need("lhs"))
    return r.unary("vexp", r.binary("vmul", logarithm, r.need("rhs")), r.result)


def _negated(r: Recipe, x: Value) -> Value:
    return r.binary("vsub", r.literal(0.0, _type(x)), x)


def _sigmoid(r: Recipe, x: Value) -> Value:
    return r.unary("vrcp", r.binary("vadd", r.unary("vexp", _negated(r, x)), 1.0))


def _silu(r: Recipe, x: Value) -> Value:
    return r.binary("vmul", x, _sigmoid(r, x))


def _half_of_one_plus(r: Recipe, x: Value, inner: Value) -> Value:
    half = r.binary("vmul", r.binary("vadd", inner, 1.0), 0.5)
    return r.binary("vmul", x, half, r.result)


def _gelu_tanh(r: Recipe) -> Value:
    x = r.need("x")
    cube = r.binary("vmul", r.binary("vmul", x, x), x)
    inner = r.binary("vadd", x, r.binary("vmul", cube, 0.044715))
    scale = r.call.floating("inner_scale") or math.sqrt(2.0 / math.pi)
    return _half_of_one_plus(r, x, r.unary("vtanh", r.binary("vmul", inner, scale)))


def _gelu_erf(r: Recipe) -> Value:
    x = r.need("x")
    scale = r.call.floating("inner_scale") or math.sqrt(0.5)
    return _half_of_one_plus(r, x, r.unary("verf", r.binary("vmul", x, scale)))


def _clamp(r: Recipe) -> Value:
    value = r.need("x")
    for name, bound in (("vmax", "min"), ("vmin", "max")):
        number = r.call.attributes.get(bound)
        if number is not None:
            value = r.binary(name, value, r.literal(number, _type(value)), r.result)
    return value if value[1].type == r.result else r.unary("vmov", value, r.result)


def _compare(r: Recipe) -> Value:
    sources = [r.need("lhs"), r.need("rhs")]
    return r.s.compute("vcmp", sources, r.result, {"predicate": r.call.attributes["predicate"]})


def _rounded(kind: str) -> Callable[[Recipe], Value]:
    def recipe(r: Recipe) -> Value:
        return r.s.compute("vround", [r.need("x")], r.result, {"rounding": StringAttr(kind)})

    return recipe


def _on_x(function: Callable[[Recipe, Value], Value]) -> Callable[[Recipe], Value]:
    return lambda r: function(r, r.need("x"))


# --- rows -------------------------------------------------------------------------------

_COMBINED = {"sum": "vadd", "max": "vmax", "min": "vmin", "mul": "vmul"}


def _reduction(kind: str, mean: bool = False) -> Callable[[Recipe], Value]:
    def recipe(r: Recipe) -> Value:
        x = r.need("x")
        axes = r.call.integers("axes") or ()
        attributes = {"axes": _integers(axes)}
        value = r.s.compute(f"vreduce_{kind}", [x], r.result, attributes)
        if (initial := r.given("init")) is not None:
            value = r.binary(_COMBINED[kind], value, initial)
        if mean:
            count = math.prod(_type(x).get_shape()[axis] for axis in axes)
            value = r.binary("vmul", value, 1.0 / count if count else math.nan)
        return value

    return recipe


def _softmax_of(r: Recipe, x: Value, axis: int) -> Value:
    shifted = r.binary("vsub", x, r.reduced("vreduce_max", x, [axis]))
    powers = r.unary("vexp", shifted)
    return r.binary("vmul", powers, r.unary("vrcp", r.reduced("vreduce_sum", powers, [axis])))


def _softmax(r: Recipe) -> Value:
    return _softmax_of(r, r.need("x"), r.call.axis(r.result.get_num_dims()))


def _mean(r: Recipe, x: Value, axis: int) -> Value:
    count = _type(x).get_shape()[axis]
    return r.binary("vmul", r.reduced("vreduce_sum", x, [axis]), 1.0 / count if count else math.nan)


def _normalised(r: Recipe, x: Value, axis: int) -> Value:
    """x / sqrt(mean(x * x) + epsilon)"""
    variance = _mean(r, r.binary("vmul", x, x), axis)
    shifted = r.binary("vadd", variance, r.call.floating("epsilon") or 0.0)
    return r.binary("vmul", x, r.unary("vrcp", r.unary("vsqrt", shifted)))


def _norm(centred: bool) -> Callable[[Recipe], Value]:
    def recipe(r: Recipe) -> Value:
        x = r.need("x")
        axis = r.call.axis(r.result.get_num_dims())
        if centred:
            x = r.binary("vsub", x, _mean(r, x, axis))
        value = _normalised(r, x, axis)
        for role, name in (("weight", "vmul"), ("bias", "vadd")):
            if any(known.name == role for known in r.call.family.roles):
                table = r.given(role)
                if table is not None:
                    value = r.binary(name, value, _along(r, table, axis), r.result)
        return value

    return recipe


def _along(r: Recipe, table: Value, axis: int) -> Value:
    """A vector with its elements along an axis of the result."""
    rank = r.result.get_num_dims()
    type_ = _type(table)
    if type_.get_num_dims() != 1 or axis == rank - 1:
        return table
    shape = [type_.get_shape()[0] if d == axis else 1 for d in range(rank)]
    return r.moved(table, TensorType(type_.element_type, shape), {})


def _rope(r: Recipe) -> Value:
    """x * cos + partner(x) * sin, where the partner of a pair (a, b) is (-b, a)."""
    x, cos, sin = (r.need(role) for role in ("x", "cos", "sin"))
    own = {k: v for k, v in _own(r.call).items() if k in ("style", "axis")}
    tables = [r.moved(t, r.result, {**own, "pairs": UnitAttr()}) for t in (cos, sin)]
    partner = r.moved(x, r.result, {**own, "partner": UnitAttr()})
    turned = r.binary("vmul", partner, tables[1])
    return r.binary("vadd", r.binary("vmul", x, tables[0]), turned)


# --- products ---------------------------------------------------------------------------


def _matmul(r: Recipe) -> Value:
    """The product, then an initial value added to it; later parts of a chain add up in the unit."""
    flags = {k: v for k, v in _own(r.call).items() if k.startswith("transpose")}
    if r.call.family.name in ("matmul_acc_mid", "matmul_acc_last"):
        flags["accumulate"] = UnitAttr()
    value = r.s.compute("matmul_mxu0", [r.need("lhs"), r.need("rhs")], r.result, flags)
    initial = r.given("acc")
    return value if initial is None else r.binary("vadd", value, initial)


def _convolution(r: Recipe) -> Value:
    """The product of every window of the image with the filters, then the bias of each channel."""
    value = r.s.compute("matmul_mxu0", [r.need("x"), r.need("w")], r.result, _own(r.call))
    bias = r.given("bias")
    if bias is None:
        return value
    channel = 1 if (r.call.string("layout") or "nchw_fchw") == "nchw_fchw" else 3
    return r.binary("vadd", value, _along(r, bias, channel))


def _attention(r: Recipe) -> Value:
    call, (q, k, v) = r.call, (r.need(role) for role in ("q", "k", "v"))
    part = call.family.name.removeprefix("attention_acc_")
    running: dict[str, Attribute] = {"accumulate": UnitAttr()} if part in ("mid", "last") else {}
    group = {"kv_group": call.attributes["kv_group"]} if call.flag("kv_group") else {}
    shape, keys = list(_type(q).get_shape()), _type(k).get_shape()
    type_ = TensorType(
        r.result.element_type, [*shape[:-1], keys[-1 if call.flag("transpose_k") else -2]]
    )
    across = {} if call.flag("transpose_k") else {"transpose_rhs": UnitAttr()}
    scores = r.s.compute("matmul_mxu0", [q, k], type_, {**across, **group})
    scale = call.floating("scale")
    if scale is None:
        scale = 1.0 / math.sqrt(shape[-1]) if shape[-1] else math.inf
    scores = r.binary("vmul", scores, float(scale))
    scores, masked = _masked(r, scores)
    last = len(shape) - 1
    top = r.reduced("vreduce_max", scores, [last], running)
    if masked:  # a row that sees nothing has no maximum: its powers are 0
        top = r.binary("vmax", top, -(2.0**126))
    powers = r.unary("vexp", r.binary("vsub", scores, top))
    total = r.reduced("vreduce_sum", powers, [last], running)
    turned = {"transpose_rhs": UnitAttr()} if call.flag("transpose_v") else {}
    if part == "gemma_attention":
        powers = r.binary("vmul", powers, _inverse(r, total, masked))
    value = r.s.compute("matmul_mxu0", [powers, v], r.result, {**turned, **group, **running})
    return r.binary("vmul", value, _inverse(r, total, masked)) if part == "last" else value


def _inverse(r: Recipe, total: Value, masked: bool) -> Value:
    """1 / total; where nothing is seen 0 times it stays 0."""
    return r.unary("vrcp", r.binary("vmax", total, 2.0**-126) if masked else total)


def _masked(r: Recipe, scores: Value) -> tuple[Value, bool]:
    """Scores with minus infinity where a query does not look, and whether that can happen."""
    call, type_ = r.call, _type(scores)
    mask = r.given("mask")
    if mask is not None and (call.string("mask_kind") == "bool" or _type(mask).element_type == i1):
        scores = r.s.compute("vsel", [mask, scores, r.literal(-math.inf, type_)], type_)
    elif mask is not None:
        scores = r.binary("vadd", scores, mask)
    limits = {
        name: call.attributes[name]
        for name in ("causal", "valid_keys", "query_start", "key_start")
        if name in call.attributes
    }
    if "causal" not in limits and "valid_keys" not in limits:
        return scores, mask is not None
    hidden = {"value": _number(-math.inf, type_.element_type), **limits}
    return r.binary("vadd", scores, r.s.compute("vli", [], type_, hidden)), True


# --- windows, moves, number formats -----------------------------------------------------


def _pool(kind: str, mean: bool = False) -> Callable[[Recipe], Value]:
    def recipe(r: Recipe) -> Value:
        x, own = r.need("x"), _own(r.call)
        value = r.s.compute(f"vreduce_{kind}", [x], r.result, own)
        if not mean:
            return value
        if r.call.flag("count_include_pad") or not any(r.call.integers("padding") or ()):
            return r.binary("vmul", value, 1.0 / math.prod(r.call.integers("kernel") or (1,)))
        ones = r.literal(1.0, _type(x))
        count = r.s.compute("vreduce_sum", [ones], r.result, own)
        return r.binary("vmul", value, r.unary("vrcp", count))

    return recipe


def _move(r: Recipe) -> Value:
    family = StringAttr(r.call.family.name)
    return r.moved(r.need("x"), r.result, {"move": family, **_own(r.call)})


def _put(r: Recipe, into: Value, part: Value, offsets: Sequence[int], **more: Attribute) -> Value:
    attributes = {"offsets": _integers(offsets), **more}
    return r.s.compute("vinsert", [into, part], r.result, attributes)


def _insert(r: Recipe) -> Value:
    strides = r.call.attributes.get("strides")
    more = {} if strides is None else {"strides": strides}
    return _put(r, r.need("into"), r.need("x"), r.call.integers("offsets") or (), **more)


def _concat(r: Recipe) -> Value:
    rank = r.result.get_num_dims()
    axis, value, at = r.call.axis(rank), r.literal(0.0, r.result), 0
    for part in r.loaded:
        value = _put(r, value, part, [at if d == axis else 0 for d in range(rank)])
        at += _type(part).get_shape()[axis]
    return value


def _pad(r: Recipe) -> Value:
    number = r.call.attributes.get("value", 0.0)
    border = r.literal(number, r.result)  # type: ignore[arg-type]
    return _put(r, border, r.need("x"), r.call.integers("low") or ())


def _fill(r: Recipe) -> Value:
    value = r.given("value")
    if value is not None:
        return r.moved(value, r.result, {})
    return r.literal(r.call.attributes.get("value", 0.0), r.result)  # type: ignore[arg-type]


def _scale(r: Recipe, type_: TensorType) -> Value | None:
    """The scale of a quantised tensor for each of its elements."""
    scale = r.given("scale")
    if scale is None:
        number = r.call.floating("scale")
        return None if number is None else r.literal(number, type_)
    names = ("block", "scale_encoding", "axis")
    own = {k: v for k, v in _own(r.call).items() if k in names}
    return r.moved(scale, type_, {"scale": UnitAttr(), **own})


def _requant(r: Recipe) -> Value:
    x = r.need("x")
    scale = _scale(r, _type(x))
    if scale is not None:
        x = r.binary("vmul", x, r.unary("vrcp", scale))
    return r.moved(x, r.result, {"saturate": UnitAttr()})


def _dequant(r: Recipe) -> Value:
    x = r.moved(r.need("x"), r.result, {})
    scale = _scale(r, r.result)
    return x if scale is None else r.binary("vmul", x, scale)


RECIPES: dict[str, Callable[[Recipe], Value]] = {
    **dict.fromkeys(("matmul", "matmul_acc_first", "matmul_acc_mid", "matmul_acc_last"), _matmul),
    **dict.fromkeys(
        ("gemma_attention", "attention_acc_first", "attention_acc_mid", "attention_acc_last"),
        _attention,
    ),
    "conv2d": _convolution,
    **{
        f"elementwise_{name}": _one(f"v{name}")
        for name in ("add", "sub", "mul", "max", "min", "abs", "exp", "log", "sqrt", "tanh", "sin", "cos", "erf")
    },
    "elementwise_div": _divide,
    "elementwise_pow": _power,
    "elementwise_neg": _on_x(_negated),
    "elementwise_exp2": lambda r: r.unary("vexp", r.binary("vmul", r.need("x"), math.log(2.0))),
    "elementwise_log2": lambda r: r.binary("vmul", r.unary("vlog", r.need("x")), 1 / math.log(2.0)),
    "elementwise_rsqrt": lambda r: r.unary("vrcp", r.unary("vsqrt", r.need("x"))),
    "elementwise_recip": _one("vrcp"),
    "elementwise_relu": lambda r: r.binary("vmax", r.need("x"), 0.0),
    "elementwise_sigmoid": _on_x(_sigmoid),
    "elementwise_square": _on_x(lambda r, x: r.binary("vmul", x, x)),
    "elementwise_cube": _on_x(lambda r, x: r.binary("vmul", r.binary("vmul", x, x), x)),
    "elementwise_floor": _rounded("floor"),
    "elementwise_ceil": _rounded("ceil"),
    "elementwise_round": _rounded("even"),
    "silu": _on_x(_silu),
    "silu_gate": lambda r: r.binary("vmul", _silu(r, r.need("gate")), r.need("up")),
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": _gelu_erf,
    "compare": _compare,
    "select": _one("vsel"),
    **{f"logical_{name}": _one(f"v{name}") for name in ("and", "or", "xor", "not")},
    "clamp": _clamp,
    "cast": _one("vmov"),
    "requant": _requant,
    "dequant": _dequant,
    **{f"reduction_{name}": _reduction(name) for name in ("sum", "max", "min")},
    "reduction_prod": _reduction("mul"),
    "reduction_mean": _reduction("sum", mean=True),
    "softmax": _softmax,
    "rms_norm": _norm(centred=False),
    "layer_norm": _norm(centred=True),
    "rope": _rope,
    "pool_max": _pool("max"),
    "pool_sum": _pool("sum"),
    "pool_avg": _pool("sum", mean=True),
    **dict.fromkeys(("transpose", "reshape", "slice"), _move),
    "insert_slice": _insert,
    "concat": _concat,
    "pad": _pad,
    "fill": _fill,
    "iota": lambda r: r.s.compute("vli", [], r.result, {"iota": UnitAttr(), **_own(r.call)}),
}  # fmt: skip
