"""What the VPU runs itself, in which numbers, and why the host has to run the rest."""

from __future__ import annotations

from tilewright.dialects.xdsl_api import AffineDimExpr
from tilewright.model.capture import Graph, Node, dtype_of, shape_of
from tilewright.model.formats import Floats, Format, Product

UNARY = {
    f"elementwise_{name}": name
    for name in (
        "neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "recip", "tanh", "sin", "cos",
        "erf", "relu", "sigmoid", "square", "cube", "floor", "ceil", "round",
    )
} | {"silu": "silu", "gelu_tanh": "gelu_tanh", "gelu_erf": "gelu_erf"}  # fmt: skip
BINARY = {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply",
    "elementwise_div": "divide", "elementwise_max": "maximum", "elementwise_min": "minimum",
}  # fmt: skip
ROWS = ("softmax", "rms_norm", "layer_norm")
REDUCTIONS = {f"reduction_{name}": name for name in ("sum", "max", "min", "mean")}
POOLS = {"pool_max": "max", "pool_avg": "avg", "pool_sum": "sum"}
MOVEMENT = ("reshape", "transpose", "slice", "concat")
ATTENTION = ("gemma_attention", "attention")
_FLOATS = ("f16", "f32", "bf16", "f64")
_MOST_RANK = 6


def formats(node: Node, graph: Graph) -> Format:
    """Products with a constant weight in i8, everything else in f16: also with a weight per batch,
    for which the matrix engine has no table of weights."""
    batches = node.family == "matmul" and len(shape_of(node.inputs["rhs"])) > 2
    if node.family in ("matmul", "conv2d") and not batches:
        return Product("i8", activations="tensor", result="auto", floats="f16")
    return Floats("f16", wide="f32")


def supports(node: Node) -> str | None:
    """Why the host has to run an operation of a model; None if the VPU does."""
    family, rank = node.family, len(shape_of(node.result))
    if dtype_of(node.result) not in _FLOATS:
        return f"the VPU computes numbers, not {dtype_of(node.result)}"
    values = (node.result, *node.operands)
    if rank == 0 or rank > _MOST_RANK or any(0 in shape_of(value) for value in values):
        return f"the VPU has no tensors of {rank} dimensions or without elements"
    if any(dtype_of(value) not in _FLOATS for value in node.operands if family not in ATTENTION):
        return "the VPU reads numbers, not integers or booleans"
    if family in UNARY:
        inner = node.call.attributes.get("inner_scale")
        if inner is not None:
            return f"the VPU's {family} has a fixed factor inside"
        return _maps(node)
    if family in BINARY or family in ("silu_gate", "clamp", "cast"):
        return _maps(node)
    checks = {
        "matmul": _matmul, "conv2d": _convolution, "rope": _rope,
        **dict.fromkeys(ROWS, _row), **dict.fromkeys(REDUCTIONS, _reduction),
        **dict.fromkeys(POOLS, _pool), **dict.fromkeys(ATTENTION, _attention),
        **dict.fromkeys(MOVEMENT, _movement),
    }  # fmt: skip
    if family not in checks:
        return f"the VPU has no {family}"
    return checks[family](node)


def _maps(node: Node) -> str | None:
    if any(node.reads(index) is None for index in range(len(node.operands))):
        return "an operand is read in another order of dimensions"
    return None


def _matmul(node: Node) -> str | None:
    if "acc" in node.inputs:
        return "the VPU adds to a product in a step of its own"
    first, second = shape_of(node.inputs["lhs"]), shape_of(node.inputs["rhs"])
    if len(first) < 2 or len(second) < 2:
        return "the VPU multiplies matrices"
    if len(second) > 2 and first[:-2] != second[:-2]:
        return "batches of the two operands differ"
    if len(second) == 2 and len(first) > 2 and node.call.flag("transpose_lhs"):
        return "a transposed batch times one matrix"
    return None


def _convolution(node: Node) -> str | None:
    if len(shape_of(node.result)) != 4:
        return "the VPU convolves images of two dimensions"
    weights = node.inputs["w"]
    from xdsl.ir import OpResult

    if not isinstance(weights, OpResult) or weights.op.name != "arith.constant":
        return "the filters of a convolution have to be constant"
    return None


def _pool(node: Node) -> str | None:
    if node.call.integers("dilations") not in (None, (1, 1)):
        return "the VPU has no pooling with gaps"
    return None


def _row(node: Node) -> str | None:
    return None


def _reduction(node: Node) -> str | None:
    if "init" in node.inputs:
        return "a reduction that starts from a tensor"
    return None


def _rope(node: Node) -> str | None:
    rank = len(shape_of(node.result))
    if node.call.axis(rank) != rank - 1:
        return "the VPU rotates along the last dimension"
    return None if rope_position(node) is not None else "angles that depend on several dimensions"


def rope_position(node: Node) -> int | None:
    """The dimension whose index the angles depend on; one of a single row, if they depend on none."""
    shape = shape_of(node.result)
    found = set()
    for index in (1, 2):
        maps = node.call.operand_maps()[index]
        given = shape_of(node.operands[index])
        results = maps.results
        if "operand_maps" not in node.call.attributes:
            dims = list(range(len(shape) - len(given), len(shape)))
        elif len(results) == len(given) and all(isinstance(e, AffineDimExpr) for e in results):
            dims = [e.position for e in results if isinstance(e, AffineDimExpr)]
        else:
            return None
        found |= {d for d, n in zip(dims, given, strict=True) if n != 1 and d != len(shape) - 1}
        if given[-1] not in (shape[-1], shape[-1] // 2):
            return None
    if not found:  # the same angles everywhere: those of the only row there is, as in decoding
        found = {max((d for d, n in enumerate(shape[:-1]) if n == 1), default=-1)} - {-1}
    return found.pop() if len(found) == 1 else None


def _attention(node: Node) -> str | None:
    q, k = shape_of(node.inputs["q"]), shape_of(node.inputs["k"])
    if len(q) not in (3, 4) or len(k) != len(q):
        return "the VPU's attention has heads, rows and width, and perhaps a batch"
    if any(dtype_of(node.inputs[role]) not in _FLOATS for role in ("q", "k", "v")):
        return "the VPU reads numbers, not integers or booleans"
    mask = node.inputs.get("mask")
    if mask is None:
        return None
    if dtype_of(mask) not in _FLOATS:
        return "a mask of booleans; additive masks are supported"
    shape = shape_of(mask)
    if any(n != 1 for n in (shape[1:-2] if len(shape) == 4 else shape[:-2])):
        return "a mask of its own for every head"
    if len(shape) == 4 and shape[0] not in (1, q[0]):
        return "a mask for another batch"
    return None


def _movement(node: Node) -> str | None:
    return None
