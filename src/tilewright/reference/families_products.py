"""Kernel families that contract, attend, slide windows or change precision."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dialects.family_checks import resolve_transposes
from tilewright.reference import attention, composites, dtypes
from tilewright.reference.contraction import multiply
from tilewright.reference.dtypes import Array
from tilewright.reference.encoded_operands import exact, plain, sums_codes
from tilewright.reference.families import Call, family
from tilewright.reference.faults import fault
from tilewright.reference.reductions import fold
from tilewright.reference.scalar_integers import convert
from tilewright.reference.views import operand_view


def matrix_product(call: Call) -> Array:
    """The wide product of lhs and rhs, transposes resolved, with `acc` added if there is one."""
    left, right = plain(call, "lhs"), plain(call, "rhs")
    marks = resolve_transposes(
        left.shape,
        right.shape,
        call.shape,
        call.kernel.flag("transpose_lhs"),
        call.kernel.flag("transpose_rhs"),
    )
    if marks is None:
        raise fault(call.op, "TW1502", "the operands of the matrix product do not fit")
    if marks[0]:
        left = np.swapaxes(left, -1, -2)
    if marks[1]:
        right = np.swapaxes(right, -1, -2)
    product = multiply(left, right)
    initial = call.values.get("acc")
    return exact(call, product if initial is None else product + initial)


@family("matmul")
def matmul(call: Call) -> Array:
    return matrix_product(call)


def attention_operands(call: Call) -> tuple[Array, Array, Array, Array | None]:
    """q [.., m, d], k [.., n, d], v [.., n, dv] and mask, with equal batches."""
    q, k, v = (call.values[name] for name in ("q", "k", "v"))
    if call.kernel.flag("transpose_k"):
        k = np.swapaxes(k, -1, -2)
    if call.kernel.flag("transpose_v"):
        v = np.swapaxes(v, -1, -2)
    group = call.kernel.integer("kv_group") or 1
    if group > 1:
        k, v = (np.repeat(operand, group, axis=-3) for operand in (k, v))
    return q, k, v, call.values.get("mask")


def _score_scale(call: Call, q: Array) -> float:
    scale = call.kernel.floating("scale")
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1]) if q.shape[-1] else math.inf
    return scale


def block_scores(
    call: Call, q: Array, k: Array, mask: Array | None, start: tuple[int, int], offset: int
) -> Array:
    """Masked scores of one block; padding keys and the causal rule are masks too."""
    score = attention.scores(
        q, k, _score_scale(call, q), dtypes.F32, mask, call.elements.get("mask")
    )
    seen = np.ones((q.shape[-2], k.shape[-2]), dtype=np.bool_)
    if call.kernel.flag("causal"):
        seen &= attention.causal_mask(q.shape[-2], k.shape[-2], start[0], start[1], offset)
    valid = call.kernel.integer("valid_keys")
    if valid is not None:
        seen &= np.arange(k.shape[-2]) < valid
    if seen.all():
        return score
    return np.where(seen, score, np.float32(-np.inf))


@family("gemma_attention")
def whole_attention(call: Call) -> Array:
    q, k, v, mask = attention_operands(call)
    offset = k.shape[-2] - q.shape[-2]
    counted = call.kernel.flag("causal") or call.kernel.integer("valid_keys") is not None
    if mask is not None and mask.shape[-1] == k.shape[-2] and not counted:
        kept = attention.weighing_keys(q, k, v, _score_scale(call, q), mask)
        if not kept.all():
            k, v, mask = k[..., kept, :], v[..., kept, :], mask[..., kept]
    result = np.empty(call.shape, dtype=np.float64)
    if mask is not None:
        mask = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    for at in np.ndindex(*q.shape[:-2]) if result.size else ():
        part = None if mask is None else mask[at]
        score = block_scores(call, q[at], k[at], part, (0, 0), offset)
        result[at] = attention.update(None, score, v[at]).result()
    return result


# --------------------------------------------------------------------------- windows


def _windows(x: Array, kernel: tuple[int, int], call: Call, border: float) -> Array:
    """An image [n, c, h, w] as windows [n, c, oh, ow, kh, kw]; `border` fills the padding."""
    strides = call.kernel.integers("strides") or (1, 1)
    top, left, bottom, right = call.kernel.integers("padding") or (0, 0, 0, 0)
    dilations = call.kernel.integers("dilations") or (1, 1)
    if top or left or bottom or right:
        amounts = ((0, 0), (0, 0), (top, bottom), (left, right))
        x = np.pad(x, amounts, constant_values=border)
    spans = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


@family("conv2d")
def conv2d(call: Call) -> Array:
    x, w, bias = plain(call, "x"), plain(call, "w"), call.values.get("bias")
    channels_last = call.kernel.string("layout") == "nhwc_hwcf"
    if channels_last:
        x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
    groups = call.kernel.integer("groups") or 1
    kernel = (w.shape[2], w.shape[3])
    view = _windows(x, kernel, call, 0)
    images, _, height, width = view.shape[:4]
    depth, filters = x.shape[1] // groups, w.shape[0] // groups
    window = depth * kernel[0] * kernel[1]  # named: with empty images numpy cannot infer it
    parts = []
    for group in range(groups):
        source = view[:, group * depth : (group + 1) * depth].transpose(0, 2, 3, 1, 4, 5)
        rows = source.reshape(images * height * width, window)
        columns = w[group * filters : (group + 1) * filters].reshape(filters, window).T
        product = multiply(rows, columns).reshape(images, height, width, filters)
        parts.append(product)
    result = np.concatenate(parts, axis=-1)
    if bias is not None:
        result = result + bias
    result = exact(call, result)
    return result if channels_last else result.transpose(0, 3, 1, 2)


@family("pool_max", "pool_avg", "pool_sum")
def pool(call: Call) -> Array:
    kind = call.kernel.family.name.removeprefix("pool_")
    x, element = call.values["x"], call.elements["x"]
    if kind == "sum" and sums_codes(call):
        x, element = plain(call, "x").astype(np.int64), dtypes.integer(64)
    kernel = call.kernel.integers("kernel") or (1, 1)
    channels_last = call.kernel.string("layout") == "nhwc"
    if channels_last:
        x = x.transpose(0, 3, 1, 2)
    lowest = -np.inf if element.is_float else -(2 ** (element.bits - 1))
    view = _windows(x, (kernel[0], kernel[1]), call, lowest if kind == "max" else 0)
    folded = fold(view, (4, 5), "max" if kind == "max" else "sum", element)[..., 0, 0]
    if kind == "sum":
        folded = exact(call, folded)
    if kind == "avg":
        if call.kernel.flag("count_include_pad"):
            count: Array = np.asarray(kernel[0] * kernel[1], dtype=np.float64)
        else:
            ones = np.ones((1, 1, *x.shape[2:]), dtype=np.float64)
            count = _windows(ones, (kernel[0], kernel[1]), call, 0).sum(axis=(4, 5))
        folded = folded.astype(x.dtype) / count.astype(x.dtype)
    return folded.transpose(0, 2, 3, 1) if channels_last else folded


# --------------------------------------------------------------------------- quantisation


def _scale(call: Call, rank: int) -> Array | None:
    """The scale as an array that broadcasts over x, or None."""
    value = call.kernel.floating("scale")
    if value is not None:
        return np.asarray(value, dtype=np.float32)
    scale = call.values.get("scale")
    if scale is None:
        return None
    element = call.elements["scale"]
    if call.kernel.string("scale_encoding") == "e8m0":
        scale = _decoded_exponents(dtypes.unsigned_view(scale, element))
    block = call.kernel.integer("block")
    if block is not None:
        axis = call.kernel.axis(rank)
        return np.repeat(scale, block, axis=axis)
    maps = call.kernel.operand_maps()
    if "operand_maps" in call.kernel.attributes:
        place = call.kernel.role_names().index("scale")
        return operand_view(call.op, scale, maps[place], call.shape)
    return scale.reshape((1,) * (rank - scale.ndim) + scale.shape)


def _quantised_input(call: Call) -> Array:
    x = call.values["x"]
    if "operand_maps" in call.kernel.attributes:
        place = call.kernel.role_names().index("x")
        return operand_view(call.op, x, call.kernel.operand_maps()[place], call.shape)
    return x


@family("requant")
def requant(call: Call) -> Array:
    x, element = _quantised_input(call), call.elements["x"]
    scale = _scale(call, len(call.shape))
    if scale is not None:
        x = composites.Steps(element).divide(x, dtypes.rounded(scale, element))
    if call.target.is_float:
        return x
    limit = 2 ** (call.target.bits - 1)
    low, high = (-limit, limit - 1) if call.target.signed else (0, 2 * limit - 1)
    whole = np.rint(np.where(np.isnan(x), 0, x)).astype(np.float64)
    return np.clip(whole, low, high).astype(np.int64)


@family("dequant")
def dequant(call: Call) -> Array:
    x = convert(_quantised_input(call), call.elements["x"], call.target)
    scale = _scale(call, len(call.shape))
    if scale is None:
        return x
    return composites.Steps(call.target).multiply(x, dtypes.rounded(scale, call.target))


def _decoded_exponents(codes: Array) -> Array:
    """Bytes e as 2^(e - 127); 0 stands for 2^-126 and 255 for NaN."""
    exponents = np.maximum(codes.astype(np.int32), 1) - 127
    return np.where(codes == 255, np.float32(np.nan), np.ldexp(np.float32(1.0), exponents))
