"""Model files, weight files and arrays: ONNX, .pt2, portable artifacts, safetensors, .npy."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.mutations import json_text, mutated_bytes, mutated_json, mutated_text
from fuzzing.running import Keep, Subject
from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import TensorFile
from tilewright.frontend.models import import_model
from tilewright.frontend.pt2 import read_pt2
from tilewright.runtime.tensor_files import ELEMENT_TYPES, read_tensor
from tilewright.transforms.fold_constants import read_weights

DATA = Path(__file__).parents[1] / "data"

# --- ONNX -------------------------------------------------------------------------------

# Operator, shapes of its inputs (an array: a weight), attributes.
NODES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("MatMul", [(4, 8), np.ones((8, 3), np.float32)], {}),
    ("Gemm", [(4, 8), np.ones((3, 8), np.float32), np.ones(3, np.float32)], {"transB": 1, "alpha": 0.5}),
    ("Conv", [(1, 3, 8, 8), np.ones((4, 3, 3, 3), np.float32)], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("ConvTranspose", [(1, 3, 4, 4), np.ones((3, 2, 3, 3), np.float32)], {"strides": [2, 2]}),
    ("MaxPool", [(1, 3, 8, 8)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("AveragePool", [(1, 3, 8, 8)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Softmax", [(2, 5)], {"axis": -1}),
    ("LayerNormalization", [(2, 8), np.ones(8, np.float32), np.ones(8, np.float32)], {"axis": -1}),
    ("BatchNormalization", [(1, 3, 4, 4), *[np.ones(3, np.float32)] * 4], {"epsilon": 1e-3}),
    ("InstanceNormalization", [(1, 3, 4, 4), *[np.ones(3, np.float32)] * 2], {}),
    ("Reshape", [(2, 6), np.array([3, -1])], {}),
    ("Transpose", [(2, 3, 4)], {"perm": [2, 0, 1]}),
    ("Slice", [(8, 8), np.array([1]), np.array([7]), np.array([0]), np.array([2])], {}),
    ("Gather", [np.ones((10, 4), np.float32), np.array([1, 2])], {"axis": 0}),
    ("Concat", [(2, 3), (2, 5)], {"axis": 1}),
    ("Split", [(4, 6)], {"axis": 1, "num_outputs": 1}),
    ("Pad", [(2, 3), np.array([0, 1, 0, 1])], {"mode": "constant"}),
    ("ReduceMean", [(2, 3, 4), np.array([1])], {"keepdims": 0}),
    ("ReduceMax", [(2, 3, 4), np.array([-1])], {}),
    ("Expand", [(3, 1), np.array([2, 3, 4])], {}),
    ("Tile", [(2, 3), np.array([2, 2])], {}),
    ("Resize", [(1, 1, 4, 4), np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}),
    ("CumSum", [(3, 4), np.array(1)], {}),
    ("TopK", [(3, 8), np.array([2])], {}),
    ("OneHot", [np.array([1, 2]), np.array(4), np.array([0, 1], np.float32)], {}),
    ("Clip", [(4,), np.array(0, np.float32), np.array(6, np.float32)], {}),
    ("Where", [np.array([True, False]), (2,), (2,)], {}),
    ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->ik"}),
    ("QuantizeLinear", [(4, 4), np.array(0.1, np.float32), np.array(3, np.uint8)], {}),
    ("ConstantOfShape", [np.array([2, 3])], {}),
    ("Range", [np.array(0), np.array(10), np.array(2)], {}),
    ("Gelu", [(3, 3)], {"approximate": "tanh"}),
    ("Erf", [(3, 3)], {}), ("Pow", [(3,), np.array(2, np.float32)], {}),
    ("Squeeze", [(1, 3), np.array([0])], {}), ("Unsqueeze", [(3,), np.array([0, 2])], {}),
    ("Flatten", [(2, 3, 4)], {"axis": 2}), ("Cast", [(3,)], {"to": 10}), ("Trilu", [(4, 4)], {"upper": 0}),
    ("ScatterND", [(4, 4), np.array([[0]]), (1, 4)], {}), ("DepthToSpace", [(1, 4, 2, 2)], {"blocksize": 2}),
    ("GatherND", [(2, 2), np.array([[0, 1]])], {}), ("GatherElements", [(2, 2), np.array([[0, 1]])], {}),
]  # fmt: skip
SIZES = [0, 1, 2, 3, 5, -1, 7, 2**31, 2**31 - 1, 2**32, 2**40, 2**63 - 1, -(2**63)]


def _onnx_models() -> list[Any]:
    from onnx import TensorProto, helper, numpy_helper

    models = []
    for name, operands, attributes in NODES:
        inputs, weights, names = [], [], []
        for k, operand in enumerate(operands):
            names.append(f"v{k}")
            if isinstance(operand, tuple):
                inputs.append(helper.make_tensor_value_info(f"v{k}", TensorProto.FLOAT, operand))
            else:
                weights.append(numpy_helper.from_array(operand, f"v{k}"))
        nodes = [helper.make_node(name, names, ["y"], name.lower(), **attributes)]
        if choose_more := name in ("MatMul", "Conv", "Softmax", "Concat"):
            nodes.append(helper.make_node("Relu", ["y"], ["z"], "relu"))
        output = helper.make_empty_tensor_value_info("z" if choose_more else "y")
        graph = helper.make_graph(nodes, "fuzz", inputs, [output], weights)
        models.append(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    return models


def _run_onnx(models: list[Any], choose: random.Random, keep: Keep) -> None:
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(choose.choice(models))
    if choose.random() < 0.75:
        for _ in range(choose.choice((1, 1, 2, 3))):
            _change(model, models, choose)
        content = model.SerializeToString()
        if choose.random() < 0.05:
            content = mutated_bytes(content, choose)
    else:
        content = mutated_bytes(model.SerializeToString(), choose)
    imported = import_model(keep.file(content, "model.onnx"))
    print_module(imported.module, False, False)


def _change(model: Any, models: list[Any], choose: random.Random) -> None:
    """One field of the model with another value."""
    graph = model.graph
    kind = choose.randrange(9)
    node = choose.choice(graph.node)
    if kind == 0 and graph.input:
        dims = choose.choice(graph.input).type.tensor_type.shape.dim
        if dims and choose.random() < 0.7:
            choose.choice(dims).dim_value = choose.choice(SIZES)
        elif dims:
            del dims[choose.randrange(len(dims))]
    elif kind == 1 and graph.initializer:
        tensor = choose.choice(graph.initializer)
        if tensor.dims and choose.random() < 0.6:
            tensor.dims[choose.randrange(len(tensor.dims))] = choose.choice(SIZES)
        elif choose.random() < 0.5:
            tensor.data_type = choose.randrange(25)
        else:
            tensor.raw_data = mutated_bytes(tensor.raw_data, choose)
    elif kind in (2, 3) and node.attribute:
        attribute = choose.choice(node.attribute)
        if attribute.ints and choose.random() < 0.8:
            attribute.ints[choose.randrange(len(attribute.ints))] = choose.choice(SIZES)
        elif attribute.HasField("i"):
            attribute.i = choose.choice(SIZES)
        elif choose.random() < 0.5:
            attribute.type = choose.randrange(15)
        else:
            attribute.s = choose.randbytes(4)
    elif kind == 4:
        node.op_type = choose.choice(choose.choice(models).graph.node).op_type
    elif kind == 5 and node.input:
        at = choose.randrange(len(node.input))
        node.input[at] = choose.choice(("", "y", "v0", "v1", "nothing"))
    elif kind == 6:
        choose.choice((node.input.append, node.output.append))(choose.choice(("", "v0", "w", "y")))
    elif kind == 7 and node.input:
        del node.input[-1]
    elif graph.input:
        kind_of = choose.choice(graph.input).type.tensor_type
        kind_of.elem_type = choose.randrange(25)


# --- torch.export files and portable artifacts -----------------------------------------


def _pt2_files() -> list[dict[str, bytes]]:
    found = []
    for path in [
        *sorted((DATA / "pt2").glob("*.pt2")),
        *sorted((DATA / "stablehlo").glob("*.pt2")),
    ]:
        with zipfile.ZipFile(path) as file:
            found.append({name: file.read(name) for name in file.namelist()})
    return found


def _run_pt2(files: list[dict[str, bytes]], choose: random.Random, keep: Keep) -> None:
    members = dict(choose.choice(files))
    name = choose.choice(sorted(members))
    if choose.random() < 0.6:
        name = next(n for n in members if n.endswith("models/model.json"))
    kind = choose.random()
    if name.endswith(".json") and kind < 0.85:
        document = json.loads(members[name])
        text = json_text(mutated_json(document, choose), choose)
        members[name] = text.encode("utf-8", "surrogatepass")
    elif kind < 0.9:
        members[name] = mutated_bytes(members[name], choose)
    else:
        del members[name]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for member, content in members.items():
            file.writestr(zipfile.ZipInfo(member), content)
    content = buffer.getvalue()
    if choose.random() < 0.1:
        content = mutated_bytes(content, choose)
    imported = read_pt2(keep.file(content, "model.pt2"), check_sums=choose.random() < 0.2)
    print_module(imported.module, False, False)


def _artifacts() -> list[bytes]:
    return [(DATA / "stablehlo" / "encoder.stablehlo").read_bytes()]


def _run_artifact(contents: list[bytes], choose: random.Random, keep: Keep) -> None:
    content = mutated_bytes(choose.choice(contents), choose, contents)
    import_model(keep.file(content, "model.stablehlo"))


# --- arrays -----------------------------------------------------------------------------


def safetensors_bytes(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def _safetensors() -> list[tuple[dict[str, Any], bytes]]:
    header = {
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "none": {"dtype": "F8_E4M3", "shape": [3, 0], "data_offsets": [32, 32]},
        "c": {"dtype": "I64", "shape": [], "data_offsets": [32, 40]},
        "__metadata__": {"format": "pt"},
    }
    return [(header, bytes(range(40)))]


def _run_safetensors(
    seeds: list[tuple[dict[str, Any], bytes]], choose: random.Random, keep: Keep
) -> None:
    header, data = choose.choice(seeds)
    kind = choose.random()
    if kind < 0.7:
        text = json_text(mutated_json(header, choose), choose)
        content = safetensors_bytes(text.encode("utf-8", "surrogatepass"), data)
    elif kind < 0.85:
        text = mutated_text(json.dumps(header), choose)
        content = safetensors_bytes(text.encode("utf-8", "surrogatepass"), data)
    else:
        content = mutated_bytes(safetensors_bytes(json.dumps(header).encode(), data), choose)
    path = keep.file(content, "weights.safetensors")
    failures = []
    for name in choose.sample(("a.weight", "b", "none", "c", "missing"), 2):
        try:
            np.asarray(read_tensor(f"{path}#{name}").array).tobytes()
        except TilewrightError as error:
            failures.append(error)
    for read in (lambda: dict(TensorFile(path)), lambda: read_weights(path)):
        try:
            read()
        except TilewrightError as error:
            failures.append(error)
    if failures:
        raise choose.choice(failures)


def _npy() -> list[bytes]:
    found = []
    for array in (
        np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 3), np.int8), np.array(3.0),
        np.zeros(4, "V2"), np.asfortranarray(np.ones((2, 3), ">f4")), np.array([True]),
    ):  # fmt: skip
        buffer = io.BytesIO()
        np.save(buffer, array)
        found.append(buffer.getvalue())
    return found


def _run_npy(contents: list[bytes], choose: random.Random, keep: Keep) -> None:
    content = choose.choice(contents)
    if choose.random() < 0.6:
        head = content[10:].split(b"\n")[0].decode()
        new = mutated_text(head, choose).encode("utf-8", "surrogatepass") + b"\n"
        content = (
            content[:8] + struct.pack("<H", len(new) & 0xFFFF) + new + content[11 + len(head) :]
        )
    else:
        content = mutated_bytes(content, choose, contents)
    path = keep.file(content, "array.npy")
    part = choose.choice(("", "", "#" + choose.choice(sorted(ELEMENT_TYPES)), "#x"))
    tensor = read_tensor(path + part)
    tensor.raw(0, min(tensor.size, 8))


SUBJECTS = [
    Subject("onnx", _onnx_models, _run_onnx),
    Subject("pt2", _pt2_files, _run_pt2),
    Subject("artifact", _artifacts, _run_artifact),
    Subject("safetensors", _safetensors, _run_safetensors),
    Subject("npy", _npy, _run_npy),
]
