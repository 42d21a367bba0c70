"""Kernel families, attention and schedules against independent computations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from running import array, execute, floats

from random_kernels import random_kernel
from random_modules import SeededChoices
from tilewright.dialects.composites import MEANINGS, expand
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.reference import ops_npu_schedule  # noqa: F401  registers the families
from tilewright.reference.executor import run
from tilewright.reference.families import FAMILY_FUNCTIONS


def kernel(call: str, types: str, result: str, names: str = "") -> str:
    """A function of one kernel call; `types` are its operand types."""
    listed = [t.strip() for t in types.split(";") if t.strip()]
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(listed))
    operands = ", ".join(f"%a{i}" for i in range(len(listed)))
    symbol, _, attributes = call.partition(" ")
    return f"""
func.func @main({arguments}) -> {result} {{
  %r = npu_kernel.ukernel_generic "npu_uk_{symbol}"({operands}) {attributes} : ({", ".join(listed)}) -> {result}
  return %r : {result}
}}"""


def test_every_family_has_a_meaning() -> None:
    stateful = {name for name, family in FAMILIES.items() if family.state}
    assert set(FAMILIES) - stateful == set(FAMILY_FUNCTIONS)


NAMED = [
    name
    for name in MEANINGS
    if name not in ("elementwise_relu", "elementwise_recip", "clamp", "dequant")
]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_named_chains_equal_their_steps(name: str, element: str) -> None:
    """The function that names a chain gives the bits of the single steps it stands for."""
    shape, t = "4x6", element
    calls = {
        "silu_gate": ("", 2),
        "gelu_tanh": ("{inner_scale = 7.978846e-01 : f32}", 1),
        "reduction_mean": ("{axes = array<i64: 1>, keepdims}", 1),
        "softmax": ("{axis = 0 : i64}", 1),
        "rms_norm": ("{epsilon = 1.0e-05 : f32, axis = 1 : i64}", 1),
        "layer_norm": ("{epsilon = 1.0e-05 : f32, axis = 0 : i64}", 1),
        "rope": ('{style = "interleaved", axis = 1 : i64}', 1),
        "requant": ("{scale = 3.0e-01 : f32}", 1),
        "dequant": ("{block = 2 : i64, axis = 1 : i64}", 0),
    }
    attributes, count = calls.get(name, ("", 1))
    types = [f"tensor<{shape}x{t}>"] * count
    if name == "rms_norm":
        types.append(f"tensor<6x{t}>")
    if name == "layer_norm":
        types += [f"tensor<4x{t}>"] * 2
    if name == "rope":
        types += [f"tensor<4x3x{t}>"] * 2
    if name == "dequant":
        types += [f"tensor<{shape}xf8E4M3FN>", f"tensor<4x3x{t}>"]
    result = {
        "reduction_mean": f"tensor<4x1x{t}>",
        "requant": f"tensor<{shape}xf8E4M3FN>",
    }.get(name, f"tensor<{shape}x{t}>")
    text = kernel(f"{name} {attributes}", ";".join(types), result)
    random = np.random.default_rng(4)
    inputs = []
    for type_ in types:
        *sizes, kind = type_[7:-1].split("x")
        inputs.append(array(random.standard_normal([int(n) for n in sizes]) * 3, kind))
    whole = execute(text, *inputs)[0]

    module = parse_text(text)
    (call,) = (op for op in module.walk() if isinstance(op, UKernelGenericOp))
    steps = expand(call)
    assert steps is not None
    operations, value = steps
    block = call.parent
    assert block is not None
    block.insert_ops_before(operations, call)
    call.results[0].replace_all_uses_with(value)
    block.erase_op(call)
    module.verify()
    assert len(operations) > 1
    single = run(module, inputs)[0]
    assert whole.tobytes() == single.tobytes()


def test_block_scales_as_exponents() -> None:
    """MX: one byte e per block stands for 2^(e - 127), 0 for 2^-126, 255 for NaN."""
    text = kernel(
        'dequant {block = 2 : i64, scale_encoding = "e8m0"}',
        "tensor<2x4xf8E4M3FN>;tensor<2x2xi8>",
        "tensor<2x4xf32>",
    )
    x = array([[1, -2, 0.5, 4], [1, 1, 1, 1]], "f8E4M3FN")
    scale = np.array([[127, 130], [0, 255]], np.uint8).view(np.int8)
    (found,) = execute(text, x, scale)
    wanted = [[1, -2, 4, 32], [2.0**-126, 2.0**-126, math.nan, math.nan]]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def attention_by_loops(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    allowed: np.ndarray,
    added: np.ndarray,
) -> np.ndarray:
    """One head, element by element, in Python floats."""
    result = np.zeros((q.shape[0], v.shape[1]))
    for i in range(q.shape[0]):
        scores = []
        for j in range(k.shape[0]):
            total = math.fsum(float(a) * float(b) for a, b in zip(q[i], k[j], strict=True))
            scores.append(float(np.float32(np.float32(total * scale) + np.float32(added[i, j]))))
        keys = [j for j in range(k.shape[0]) if allowed[i, j]]
        if not keys:
            continue
        top = max(scores[j] for j in keys)
        weights = {j: math.exp(scores[j] - top) for j in keys}
        total = math.fsum(weights.values())
        for c in range(v.shape[1]):
            result[i, c] = math.fsum(w * float(v[j, c]) for j, w in weights.items()) / total
    return result


@pytest.mark.parametrize("mask", ["none", "bool", "additive", "causal"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("turned", [False, True])
def test_attention(mask: str, element: str, turned: bool) -> None:
    m, n, d, dv = 3, 5, 4, 2
    random = np.random.default_rng(7)
    q, k, v = (array(random.standard_normal((2, *s)), element) for s in ((m, d), (n, d), (n, dv)))
    allowed = np.ones((m, n), bool)
    added = np.zeros((m, n))
    operands, types, attributes = [q, k, v], [], ["scale = 2.5e-01 : f32"]
    if mask == "bool":
        allowed = random.random((m, n)) < 0.5
        allowed[1] = False  # a row without any key
        operands.append(allowed)
    elif mask == "additive":
        extra = array(random.standard_normal((m, n)), element)
        added = floats(extra)
        operands.append(extra)
    elif mask == "causal":
        attributes.append("causal")
        allowed = np.arange(n) <= np.arange(m)[:, None] + (n - m)
    if turned:
        operands[1], operands[2] = (np.swapaxes(x, 1, 2).copy() for x in operands[1:3])
        attributes += ["transpose_k", "transpose_v"]
    for x in operands:
        kind = "i1" if x.dtype == np.bool_ else element
        types.append(f"tensor<{'x'.join(map(str, x.shape))}x{kind}>")
    text = kernel(
        f"gemma_attention {{{', '.join(attributes)}}}",
        ";".join(types),
        f"tensor<2x{m}x{dv}x{element}>",
    )
    (found,) = execute(text, *operands)
    for head in range(2):
        wanted = attention_by_loops(
            floats(q[head]), floats(k[head]), floats(v[head]), 0.25, allowed, added
        )
        np.testing.assert_array_equal(found[head], array(wanted, element))
    if mask == "bool":
        assert not floats(found[:, 1]).any()


def test_linalg_attention_with_grouped_loops_equals_the_kernel() -> None:
    """Six loops, q (h, g, m, k1), k (h, k2, k1): grouped heads without repeating keys."""
    text = """
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x6xf32>) -> tensor<2x3x4x6xf32> {
  %s = arith.constant 0.25 : f32
  %o = tensor.empty() : tensor<2x3x4x6xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [
      affine_map<(h, g, m, n, k, l) -> (h, g, m, k)>, affine_map<(h, g, m, n, k, l) -> (h, l, k)>,
      affine_map<(h, g, m, n, k, l) -> (h, l, n)>, affine_map<(h, g, m, n, k, l) -> ()>,
      affine_map<(h, g, m, n, k, l) -> (h, g, m, n)>]>
      ins(%q, %k, %v, %s : tensor<2x3x4x8xf32>, tensor<2x5x8xf32>, tensor<2x5x6xf32>, f32)
      outs(%o : tensor<2x3x4x6xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x3x4x6xf32>
  return %r : tensor<2x3x4x6xf32>
}"""
    random = np.random.default_rng(1)
    q, k, v = (
        random.standard_normal(s).astype(np.float32) for s in ((2, 3, 4, 8), (2, 5, 8), (2, 5, 6))
    )
    (found,) = execute(text, q, k, v)
    other = kernel(
        "gemma_attention {scale = 2.5e-01 : f32, kv_group = 3 : i64}",
        "tensor<6x4x8xf32>;tensor<2x5x8xf32>;tensor<2x5x6xf32>",
        "tensor<6x4x6xf32>",
    )
    (wanted,) = execute(other, q.reshape(6, 4, 8), k, v)
    assert found.tobytes() == wanted.reshape(found.shape).tobytes()


def test_attention_score_function_is_applied() -> None:
    """A soft cap: the region changes every score before the softmax."""
    text = """
func.func @main(%q: tensor<2x4xf32>, %k: tensor<3x4xf32>, %v: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %s = arith.constant 1.0 : f32
  %cap = arith.constant 0.5 : f32
  %o = tensor.empty() : tensor<2x2xf32>
  %r = iree_linalg_ext.attention <indexing_maps = [affine_map<(m, n, k, l) -> (m, k)>,
      affine_map<(m, n, k, l) -> (l, k)>, affine_map<(m, n, k, l) -> (l, n)>,
      affine_map<(m, n, k, l) -> ()>, affine_map<(m, n, k, l) -> (m, n)>]>
      ins(%q, %k, %v, %s : tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x2xf32>, f32) outs(%o : tensor<2x2xf32>) {
  ^bb0(%score: f32):
    %t = math.tanh %score : f32
    %u = arith.mulf %t, %cap : f32
    iree_linalg_ext.yield %u : f32
  } -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}"""
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal(s).astype(np.float32) for s in ((2, 4), (3, 4), (3, 2)))
    score = np.tanh(q.astype(float) @ k.T.astype(float)) * 0.5
    weights = np.exp(score - score.max(1, keepdims=True))
    wanted = weights @ v / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(execute(text, q, k, v)[0], wanted, rtol=1e-6)


def test_convolution_of_no_images() -> None:
    text = kernel("conv2d", "tensor<0x2x4x4xf32>;tensor<3x2x3x3xf32>", "tensor<0x3x2x2xf32>")
    x, w = np.zeros((0, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)
    assert execute(text, x, w)[0].shape == (0, 3, 2, 2)


def test_convolution_and_pooling_by_loops() -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 4, 7, 6)).astype(np.float32)
    w = random.standard_normal((6, 2, 3, 2)).astype(np.float32)
    bias = random.standard_normal(6).astype(np.float32)
    text = kernel(
        "conv2d {strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 0, 2>, "
        "dilations = array<i64: 1, 2>, groups = 2 : i64}",
        "tensor<2x4x7x6xf32>;tensor<6x2x3x2xf32>;tensor<6xf32>",
        "tensor<2x6x3x6xf32>",
    )
    (found,) = execute(text, x, w, bias)
    for n, f, h, c in itertools.product(range(2), range(6), range(3), range(6)):
        terms = [float(bias[f])]
        for ch, y, z in itertools.product(range(2), range(3), range(2)):
            row, column = h * 2 + y - 1, c + z * 2
            if 0 <= row < 7 and 0 <= column < 6:
                terms.append(float(x[n, (f // 3) * 2 + ch, row, column]) * float(w[f, ch, y, z]))
        assert found[n, f, h, c] == np.float32(math.fsum(terms))
    text = kernel(
        "pool_avg {kernel = array<i64: 2, 3>, strides = array<i64: 2, 2>, padding = array<i64: 0, 1, 1, 1>}",
        "tensor<2x4x7x6xf32>",
        "tensor<2x4x4x3xf32>",
    )
    (average,) = execute(text, x)
    for n, ch, h, c in itertools.product(range(2), range(4), range(4), range(3)):
        values = [
            float(x[n, ch, h * 2 + y, c * 2 + z - 1])
            for y, z in itertools.product(range(2), range(3))
            if h * 2 + y < 7 and 0 <= c * 2 + z - 1 < 6
        ]
        assert average[n, ch, h, c] == np.float32(
            np.float32(math.fsum(values)) / np.float32(len(values))
        )


CHAIN = """
func.func @main(%a: tensor<32x64xf8E4M3FN>, %b: tensor<64x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %a0 = tensor.extract_slice %a[0, 0] [32, 32] [1, 1] : tensor<32x64xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %a1 = tensor.extract_slice %a[0, 32] [32, 32] [1, 1] : tensor<32x64xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %b0 = tensor.extract_slice %b[0, 0] [32, 32] [1, 1] : tensor<64x32xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %b1 = tensor.extract_slice %b[32, 0] [32, 32] [1, 1] : tensor<64x32xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %0 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%a0, %b0) : (tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_last"(%a1, %b1) : (tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}"""


def test_a_chain_over_k_is_the_whole_product() -> None:
    random = np.random.default_rng(0)
    a = array(random.standard_normal((32, 64)), "f8E4M3FN")
    b = array(random.standard_normal((64, 32)), "f8E4M3FN")
    (found,) = execute(CHAIN, a, b)
    np.testing.assert_array_equal(found, array(floats(a) @ floats(b), "bf16"))
    # The result of a launch that is not the last is undefined.
    (undefined,) = execute(CHAIN.replace("return %1", "return %0"), a, b)
    assert np.isnan(floats(undefined)).all()
    with pytest.raises(TilewrightError, match="no first launch has started") as caught:
        execute(CHAIN.replace("_acc_first", "_acc_mid"), a, b)
    assert caught.value.code == "TW1505"


def test_transfers_land_when_they_are_waited_for() -> None:
    text = """
func.func @main(%x: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %m = npu_schedule.alloc : !npu_schedule.buffer<tensor<4xbf16>, "vmem">
  %t = npu_schedule.dma_load %x into %m : tensor<4xbf16>, !npu_schedule.buffer<tensor<4xbf16>, "vmem">
  %early, %t1 = npu_schedule.dma_store %m : !npu_schedule.buffer<tensor<4xbf16>, "vmem"> -> tensor<4xbf16>
  npu_schedule.wait %t1
  npu_schedule.wait %t
  %late, %t2 = npu_schedule.dma_store %m : !npu_schedule.buffer<tensor<4xbf16>, "vmem"> -> tensor<4xbf16>
  npu_schedule.wait %t2
  npu_schedule.free %m : !npu_schedule.buffer<tensor<4xbf16>, "vmem">
  return %early, %late : tensor<4xbf16>, tensor<4xbf16>
}"""
    x = array([1, 2, 3, 4], "bf16")
    early, late = execute(text, x)
    assert np.isnan(floats(early)).all()
    assert floats(late).tolist() == [1, 2, 3, 4]


def test_unknown_kernels_are_errors() -> None:
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = npu_kernel.ukernel_generic "npu_uk_no_such_thing"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}"""
    with pytest.raises(
        TilewrightError, match="does not know the kernel npu_uk_no_such_thing"
    ) as caught:
        run(parse_text(text, "user.mlir"), [np.zeros(4, np.float32)])
    assert caught.value.code == "TW1501"
    assert caught.value.location is not None and caught.value.location.line == 3


def test_random_kernels_are_valid_programs() -> None:
    for seed in range(40):
        module = random_kernel(SeededChoices(seed))
        results = run(parse_text(module.text), module.inputs(seed))
        assert len(results) == 1
