"""Weights in MX formats: rounded when a model is compiled, or already so in what is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.compiling.sources import as_imported
from tilewright.errors import TilewrightError
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.decoder import drawn_weights
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.frontend.decoder_folder import read_decoder
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import Deferred, as_weight
from tilewright.io.safetensors_file import save_safetensors
from tilewright.model.microscale import microscaled
from tilewright.reference.executor import Executor
from tilewright.reference.microscaling import FORMATS, decode, encode, packed, rounded
from tilewright.runtime.original import is_same
from tilewright.targets.artifact import HostPart


def layers() -> Imported:
    """A product with a bias, and one with columns of very different sizes."""
    net = ModelBuilder("layers", seed=1)
    h = net.relu(net.linear(net.input("x", (5, 70)), 40, "up"))
    net.output("y", net.linear(h, 33, "down", bias=False))
    model = net.build()
    model.weights["down.weight"] *= np.exp2(np.arange(-16, 17))[:, None].astype(np.float32)
    return model


def test_blocks_lie_along_what_is_summed_up() -> None:
    model = layers()
    found = microscaled(model, "mxfp4")
    changed = {name: array for name, array in found.model.weights.items() if "bias" not in name}
    assert len(changed) == 2 and len(found.cosines) == 2
    for name, array in changed.items():
        given = model.weights[name.replace(".transposed", "")]
        array = np.asarray(array)
        array = array if array.shape == given.shape else array.T
        assert np.array_equal(array, decode(encode(given, "mxfp4")))
    assert np.array_equal(found.model.weights["up.bias"], model.weights["up.bias"])
    assert 0.98 < found.to_json()["cosine"] < 1


def test_weights_of_columns_and_images_too() -> None:
    net = ModelBuilder("columns", seed=2)
    x = net.conv2d(net.input("x", (1, 40, 6, 6)), 8, 3, "conv")
    net.output("y", x)
    model = net.build()
    found = microscaled(model, "mxfp6")
    (name,) = found.cosines
    given = model.weights[name]
    axis = given.shape.index(40)
    assert np.array_equal(np.asarray(found.model.weights[name]), rounded(given, "mxfp6", axis))


def test_what_is_looked_up_or_kept_stays() -> None:
    net = ModelBuilder("tied", seed=3)
    ids = net.input("ids", (1, 3), "i64")
    x = net.embedding(ids, 50, 64, "table")
    table = net.weight("table.weight", net.weights["table.weight"])
    x = net.linear(net.linear(x, 64, "a"), 64, "b")
    net.output("y", net.matmul(x, net.transpose(table, (1, 0))))
    model = net.build()
    found = microscaled(model, "mxint8", keep=("b",))
    assert {"a", "b"} & {name.partition(".")[0] for name in found.cosines} == {"a"}
    same = [name for name in model.weights if name not in found.cosines]
    for name in same:
        assert np.array_equal(found.model.weights[name], model.weights[name])
    assert np.array_equal(found.model.weights["table.weight"], model.weights["table.weight"])
    with pytest.raises(TilewrightError, match="no weights of layers can be in mxfp8"):
        microscaled(layers(), "mxfp8", keep=("up", "down"))


def test_what_is_not_read_yet_stays_so() -> None:
    model = layers()
    given = model.weights["up.weight"]
    read = []
    model.weights["up.weight"] = as_weight(
        Deferred(given.shape, given.dtype, lambda: read.append(1) or given)
    )
    held = [a for a in microscaled(model, "mxfp8").model.weights.values()]
    deferred = next(array for array in held if isinstance(array, Deferred))
    assert np.array_equal(
        np.sort(np.asarray(deferred), None), np.sort(rounded(given, "mxfp8"), None)
    )


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1", "vpu40"])
def test_a_program_has_the_rounded_weights(target: str) -> None:
    model = layers()
    program = tw.compile(model, target=target, weight_format="mxfp4")
    found = program.verify(original=model)
    assert found.ok and found.close and found.exact
    noted = program.model.provenance["weights"]
    assert (noted["format"], noted["tensors"]) == ("mxfp4", 2)
    assert is_same(program.model, model)
    alone = microscaled(model, "mxfp4").model
    x = np.random.default_rng(4).normal(size=(5, 70)).astype(np.float32)
    assert np.array_equal(program(x), tw.compile(alone, target=target)(x))


def test_fp8_has_every_number_of_mxfp4() -> None:
    """Atlas stores weights as multiples of a power of two for each column: nothing is rounded twice."""
    model = layers()
    model.weights["up.weight"][3] *= 1000
    program = tw.compile(model, target="atlas-v1", weight_format="mxfp4")
    artifact = program.model.artifact
    name = next(n for n in artifact.weights if n.startswith("up") and n.endswith("weight"))
    region = artifact.regions[name]
    codes = region.layout.unpack(artifact.weights[name].tobytes()).astype(np.float32)
    codes = codes.reshape(codes.shape[-2:])
    wanted = decode(encode(model.weights["up.weight"], "mxfp4")).T
    for column, exact in zip(codes.T[:40], wanted.T, strict=True):
        scale = exact[np.abs(exact).argmax()] / column[np.abs(column).argmax()]
        assert np.frexp(scale)[0] == 0.5 and np.array_equal(column[:70] * scale, exact)


# --- models that hold such weights ------------------------------------------------------

CONFIG = DecoderConfig("llama", 61, 64, 96, layers=1, heads=2, groups=1, head=32, tied=False)
TABLE = {
    "model_type": "llama", "vocab_size": 61, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "tie_word_embeddings": False,
}  # fmt: skip


def folder(path: Path, weights: dict[str, np.ndarray]) -> Path:
    (path / "config.json").write_text(json.dumps(TABLE))
    save_safetensors(path / "model.safetensors", weights)
    return path


def in_format(name: str, array: np.ndarray, how: str) -> dict[str, np.ndarray]:
    """A weight as checkpoints hold it."""
    if how in ("mxfp8", "mxfp8-e5m2"):
        blocks = encode(array, how)
        codes = blocks.codes.view(blocks.form.dtype)
        return {name: codes, f"{name}_scale": blocks.scales}
    blocks = encode(array, "mxfp4")
    bytes_ = packed(blocks.codes, blocks.form)
    if how == "packed":
        scales = blocks.scales.view(ml_dtypes.float8_e8m0fnu)
        return {f"{name}_packed": bytes_, f"{name}_scale": scales}
    bytes_ = bytes_.reshape(len(bytes_), -1, 16)
    return {f"{name}_blocks": bytes_, f"{name}_scales": blocks.scales}


@pytest.mark.parametrize("how", ["mxfp8", "mxfp8-e5m2", "packed", "blocks"])
def test_checkpoints_hold_codes_and_scales(tmp_path: Path, how: str) -> None:
    weights, stored, wanted = drawn_weights(CONFIG), {}, {}
    for name, array in weights.items():
        if name.endswith("_proj.weight"):
            stored |= in_format(name, array, how)
            wanted[name] = rounded(array, how if how in FORMATS else "mxfp4")
        else:
            stored[name] = wanted[name] = array
    _, found = read_decoder(folder(tmp_path, stored))
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        same = wanted[name].astype(array.dtype)
        assert np.array_equal(np.asarray(array), same), name


def test_scales_have_to_fit(tmp_path: Path) -> None:
    weights = drawn_weights(CONFIG)
    name = "model.layers.0.mlp.down_proj.weight"
    array = weights.pop(name)
    for change in (lambda s: s[:, :-1], lambda s: s[:-1], lambda s: np.repeat(s, 2, 1)):
        held = in_format(name, array, "packed")
        held[f"{name}_scale"] = np.ascontiguousarray(change(held[f"{name}_scale"]))
        with pytest.raises(TilewrightError, match=r"down_proj.weight has codes of mxfp4 of"):
            read_decoder(folder(tmp_path, {**weights, **held}))


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4"])
def test_onnx_models_hold_blocks(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    draw = np.random.default_rng(5)
    given = draw.normal(size=(64, 40)).astype(np.float32)
    blocks = encode(given.T, name)
    kinds = {"mxfp8": types.FLOAT8E4M3FN, "mxfp4": types.FLOAT4E2M1}
    codes = blocks.codes.T.copy()
    raw = packed(codes.reshape(1, -1), blocks.form) if name == "mxfp4" else codes
    scales = np.exp2(blocks.scales.T.astype(np.float32) - 127)
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", types.FLOAT, (3, 64))],
        [helper.make_tensor_value_info("y", types.FLOAT, (3, 40))],
        [
            helper.make_tensor("codes", kinds[name], (64, 40), raw.tobytes(), raw=True),
            helper.make_tensor("scales", types.FLOAT, (2, 40), scales.tobytes(), raw=True),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    x = draw.normal(size=(3, 64)).astype(np.float32)
    imported = as_imported(model)
    (found,) = Executor(imported.module, imported.weights).run([x])
    np.testing.assert_allclose(found, x @ decode(blocks).T, rtol=1e-5, atol=1e-5)
    program = tw.compile(model, target="atlas-v1")
    assert not [part for part in program.model.parts if isinstance(part, HostPart)]
    assert is_same(program.model, imported)
    verified = program.verify(original=imported)
    assert verified.ok and verified.close
