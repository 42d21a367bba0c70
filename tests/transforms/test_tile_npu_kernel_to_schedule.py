"""Tiling keeps the result: the module before and after the pass gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dialects.context import make_context
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.parsing import parse_text, verify_module
from tilewright.dialects.xdsl_api import ModuleOp
from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.reference.executor import run
from tilewright.transforms.pass_pipeline import parse_pipeline, run_passes

FINISH = "convert-npu-kernel-to-schedule,canonicalize,cse"


def tensor(shape: tuple[int, ...], element: str = "bf16") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def random_input(rng: np.random.Generator, type_: str) -> np.ndarray:
    module = parse_text(f"func.func @f(%a: {type_}) {{ return }}")
    attribute = next(iter(module.body.block.ops)).regions[0].block.args[0].type
    element = dtypes.element_type(attribute)
    shape = tuple(attribute.get_shape())  # type: ignore[attr-defined]
    if str(element) == "i1":
        return rng.random(shape) < 0.7
    if not element.is_float:
        return rng.integers(-50, 50, shape).astype(element.storage)
    return dtypes.stored(rng.standard_normal(shape).astype(np.float32), element)


def check(body: str, types: list[str], result: str, passes: str, seed: int = 0) -> ModuleOp:
    """Run before and after `passes` on random inputs, compare bytes; returns the tiled module."""
    arguments = ", ".join(f"%{i}: {t}" for i, t in zip("abcd", types, strict=False))
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}"
    before, after = parse_text(text), parse_text(text)
    verify_module(before)
    run_passes(after, parse_pipeline(f"{passes},{FINISH}"), make_context())
    assert not any(isinstance(op, (MatmulOp, UKernelGenericOp)) for op in after.walk())
    rng = np.random.default_rng(seed)
    inputs = [random_input(rng, type_) for type_ in types]
    (want,), (have,) = run(before, inputs), run(after, inputs)
    assert want.dtype == have.dtype
    assert want.shape == have.shape
    assert want.tobytes() == have.tobytes()
    return after


sizes = st.integers(1, 100)


@settings(max_examples=25, deadline=None)
@given(
    m=sizes,
    n=sizes,
    k=st.integers(1, 400),
    batch=st.sampled_from([(), (2,), (1, 3)]),
    rhs_batched=st.booleans(),
    transposes=st.tuples(st.booleans(), st.booleans()),
    acc=st.booleans(),
    options=st.sampled_from(["", "{unroll-limit=3}", "{pad-small=true}", "{tile=16,64,8}"]),
)
def test_matmul(m, n, k, batch, rhs_batched, transposes, acc, options) -> None:
    """Any size, batch, transposition and initial value."""
    lhs = (*batch, k, m) if transposes[0] else (*batch, m, k)
    rhs = (*(batch if rhs_batched else ()), *((n, k) if transposes[1] else (k, n)))
    types = [tensor(lhs, "f8E4M3FN"), tensor(rhs, "f8E4M3FN")]
    result = tensor((*batch, m, n), "f32")
    marks = [n for n, on in zip(("transpose_lhs", "transpose_rhs"), transposes, strict=True) if on]
    attributes = f" {{{', '.join(marks)}}}" if marks else ""
    init = f" acc(%c : {result})" if acc else ""
    body = f"npu_kernel.matmul %a, %b{init}{attributes} : {types[0]}, {types[1]} -> {result}"
    check(
        body,
        [*types, result] if acc else types,
        result,
        f"tile-npu-kernel-to-schedule{options}",
    )


@settings(max_examples=20, deadline=None)
@given(
    queries=st.integers(1, 80),
    keys=st.integers(1, 330),
    width=st.sampled_from([8, 20]),
    batch=st.sampled_from([(), (2,), (1, 4)]),
    group=st.sampled_from([1, 2]),
    mask=st.sampled_from([None, "full", "shared", "additive"]),
    marks=st.sets(st.sampled_from(["transpose_k", "transpose_v", "causal"])),
    options=st.sampled_from(["", "{unroll-limit=3}", "{pad-small=true}"]),
)
def test_attention(queries, keys, width, batch, group, mask, marks, options) -> None:
    """Blocks of queries and tiles of keys, with masks, grouped heads and ragged ends."""
    if group > 1 and (not batch or batch[-1] % group):
        group = 1
    kv_batch = (*batch[:-1], batch[-1] // group) if batch else ()
    k = (*kv_batch, *((width, keys) if "transpose_k" in marks else (keys, width)))
    v = (*kv_batch, *((width + 1, keys) if "transpose_v" in marks else (keys, width + 1)))
    types = [tensor((*batch, queries, width), "f32"), tensor(k, "f32"), tensor(v, "f32")]
    if mask == "full":
        types.append(tensor((*batch, queries, keys), "i1"))
    elif mask == "shared":
        types.append(tensor((queries, keys), "i1"))
    elif mask == "additive":
        types.append(tensor((*(1 for _ in batch), queries, keys), "f32"))
    attributes = [*sorted(marks), "scale = 0.25 : f32"]
    if group > 1:
        attributes.append(f"kv_group = {group} : i64")
    result = tensor((*batch, queries, width + 1), "f32")
    operands = ", ".join(f"%{name}" for name in "abcd"[: len(types)])
    body = (
        f'npu_kernel.ukernel_generic "npu_uk_gemma_attention"({operands}) '
        f"{{{', '.join(attributes)}}} : {', '.join(types)} -> {result}"
    )
    check_close(body, types, result, f"tile-npu-kernel-to-schedule{options}")


def check_close(body: str, types: list[str], result: str, passes: str) -> None:
    """As `check`, for kernels whose running state is rounded between tiles."""
    arguments = ", ".join(f"%{i}: {t}" for i, t in zip("abcd", types, strict=False))
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}"
    before, after = parse_text(text), parse_text(text)
    verify_module(before)
    run_passes(after, parse_pipeline(f"{passes},{FINISH}"), make_context())
    rng = np.random.default_rng(1)
    inputs = [random_input(rng, type_) for type_ in types]
    (want,), (have,) = run(before, inputs), run(after, inputs)
    np.testing.assert_allclose(have, want, rtol=2e-6, atol=2e-6)


ELEMENTWISE = [
    ('"npu_uk_elementwise_mul"(%a, %b)', "", lambda s: [s, s]),
    ('"npu_uk_silu"(%a)', "", lambda s: [s]),
    ('"npu_uk_elementwise_add"(%a)', "scalar_rhs = 1.5 : bf16", lambda s: [s]),
]


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 70), min_size=0, max_size=3).map(tuple),
    which=st.integers(0, len(ELEMENTWISE) - 1),
    options=st.sampled_from(["", "{pad-small=true}", "{tile=8,16}"]),
)
def test_elementwise(shape, which, options) -> None:
    """Ranks 0 to 3, ragged sizes."""
    call, attributes, shapes = ELEMENTWISE[which]
    types = [tensor(s) for s in shapes(shape)]
    body = f"npu_kernel.ukernel_generic {call} {{{attributes}}} : {', '.join(types)} -> {tensor(shape)}"
    check(body, types, tensor(shape), f"tile-npu-kernel-to-schedule{options}")


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 50), min_size=1, max_size=4).map(tuple),
    data=st.data(),
)
def test_broadcasts_and_transposed_reads(shape, data) -> None:
    """Operand maps follow the tiles: subsets, orders and size-1 dimensions."""
    rank = len(shape)
    dims = data.draw(st.permutations(range(rank)))[: data.draw(st.integers(0, rank))]
    ones = data.draw(st.integers(0, 1))
    other = (1,) * ones + tuple(shape[d] for d in dims)
    names = ", ".join(f"d{i}" for i in range(rank))
    results = ["0"] * ones + [f"d{d}" for d in dims]
    maps = f"[affine_map<({names}) -> ({names})>, affine_map<({names}) -> ({', '.join(results)})>]"
    types = [tensor(shape), tensor(other)]
    body = (
        'npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%a, %b) '
        f"{{operand_maps = {maps}}} : {', '.join(types)} -> {tensor(shape)}"
    )
    check(body, types, tensor(shape), "tile-npu-kernel-to-schedule")


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(1, 70), min_size=1, max_size=4).map(tuple),
    kind=st.sampled_from(["softmax", "rms_norm", "layer_norm", "sum", "max", "transpose"]),
    keepdims=st.booleans(),
    data=st.data(),
)
def test_rows_and_transposes(shape, kind, keepdims, data) -> None:
    """Rows stay whole whatever the axis; transposes keep their order."""
    rank = len(shape)
    axis = data.draw(st.integers(-rank, rank - 1))
    x, result, types = tensor(shape), tensor(shape), [tensor(shape)]
    if kind == "softmax":
        call = f'"npu_uk_softmax"(%a) {{axis = {axis} : i64}}'
    elif kind == "rms_norm":
        call = f'"npu_uk_rms_norm"(%a, %b) {{axis = {axis} : i64, epsilon = 1.0e-5 : f32}}'
        types.append(tensor((shape[axis],)))
    elif kind == "layer_norm":
        call = (
            f'"npu_uk_layer_norm"(%a, %b) {{roles = ["x", "bias"], axis = {axis} : i64, '
            "epsilon = 1.0e-5 : f32}"
        )
        types.append(tensor((shape[axis],)))
    elif kind == "transpose":
        order = data.draw(st.permutations(range(rank)))
        call = f'"npu_uk_transpose"(%a) {{permutation = array<i64: {", ".join(map(str, order))}>}}'
        result = tensor(tuple(shape[i] for i in order))
    else:
        axes = sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        mark = ", keepdims" if keepdims else ""
        call = f'"npu_uk_reduction_{kind}"(%a) {{axes = array<i64: {", ".join(map(str, axes))}>{mark}}}'
        kept = [1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes]
        result = tensor(tuple(kept))
    body = f"npu_kernel.ukernel_generic {call} : {', '.join(types)} -> {result}"
    assert x in types
    check(body, types, result, "tile-npu-kernel-to-schedule")


@settings(max_examples=15, deadline=None)
@given(
    layout=st.sampled_from(["nchw_fchw", "nhwc_hwcf"]),
    n=st.integers(1, 2),
    channels=st.integers(1, 5),
    filters=st.integers(1, 40),
    size=st.tuples(st.integers(5, 20), st.integers(5, 50)),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pad=st.integers(0, 2),
)
def test_convolution(layout, n, channels, filters, size, kernel, stride, dilation, pad) -> None:
    """Blocks of output channels and rows read the right windows."""
    out = [(s + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for s in size]
    if layout == "nchw_fchw":
        x, w, r = (n, channels, *size), (filters, channels, kernel, kernel), (n, filters, *out)
    else:
        x, w, r = (n, *size, channels), (kernel, kernel, channels, filters), (n, *out, filters)
    types = [tensor(x), tensor(w), tensor((filters,))]
    body = (
        f'npu_kernel.ukernel_generic "npu_uk_conv2d"(%a, %b, %c) {{layout = "{layout}", '
        f"strides = array<i64: {stride}, {stride}>, dilations = array<i64: {dilation}, {dilation}>, "
        f"padding = array<i64: {pad}, {pad}, {pad}, {pad}>}} : {', '.join(types)} -> {tensor(r)}"
    )
    check(body, types, tensor(r), "tile-npu-kernel-to-schedule{tile=16,16}")


@pytest.mark.parametrize("name", ["max", "sum", "avg"])
def test_pooling(name) -> None:
    """Padding of a maximum is minus infinity, of a sum zero."""
    types = [tensor((2, 40, 21, 30))]
    out = tensor((2, 40, 11, 15))
    body = (
        f'npu_kernel.ukernel_generic "npu_uk_pool_{name}"(%a) {{kernel = array<i64: 3, 3>, '
        "strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : "
        f"{types[0]} -> {out}"
    )
    check(body, types, out, "tile-npu-kernel-to-schedule{tile=8,8}")


def test_options_are_checked() -> None:
    with pytest.raises(TilewrightError, match="two or three positive sizes"):
        parse_pipeline("tile-npu-kernel-to-schedule{tile=32}")
    with pytest.raises(TilewrightError, match="a chain has two ends"):
        parse_pipeline("tile-npu-kernel-to-schedule{unroll-limit=1}")
