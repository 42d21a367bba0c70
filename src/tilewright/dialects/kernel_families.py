"""The one table of kernel families.

Symbols (`kernel_symbols.py`) name a family and element types. Verifiers, documentation, coverage, the
symbol check, tiling and the reference executor all read this table; nothing else knows a family.
"""

from __future__ import annotations

from math import pi, sqrt

from tilewright.dialects import family_checks as checks
from tilewright.dialects.encoded_families import ENCODED_FAMILIES
from tilewright.dialects.kernel_call import OPERAND_MAPS, AttributeSpec, Family, axis, roles

_SCALARS = (
    AttributeSpec("scalar_lhs", "value", "a literal in place of the left operand"),
    AttributeSpec("scalar_rhs", "value", "a literal in place of the right operand"),
)
_KEEPDIMS = AttributeSpec("keepdims", "unit", "reduced dimensions stay with size 1")


def _unary(name: str, meaning: str) -> Family:
    return Family(name, meaning, roles("x"), (OPERAND_MAPS,), checks.elementwise)


def _binary(name: str, meaning: str, runs_on: str = "npu") -> Family:
    attributes = (OPERAND_MAPS, *_SCALARS)
    return Family(name, meaning, roles("lhs rhs"), attributes, checks.elementwise, runs_on=runs_on)


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
        roles("x"),
        (
            AttributeSpec(
                "inner_scale",
                "float",
                "factor inside tanh; exporters differ in its digits",
                sqrt(2.0 / pi),
            ),
            OPERAND_MAPS,
        ),
        checks.elementwise,
    ),
    Family(
        "gelu_erf",
        "x/2 * (1 + erf(x / sqrt(2)))",
        roles("x"),
        (
            AttributeSpec(
                "inner_scale", "float", "multiply by this instead of dividing by sqrt(2)"
            ),
            OPERAND_MAPS,
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
    }.items()
]

# No rounded quotient gives an exact remainder.
_REMAINDER = _binary(
    "elementwise_rem",
    "what lhs / rhs, rounded to zero, leaves of lhs: exact, with the sign of lhs",
    runs_on="host",
)

_CHOICES = [
    Family("silu_gate", "silu(gate) * up", roles("gate up"), (OPERAND_MAPS,), checks.elementwise),
    Family(
        "compare",
        "lhs PREDICATE rhs as i1",
        roles("lhs rhs"),
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
            OPERAND_MAPS,
            *_SCALARS,
        ),
        checks.compare,
    ),
    Family(
        "select",
        "a where cond else b",
        roles("cond a b"),
        (
            OPERAND_MAPS,
            AttributeSpec("scalar_a", "value", "a literal in place of a"),
            AttributeSpec("scalar_b", "value", "a literal in place of b"),
        ),
        checks.select,
    ),
    *(
        Family(
            f"logical_{n}",
            f"bitwise {n}",
            roles("lhs rhs"),
            (OPERAND_MAPS, *_SCALARS),
            checks.logical,
        )
        for n in ("and", "or", "xor")
    ),
    Family("logical_not", "bitwise not", roles("x"), (OPERAND_MAPS,), checks.logical),
    Family(
        "clamp",
        "x held between min and max",
        roles("x"),
        (
            AttributeSpec("min", "value", "lower bound"),
            AttributeSpec("max", "value", "upper bound"),
            OPERAND_MAPS,
        ),
        checks.elementwise,
    ),
    Family("cast", "x in another element type", roles("x"), (OPERAND_MAPS,), checks.cast),
]

_ROWS = [
    Family(
        f"reduction_{name}",
        f"{meaning} over axes, in order of increasing index",
        roles("x [init]"),
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
        "softmax",
        "e^(x - max) / sum along axis",
        roles("x"),
        (axis(-1),),
        checks.along_axis,
        "rows",
    ),
    Family(
        "rms_norm",
        "x / sqrt(mean(x^2) + epsilon) [* weight]",
        roles("x [weight]"),
        (AttributeSpec("epsilon", "float", "added under the root", required=True), axis(-1)),
        checks.normalisation,
        "rows",
    ),
    Family(
        "layer_norm",
        "(x - mean) / sqrt(variance + epsilon) [* weight] [+ bias]",
        roles("x [weight] [bias]"),
        (AttributeSpec("epsilon", "float", "added under the root", required=True), axis(-1)),
        checks.normalisation,
        "rows",
    ),
    Family(
        "rope",
        "rotary position embedding of x by the tables cos and sin",
        roles("x cos sin"),
        (
            AttributeSpec(
                "style",
                "string",
                "which elements form a pair",
                "split_half",
                False,
                ("split_half", "interleaved"),
            ),
            axis(-1),
            OPERAND_MAPS,
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
        roles("lhs rhs [acc]"),
        (*_TRANSPOSES, _CHAIN[1]),
        checks.matmul,
        "matmul",
    ),
    *(
        Family(
            f"matmul_acc_{part}",
            meaning,
            roles("lhs rhs [acc]"),
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
        roles("q k v [mask]"),
        _ATTENTION,
        checks.attention,
        "attention",
        aliases=("attention",),
    ),
    *(
        Family(
            f"attention_acc_{part}",
            meaning,
            roles("q k v [mask]"),
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
        roles("x w [bias]"),
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
            roles("x"),
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
        roles("x [scale]"),
        (AttributeSpec("scale", "float", "divisor when there is no scale operand"), OPERAND_MAPS),
        checks.requant,
        "quant",
    ),
    Family(
        "dequant",
        "x * scale in the result's element type",
        roles("x [scale]"),
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
            axis(-1),
            OPERAND_MAPS,
        ),
        checks.dequant,
        "quant",
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
        roles("x"),
        (AttributeSpec("permutation", "integers", "order of x's dimensions", required=True),),
        checks.transpose,
        "movement",
    ),
    Family("reshape", "same elements, another shape", roles("x"), (), checks.reshape, "movement"),
    Family("slice", "a strided part of x", roles("x"), _SLICE, checks.slice_, "movement"),
    Family(
        "insert_slice",
        "into with a part replaced by x",
        roles("x into"),
        _SLICE,
        checks.insert_slice,
        "movement",
    ),
    Family(
        "concat", "parts joined along axis", roles("parts*"), (axis(),), checks.concat, "movement"
    ),
    Family(
        "pad",
        "x with a border of value",
        roles("x"),
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
        roles("[value]"),
        (AttributeSpec("value", "value", "the literal"),),
        checks.fill,
        "movement",
    ),
    Family("iota", "each element is its index along axis", (), (axis(),), checks.iota, "movement"),
]


def _host(name: str, meaning: str, operands: str, check, *attributes: AttributeSpec) -> Family:
    return Family(name, meaning, roles(operands), attributes, check, "host", runs_on="host")


_HOST = [
    _host("gather", "slices of x at indices along axis", "x indices", checks.gather, axis(0)),
    _host("embedding", "rows of x at indices", "x indices", checks.gather, axis(0)),
    _host(
        "argmax",
        "position of the first maximum along axis",
        "x",
        checks.argmax,
        axis(-1),
        _KEEPDIMS,
    ),
    _host(
        "argmin",
        "position of the first minimum along axis",
        "x",
        checks.argmax,
        axis(-1),
        _KEEPDIMS,
    ),
    *(
        _host(f"cum{name}", f"running {meaning} along axis", "x", checks.along_axis, axis(-1))
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
        axis(-1),
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
        axis(-1),
        AttributeSpec("descending", "unit", "largest first"),
    ),
]

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in [
        *_CONTRACTIONS, *_BINARY, _REMAINDER, *_UNARY, *_CHOICES, *_ROWS, *_WINDOWS, *_QUANTISATION, *ENCODED_FAMILIES,
        *_MOVEMENT, *_HOST,
    ]
}  # fmt: skip
