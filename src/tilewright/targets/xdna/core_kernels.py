"""What the core kernels compute, on batches of objects in the layouts the DMA engines leave.

C is kept as an m x n matrix while a core works on it and put into its L1 layout when the core
releases it. Integer products go through floating-point BLAS, which is exact as long as every sum
stays below the mantissa.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.design import Kernel
from tilewright.targets.xdna.numerics import INTEGER, bf16_bits, bf16_values, bfp16, narrow
from tilewright.targets.xdna.packing import check_crumbs, nibbles_of, unpack_int4

NUMPY = {**INTEGER, "bf16": np.uint16, "f32": np.float32}


def a_operand(kernel: Kernel, objects: np.ndarray) -> np.ndarray:
    """A objects (count, m * k) in blocks as matrices (count, m, k)."""
    r, s, _ = kernel.block
    m, k = kernel.m, kernel.k
    blocks = objects.reshape(-1, m // r, k // s, r, s)
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 2, 4)).reshape(-1, m, k)


def b_operand(kernel: Kernel, objects: np.ndarray) -> np.ndarray:
    """B objects as the matrices (count, k, n) that enter the multiplier.

    Ternary: right-hand block columns are four times their weights, as the masks leave them.
    """
    _, s, t = kernel.block
    k, n = kernel.k, kernel.n
    if kernel.weights == "ternary":
        return _ternary_operand(kernel, objects)
    if kernel.weights == "int4":
        return np.stack([unpack_int4(packed.view(np.uint8), k, n) for packed in objects])
    if kernel.b_layout == "row":
        blocks = objects.reshape(-1, k // s, n // t, s, t).transpose(0, 1, 3, 2, 4)
    else:  # the core transposes each block
        blocks = objects.reshape(-1, n // t, k // s, t, s).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(blocks).reshape(-1, k, n)


def _ternary_operand(kernel: Kernel, objects: np.ndarray) -> np.ndarray:
    """AND and SUB of the kernel on unpacked nibbles."""
    _, s, t = kernel.block
    k, n = kernel.k, kernel.n
    packed = np.ascontiguousarray(objects).view(np.uint8)
    check_crumbs(packed)
    x = nibbles_of(packed).reshape(-1, n // (2 * t), k // s, s, t).astype(np.int8)
    left, right = x & 0x03, x & 0x0C
    if kernel.zero_point == "sub":
        left, right = left - 1, right - 4
    both = np.stack([left, right], axis=4)  # count, group, step, row, half, column
    return np.ascontiguousarray(both.transpose(0, 2, 3, 1, 4, 5)).reshape(-1, k, n)


def c_object(kernel: Kernel, c: np.ndarray) -> np.ndarray:
    """C as the kernel stores it: blocks in row order, or transposed blocks in column order."""
    r, _, t = kernel.block
    blocks = c.reshape(kernel.m // r, r, kernel.n // t, t)
    if kernel.c_layout == "row":
        return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(-1)
    return np.ascontiguousarray(blocks.transpose(2, 0, 3, 1)).reshape(-1)


def cleared(kernel: Kernel) -> np.ndarray:
    """C after the clearing kernel; f32 where sums stay wide until the last step."""
    kind = np.float32 if kernel.wide_sum else NUMPY[kernel.output]
    return np.zeros((kernel.m, kernel.n), kind)


def multiplier_form(kernel: Kernel, matrices: np.ndarray, k_axis: int) -> np.ndarray:
    """Operands as the floats whose products are summed."""
    if kernel.inputs == "bf16":
        values = bf16_values(matrices)
        return bfp16(values, k_axis) if kernel.numbers == "bfp16" else values
    largest = 128 * (8 if kernel.weights == "ternary" else 128)
    exact = kernel.k * largest <= 1 << 24
    return matrices.astype(np.float32 if exact else np.float64)


def accumulate(
    kernel: Kernel, c: np.ndarray, a: np.ndarray, b: np.ndarray, last: list[bool]
) -> np.ndarray:
    """C after the calls whose operands are a (count, m, k) and b (count, k, n)."""
    if kernel.inputs == "bf16":
        return _accumulate_float(kernel, c, a, b, last)
    products = np.matmul(a, b)
    if kernel.output == "i32" and kernel.weights != "ternary":
        total = c.astype(np.int64) + products.sum(axis=0, dtype=np.float64).astype(np.int64)
        return total.astype(np.int32)
    if kernel.weights == "ternary":
        return _accumulate_ternary(kernel, c, products, last)
    if kernel.shift == 0 and kernel.saturate:
        limits = np.iinfo(NUMPY[kernel.output])
        total = c.astype(products.dtype)  # sums of integers, still exact as floats
        for product in products:
            total += product
            np.clip(total, limits.min, limits.max, out=total)
        return total.astype(NUMPY[kernel.output])
    for product in products:
        accumulator = (c.astype(np.int32) << kernel.shift) + product.astype(np.int32)
        c = narrow(accumulator, kernel.output, kernel.shift, kernel.rounding, kernel.saturate)
    return c


def _accumulate_ternary(
    kernel: Kernel, c: np.ndarray, products: np.ndarray, last: list[bool]
) -> np.ndarray:
    """Right-hand sums stay four times too large until the step that is told it is the last."""
    t = kernel.block[2]
    start = 0
    ends = [i + 1 for i, flag in enumerate(last) if flag]
    for end in dict.fromkeys([*ends, len(products)]):
        total = c.astype(np.int64)
        total += products[start:end].sum(axis=0, dtype=np.float64).astype(np.int64)
        c = total.astype(np.int32)
        if end in ends:
            right = c.reshape(kernel.m, kernel.n // (2 * t), 2, t)[:, :, 1]
            if (right & 3).any():
                raise TilewrightError(
                    "TW8042", "a right-hand ternary sum is no multiple of 4 before its last shift"
                )
            right >>= 2
        start = end
    return c


def _accumulate_float(
    kernel: Kernel, c: np.ndarray, a: np.ndarray, b: np.ndarray, last: list[bool]
) -> np.ndarray:
    """f32 sums in k order; C is rounded to bf16 after every call unless f32 sums are kept."""
    narrow_c = kernel.output == "bf16"
    total = c if c.dtype == np.float32 else bf16_values(c)
    total = total.copy()
    for i in range(len(a)):
        left, right = np.ascontiguousarray(a[i].T), b[i]
        for column, row in zip(left, right, strict=True):
            total += column[:, None] * row
        if narrow_c and (not kernel.wide_sum or last[i]):
            total = bf16_values(bf16_bits(total))
            if kernel.wide_sum and i + 1 < len(a):
                raise TilewrightError(
                    "TW8042", "a multiply goes on after it was told to be the last"
                )
    return bf16_bits(total) if narrow_c and (not kernel.wide_sum or last[-1]) else total
