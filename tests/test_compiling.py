"""`tw.compile` takes models of every kind and gives programs to call."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.compiling import host_share, layer_names
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.targets.port_types import PORT_TYPES

DATA = Path(__file__).resolve().parent / "data" / "pt2"


def small(rows: int = 40) -> Imported:
    net = ModelBuilder("small")
    x = net.input("x", (rows, 48))
    r = net.input("residual", (rows, 48))
    net.output("y", r + net.linear(net.relu(net.linear(x, 64, "up")), 48, "down"))
    return net.build()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal((40, 48)).astype(np.float32) for n in ("x", "residual")}


def expected(model: Imported, given: dict[str, np.ndarray]) -> np.ndarray:
    w = model.weights
    h = np.maximum(given["x"] @ w["up.weight"].T + w["up.bias"], 0)
    return given["residual"] + h @ w["down.weight"].T + w["down.bias"]


# --- programs ---------------------------------------------------------------------------


def test_a_program_is_called_in_order_and_by_name() -> None:
    model, given = small(), inputs()
    program = tw.compile(model)
    y = program(given["x"], given["residual"])
    assert isinstance(y, np.ndarray) and y.shape == (40, 48) and y.dtype == np.float32
    assert cosine(y, expected(model, given)) > 0.998
    np.testing.assert_array_equal(program(residual=given["residual"], x=given["x"]), y)
    np.testing.assert_array_equal(program.run(given)["y"], y)
    with pytest.raises(TilewrightError, match="both by name and in order"):
        program(given["x"], residual=given["residual"])
    with pytest.raises(TilewrightError, match="given with shape 3"):
        program(np.zeros(3, np.float32), given["residual"])


def test_a_program_tells_about_itself(tmp_path: Path) -> None:
    program = tw.compile(small())
    assert isinstance(program, tw.Program)
    assert program.cycles > 1000
    assert program.statistics.loaded > 4 * 48 * 64 // 4
    assert "up" in str(program.report()) and "down" in program.asm
    assert "up.weight" in str(program.memory_map)
    assert repr(program).startswith("<small for atlas-v1: (x: 40x48xf32, residual: 40x48xf32)")
    found = program.verify(per_layer=True)
    assert found.ok and len(found.layers) == len(program.model.artifact.steps)
    accuracy = found.outputs[0].accuracy
    assert accuracy is not None and accuracy.cosine > 0.998
    program.report(tmp_path / "page.html")
    assert "small" in (tmp_path / "page.html").read_text()


def test_a_saved_program_is_the_same(tmp_path: Path) -> None:
    program, given = tw.compile(small()), inputs()
    program.save(tmp_path / "small.twb")
    loaded = tw.load(tmp_path / "small.twb")
    assert type(loaded) is type(program)
    np.testing.assert_array_equal(loaded(**given), program(**given))
    assert loaded.cycles == program.cycles


def test_fused_and_unfused_agree_with_float32() -> None:
    model, given = small(), inputs()
    for fuse in (True, False):
        program = tw.compile(model, fuse=fuse)
        assert program.verify().ok
        assert cosine(program(**given), expected(model, given)) > 0.998


# --- the host ---------------------------------------------------------------------------


def test_the_hosts_share_is_that_of_the_arithmetic() -> None:
    net = ModelBuilder("lookup")
    tokens = net.input("tokens", (32,), "i64")
    x = net.embedding(tokens, 100, 64, "embed")
    net.output("y", net.linear(x, 64, "fc", bias=False))
    model = net.build()
    program = tw.compile(model)
    assert host_share(program.model, model) == 0.0  # a lookup computes nothing
    assert [r for p in program.report().host for r in p["reasons"]]
    y = program(np.arange(32))
    table, w = model.weights["embed.weight"], model.weights["fc.weight"]
    assert cosine(y, table[:32] @ w.T) > 0.998
    every = tw.compile(model, host=["fc"])
    assert every.model.provenance["host_share"] == 1.0
    np.testing.assert_allclose(every(np.arange(32)), table[:32] @ w.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(TilewrightError) as caught:
        tw.compile(model, no_host=True)
    assert caught.value.code == "TW1707" and "embed" in caught.value.message


def test_layers_that_do_not_exist_are_named_with_their_neighbours() -> None:
    model = small()
    assert set(layer_names(model)) == {"up", "down"}
    with pytest.raises(TilewrightError) as caught:
        tw.compile(model, host=["dwon"])
    assert caught.value.code == "TW0045" and "down" in (caught.value.hint or "")


# --- calibration ------------------------------------------------------------------------


def largest(program: tw.Program) -> float:
    return max(entry["largest"] or 0 for entry in program.model.quantisation.values())


def test_samples_of_every_form(tmp_path: Path) -> None:
    model, given = small(), inputs()
    wide = {name: 50 * array for name, array in given.items()}
    usual = largest(tw.compile(model))
    found = largest(tw.compile(model, calibrate=wide))
    assert found > 10 * usual
    np.savez(tmp_path / "wide.npz", **wide)  # pyright: ignore[reportArgumentType]
    narrow = {name: array.astype(ml_dtypes.bfloat16) for name, array in given.items()}
    for form in (
        [wide],
        [given, wide],
        (wide["x"], wide["residual"]),
        [tuple(given.values()), tuple(wide.values())],
        str(tmp_path / "wide.npz"),
        [tmp_path / "wide.npz"],
        tmp_path,
        [narrow, wide],
    ):
        assert largest(tw.compile(model, calibrate=form)) == found
    assert largest(tw.compile(model, wide)) == found  # example inputs are samples too


def test_constant_examples_tell_no_ranges() -> None:
    model = small()
    zeros = {name: np.zeros_like(array) for name, array in inputs().items()}
    assert largest(tw.compile(model, zeros)) == largest(tw.compile(model))


@pytest.mark.parametrize(
    ("calibrate", "code"),
    [
        ([], "TW0044"),
        ({"x": np.zeros((40, 48), np.float32)}, "TW0042"),
        ((np.zeros((40, 48), np.float32),), "TW0044"),
        ({"x": np.zeros((40, 47)), "residual": np.zeros((40, 48))}, "TW0042"),
        ({"x": np.full((40, 48), "a"), "residual": np.zeros((40, 48))}, "TW0042"),
        ({"y": np.zeros(3)}, "TW0044"),
        ({"x": np.full((40, 48), np.nan), "residual": np.zeros((40, 48))}, "TW0042"),
        (iter(()), "TW0044"),
        ("nowhere.npz", "TW0040"),
    ],
)
def test_samples_that_do_not_fit(calibrate: object, code: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        tw.compile(small(), calibrate=calibrate)
    assert caught.value.code == code


# --- models of every kind ---------------------------------------------------------------


def test_a_saved_torch_program() -> None:
    program = tw.compile(DATA / "mlp.pt2")
    found = program.verify()
    assert found.ok and found.outputs[0].accuracy is not None
    with np.load(DATA / "mlp.npz") as values:
        assert cosine(program(values["in_0"]), values["out_0"]) > 0.998


def test_state_is_kept_between_calls() -> None:
    program = tw.compile(DATA / "counter.pt2")
    own = [port for port in program.inputs if port.name not in program.model.state]
    given = [np.ones(port.shape, PORT_TYPES[port.dtype]) for port in own]
    program(*given)
    first = program.session.state["count"].copy()
    program(*given)
    assert program.session.state["count"] != first


def test_inputs_and_outputs_of_one_name() -> None:
    net = ModelBuilder("same")
    x = net.input("x", (32, 32))
    y = net.linear(x, 32, "fc")
    net.output("x", y)
    net.output("twice", y)
    net.output("again", x)
    program = tw.compile(net.build())
    assert [port.name for port in program.outputs] == ["x.out", "twice", "again"]
    given = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    first, second, same = program(given)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(same, given)


def test_onnx_in_memory() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = np.random.default_rng(1).standard_normal((7, 64)).astype(np.float32)
    assert cosine(tw.compile(model, shapes={"n": 7})(x), x @ w) > 0.998
    for examples in (x, (x,), {"x": x}):  # they have the sizes that the model leaves open
        program = tw.compile(model, examples)
        assert program.inputs[0].shape == (7, 64) and cosine(program(x), x @ w) > 0.998


def test_jax_functions() -> None:
    jax = pytest.importorskip("jax")
    random = np.random.default_rng(0)
    weights = {n: random.standard_normal((48, 48)).astype(np.float32) for n in ("a", "b")}
    x = random.standard_normal((20, 48)).astype(np.float32)

    def function(weights, inputs):
        return jax.nn.relu(inputs["x"] @ weights["a"]) @ weights["b"] + inputs["c"]

    given = {"x": x, "c": 0.5 * x}
    program = tw.compile(function, (given,), weights=weights)
    wanted = np.maximum(x @ weights["a"], 0) @ weights["b"] + 0.5 * x
    order = [given[port.name.rsplit(".", 1)[-1]] for port in program.inputs]
    assert cosine(program(*order), wanted) > 0.998
    shapes = jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), given)
    assert tw.compile(function, (shapes,), weights=weights).verify().ok


def test_samples_one_after_the_other() -> None:
    model, samples = small(), [inputs(seed) for seed in (1, 2)]
    listed, given = (tw.compile(model, calibrate=one) for one in (samples, iter(samples)))
    assert given.model.provenance["calibration"] == "2 samples"
    assert given.model.quantisation == listed.model.quantisation


def test_a_layer_is_kept_or_left_to_the_host() -> None:
    with pytest.raises(TilewrightError, match="'up' cannot be both"):
        tw.compile(small(), keep=["up"], host="up")


@pytest.mark.parametrize(
    "model", [3, None, object(), {"x": 1}, {"up.weight": np.ones(3)}, ModelBuilder]
)
def test_what_is_no_model(model: object) -> None:
    with pytest.raises(TilewrightError) as caught:
        tw.compile(model)
    assert caught.value.code == "TW0043"
