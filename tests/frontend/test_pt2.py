"""Saved PyTorch programs are read without torch and compute what torch computed."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.dialects.context import make_context
from tilewright.dialects.locations import location_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import Parser
from tilewright.errors import TilewrightError, each_error
from tilewright.frontend.imported import Imported
from tilewright.frontend.pt2 import read_pt2
from tilewright.reference.executor import run
from tilewright.transforms.convert_linalg_to_npu_kernel import ConvertLinalgToNPUKernel

DATA = Path(__file__).resolve().parent.parent / "data" / "pt2"
PROGRAMS = sorted(path.stem for path in DATA.glob("*.pt2"))


def stored_values(name: str, prefix: str, specs: tuple[Any, ...]) -> list[np.ndarray]:
    """Arrays of a fixture; bf16 is kept as its 16 bits."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        arrays = [file[f"{prefix}_{i}"] for i in range(len(specs))]
        assert f"{prefix}_{len(specs)}" not in file
    return [
        a.view(ml_dtypes.bfloat16) if spec.dtype == "bf16" and a.dtype == np.uint16 else a
        for a, spec in zip(arrays, specs, strict=True)
    ]


def families(imported: Imported) -> Counter[str]:
    found: Counter[str] = Counter()
    for op in imported.module.walk():
        if isinstance(op, MatmulOp):
            found["matmul"] += 1
        elif isinstance(op, UKernelGenericOp):
            call = op.call()
            assert call is not None
            found[call.family.name] += 1
    return found


# --------------------------------------------------------------------------- values


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_torch(name: str) -> None:
    imported = read_pt2(DATA / f"{name}.pt2")
    inputs = stored_values(name, "in", imported.inputs)
    expected = stored_values(name, "out", imported.outputs)
    results = run(imported.module, inputs, weights=imported.weights)
    for spec, result, wanted in zip(imported.outputs, results, expected, strict=True):
        assert result.shape == wanted.shape == spec.shape
        assert result.dtype == wanted.dtype, spec.name
        tolerance = {"f32": 1e-5, "f64": 1e-6, "f16": 2e-3, "bf16": 2e-2}.get(spec.dtype, 0.0)
        scale = np.max(np.abs(wanted.astype(np.float64)), initial=1.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(
            result.astype(np.float64),
            wanted.astype(np.float64),
            rtol=tolerance,
            atol=tolerance * scale,
            err_msg=spec.name,
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_form_is_the_same_module(name: str) -> None:
    """The printed module parses and prints again to the same text; reading is deterministic."""
    first, second = (read_pt2(DATA / f"{name}.pt2") for _ in range(2))
    text = str(first.module)
    assert text == str(second.module)
    assert list(first.weights) == list(second.weights)
    assert str(Parser(make_context(), text).parse_module()) == text


def test_reading_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from tilewright.frontend.pt2 import read_pt2\n"
        f"print(len(read_pt2({str(DATA / 'mlp.pt2')!r}).weights))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"


# --------------------------------------------------------------------------- structure


def test_layers_stay_whole_and_named() -> None:
    imported = read_pt2(DATA / "mlp.pt2")
    assert families(imported) == {
        "layer_norm": 1, "matmul": 2, "elementwise_add": 2, "gelu_tanh": 1, "gelu_erf": 1,
        "silu": 1, "elementwise_mul": 1,
    }  # fmt: skip
    assert list(imported.weights) == [
        "norm.weight",
        "norm.bias",
        "fc1.weight",
        "fc1.bias",
        "fc2.weight",
    ]
    assert imported.weights["fc1.weight"].shape == (20, 12)
    assert [str(s) for s in imported.inputs] == ["x: 2x5x12xf32"]
    product = next(op for op in imported.module.walk() if isinstance(op, MatmulOp))
    assert product.transpose_rhs is not None
    assert str(product.attributes["tw.layer"]) == '"fc1"'
    place = location_of(product)
    assert place is not None and place.file == "tests/frontend/torch_models.py" and place.line > 0


def test_weights_are_views_of_the_file() -> None:
    imported = read_pt2(DATA / "mlp.pt2")
    weight = imported.weights["fc1.weight"]
    assert not weight.flags.owndata and not weight.flags.writeable


def test_attention_is_one_intent() -> None:
    found = families(read_pt2(DATA / "grouped_attention.pt2"))
    assert found["gemma_attention"] == 2 and found["rms_norm"] == 1
    text = str(read_pt2(DATA / "grouped_attention.pt2").module)
    assert "kv_group = 2 : i64" in text and 'mask_kind = "bool"' in text
    assert "causal" in text and "scale = 3.000000e-01 : f32" in text


def test_mask_that_keeps_everything_is_dropped() -> None:
    text = str(read_pt2(DATA / "attention_forms.pt2").module)
    assert text.count("npu_uk_gemma_attention") == 5
    assert text.count("mask_kind") == 3  # bias, row mask, and the triangle of unequal lengths


def test_slice_writes_are_one_concat_and_tables_are_folded() -> None:
    imported = read_pt2(DATA / "rope_block.pt2")
    found = families(imported)
    assert found["insert_slice"] == 0 and found["fill"] == 0
    assert found["elementwise_sin"] == 0 and found["elementwise_cos"] == 0
    assert found["softmax"] == 1 and found["matmul"] == 5
    literals = [name for name in imported.weights if name.startswith("literal.")]
    assert len(literals) == 4  # cos and sin, once as they are and once doubled


@pytest.mark.parametrize(
    "name, family, count", [("rope_block", "rope", 3), ("mlp", "silu_gate", 1)]
)
def test_later_passes_recognise_chains(name: str, family: str, count: int) -> None:
    """Rotations in three spellings and the gate are found, and the numbers stay the same bits."""
    imported = read_pt2(DATA / f"{name}.pt2")
    inputs = stored_values(name, "in", imported.inputs)
    before = run(imported.module, inputs, weights=imported.weights)
    ConvertLinalgToNPUKernel().apply(make_context(), imported.module)
    assert families(imported)[family] == count
    after = run(imported.module, inputs, weights=imported.weights)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_state_goes_in_and_out() -> None:
    imported = read_pt2(DATA / "counter.pt2")
    assert [s.name for s in imported.inputs] == ["x", "position", "count", "cache"]
    assert [s.name for s in imported.outputs] == ["mean", "steps", "count.next", "cache.next"]
    assert imported.state == {"count": "count.next", "cache": "cache.next"}
    assert imported.weights["cache"].shape == (4, 3)


def test_weights_as_safetensors(tmp_path: Path) -> None:
    imported = read_pt2(DATA / "mlp_bf16.pt2")
    path = tmp_path / "weights.safetensors"
    imported.save_weights(path)
    inputs = stored_values("mlp_bf16", "in", imported.inputs)
    (mapped,) = run(imported.module, inputs, weights=imported.weights)
    (loaded,) = run(imported.module, inputs, weights=path)
    np.testing.assert_array_equal(mapped, loaded)


# --------------------------------------------------------------------------- bad input


def edited(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any]], None], member: str = "model.json"
) -> Path:
    """A copy of a program with one JSON member changed."""
    target = tmp_path / f"{name}.pt2"
    with zipfile.ZipFile(DATA / f"{name}.pt2") as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith(f"/{member}"):
                document = json.loads(content)
                change(document)
                content = json.dumps(document).encode()
            new.writestr(info.filename, content)
    return target


def failure(path: Path) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        read_pt2(path)
    return caught.value


def nodes(model: dict[str, Any]) -> list[dict[str, Any]]:
    return model["graph_module"]["graph"]["nodes"]


def retarget(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(model: dict[str, Any]) -> None:
        for node in nodes(model):
            if node["target"] == f"torch.ops.{old}":
                node["target"] = f"torch.ops.{new}"

    return change


@pytest.mark.parametrize(
    "new, code, words",
    [
        ("aten.fft_fft.default", "TW6101", "has no mapping"),
        ("aten.unique_consecutive.default", "TW6102", "depends on the data"),
        ("aten.squeeze_.default", "TW6106", "writes in place"),
        ("robots.grip.default", "TW6101", "robots.grip.default has no mapping"),
    ],
)
def test_calls_without_mapping(tmp_path: Path, new: str, code: str, words: str) -> None:
    error = failure(edited(tmp_path, "mlp", retarget("aten.silu.default", new)))
    assert error.code == code and words in error.message
    assert error.location and error.location.file == "tests/frontend/torch_models.py"
    assert error.location.line > 0 and error.hint


def test_layer_is_named_and_all_calls_reported(tmp_path: Path) -> None:
    def change(model: dict[str, Any]) -> None:
        retarget("aten.linear.default", "aten.first.default")(model)
        retarget("aten.gelu.default", "aten.second.default")(model)

    errors = each_error(failure(edited(tmp_path, "mlp", change)))
    assert [e.message for e in errors] == [
        "layer fc1: aten.first.default has no mapping",
        "aten.second.default has no mapping",
    ]


def test_dead_calls_do_not_matter(tmp_path: Path) -> None:
    def change(model: dict[str, Any]) -> None:
        entry = json.loads(json.dumps(nodes(model)[0]))
        entry["target"], entry["outputs"] = "torch.ops.aten.unheard_of.default", []
        nodes(model).append(entry)

    assert read_pt2(edited(tmp_path, "mlp", change)).weights


def test_dynamic_and_data_dependent_sizes(tmp_path: Path) -> None:
    def change(symbol: str) -> Callable[[dict[str, Any]], None]:
        def apply(model: dict[str, Any]) -> None:
            size = {"as_expr": {"expr_str": symbol, "hint": {"as_int": 5}}}
            model["graph_module"]["graph"]["tensor_values"]["gelu"]["sizes"][1] = size

        return apply

    error = failure(edited(tmp_path, "mlp", change("s77")))
    assert error.code == "TW6105" and "2xs77x20" in error.message
    error = failure(edited(tmp_path, "mlp", change("u0")))
    assert error.code == "TW6102" and "2xu0x20" in error.message


def test_other_schema_version(tmp_path: Path) -> None:
    error = failure(edited(tmp_path, "mlp", lambda m: m["schema_version"].update(major=9)))
    assert error.code == "TW6111" and "9." in error.message


def test_training_mode(tmp_path: Path) -> None:
    def change(model: dict[str, Any]) -> None:
        for node in nodes(model):
            if "scaled_dot_product" in node["target"]:
                argument = {"name": "dropout_p", "arg": {"as_float": 0.1}, "kind": 1}
                node["inputs"].append(argument)

    assert failure(edited(tmp_path, "grouped_attention", change)).code == "TW6107"


def test_shape_that_contradicts_the_call(tmp_path: Path) -> None:
    def change(model: dict[str, Any]) -> None:
        model["graph_module"]["graph"]["tensor_values"]["linear"]["sizes"][2] = {"as_int": 21}

    error = failure(edited(tmp_path, "mlp", change))
    assert error.code == "TW6104" and "2x5x20xf32" in error.message and "fc1" in error.message


@pytest.mark.parametrize(
    "field, value, code",
    [
        ("sizes", [{"as_int": 2000}, {"as_int": 12}], "TW6112"),
        ("strides", [{"as_int": 9999}, {"as_int": 1}], "TW6112"),
        ("strides", [{"as_int": -12}, {"as_int": 1}], "TW6112"),
        ("storage_offset", {"as_int": 1}, "TW6112"),
        ("sizes", [{"as_int": 12}, {"as_int": 20}], "TW6112"),
        ("dtype", 9, "TW6113"),
    ],
)
def test_weights_outside_their_bytes(tmp_path: Path, field: str, value: Any, code: str) -> None:
    def change(document: dict[str, Any]) -> None:
        document["config"]["fc1.weight"]["tensor_meta"][field] = value

    error = failure(edited(tmp_path, "mlp", change, "model_weights_config.json"))
    assert error.code == code and "fc1.weight" in error.message


def test_pickles_and_missing_weights(tmp_path: Path) -> None:
    def pickle(document: dict[str, Any]) -> None:
        document["config"]["fc1.bias"]["use_pickle"] = True

    def missing(document: dict[str, Any]) -> None:
        del document["config"]["fc1.bias"]

    member = "model_weights_config.json"
    assert failure(edited(tmp_path, "mlp", pickle, member)).code == "TW6113"
    error = failure(edited(tmp_path, "mlp", missing, member))
    assert error.code == "TW6112" and "no data for fc1.bias" in error.message


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "text.pt2").write_text("module")
    assert failure(tmp_path / "text.pt2").code == "TW6110"
    assert failure(tmp_path / "missing.pt2").code == "TW0010"
    assert failure(tmp_path).code == "TW0010"
    (tmp_path / "empty.pt2").write_bytes(b"")
    assert failure(tmp_path / "empty.pt2").code in ("TW6110", "TW0010")
    with zipfile.ZipFile(tmp_path / "other.pt2", "w") as archive:
        archive.writestr("other/readme.txt", "hello")
    assert failure(tmp_path / "other.pt2").code == "TW6110"


def test_cut_off_and_changed_bytes(tmp_path: Path) -> None:
    """No prefix of a program is read as one, and a changed weight is noticed."""
    content = (DATA / "mlp.pt2").read_bytes()
    path = tmp_path / "mlp.pt2"
    for length in range(0, len(content), 997):
        path.write_bytes(content[:length])
        assert failure(path).code in ("TW6110", "TW0010"), length
    with zipfile.ZipFile(DATA / "mlp.pt2") as archive:
        info = next(i for i in archive.infolist() if i.filename.endswith("/weight_2"))
    changed = bytearray(content)
    changed[info.header_offset + 30 + len(info.filename) + 5] ^= 1
    path.write_bytes(bytes(changed))
    assert failure(path).code == "TW6112"
    read_pt2(path, check_sums=False)


def test_random_bytes_never_crash_the_reader(tmp_path: Path) -> None:
    content = (DATA / "mlp.pt2").read_bytes()
    generator = random.Random(5)
    path = tmp_path / "mlp.pt2"
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(generator.choice((1, 8, 64))):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(TilewrightError):
            read_pt2(path, check_sums=False)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every position in a JSON document."""
    found = [path] if path else []
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in items:
        found += places(value, (*path, key))
    return found


VALUES: list[Any] = [None, -1, 0, 7, 1 << 70, 1.5, True, "", "linear", [], [1], {}, {"as_int": 3}]
CHANGES = st.tuples(
    st.sampled_from(["mlp", "grouped_attention", "conv_net"]),
    st.integers(0, 1 << 30),
    st.sampled_from(VALUES) | st.just("delete"),
)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(CHANGES)
def test_random_json_never_crashes_the_importer(
    tmp_path_factory: pytest.TempPathFactory, change: tuple[str, int, Any]
) -> None:
    """Whatever a model.json says, reading it ends with a module or with an error of ours."""
    name, where, value = change

    def apply(model: dict[str, Any]) -> None:
        body = {k: model[k] for k in ("graph_module", "schema_version")}
        every = places(body)
        *path, last = every[where % len(every)]
        inside: Any = model
        for key in path:
            inside = inside[key]
        if value == "delete":
            del inside[last]
        else:
            inside[last] = value

    path = edited(tmp_path_factory.mktemp("random"), name, apply)
    try:
        read_pt2(path)
    except TilewrightError as error:
        assert error.message and error.code.startswith("TW")
