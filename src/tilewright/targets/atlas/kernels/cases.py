"""Published programs to measure against: what they compute, in which sizes, in how many cycles.

The sizes, tolerances and cycles are those of the public kernel collections of both machines.
Every case names the library kernel that does the same work: the same tensors in DRAM, in the
same layouts, give the same result. Element-wise programs keep row-major tiles; for them any
order of the elements of a tile is the same work.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One published program. tolerance: |result - reference| <= atol + rtol * |reference|."""

    name: str
    profile: str
    kernel: str
    sizes: dict[str, int]
    cycles: int
    rtol: float
    atol: float


def _v1(
    name: str, kernel: str, cycles: int, rtol: float = 0.01, atol: float = 0.01, **sizes: int
) -> Case:
    return Case(name, "atlas-v1", kernel, sizes, cycles, rtol, atol)


def _v0(
    name: str, kernel: str, cycles: int, rtol: float = 0.01, atol: float = 0.01, **sizes: int
) -> Case:
    return Case(name, "atlas-v0", kernel, sizes, cycles, rtol, atol)


V1_CASES: list[Case] = [
    _v1("GemmaRmsNorm", "rms_norm", 3972, M=32, N=32),
    _v1("Matmul", "matmul", 2396, M=32, K=32, N=32),
    _v1("ParameterizedBatchMatmul2x32x32x32", "batch_matmul", 4778, B=2, M=32, K=32, N=32),
    _v1("ParameterizedBatchMatmul4x32x64x32", "batch_matmul", 14353, B=4, M=32, K=64, N=32),
    _v1("ParameterizedBiasAddCast32x32", "bias_add_cast", 2847, 0.1, 0.1, M=32, N=32),
    _v1("ParameterizedElementwiseAdd32x32", "elementwise_add", 3335, M=32, N=32),
    _v1("ParameterizedElementwiseAdd64x32", "elementwise_add", 6641, M=64, N=32),
    _v1("ParameterizedElementwiseAdd64x64", "elementwise_add", 13255, M=64, N=64),
    _v1("ParameterizedElementwiseDiv32x32", "elementwise_div", 3403, M=32, N=32),
    _v1("ParameterizedElementwiseDiv64x32", "elementwise_div", 6777, M=64, N=32),
    _v1("ParameterizedElementwiseDiv64x64", "elementwise_div", 13527, M=64, N=64),
    _v1("ParameterizedElementwiseMul32x32", "elementwise_mul", 3335, M=32, N=32),
    _v1("ParameterizedElementwiseMul32x64", "elementwise_mul", 6641, M=32, N=64),
    _v1("ParameterizedElementwiseMul64x64", "elementwise_mul", 13255, M=64, N=64),
    _v1("ParameterizedElementwiseSub32x32", "elementwise_sub", 3335, M=32, N=32),
    _v1("ParameterizedElementwiseSub32x64", "elementwise_sub", 6641, M=32, N=64),
    _v1("ParameterizedElementwiseSub64x64", "elementwise_sub", 13255, M=64, N=64),
    _v1("ParameterizedFusedAttentionQ32K128", "flash_attention_bf16", 31501, 0.05, 0.05, M=32, D=64, S=128),
    _v1("ParameterizedFusedAttentionQ32K64", "flash_attention_bf16", 18703, 0.05, 0.05, M=32, D=64, S=64),
    _v1("ParameterizedFusedAttentionQ64K64", "flash_attention_bf16", 36782, 0.05, 0.05, M=64, D=64, S=64),
    _v1("ParameterizedFusedMatmulBias32x32", "matmul_bias", 3527, M=32, K=32, N=32),
    _v1("ParameterizedFusedMatmulBias64x64", "matmul_bias", 13968, M=64, K=32, N=64),
    _v1("ParameterizedFusedNormScale32x32", "norm_scale", 3335, M=32, N=32),
    _v1("ParameterizedFusedNormScale64x32", "norm_scale", 6641, M=64, N=32),
    _v1("ParameterizedFusedNormScale64x64", "norm_scale", 13255, M=64, N=64),
    _v1("ParameterizedFusedSiluGate32x32", "silu", 2836, M=32, N=32),
    _v1("ParameterizedFusedSiluGate32x64", "silu", 5385, M=32, N=64),
    _v1("ParameterizedFusedSiluGate64x64", "silu", 10485, M=64, N=64),
    _v1("ParameterizedGeluTanh32x32", "gelu_tanh", 6186, M=32, N=32),
    _v1("ParameterizedGeluTanh64x32", "gelu_tanh", 9018, M=64, N=32),
    _v1("ParameterizedMatmul", "matmul", 11408, M=64, K=64, N=64),
    _v1("ParameterizedMatmul32x32x32", "matmul", 2333, M=32, K=32, N=32),
    _v1("ParameterizedMatmul32x64x32", "matmul", 3369, M=32, K=64, N=32),
    _v1("ParameterizedReductionSum32x32", "reduction_sum", 1700, M=32, N=32),
    _v1("ParameterizedReductionSum64x32", "reduction_sum", 3371, M=64, N=32),
    _v1("ParameterizedReductionSum96x32", "reduction_sum", 5044, M=96, N=32),
    _v1("ParameterizedRequant32x32", "requant", 1728, M=32, N=32),
    _v1("ParameterizedRequant64x32", "requant", 3426, M=64, N=32),
    _v1("ParameterizedRequant64x64", "requant", 6824, M=64, N=64),
    _v1("ParameterizedRmsNorm32x32", "rms_norm", 4848, M=32, N=32),
    _v1("ParameterizedRmsNorm64x32", "rms_norm", 7517, M=64, N=32),
    _v1("ParameterizedRopeFrequency32x32", "cos", 2296, M=32, N=32),
    _v1("ParameterizedRopeFrequency32x64", "cos", 4573, M=32, N=64),
    _v1("ParameterizedRopeFrequency64x64", "cos", 9129, M=64, N=64),
    _v1("ParameterizedSilu32x32", "silu", 2836, M=32, N=32),
    _v1("ParameterizedSilu64x32", "silu", 5385, M=64, N=32),
    _v1("ParameterizedSilu64x64", "silu", 10485, M=64, N=64),
    _v1("ParameterizedSoftmax32x32", "softmax", 2563, M=32, N=32),
    _v1("ParameterizedSoftmax64x32", "softmax", 5095, M=64, N=32),
    _v1("SmolVLAAttention", "attention_tile", 3509, 0.2, 0.2, M=32, D=32, S=32, E=32),
    _v1("SmolVLAElementwiseAdd", "elementwise_add", 3393, M=32, N=32),
    _v1("SmolVLAElementwiseDiv", "elementwise_div", 3475, M=32, N=32),
    _v1("SmolVLAElementwiseMul", "elementwise_mul", 3387, M=32, N=32),
    _v1("SmolVLAElementwiseSub", "elementwise_sub", 3393, M=32, N=32),
    _v1("SmolVLAFusedAttention", "flash_attention_bf16", 13382, M=32, D=64, S=64),
    _v1("SmolVLAFusedMatmulBias", "matmul_bias", 3359, M=32, K=32, N=32),
    _v1("SmolVLAFusedNormScale", "norm_scale", 3322, M=32, N=32),
    _v1("SmolVLAFusedSiluGate", "silu", 2558, M=32, N=32),
    _v1("SmolVLAGeluTanh", "gelu_tanh", 2805, M=32, N=32),
    _v1("SmolVLAMatmul", "matmul", 2332, M=32, K=32, N=32),
    _v1("SmolVLAMatmulKChain", "matmul", 3367, M=32, K=64, N=32),
    _v1("SmolVLAReductionSum", "reduction_sum", 1721, M=32, N=32),
    _v1("SmolVLARequant", "requant", 1750, M=32, N=32),
    _v1("SmolVLARmsNorm", "rms_norm", 2677, M=32, N=32),
    _v1("SmolVLARopeFrequency", "cos", 2286, M=32, N=32),
    _v1("SmolVLASilu", "silu", 2559, M=32, N=32),
    _v1("SmolVLASoftmax", "softmax", 2584, M=32, N=32),
    _v1("VectorArithmetic", "vector_arithmetic", 2559, M=32, N=32),
]  # fmt: skip

V0_CASES: list[Case] = [
    _v0("matmul", "matmul", 198, M=32, K=32, N=32),
    _v0("silu", "silu", 178, M=32, N=32),
    _v0("gelu_tanh", "gelu_tanh", 327, M=32, N=32),
    _v0("elementwise_add", "elementwise_add", 168, M=32, N=32),
    _v0("elementwise_mul", "elementwise_mul", 200, M=32, N=32),
    _v0("elementwise_div", "elementwise_div", 220, M=32, N=32),
    _v0("elementwise_sub", "elementwise_sub", 199, M=32, N=32),
    _v0("reduction_sum", "reduction_sum", 110, M=32, N=32),
    _v0("rope_frequency", "cos", 137, M=32, N=32),
    _v0("requant", "requant", 107, M=32, N=32),
    _v0("attention", "attention_tile", 463, 0.2, 0.2, M=32, D=32, S=32, E=32),
    _v0("softmax", "softmax", 196, M=32, N=32),
    _v0("rms_norm", "rms_norm", 258, M=32, N=32),
    _v0("matmul_acc_first", "matmul_acc_first", 115),
    _v0("matmul_acc_mid", "matmul_acc_mid", 115),
    _v0("matmul_acc_last", "matmul_acc_last", 199),
    _v0("attention_acc_first", "attention_acc_first", 1480, D=64),
    _v0("attention_acc_mid", "attention_acc_mid", 1647, D=64),
    _v0("attention_acc_last", "attention_acc_last", 1593, D=64),
    _v0("matmul_acc K=2", "matmul", 279, 0.01, 2.0, M=32, K=64, N=32),
    _v0("matmul_acc K=3", "matmul", 361, 0.01, 2.0, M=32, K=96, N=32),
    _v0("matmul_acc K=4", "matmul", 443, 0.01, 2.0, M=32, K=128, N=32),
    _v0("attention_acc KV=2", "flash_attention_bf16", 3072, 0.05, 0.05, M=32, D=64, S=64),
    _v0("attention_acc KV=3", "flash_attention_bf16", 4718, 0.05, 0.05, M=32, D=64, S=96),
    _v0("two independent K=2 chains", "batch_matmul", 561, 0.01, 2.0, B=2, M=32, K=64, N=32),
    _v0("tiled_matmul_2x1", "matmul", 297, M=64, K=32, N=32),
    _v0("rms_norm + requant + matmul + elementwise_add", "mini_block", 741, 0.05, 0.05, M=32, K=32, N=32),
]  # fmt: skip

CASES: list[Case] = [*V1_CASES, *V0_CASES]


def find_case(name: str) -> list[Case]:
    """Cases of this name, on any machine."""
    return [case for case in CASES if case.name == name]
