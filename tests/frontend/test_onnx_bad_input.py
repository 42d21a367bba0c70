"""Models that cannot be read: one clear error each, or all of them at once."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

from tilewright.errors import TilewrightError, each_error
from tilewright.frontend.onnx import NeedsValues, read_onnx

sys.path.insert(0, str(Path(__file__).parent))
from onnx_models import model

FLOAT = TensorProto.FLOAT


def refused(source: ModelProto | Path, **options) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        read_onnx(source, **options)
    return caught.value


def simple(**options) -> ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")]
    weights = {"w": np.ones((8, 4), np.float32)}
    return model(nodes, {"x": (FLOAT, ["batch", 8])}, ["y"], weights, **options)


def test_no_file(tmp_path: Path) -> None:
    error = refused(tmp_path / "none.onnx")
    assert error.code == "TW6001"
    assert str(tmp_path / "none.onnx") in str(error)


def test_a_text_file_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_text("this is text")
    assert refused(path).code == "TW6001"


@settings(max_examples=40, deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 10**6))
def test_damaged_files_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, cut: float, flip: int
) -> None:
    content = bytearray(simple().SerializeToString())
    content[flip % len(content)] ^= 1 << flip % 8
    path = tmp_path_factory.mktemp("damaged") / "a.onnx"
    path.write_bytes(content[: int(len(content) * max(cut, 0.5))] if flip % 2 else content)
    try:
        read_onnx(path, shapes={"batch": 1})
    except TilewrightError as error:
        assert error.code.startswith("TW6")


@pytest.mark.parametrize("opset", [1, 6])
def test_old_operator_sets_say_how_to_convert(opset: int) -> None:
    error = refused(simple(opset=opset), shapes={"batch": 1})
    assert error.code == "TW6003"
    assert "convert_version" in str(error)


def test_free_sizes_are_named_with_where_they_are() -> None:
    error = refused(simple())
    assert error.code == "TW6005"
    assert "'batch' (dimension 0 of the input x)" in error.message
    assert "shapes=" in str(error.hint)


def test_sizes_for_what_does_not_exist() -> None:
    error = refused(simple(), shapes={"batch": 1, "tokens": 4})
    assert error.code == "TW6005"
    assert "tokens" in error.message


def test_a_shape_that_contradicts_the_model() -> None:
    error = refused(simple(), shapes={"x": (1, 9)})
    assert "dimension 1 of the input x is 8" in error.message


def test_unsupported_operators_are_reported_all_at_once() -> None:
    node = helper.make_node
    nodes = [
        node("GlobalLpPool", ["x"], ["a"], "first"),
        node("Relu", ["a"], ["b"], "fine"),
        node("GlobalLpPool", ["b"], ["c"], "second"),
        node("RandomNormalLike", ["c"], ["d"], "third"),
        node("Gelu", ["d"], ["y"], "last"),
    ]
    error = refused(model(nodes, {"x": (FLOAT, [1, 2, 4, 4])}, ["y"]))
    found = each_error(error)
    assert [e.code for e in found] == ["TW6006"] * 3
    text = str(error)
    assert all(
        name in text
        for name in ("GlobalLpPool node 'first'", "GlobalLpPool node 'second'", "'third'")
    )
    assert "'fine'" not in text
    assert "random" in found[2].message
    assert all(e.hint for e in found[:2])


def test_operators_of_other_domains() -> None:
    proto = model(
        [helper.make_node("Fancy", ["x"], ["y"], "f", domain="com.example")],
        {"x": (FLOAT, [4])}, ["y"],
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    proto.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [4]))
    error = refused(proto)
    assert error.code == "TW6006"
    assert "com.example" in error.message


def test_an_attribute_without_a_mapping_is_not_dropped() -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["y", "places"], "pool", kernel_shape=[2, 2])]
    error = refused(model(nodes, {"x": (FLOAT, [1, 1, 4, 4])}, ["y", "places"]))
    assert error.code == "TW6006"
    assert "'pool'" in error.message


def test_shapes_that_depend_on_data_name_the_input() -> None:
    nodes = [helper.make_node("Reshape", ["x", "wanted"], ["y"], "reshape")]
    inputs = {"x": (FLOAT, [2, 6]), "wanted": (TensorProto.INT64, [2])}
    proto = model(nodes, inputs, ["y"])
    error = refused(proto)
    assert isinstance(error, NeedsValues)
    assert error.code == "TW6007"
    assert error.names == {"wanted"}
    assert "values={'wanted': array}" in str(error.hint)
    imported = read_onnx(proto, values={"wanted": np.array([3, 4])})
    assert imported.outputs[0].shape == (3, 4)
    assert [spec.name for spec in imported.inputs] == ["x"]


def test_values_of_the_wrong_type_or_name() -> None:
    nodes = [helper.make_node("Reshape", ["x", "wanted"], ["y"])]
    inputs = {"x": (FLOAT, [2, 6]), "wanted": (TensorProto.INT64, [2])}
    proto = model(nodes, inputs, ["y"])
    assert refused(proto, values={"wanted": np.array([3.0, 4.0])}).code == "TW6010"
    assert refused(proto, values={"other": np.array([3, 4])}).code == "TW6010"


def external(tmp_path: Path) -> Path:
    proto = simple()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def test_missing_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "m.data").unlink()
    error = refused(path, shapes={"batch": 1})
    assert error.code == "TW6004"
    assert "'m.data'" in error.message


def test_short_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:-1])
    error = refused(path, shapes={"batch": 1})
    assert error.code == "TW6004"
    assert "cut short" in str(error.hint)


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    path = external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../secret"
    path.write_bytes(proto.SerializeToString())
    error = refused(path, shapes={"batch": 1})
    assert error.code in ("TW6004", "TW6009")
    assert "outside" in error.message or "secret" in error.message


def test_text_inputs() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    error = refused(model(nodes, {"x": (TensorProto.STRING, [2])}, ["y"]))
    assert error.code == "TW6008"
    assert "string" in error.message


def test_shapes_that_do_not_multiply() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")]
    weights = {"w": np.ones((9, 4), np.float32)}
    error = refused(model(nodes, {"x": (FLOAT, [1, 8])}, ["y"], weights))
    assert error.code == "TW6009"


def test_a_split_with_other_outputs_than_it_says() -> None:
    nodes = [helper.make_node("Split", ["x"], ["y", "z"], "split", axis=1, num_outputs=1)]
    error = refused(model(nodes, {"x": (FLOAT, [4, 6])}, ["y"]))
    assert error.code == "TW6009"
    assert "says 1 outputs and has 2" in error.message


def test_long_vectors_do_not_fill_the_memory() -> None:
    """ONNX follows values of vectors element by element; this one has two thousand million."""
    nodes = [helper.make_node("Unsqueeze", ["x", "axes"], ["y"], "wide")]
    axes = {"axes": np.array([0, 2], np.int64)}
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        imported = read_onnx(model(nodes, {"x": (TensorProto.FLOAT16, [1 << 31])}, ["y"], axes))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert "tensor<1x2147483648x1xf16>" in str(imported.module)


def test_attributes_of_another_kind() -> None:
    """The inference of ONNX never ends on an Einsum without an equation."""
    node = helper.make_node("Einsum", ["x"], ["y"], "sum", equation="ij->ji")
    node.attribute[0].CopyFrom(helper.make_attribute("equation", ["a"]))
    error = refused(model([node], {"x": (FLOAT, [4, 6])}, ["y"]))
    assert error.code == "TW6009"
    assert "Einsum sum has the attribute equation as strings, it is string" in error.message


def test_negative_sizes_are_unknown_sizes() -> None:
    nodes = [helper.make_node("Slice", ["x", "one", "seven", "zero", "two"], ["y"], "part")]
    names = {"one": 1, "seven": 7, "zero": 0, "two": 2}
    numbers = {name: np.array([value], np.int64) for name, value in names.items()}
    made = model(nodes, {"x": (FLOAT, [-1, 8])}, ["y"], numbers)
    assert "dimension 0 of the input x" in refused(made).message
    assert "the size (-3, 8)" in refused(made, shapes={"x": (-3, 8)}).message
    assert read_onnx(made, shapes={"x": (9, 8)}).outputs[0].shape == (3, 8)


def test_constants_of_negative_size() -> None:
    made = simple()
    made.graph.initializer[0].dims[0] = -8
    assert "the constant w has the shape [-8, 4]" in refused(made, shapes={"batch": 2}).message


@pytest.mark.parametrize(
    "equation",
    ["", " ", "->", "i", "....", "ij,", "ij->ii", "ij->k", "i.j", "ij->i->j", "é", "ijk"],
)
def test_equations_that_are_none(equation: str) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "sum", equation=equation)
    assert refused(model([node], {"x": (FLOAT, [4, 6])}, ["y"])).code == "TW6009"


def test_einsum_with_repeated_letters_and_dots() -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "sum", equation=" ...ii -> ...i ")
    assert read_onnx(model([node], {"x": (FLOAT, [3, 5, 5])}, ["y"])).outputs[0].shape == (3, 5)


def test_dimensions_that_no_tensor_has() -> None:
    """Each ended the process in the inference of ONNX."""
    norm = helper.make_node("LayerNormalization", ["x", "w"], ["y", "mean"], axis=1 << 31)
    gather = helper.make_node("GatherND", ["x", "w"], ["y"], batch_dims=-5)
    for node in (norm, gather):
        weights = {"w": np.ones(8, np.int64)}
        error = refused(model([node], {"x": (FLOAT, [2, 8])}, ["y"], weights))
        assert error.code == "TW6009" and " has " in error.message
