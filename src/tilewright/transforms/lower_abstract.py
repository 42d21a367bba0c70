"""Launches as abstract instructions: a notation for reading and for planning memory.

Each launch loads its operands, waits for them, computes, stores the result and waits again.
Addresses are provisional (operands one after the other); npu-plan-memory assigns real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import copy_location, error_at
from tilewright.dialects.npu_isa import (
    COMPUTE,
    DmaLoadMxu0Op,
    DmaLoadOp,
    DmaStoreOp,
    DmaWaitOp,
)
from tilewright.dialects.xdsl_api import (
    Attribute,
    IndexType,
    IntegerType,
    Operation,
    Rewriter,
    SSAValue,
    TensorType,
)

_BITS = {"f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}


def tensor_bytes(type_: Attribute) -> int:
    """Bytes a tensor takes, dense; sub-byte elements are packed."""
    assert isinstance(type_, TensorType)
    element = type_.element_type
    if isinstance(element, IntegerType):
        bits = element.width.data
    elif isinstance(element, IndexType):
        bits = 64
    else:
        bits = _BITS[str(element)]
    return (prod(type_.get_shape()) * bits + 7) // 8


@dataclass
class _Sequence:
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
        self, name: str, sources: Sequence[tuple[int, SSAValue]], result: Attribute
    ) -> tuple[int, SSAValue]:
        """One compute instruction on (register, tensor) pairs."""
        target = self.register()
        op = self.add(
            COMPUTE[name]([target, *(r for r, _ in sources)], [v for _, v in sources], result)
        )
        return target, op.results[0]


Loaded = list[tuple[int, SSAValue]]
Recipe = Callable[[_Sequence, KernelCall, Loaded], tuple[int, SSAValue]]


def _apply(s: _Sequence, name: str, sources: Loaded, result: Attribute) -> tuple[int, SSAValue]:
    """One instruction; operands it lacks (literal scalars, constants) repeat its last one."""
    reads = len(COMPUTE[name].FIELDS) - 1
    return s.compute(name, [*sources, *[sources[-1]] * reads][:reads], result)


def _steps(*names: str) -> Recipe:
    """Instructions in a row, the first on the operands, each next on the result before it."""

    def recipe(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
        value = _apply(s, names[0], loaded, call.result)
        for name in names[1:]:
            value = _apply(s, name, [value, *loaded[1:]], call.result)
        return value

    return recipe


def _literal(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
    return s.compute("vli", [], call.result)


def _matmul(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
    """The product, then an initial value or a bias added to it."""
    value = s.compute("matmul_mxu0", loaded[:2], call.result)
    return s.compute("vadd", [value, loaded[2]], call.result) if len(loaded) > 2 else value


def _softmax(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
    (x,) = loaded[:1]
    maximum = s.compute("vreduce_max", [x], call.result)
    shifted = s.compute("vsub", [x, maximum], call.result)
    powers = s.compute("vexp", [shifted], call.result)
    total = s.compute("vreduce_sum", [powers], call.result)
    inverse = s.compute("vrcp", [total], call.result)
    return s.compute("vmul", [powers, inverse], call.result)


def _attention(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
    q, k, v = loaded[:3]
    q_shape, k_shape = (list(t.get_shape()) for t in call.tensor_types()[:2])
    keys = k_shape[-1] if call.flag("transpose_k") else k_shape[-2]
    scores_type = TensorType(call.result.element_type, [*q_shape[:-1], keys])
    scores = s.compute("matmul_mxu0", [q, k], scores_type)
    scaled = s.compute("vmul", [scores, scores], scores_type)
    if len(loaded) > 3:
        scaled = s.compute("vadd", [scaled, loaded[3]], scores_type)
    powers = s.compute("vexp", [scaled], scores_type)
    total = s.compute("vreduce_sum", [powers], scores_type)
    inverse = s.compute("vrcp", [total], scores_type)
    weights = s.compute("vmul", [powers, inverse], scores_type)
    return s.compute("matmul_mxu0", [weights, v], call.result)


_SILU = ("vexp", "vadd", "vrcp", "vmul")
_RECIPES: dict[str, Recipe] = {
    **dict.fromkeys(("matmul", "matmul_acc_first", "matmul_acc_mid", "matmul_acc_last"), _matmul),
    **dict.fromkeys(("conv2d",), _matmul),
    **dict.fromkeys(
        ("gemma_attention", "attention_acc_first", "attention_acc_mid", "attention_acc_last"),
        _attention,
    ),
    "elementwise_add": _steps("vadd"),
    "elementwise_sub": _steps("vsub"),
    "elementwise_mul": _steps("vmul"),
    "elementwise_div": _steps("vrcp", "vmul"),
    "elementwise_max": _steps("vmax"),
    "elementwise_min": _steps("vmin"),
    "elementwise_pow": _steps("vlog", "vmul", "vexp"),
    "elementwise_neg": _steps("vsub"),
    "elementwise_abs": _steps("vabs"),
    "elementwise_exp": _steps("vexp"),
    "elementwise_exp2": _steps("vmul", "vexp"),
    "elementwise_log": _steps("vlog"),
    "elementwise_log2": _steps("vlog", "vmul"),
    "elementwise_sqrt": _steps("vsqrt"),
    "elementwise_rsqrt": _steps("vsqrt", "vrcp"),
    "elementwise_recip": _steps("vrcp"),
    "elementwise_tanh": _steps("vtanh"),
    "elementwise_sin": _steps("vsin"),
    "elementwise_cos": _steps("vcos"),
    "elementwise_erf": _steps("verf"),
    "elementwise_relu": _steps("vmax"),
    "elementwise_sigmoid": _steps("vexp", "vadd", "vrcp"),
    "elementwise_square": _steps("vmul"),
    "elementwise_cube": _steps("vmul", "vmul"),
    "elementwise_floor": _steps("vround"),
    "elementwise_ceil": _steps("vround"),
    "elementwise_round": _steps("vround"),
    "silu": _steps(*_SILU),
    "silu_gate": _steps(*_SILU, "vmul"),
    "gelu_tanh": _steps("vmul", "vmul", "vadd", "vtanh", "vadd", "vmul"),
    "gelu_erf": _steps("vmul", "verf", "vadd", "vmul"),
    "compare": _steps("vcmp"),
    "select": _steps("vsel"),
    "logical_and": _steps("vand"),
    "logical_or": _steps("vor"),
    "logical_xor": _steps("vxor"),
    "logical_not": _steps("vnot"),
    "clamp": _steps("vmax", "vmin"),
    "cast": _steps("vmov"),
    "requant": _steps("vmul", "vmov"),
    "dequant": _steps("vmov", "vmul"),
    "reduction_sum": _steps("vreduce_sum"),
    "reduction_max": _steps("vreduce_max"),
    "reduction_min": _steps("vreduce_min"),
    "reduction_mean": _steps("vreduce_sum", "vmul"),
    "reduction_prod": _steps("vreduce_mul"),
    "softmax": _softmax,
    "rms_norm": _steps("vmul", "vreduce_sum", "vadd", "vsqrt", "vrcp", "vmul"),
    "layer_norm": _steps("vreduce_sum", "vsub", "vmul", "vreduce_sum", "vsqrt", "vrcp", "vmul"),
    "rope": _steps("vmul", "vmul", "vadd"),
    "pool_max": _steps("vmax"),
    "pool_sum": _steps("vadd"),
    "pool_avg": _steps("vadd", "vmul"),
    "transpose": _steps("vmov"),
    "reshape": _steps("vmov"),
    "slice": _steps("vmov"),
    "insert_slice": _steps("vmov"),
    "concat": _steps("vmov"),
    "pad": _steps("vmov"),
    "fill": _literal,
    "iota": _literal,
}
_WEIGHT_FAMILIES = ("matmul", "window")


def lower_launch(op: Operation, call: KernelCall) -> None:
    """Replace a launch by its abstract instructions.

    before: npu_schedule.matmul_tile on a 64x32 and a 32x16 tile
    after:  dma_load, dma_wait, dma_load_mxu0, dma_wait, matmul_mxu0, dma_store, dma_wait

    Error code: TW1330 when the family has no abstract form.
    """
    recipe = _RECIPES.get(call.family.name)
    if recipe is None:
        raise error_at(
            op,
            "TW1330",
            f'"{call.symbol}" has no abstract instruction sequence',
            "run it on the host, or give a kernel manifest to lower to real instructions",
        )
    s = _Sequence()
    loaded: Loaded = []
    base = 0
    for index, operand in enumerate(op.operands):
        size = tensor_bytes(operand.type)
        register = s.register()
        is_weight = call.family.kind in _WEIGHT_FAMILIES and index == 1
        s.add((DmaLoadMxu0Op if is_weight else DmaLoadOp)(register, base, size, 0))
        s.add(DmaWaitOp(0))
        loaded.append((register, operand))
        base += size
    register, value = recipe(s, call, loaded)
    s.add(DmaStoreOp(value, register, base, tensor_bytes(call.result), 0))
    s.add(DmaWaitOp(0))
    copy_location(op, *s.operations)
    Rewriter.replace_op(op, s.operations, [value])
