"""The one table of kernel families.

A micro-kernel symbol is `npu_uk_<family>[_<dtype>...]`. Verifiers, documentation, coverage, the
symbol check, tiling and the reference executor all read this table; nothing else knows a family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import pi, sqrt

from tilewright.dialects import encoded_checks
from tilewright.dialects import family_checks as checks
from tilewright.dialects.encodings import check_encodings
from tilewright.dialects.kernel_call import AttributeSpec, Family, KernelCall, Role
from tilewright.dialects.xdsl_api import Attribute

SYMBOL_PREFIX = "npu_uk_"

# Element types as they are spelled at the end of a symbol.
DTYPE_SUFFIXES = frozenset(
    [
        "f8E4M3FN",
        "f8E5M2",
        "f8E8M0FNU",
        "bf16",
        "f16",
        "f32",
        "f64",
        "i1",
        "i2",
        "i4",
        "i8",
        "i16",
        "i32",
        "i64",
        "ui8",
        "index",
    ]
)

_MAPS = AttributeSpec(
    "operand_maps", "maps", "one map per operand from the result's dimensions; identity when absent"
)
_SCALARS = (
    AttributeSpec("scalar_lhs", "value", "a literal in place of the left operand"),
    AttributeSpec("scalar_rhs", "value", "a literal in place of the right operand"),
)
_KEEPDIMS = AttributeSpec("keepdims", "unit", "reduced dimensions stay with size 1")


def _axis(default: int | None = None) -> AttributeSpec:
    return AttributeSpec(
        "axis", "integer", "the dimension, negative counts from the end", default, default is None
    )


def _roles(text: str) -> tuple[Role, ...]:
    """Operand roles from "a b [optional] many*"."""
    return tuple(Role(w.strip("[]*"), w.startswith("["), w.endswith("*")) for w in text.split())


def _unary(name: str, meaning: str) -> Family:
    return Family(name, meaning, _roles("x"), (_MAPS,), checks.elementwise)


def _binary(name: str, meaning: str) -> Family:
    return Family(name, meaning, _roles("lhs rhs"), (_MAPS, *_SCALARS), checks.elementwise)


_UNARY = [
    _unary(f"elementwise_{name}", meaning)
    for name, meaning in {
        "neg": "-x",
        "abs": "|x|",
        "exp": "e to the x",
        "exp2": "2 to the x",
        "log": "natural logarithm",
        "log2": "logarithm to base 2",
        "sqrt": "square root",
        "rsqrt": "1 / square root",
        "recip": "1 / x",
        "tanh": "hyperbolic tangent",
        "sin": "sine",
        "cos": "cosine",
        "erf": "error function",
        "relu": "max(x, 0)",
        "sigmoid": "1 / (1 + e to the -x)",
        "square": "x * x",
        "cube": "x * x * x",
        "floor": "largest integer not above x",
        "ceil": "smallest integer not below x",
        "round": "nearest integer, ties to even",
    }.items()
] + [
    _unary("silu", "x * sigmoid(x)"),
    Family(
        "gelu_tanh",
        "x/2 * (1 + tanh(inner_scale * (x + 0.044715 x^3)))",
        _roles("x"),
        (
            AttributeSpec(
                "inner_scale",
                "float",
                "factor inside tanh; exporters differ in its digits",
                sqrt(2.0 / pi),
            ),
            _MAPS,
        ),
        checks.elementwise,
    ),
    Family(
        "gelu_erf",
        "x/2 * (1 + erf(x / sqrt(2)))",
        _roles("x"),
        (
            AttributeSpec(
                "inner_scale", "float", "multiply by this instead of dividing by sqrt(2)"
            ),
            _MAPS,
        ),
        checks.elementwise,
    ),
]

_BINARY = [
    _binary(f"elementwise_{name}", meaning)
    for name, meaning in {
        "add": "lhs + rhs",
        "sub": "lhs - rhs",
        "mul": "lhs * rhs",
        "div": "lhs / rhs",
        "max": "the larger; NaN if either is",
        "min": "the smaller; NaN if either is",
        "pow": "lhs to the rhs",
        "rem": "what lhs / rhs, rounded to zero, leaves of lhs: exact, with the sign of lhs",
    }.items()
]

_CHOICES = [
    Family("silu_gate", "silu(gate) * up", _roles("gate up"), (_MAPS,), checks.elementwise),
    Family(
        "compare",
        "lhs PREDICATE rhs as i1",
        _roles("lhs rhs"),
        (
            AttributeSpec(
                "predicate",
                "string",
                "eq, ne, lt, le, gt, ge; for floats false when unordered, except ne; u-prefixed: "
                "unsigned integers, or floats true when unordered; ord and uno test for NaN",
                required=True,
                choices=(
                    *("eq", "ne", "lt", "le", "gt", "ge"),
                    *("ueq", "one", "ult", "ule", "ugt", "uge", "ord", "uno"),
                ),
            ),
            _MAPS,
            *_SCALARS,
        ),
        checks.compare,
    ),
    Family(
        "select",
        "a where cond else b",
        _roles("cond a b"),
        (
            _MAPS,
            AttributeSpec("scalar_a", "value", "a literal in place of a"),
            AttributeSpec("scalar_b", "value", "a literal in place of b"),
        ),
        checks.select,
    ),
    *(
        Family(
            f"logical_{n}", f"bitwise {n}", _roles("lhs rhs"), (_MAPS, *_SCALARS), checks.logical
        )
        for n in ("and", "or", "xor")
    ),
    Family("logical_not", "bitwise not", _roles("x"), (_MAPS,), checks.logical),
    Family(
        "clamp",
        "x held between min and max",
        _roles("x"),
        (
            AttributeSpec("min", "value", "lower bound"),
            AttributeSpec("max", "value", "upper bound"),
            _MAPS,
        ),
        checks.elementwise,
    ),
    Family("cast", "x in another element type", _roles("x"), (_MAPS,), checks.cast),
]

_ROWS = [
    Family(
        f"reduction_{name}",
        f"{meaning} over axes, in order of increasing index",
        _roles("x [init]"),
        (AttributeSpec("axes", "integers", "dimensions to reduce", required=True), _KEEPDIMS),
        checks.reduction,
        kind="rows",
    )
    for name, meaning in {
        "sum": "sum",
        "max": "maximum",
        "min": "minimum",
        "mean": "mean",
        "prod": "product",
    }.items()
] + [
    Family(
        "softmax", "e^(x - max) / sum along axis", _roles("x"), (_axis(-1),), checks.softmax, "rows"
    ),
    Family(
        "rms_norm",
        "x / sqrt(mean(x^2) + epsilon) [* weight]",
        _roles("x [weight]"),
        (AttributeSpec("epsilon", "float", "added under the root", required=True), _axis(-1)),
        checks.normalisation,
        "rows",
    ),
    Family(
        "layer_norm",
        "(x - mean) / sqrt(variance + epsilon) [* weight] [+ bias]",
        _roles("x [weight] [bias]"),
        (AttributeSpec("epsilon", "float", "added under the root", required=True), _axis(-1)),
        checks.normalisation,
        "rows",
    ),
    Family(
        "rope",
        "rotary position embedding of x by the tables cos and sin",
        _roles("x cos sin"),
        (
            AttributeSpec(
                "style",
                "string",
                "which elements form a pair",
                "split_half",
                False,
                ("split_half", "interleaved"),
            ),
            _axis(-1),
            _MAPS,
        ),
        checks.rope,
        "rows",
    ),
]

_TRANSPOSES = (
    AttributeSpec("transpose_lhs", "unit", "lhs is [.., k, m]"),
    AttributeSpec("transpose_rhs", "unit", "rhs is [.., n, k]"),
)
_CHAIN = (
    AttributeSpec("slot", "integer", "which accumulator, when several are in use at a time", 0),
    AttributeSpec("unit", "integer", "the matrix unit to use; the target chooses when absent"),
)
_ATTENTION = (
    AttributeSpec("scale", "float", "factor of the scores; 1 / sqrt(head width) when absent"),
    AttributeSpec("transpose_k", "unit", "k is [.., d, n]"),
    AttributeSpec("transpose_v", "unit", "v is [.., dv, n]"),
    AttributeSpec(
        "mask_kind",
        "string",
        "bool keeps where true, additive is added to the scaled scores",
        None,
        False,
        ("bool", "additive"),
    ),
    AttributeSpec("causal", "unit", "query i sees keys up to i (+ n - m when lengths differ)"),
    AttributeSpec("kv_group", "integer", "query heads per key/value head", 1),
    AttributeSpec("valid_keys", "integer", "keys from this index on are padding and masked out"),
)
_ATTENTION_MEANING = "softmax(scale * q k^T [+ mask]) v; a fully masked row gives 0"

_CONTRACTIONS = [
    Family(
        "matmul",
        "lhs x rhs [+ acc]",
        _roles("lhs rhs [acc]"),
        (*_TRANSPOSES, _CHAIN[1]),
        checks.matmul,
        "matmul",
    ),
    *(
        Family(
            f"matmul_acc_{part}",
            meaning,
            _roles("lhs rhs [acc]"),
            (*_TRANSPOSES, *_CHAIN),
            checks.matmul,
            "matmul",
            state="mxu0.acc0",
        )
        for part, meaning in {
            "first": "accumulator = [acc +] lhs x rhs",
            "mid": "accumulator += lhs x rhs",
            "last": "accumulator += lhs x rhs, then the result is the accumulator",
        }.items()
    ),
    Family(
        "gemma_attention",
        _ATTENTION_MEANING,
        _roles("q k v [mask]"),
        _ATTENTION,
        checks.attention,
        "attention",
        aliases=("attention",),
    ),
    *(
        Family(
            f"attention_acc_{part}",
            meaning,
            _roles("q k v [mask]"),
            (
                *_ATTENTION,
                AttributeSpec("query_start", "integer", "first query row of this block (causal)"),
                AttributeSpec("key_start", "integer", "first key of this block (causal)"),
            ),
            checks.attention,
            "attention",
            state="attention",
        )
        for part, meaning in {
            "first": "start the running maximum, sum and output with these keys",
            "mid": "update the running state with these keys",
            "last": "update with these keys, then the result is output / sum",
        }.items()
    ),
]

_WINDOW = (
    AttributeSpec("strides", "integers", "step per spatial dimension", (1, 1)),
    AttributeSpec("padding", "integers", "top, left, bottom, right", (0, 0, 0, 0)),
    AttributeSpec("dilations", "integers", "spacing of taps", (1, 1)),
)
_WINDOWS = [
    Family(
        "conv2d",
        "2-D convolution (cross-correlation) [+ bias]",
        _roles("x w [bias]"),
        (
            *_WINDOW,
            AttributeSpec("groups", "integer", "independent channel groups", 1),
            AttributeSpec(
                "layout",
                "string",
                "order of dimensions of image and filter",
                "nchw_fchw",
                False,
                ("nchw_fchw", "nhwc_hwcf"),
            ),
            AttributeSpec(
                "strategy", "string", "how it is carried out", "direct", False, ("direct", "im2col")
            ),
        ),
        checks.conv2d,
        "window",
    ),
    *(
        Family(
            f"pool_{name}",
            f"{name} over a sliding window",
            _roles("x"),
            (
                AttributeSpec("kernel", "integers", "window height and width", required=True),
                *_WINDOW,
                AttributeSpec(
                    "layout", "string", "order of dimensions", "nchw", False, ("nchw", "nhwc")
                ),
                AttributeSpec("count_include_pad", "unit", "padding counts in an average"),
            ),
            checks.pool,
            "window",
        )
        for name in ("max", "avg", "sum")
    ),
]

_QUANTISATION = [
    Family(
        "requant",
        "x / scale, saturated into the result's element type",
        _roles("x [scale]"),
        (AttributeSpec("scale", "float", "divisor when there is no scale operand"), _MAPS),
        checks.requant,
        "quant",
    ),
    Family(
        "dequant",
        "x * scale in the result's element type",
        _roles("x [scale]"),
        (
            AttributeSpec("scale", "float", "factor when there is no scale operand"),
            AttributeSpec("block", "integer", "elements along axis that share a scale (MX: 32)"),
            AttributeSpec(
                "scale_encoding",
                "string",
                "value: the factor itself; e8m0: a byte e standing for 2^(e-127), where 0 stands "
                "for 2^-126 and 255 for NaN",
                "value",
                False,
                ("value", "e8m0"),
            ),
            _axis(-1),
            _MAPS,
        ),
        checks.dequant,
        "quant",
    ),
]

_ENCODED = [
    Family(
        "quantise",
        "codes of x: x divided by the scale of the result's encoding, or times the operand factor, "
        "rounded to even, plus the zero point, saturated",
        _roles("x [factor]"),
        (
            AttributeSpec(
                "method",
                "string",
                "x * f32(1 / scale), or x / scale",
                "multiply",
                False,
                ("multiply", "divide"),
            ),
            _MAPS,
        ),
        encoded_checks.quantise,
        "quant",
    ),
    Family(
        "dequantise",
        "f32(code - zero) * scale, of the operand's encoding",
        _roles("x"),
        (),
        encoded_checks.dequantise,
        "quant",
    ),
    Family(
        "rescale",
        "f32(x) * factor; for codes rounded to even, plus the zero point, saturated",
        _roles("x [factor]"),
        (AttributeSpec("factor", "float", "when there is no operand for it"), _MAPS),
        encoded_checks.rescale,
        "quant",
    ),
    Family(
        "rescale_fixed",
        "h = (x << left) * multiplier >> 32; h / 2^shift rounded to even, plus the zero point, "
        "saturated",
        _roles("x multiplier shift"),
        (AttributeSpec("left", "integer", "bits that x is shifted left before", 0), _MAPS),
        encoded_checks.rescale_fixed,
        "quant",
    ),
    Family(
        "encoded_add",
        "codes of the sum of two tensors of codes",
        _roles("lhs rhs"),
        (
            AttributeSpec(
                "method",
                "string",
                "float: each code times the f32 ratio of scales, one f32 addition; fixed: integer "
                "ratios in units of 2^-20",
                "float",
                False,
                ("float", "fixed"),
            ),
        ),
        encoded_checks.encoded_add,
        "quant",
    ),
    Family(
        "table",
        "table[code + 128]: a function of an 8-bit code",
        _roles("x table"),
        (),
        encoded_checks.table,
        "quant",
    ),
    Family(
        "absmax_factor",
        "limit / max(largest magnitude along axis, least), the dimension stays with size 1",
        _roles("x"),
        (
            _axis(-1),
            AttributeSpec("limit", "float", "the largest code", 127.0),
            AttributeSpec("least", "float", "the smallest magnitude that counts", 1e-5),
        ),
        encoded_checks.absmax_factor,
        "rows",
    ),
]

_SLICE = (
    AttributeSpec("offsets", "integers", "first index per dimension", required=True),
    AttributeSpec("sizes", "integers", "count per dimension", required=True),
    AttributeSpec("strides", "integers", "step per dimension; 1 when absent"),
)
_MOVEMENT = [
    Family(
        "transpose",
        "dimensions reordered: result dim i is x dim permutation[i]",
        _roles("x"),
        (AttributeSpec("permutation", "integers", "order of x's dimensions", required=True),),
        checks.transpose,
        "movement",
    ),
    Family("reshape", "same elements, another shape", _roles("x"), (), checks.reshape, "movement"),
    Family("slice", "a strided part of x", _roles("x"), _SLICE, checks.slice_, "movement"),
    Family(
        "insert_slice",
        "into with a part replaced by x",
        _roles("x into"),
        _SLICE,
        checks.insert_slice,
        "movement",
    ),
    Family(
        "concat", "parts joined along axis", _roles("parts*"), (_axis(),), checks.concat, "movement"
    ),
    Family(
        "pad",
        "x with a border of value",
        _roles("x"),
        (
            AttributeSpec("low", "integers", "border before, per dimension", required=True),
            AttributeSpec("high", "integers", "border after, per dimension", required=True),
            AttributeSpec("value", "value", "what the border holds", 0),
        ),
        checks.pad,
        "movement",
    ),
    Family(
        "fill",
        "every element is value",
        _roles("[value]"),
        (AttributeSpec("value", "value", "the literal"),),
        checks.fill,
        "movement",
    ),
    Family("iota", "each element is its index along axis", (), (_axis(),), checks.iota, "movement"),
]


def _host(name: str, meaning: str, roles: str, check, *attributes: AttributeSpec) -> Family:
    return Family(name, meaning, _roles(roles), attributes, check, "host", runs_on="host")


_HOST = [
    _host("gather", "slices of x at indices along axis", "x indices", checks.gather, _axis(0)),
    _host("embedding", "rows of x at indices", "x indices", checks.gather, _axis(0)),
    _host(
        "argmax",
        "position of the first maximum along axis",
        "x",
        checks.argmax,
        _axis(-1),
        _KEEPDIMS,
    ),
    _host(
        "argmin",
        "position of the first minimum along axis",
        "x",
        checks.argmax,
        _axis(-1),
        _KEEPDIMS,
    ),
    *(
        _host(f"cum{name}", f"running {meaning} along axis", "x", checks.along_axis, _axis(-1))
        for name, meaning in {
            "sum": "sum",
            "prod": "product",
            "max": "maximum; NaN from the first one on",
            "min": "minimum; NaN from the first one on",
        }.items()
    ),
    _host(
        "sort",
        "x in order along axis",
        "x",
        checks.along_axis,
        _axis(-1),
        AttributeSpec("descending", "unit", "largest first"),
    ),
    _host(
        "scatter",
        "x with the rows at indices replaced by updates, in order; rows lie along the first axis",
        "x indices updates",
        checks.scatter,
        AttributeSpec(
            "reduction",
            "string",
            "combine with the row that is there instead of replacing it",
            None,
            False,
            ("sum", "prod", "max", "min"),
        ),
    ),
    _host(
        "argsort",
        "positions of x's elements in order along axis; equal elements keep theirs",
        "x",
        checks.argsort,
        _axis(-1),
        AttributeSpec("descending", "unit", "largest first"),
    ),
]

# Families of the encoded level, which machines lower in ways of their own.
ENCODED = frozenset(family.name for family in _ENCODED)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in [
        *_CONTRACTIONS, *_BINARY, *_UNARY, *_CHOICES, *_ROWS, *_WINDOWS, *_QUANTISATION, *_ENCODED,
        *_MOVEMENT, *_HOST,
    ]
}  # fmt: skip

_NAMES: dict[str, Family] = {
    name: family for family in FAMILIES.values() for name in (family.name, *family.aliases)
}


@cache
def split_symbol(symbol: str) -> tuple[Family, tuple[str, ...]] | None:
    """A symbol's family and element types, or None when no family has that name.

    The longest family name wins and what follows must be element types, so
    `npu_uk_matmul_acc_first` is never taken for `npu_uk_matmul`.
    """
    if not symbol.startswith(SYMBOL_PREFIX):
        return None
    words = symbol[len(SYMBOL_PREFIX) :].split("_")
    for end in range(len(words), 0, -1):
        family = _NAMES.get("_".join(words[:end]))
        if family is not None:
            suffix = tuple(words[end:])
            return (family, suffix) if DTYPE_SUFFIXES.issuperset(suffix) else None
    return None


def family_of(symbol: str) -> Family | None:
    """The family a symbol names, or None."""
    found = split_symbol(symbol)
    return found[0] if found else None


def symbol_for(family: str, *element_types: Attribute) -> str:
    """The symbol of a family, with element types appended when given."""
    return "_".join([SYMBOL_PREFIX + family, *(str(t) for t in element_types)])


def kernel_call(
    symbol: str,
    operand_types: Sequence[Attribute],
    attributes: Mapping[str, Attribute],
    result_type: Attribute,
) -> KernelCall | None:
    """The call as its family sees it, or None for a symbol without a family."""
    family = family_of(symbol)
    if family is None:
        return None
    return KernelCall(family, symbol, tuple(operand_types), attributes, result_type)


def check_call(call: KernelCall) -> None:
    """Raise a TilewrightError unless operands, attributes and result fit the family."""
    call.check_attributes()
    call.role_names()
    _ = call.tensor_types(), call.result
    if call.family.check is not None:
        call.family.check(call)
    check_encodings(call)
