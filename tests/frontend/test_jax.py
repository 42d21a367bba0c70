"""Live JAX functions; these tests run where jax is installed."""

# pyright: reportMissingImports=false
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.dialects.locations import location_of
from tilewright.errors import TilewrightError
from tilewright.frontend.factories import import_factory
from tilewright.frontend.imported import Imported
from tilewright.frontend.jax import import_jax
from tilewright.reference.executor import run

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
pytestmark = pytest.mark.filterwarnings("ignore")
RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def families(imported: Imported) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in imported.module.walk():
        if op.name.startswith("npu_kernel."):
            symbol = op.properties.get("symbol")
            name = symbol.data.removeprefix("npu_uk_") if symbol else "matmul"  # type: ignore[union-attr]
            name = name.removesuffix("_f32_f32").removesuffix("_bf16_bf16")
            found[name] = found.get(name, 0) + 1
    return found


def check(function: Callable[..., Any], *inputs: Any, bound: float = 2e-5) -> Imported:
    """Import a function, run it, and compare with JAX."""
    imported = import_jax(function, *inputs)
    found = run(imported.module, [np.asarray(x) for x in jax.tree.leaves(inputs)],
                weights=imported.weights)  # fmt: skip
    wanted = jax.tree.leaves(jax.jit(function)(*inputs))
    for have, want in zip(found, map(np.asarray, wanted), strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        high = [array.astype(np.float64) for array in (have, want)]
        np.testing.assert_allclose(*high, rtol=bound, atol=bound)
    return imported


# -------------------------------------------------------------------------------- forms put together


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * w + b


def layer_norm_in_one_pass(x: Any, w: Any, b: Any) -> Any:
    """As flax writes it."""
    mean = x.mean(-1)
    variance = jnp.maximum(0.0, jnp.square(x).mean(-1) - jnp.square(mean))
    factor = jax.lax.rsqrt(variance[..., None] + 1e-6) * w
    return (x - mean[..., None]) * factor + b


def rms_norm(x: Any, w: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w


def rms_norm_divided(x: Any, w: Any) -> Any:
    return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-5) * w


def rms_norm_weight_first(x: Any, w: Any) -> Any:
    return x * (jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w)


def rotated_halves(x: Any) -> Any:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def rotated_pairs(x: Any) -> Any:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)


def rotated_whole_tables(x: Any) -> Any:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] / 10000.0 ** (jnp.arange(0, 2 * half, 2) / (2 * half))
    angles = jnp.concatenate([angles, angles], -1)
    turned = jnp.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * jnp.cos(angles)[:, None] + turned * jnp.sin(angles)[:, None]


FORMS = {
    "layer_norm": (layer_norm, [(2, 8, 24), (24,), (24,)], {"layer_norm": 1}),
    "layer_norm_one_pass": (
        layer_norm_in_one_pass, [(2, 8, 24), (24,), (24,)], {"layer_norm": 1},
    ),
    "rms_norm": (rms_norm, [(1, 8, 24), (24,)], {"rms_norm": 1}),
    "rms_norm_divided": (rms_norm_divided, [(8, 24), (24,)], {"rms_norm": 1}),
    "rms_norm_weight_first": (rms_norm_weight_first, [(8, 24), (24,)], {"rms_norm": 1}),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), [(8, 24)], {"gelu_erf": 1}),
    "gelu_tanh": (lambda x: jax.nn.gelu(x, approximate=True), [(8, 24)], {"gelu_tanh": 1}),
    "silu": (jax.nn.silu, [(8, 24)], {"silu": 1}),
    "gated": (
        lambda x, a, b: jax.nn.silu(x @ a) * (x @ b),
        [(8, 24), (24, 32), (24, 32)],
        {"matmul": 2, "silu_gate": 1},
    ),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), [(4, 8, 3)], {"softmax": 1}),
    "relu": (jax.nn.relu, [(8, 24)], {"elementwise_relu": 1}),
    "relu6": (jax.nn.relu6, [(8, 24)], {"clamp": 1}),
    "rope_halves": (rotated_halves, [(2, 7, 4, 8)], {"rope": 1}),
    "rope_pairs": (rotated_pairs, [(2, 7, 4, 8)], {"rope": 1}),
    "rope_whole_tables": (rotated_whole_tables, [(2, 7, 4, 8)], {"rope": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_whole(name: str) -> None:
    function, shapes, wanted = FORMS[name]
    found = families(check(function, *(floats(*shape) for shape in shapes)))
    found.pop("reshape", None)
    assert found == wanted


def test_factors_of_a_norm_that_are_all_as_large_change_places_once() -> None:
    """Norms in f16 stay in pieces; on a vector nothing but the root tells x from the weight."""
    for shape in ((16,), (3, 16)):
        x, w, gate = (jnp.asarray(floats(*shape), jnp.float16) for _ in range(3))
        check(rms_norm_weight_first, x, w, bound=1e-2)
        check(rms_norm, x, w, bound=1e-2)
        check(lambda x, w, gate: rms_norm_weight_first(x, w) * gate, x, w, gate, bound=1e-2)


def test_a_norm_in_bf16_is_one_intent() -> None:
    def norm(x: Any, w: Any) -> Any:
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + 1e-5)
        return wide.astype(x.dtype) * w

    inputs = [jnp.asarray(floats(8, 24), jnp.bfloat16), jnp.asarray(floats(24), jnp.bfloat16)]
    assert families(check(norm, *inputs, bound=1e-2)) == {"rms_norm": 1}


# ------------------------------------------------------------------------------ places and running values


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, v: x.at[i].set(v),
        lambda x, i, v: x.at[i].add(v),
        lambda x, i, v: x.at[i, i].max(v[:, 0]),
        lambda x, i, v: x.at[i, 2].multiply(v[:, 1]),
        lambda x, i, v: x.at[jnp.array([1, 18, 3])].set(v) + i[0],
        lambda x, i, v: x.at[i].add(v, mode="clip"),
        lambda x, i, v: jax.ops.segment_sum(v, i, 5),
        lambda x, i, v: jnp.bincount(i, length=3),
        lambda x, i, v: jnp.nonzero(x[0] > 0, size=6, fill_value=2)[0],
    ],
)
def test_writes_outside_of_a_target_are_dropped(function: Callable[..., Any]) -> None:
    for places in ([1, 18, 3], [0, -20, -1], [8, 9, 2]):
        check(function, floats(9, 11), np.array(places, np.int32), floats(3, 11))


def test_running_values() -> None:
    check(
        lambda x: (jnp.cumprod(x, 0), jax.lax.cummax(x, 1), jax.lax.cummin(x), jnp.cumsum(x, 1)),
        floats(5, 7),
    )


# ------------------------------------------------------------------------------------- attention


def hand_written(q: Any, k: Any, v: Any, mask: str = "none") -> Any:
    """[batch, tokens, heads, width], keys and values repeated for grouped heads."""
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    if k.shape[1] != q.shape[1]:
        k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(np.float32)
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    if mask == "where":
        scores = jnp.where(seen, scores, -1e9)
    elif mask == "smallest":
        scores = jnp.where(seen[None, None], scores, jnp.finfo(scores.dtype).min)
    elif mask == "added":
        scores = scores + jnp.where(seen, 0.0, -jnp.inf)
    return (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3)


def fused(q: Any, k: Any, v: Any, **options: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, **options)


def by_einsum(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * 0.25, k)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


ATTENTION: dict[str, tuple[Callable[..., Any], int, int, dict[str, object]]] = {
    # name -> function, keys, key heads, attributes
    "fused": (fused, 9, 4, {}),
    "fused_grouped": (fused, 9, 2, {"kv_group": 2}),
    "fused_causal": (lambda *a: fused(*a, is_causal=True), 7, 4, {"causal": True}),
    "fused_causal_grouped": (
        lambda *a: fused(*a, is_causal=True), 7, 2, {"causal": True, "kv_group": 2},
    ),
    "fused_causal_other_length": (
        lambda *a: fused(*a, is_causal=True), 9, 4, {"mask_kind": "bool"},
    ),
    "hand_written": (hand_written, 9, 4, {}),
    "hand_written_grouped": (hand_written, 9, 2, {"kv_group": 2}),
    "where": (lambda *a: hand_written(*a, mask="where"), 7, 2, {"causal": True, "kv_group": 2}),
    "smallest": (lambda *a: hand_written(*a, mask="smallest"), 7, 4, {"causal": True}),
    "added": (lambda *a: hand_written(*a, mask="added"), 7, 4, {"causal": True}),
    "einsum": (by_einsum, 9, 4, {"scale": 1.0}),
}  # fmt: skip


def attention_attributes(imported: Imported) -> dict[str, object]:
    (op,) = [
        op
        for op in imported.module.walk()
        if "gemma_attention" in getattr(op.properties.get("symbol"), "data", "")
    ]
    found: dict[str, object] = {}
    for name in ("kv_group", "causal", "mask_kind"):
        value = op.attributes.get(name)
        if value is not None:
            data = getattr(value, "data", None) or getattr(value, "value", None)
            found[name] = True if data is None else getattr(data, "data", data)
    return found


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_one_intent(name: str) -> None:
    function, keys, heads, attributes = ATTENTION[name]
    inputs = floats(2, 7, 4, 8), floats(2, keys, heads, 8), floats(2, keys, heads, 8)
    imported = check(function, *inputs)
    found = families(imported)
    assert found["gemma_attention"] == 1 and found.get("transpose", 0) <= 4
    assert not {"matmul", "softmax", "select", "reduction_max"} & set(found), found
    wanted = {k: v for k, v in attributes.items() if k != "scale"}
    assert attention_attributes(imported) == wanted


def test_attention_with_a_mask_of_the_users() -> None:
    q, k, v = floats(2, 7, 4, 8), floats(2, 9, 2, 8), floats(2, 9, 2, 8)
    for shape in ((2, 4, 7, 9), (2, 1, 7, 9), (1, 1, 1, 9)):
        mask = RANDOM.random(shape) > 0.3
        mask[..., 0] = True  # a row without any key is 0 here and a mean in JAX
        imported = check(lambda q, k, v, m: fused(q, k, v, mask=m), q, k, v, mask)
        assert attention_attributes(imported) == {"kv_group": 2, "mask_kind": "bool"}
    bias = floats(1, 4, 7, 9)
    imported = check(lambda q, k, v, b: fused(q, k, v, bias=b), q, k, v, bias)
    assert attention_attributes(imported) == {"kv_group": 2, "mask_kind": "additive"}


def test_a_query_without_keys_gives_zero() -> None:
    """Where JAX gives the mean of all values, because its mask is a large finite number."""
    q, k, v = floats(1, 3, 1, 8), floats(1, 5, 1, 8), floats(1, 5, 1, 8)
    mask = np.ones((1, 1, 3, 5), np.bool_)
    mask[0, 0, 1] = False
    imported = import_jax(lambda q, k, v, m: fused(q, k, v, mask=m), q, k, v, mask)
    (found,) = run(imported.module, [q, k, v, mask], weights=imported.weights)
    assert not found[0, 1].any() and found[0, 0].any()


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: jax.nn.softmax(jnp.tanh(q @ k.T / 30) * 30) @ v,  # a bend in between
        lambda q, k, v: (jax.nn.softmax(q @ k.T) @ v, q @ k.T),  # scores are read twice
        lambda q, k, v: jax.nn.softmax(jnp.where(jnp.tri(7, 9) > 0, q @ k.T, -5.0)) @ v,
        lambda q, k, v: jax.nn.softmax(q @ k.T, axis=0) @ v,  # over queries
    ],
)
def test_what_only_looks_like_attention_stays(function: Callable[..., Any]) -> None:
    imported = check(function, floats(7, 8), floats(9, 8), floats(9, 8))
    assert "gemma_attention" not in families(imported)


# ------------------------------------------------------------------------------------- operations


OPERATIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "log_softmax": (jax.nn.log_softmax, [(8, 24)]),
    "softplus": (jax.nn.softplus, [(8, 24)]),
    "elu": (jax.nn.elu, [(8, 24)]),
    "logsumexp": (jax.nn.logsumexp, [(8, 24)]),
    "cumsum": (lambda x: jnp.cumsum(x, 1), [(4, 8)]),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), [(4, 8)]),
    "any_all": (lambda x: ((x > 0).any(1), (x > 0).all(0)), [(4, 8)]),
    "std": (lambda x: x.std(1), [(4, 8)]),
    "median": (lambda x: jnp.median(x, 1), [(4, 8)]),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(-x, 1)), [(4, 8)]),
    "pad_reflect": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), mode="reflect"), [(4, 8)]),
    "roll": (lambda x: jnp.roll(x, 3, 1), [(4, 8)]),
    "tile": (lambda x: jnp.tile(x, (2, 3)), [(4, 8)]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 7), [np.array([1, 3, 6], np.int32)]),
    "take": (lambda x, i: jnp.take(x, i, axis=1), [(4, 5, 6), np.array([[1, 3], [0, 2]])]),
    "take_along_axis": (
        lambda x, i: jnp.take_along_axis(x, i, axis=1), [(2, 5), np.array([[1, 3], [0, 2]])],
    ),
    "index_two": (lambda x, i, j: x[i, j], [(4, 5, 6), np.array([1, 3]), np.array([0, 4])]),
    "index_one": (lambda x, i: x[:, i], [(4, 5, 6), np.array(2)]),
    "set_rows": (lambda x, i, u: x.at[i].set(u), [(4, 5), np.array([1, 3]), (2, 5)]),
    "add_rows": (lambda x, i, u: x.at[i].add(u), [(4, 5), np.array([1, 1]), (2, 5)]),
    "set_block": (lambda x, u: x.at[1:3, 2:4].set(u), [(4, 5), (2, 2)]),
    "update_slice": (
        lambda x, u, i, j: jax.lax.dynamic_update_slice(x, u, (i, j)),
        [(8, 6), (2, 3), np.array(3), np.array(9)],
    ),
    "scan": (
        lambda x, w: jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, w),
        [(4, 8), (3, 8, 8)],
    ),
    "fori": (lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x), [(4,)]),
    "cond": (
        lambda p, x: jax.lax.cond(p, lambda x: x * 2, lambda x: x - 1, x),
        [np.array(False), (4,)],
    ),
    "conv_transpose": (
        lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"), [(1, 4, 4, 3), (3, 3, 3, 5)],
    ),
    "conv_1d": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (2,), [(1, 1)], dimension_numbers=("NCH", "OIH", "NCH")
        ),
        [(2, 3, 9), (4, 3, 3)],
    ),
    "einsum": (lambda a, b: jnp.einsum("abc,cbd->ad", a, b), [(2, 3, 4), (4, 3, 5)]),
    "vmap": (jax.vmap(lambda a, b: jnp.dot(a, b)), [(3, 4), (3, 4)]),
    "random": (lambda x: x + jax.random.normal(jax.random.key(0), (4,)), [(4,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    function, given = OPERATIONS[name]
    inputs = [floats(*x) if isinstance(x, tuple) else jnp.asarray(x) for x in given]
    check(function, *inputs)


# -------------------------------------------------------------------------------------- the function


def trunk(params: Any, x: Any, *, scale: Any = None) -> Any:
    for index, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layer_{index}"):
            x = jnp.tanh(x @ layer["w"] + layer["b"])
    return {"out": x if scale is None else x * scale, "sums": (x.sum(), x.sum(0))}


def tree() -> Any:
    layers = [{"w": floats(4, 8), "b": floats(8)}, {"w": floats(8, 2), "b": floats(2)}]
    return {"layers": layers, "unused": floats(3)}


def test_weights_names_layers_and_lines() -> None:
    params, x = tree(), floats(3, 4)
    imported = import_jax(trunk, x, weights=params, scale=np.float32(2))
    assert [str(spec) for spec in imported.inputs] == ["x: 3x4xf32", "scale: f32"]
    assert [spec.name for spec in imported.outputs] == ["out", "sums.0", "sums.1"]
    assert list(imported.weights) == ["layers.0.b", "layers.0.w", "layers.1.b", "layers.1.w"]
    assert "dense<" not in str(imported.module)
    found = run(imported.module, [x, np.array(2, np.float32)], weights=imported.weights)
    for have, want in zip(found, jax.tree.leaves(trunk(params, x, scale=2)), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    products = [op for op in imported.module.walk() if op.name == "npu_kernel.matmul"]
    assert [op.attributes["tw.layer"].data for op in products] == ["layer_0", "layer_1"]  # type: ignore[attr-defined]
    place = location_of(products[0])
    assert place is not None and place.file == __file__ and place.line > 200


def test_shapes_are_enough_for_inputs() -> None:
    spec = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    assert import_jax(trunk, spec, weights=tree()).inputs[0].shape == (3, 4)
    with pytest.raises(TilewrightError) as caught:
        import_jax(trunk, spec, weights=jax.tree.map(lambda a: spec, tree()))
    assert caught.value.code in ("TW6208", "TW6210")


def test_closed_over_arrays_are_weights_without_a_name() -> None:
    matrix = floats(16, 16)
    imported = check(lambda x: x @ matrix, floats(2, 16))
    assert list(imported.weights) == ["literal.0"]
    np.testing.assert_array_equal(imported.weights["literal.0"], matrix)


def test_stacked_weights_of_a_scan_are_taken_apart() -> None:
    """Each step reads its own weight, and norms find their vectors."""

    def stack(params: Any, x: Any) -> Any:
        def step(x: Any, layer: Any) -> Any:
            return rms_norm(jnp.tanh(x @ layer["w"]), layer["norm"]), None

        return jax.lax.scan(step, x, params)[0]

    params, x = {"w": floats(3, 8, 8), "norm": floats(3, 8)}, floats(4, 8)
    imported = import_jax(stack, x, weights=params)
    assert families(imported) == {"matmul": 3, "elementwise_tanh": 3, "rms_norm": 3}
    assert sorted(imported.weights) == [f"{n}.{i}" for n in ("norm", "w") for i in range(3)]
    (found,) = run(imported.module, [x], weights=imported.weights)
    np.testing.assert_allclose(found, jax.jit(stack)(params, x), rtol=1e-5, atol=1e-5)


def test_the_same_bytes_every_time() -> None:
    params, x = tree(), floats(3, 4)
    texts = {str(import_jax(trunk, x, weights=params).module) for _ in range(2)}
    assert len(texts) == 1


def test_what_jax_itself_refuses() -> None:
    with pytest.raises(TilewrightError) as caught:
        import_jax(lambda x: x @ jnp.ones((7, 7)), floats(3, 4))
    assert caught.value.code == "TW6210" and "cannot be lowered" in caught.value.message
    assert caught.value.location is not None and caught.value.location.file == __file__


def test_what_has_no_mapping_is_named_at_the_users_line() -> None:
    def spectrum(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T)

    with pytest.raises(TilewrightError) as caught:
        import_jax(spectrum, floats(4, 4))
    assert caught.value.code == "TW6201" and "custom_call @" in caught.value.message
    line = spectrum.__code__.co_firstlineno + 1
    assert str(caught.value.location).startswith(f"{__file__}:{line}")


def test_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jax_models_for_test.py").write_text(
        "import jax.numpy as jnp\n"
        "def model(params, x):\n    return jnp.tanh(x @ params['w'])\n"
        "def with_weights():\n    return model, (jnp.ones((2, 3)),), {'w': jnp.ones((3, 4))}\n"
        "def alone():\n    return (lambda x: x + 1), jnp.ones((2, 3))\n"
        "def named():\n    return (lambda *, x, y: x + y), {'x': jnp.ones(3), 'y': jnp.ones(3)}\n"
        "def wrong():\n    return 3, 4\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    imported = import_factory("jax_models_for_test:with_weights")
    assert list(imported.weights) == ["w"] and [s.name for s in imported.inputs] == ["x"]
    assert import_factory("jax_models_for_test:alone").inputs[0].shape == (2, 3)
    assert [s.name for s in import_factory("jax_models_for_test:named").inputs] == ["x", "y"]
    with pytest.raises(TilewrightError, match="a pair is needed"):
        import_factory("jax_models_for_test:wrong")


def test_keys_of_random_numbers_among_the_weights() -> None:
    """`nnx.split` of a model with dropout gives the keys of its generators as well."""

    def model(state: Any, x: Any) -> Any:
        return x @ state["w"]

    state = {"w": floats(4, 3), "rngs": {"dropout": jax.random.key(0), "count": jnp.uint32(0)}}
    x = floats(2, 4)
    imported = import_jax(model, x, weights=state)
    assert list(imported.weights) == ["w"]
    (found,) = run(imported.module, [x], weights=imported.weights)
    np.testing.assert_allclose(found, x @ state["w"], rtol=1e-5)


def test_a_flax_model_with_dropout() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(4, 8, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.second = nnx.Linear(8, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.second(self.dropout(nnx.relu(self.first(x))))

    model = Model(nnx.Rngs(0))
    model.eval()
    graph, state = nnx.split(model)
    x = floats(2, 4)
    imported = import_jax(lambda s, x: nnx.merge(graph, s)(x), x, weights=state)
    (found,) = run(imported.module, [x], weights=imported.weights)
    np.testing.assert_allclose(found, np.asarray(model(x)), rtol=1e-5, atol=1e-6)
