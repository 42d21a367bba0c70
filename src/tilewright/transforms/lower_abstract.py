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


def _one(name: str) -> Recipe:
    """One instruction; a literal scalar operand is the register itself."""

    def recipe(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
        count = len(COMPUTE[name].FIELDS) - 1
        sources = (loaded * count)[:count] if len(loaded) < count else loaded[:count]
        return s.compute(name, sources, call.result)

    return recipe


def _steps(*names: str) -> Recipe:
    """Several instructions in a row, each on the result of the one before."""

    def recipe(s: _Sequence, call: KernelCall, loaded: Loaded) -> tuple[int, SSAValue]:
        value = loaded[0]
        for position, name in enumerate(names):
            second = loaded[1] if len(loaded) > 1 and position == 0 else value
            count = len(COMPUTE[name].FIELDS) - 1
            value = s.compute(name, [value, second][:count], call.result)
        return value

    return recipe


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


_RECIPES: dict[str, Recipe] = {
    "elementwise_add": _one("vadd"),
    "elementwise_sub": _one("vsub"),
    "elementwise_mul": _one("vmul"),
    "elementwise_max": _one("vmax"),
    "elementwise_min": _one("vmin"),
    "elementwise_square": _one("vmul"),
    "elementwise_exp": _one("vexp"),
    "elementwise_log": _one("vlog"),
    "elementwise_sqrt": _one("vsqrt"),
    "elementwise_tanh": _one("vtanh"),
    "elementwise_sin": _one("vsin"),
    "elementwise_cos": _one("vcos"),
    "elementwise_recip": _one("vrcp"),
    "elementwise_rsqrt": _steps("vsqrt", "vrcp"),
    "elementwise_sigmoid": _steps("vexp", "vrcp"),
    "cast": _one("vmov"),
    "requant": _steps("vmul", "vmov"),
    "dequant": _steps("vmov", "vmul"),
    "silu": _steps("vexp", "vadd", "vrcp", "vmul"),
    "gelu_tanh": _steps("vmul", "vmul", "vadd", "vtanh", "vadd", "vmul"),
    "reduction_sum": _one("vreduce_sum"),
    "reduction_max": _one("vreduce_max"),
    "reduction_mean": _steps("vreduce_sum", "vmul"),
    "rms_norm": _steps("vmul", "vreduce_sum", "vadd", "vsqrt", "vrcp", "vmul"),
    "layer_norm": _steps("vreduce_sum", "vsub", "vmul", "vreduce_sum", "vsqrt", "vrcp", "vmul"),
    "softmax": _softmax,
    "gemma_attention": _attention,
    "attention_acc_first": _attention,
    "attention_acc_mid": _attention,
    "attention_acc_last": _attention,
}
_MATMULS = ("matmul", "matmul_acc_first", "matmul_acc_mid", "matmul_acc_last")
_PURE_MOVES = ("movement",)


def lower_launch(op: Operation, call: KernelCall) -> None:
    """Replace a launch by its abstract instructions.

    before: npu_schedule.matmul_tile on a 64x32 and a 32x16 tile
    after:  dma_load, dma_wait, dma_load_mxu0, dma_wait, matmul_mxu0, dma_store, dma_wait

    Error code: TW1330 when the family has no abstract form.
    """
    s = _Sequence()
    loaded: Loaded = []
    base = 0
    is_matmul = call.family.name in _MATMULS
    for index, operand in enumerate(op.operands):
        size = tensor_bytes(operand.type)
        register = s.register()
        load = DmaLoadMxu0Op if is_matmul and index == 1 else DmaLoadOp
        s.add(load(register, base, size, 0))
        s.add(DmaWaitOp(0))
        loaded.append((register, operand))
        base += size
    if is_matmul:
        register, value = s.compute("matmul_mxu0", loaded[:2], call.result)
        if len(loaded) > 2:
            register, value = s.compute("vadd", [(register, value), loaded[2]], call.result)
    elif call.family.name in _RECIPES:
        register, value = _RECIPES[call.family.name](s, call, loaded)
    elif call.family.kind in _PURE_MOVES and loaded:
        register, value = s.compute("vmov", loaded[:1], call.result)
    else:
        raise error_at(
            op,
            "TW1330",
            f'"{call.symbol}" has no abstract instruction sequence',
            "run it on the host, or give a kernel manifest to lower to real instructions",
        )
    s.add(DmaStoreOp(value, register, base, tensor_bytes(call.result), 0))
    s.add(DmaWaitOp(0))
    copy_location(op, *s.operations)
    Rewriter.replace_op(op, s.operations, [value])
