"""Reading an ONNX file: structure, weights, versions, and sizes made static.

Weights are kept as the file has them: external data is mapped into memory, never copied.

Error codes: TW6001 no ONNX file, TW6002 the `onnx` package is missing, TW6003 a version that is not
read, TW6004 external data missing or short, TW6005 sizes that are not fixed, TW6009 a model that
breaks the rules of ONNX.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.onnx_rules import first_broken_rule, forget_negative_sizes
from tilewright.frontend.onnx_values import ELEMENTS, TYPE_NAMES, Array, Constant, stored

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

OLDEST_OPSET = 7
LONGEST_SHAPE = 1 << 20  # elements of a vector whose values ONNX may follow
HELP_SHAPES = 'give them a size: shapes={"NAME": SIZE}, on the command line --shape NAME=SIZE'


def onnx_package() -> Any:
    """The `onnx` package, which is an optional extra."""
    try:
        import onnx
    except ImportError:
        raise TilewrightError(
            "TW6002",
            "reading ONNX models needs the onnx package",
            hint='install it with pip install "tilewright[onnx]"',
        ) from None
    return onnx


@dataclass
class Source:
    """A model in memory and where it came from."""

    model: ModelProto
    name: str
    folder: Path | None = None
    opsets: dict[str, int] = field(default_factory=dict)

    def error(self, code: str, message: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError(code, message, Location(self.name), hint)


def load(source: str | Path | ModelProto) -> Source:
    """The model in a file or in memory, structure only: external data stays outside."""
    onnx = onnx_package()
    if isinstance(source, str | Path):
        path = Path(source)
        loaded = Source(_parse(onnx, path), str(path), path.parent)
    else:
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        loaded = Source(copy, "<model>")
    _check_versions(onnx, loaded)
    if loaded.model.functions:
        from onnx import inliner

        loaded.model = inliner.inline_local_functions(loaded.model)
    forget_negative_sizes(loaded.model.graph)
    return loaded


def _parse(onnx: Any, path: Path) -> ModelProto:
    place = Location(str(path))
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise TilewrightError("TW6001", f"cannot read the file: {reason}", place) from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception:  # the protobuf library has several error classes, by implementation
        raise TilewrightError(
            "TW6001",
            "the file is not an ONNX model, or it is cut short",
            place,
            "export it again, or check that the download is complete",
        ) from None
    if not model.opset_import or not model.HasField("graph"):
        raise TilewrightError(
            "TW6001", "the file is not an ONNX model: it has no graph or no operator set", place
        )
    return model


def _check_versions(onnx: Any, source: Source) -> None:
    source.opsets = {entry.domain: entry.version for entry in source.model.opset_import}
    if source.opsets.get("ai.onnx"):
        source.opsets.setdefault("", source.opsets["ai.onnx"])
    version, newest = source.opsets.get("", 0), onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= version <= newest:
        raise source.error(
            "TW6003",
            f"the model uses operator set {version or 'none of ai.onnx'}, "
            f"sets {OLDEST_OPSET} to {newest} are read",
            "convert it with onnx.version_converter.convert_version(model, 23)"
            if version
            else "the model must import the standard operator set",
        )


def check(source: Source) -> None:
    """Complete the types that ONNX can infer, then refuse models that break its rules."""
    onnx = onnx_package()
    wrong = first_broken_rule(onnx, source.model)
    if wrong is not None:
        raise source.error("TW6009", f"the model is not valid ONNX: {wrong}")
    try:
        model = onnx.shape_inference.infer_shapes(source.model)
        # Values are followed element by element, so that long vectors would fill the memory.
        if not _has_long_vectors(model.graph):
            model = onnx.shape_inference.infer_shapes(source.model, data_prop=True)
        source.model = model
    except Exception as error:  # several classes, none of them public
        text = str(error).strip().split("\n")[-1].rstrip(".")
        raise source.error("TW6009", f"the model is not valid ONNX: {text}") from None
    for info in source.model.graph.output:
        # An output without a shape is of no harm here: the function's own types say it.
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(source.model, skip_opset_compatibility_check=True)
    except Exception as error:  # besides ValidationError also errors of decoding names
        text = " ".join(str(error).split("==>")[0].split()).rstrip(".")
        if "external" in text.lower() or "should be stored" in text.lower():
            return  # missing files get an error of their own when the weights are read
        raise source.error("TW6009", f"the model is not valid ONNX: {text}") from None


def _has_long_vectors(graph: Any) -> bool:
    """Whether a vector is too long to be a shape that a model computes with."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        sizes = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        if len(sizes) == 1 and sizes[0] > LONGEST_SHAPE:
            return True
    inner = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
    return any(_has_long_vectors(graph) for graph in inner)


# ------------------------------------------------------------------------------------- weights


def constant_of(source: Source, tensor: TensorProto, weight: bool = True) -> Constant:
    """A TensorProto as a constant; external data is mapped."""
    name = tensor.name or "constant"
    if tensor.data_type not in ELEMENTS:
        kind = TYPE_NAMES.get(tensor.data_type, str(tensor.data_type))
        raise source.error(
            "TW6008", f"the constant {name} holds {kind}, which no tensor here can hold"
        )
    if tensor.data_location == tensor.EXTERNAL:
        return Constant(_external(source, tensor), name, tensor.data_type, weight)
    from onnx import numpy_helper

    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:
        text = str(error).split("\n")[0].rstrip(".")
        raise source.error(
            "TW6009", f"the constant {name} does not hold what its shape says: {text}"
        ) from None
    return Constant(stored(array), name, tensor.data_type, weight)


def _external(source: Source, tensor: TensorProto) -> Array:
    """The tensor's bytes in its own file, mapped."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    relative = facts.get("location", "")

    def bad(reason: str, hint: str | None = None) -> TilewrightError:
        return source.error("TW6004", f"the weight {tensor.name} {reason}", hint)

    if source.folder is None:
        raise bad(
            f"is in the file {relative!r}, and a model in memory has no folder",
            "save the model and give its path",
        )
    folder = source.folder.resolve()
    path = (folder / relative).resolve()
    if not relative or not path.is_relative_to(folder):
        raise bad(f"is in {relative!r}, which is outside the folder of the model")
    if not os.path.isfile(path):
        raise bad(
            f"is in the file {relative!r}, which does not exist",
            "keep the data files beside the .onnx file",
        )
    try:
        offset = int(facts.get("offset", 0) or 0)
        length = int(facts["length"]) if facts.get("length") else None
    except ValueError:
        raise bad("has an offset or length that is no number") from None
    sizes = tuple(tensor.dims)
    bits = 4 if tensor.data_type in (21, 22, 23) else 0
    dtype = np.dtype(ELEMENTS[tensor.data_type][2])
    count = math.prod(sizes)
    needed = (count * bits + 7) // 8 if bits else count * dtype.itemsize
    available = path.stat().st_size
    if min(sizes, default=0) < 0 or offset < 0 or (length is not None and length != needed):
        raise bad(f"has {length} bytes, its shape needs {needed}")
    if offset + needed > available:
        raise bad(
            f"ends at byte {offset + needed} of {relative!r}, which has {available}",
            "the data file is cut short",
        )
    if not needed:
        return np.zeros(sizes, dtype)
    raw = np.memmap(path, np.uint8, "r", offset, (needed,))
    if bits:
        codes = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)[:count]
        if tensor.data_type == 22:
            return (((codes ^ 8).astype(np.int8)) - 8).reshape(sizes)
        return codes.view(dtype).reshape(sizes)
    return raw.view(dtype).reshape(sizes)


# --------------------------------------------------------------------------------- static sizes


def bind_sizes(
    source: Source, shapes: Mapping[str, int | tuple[int, ...] | list[int]], fixed: set[str]
) -> None:
    """Give every input of the graph its size: named sizes by name, whole inputs by input name.

    before: x: float[batch, 3, ?]       shapes={"batch": 1, "x": (1, 3, 224)}
    after:  x: float[1, 3, 224]
    """
    graph = source.model.graph
    initialisers = {tensor.name for tensor in graph.initializer}
    for name, given in shapes.items():
        if any(size < 0 for size in ([given] if isinstance(given, int) else given)):
            raise source.error("TW6005", f"shapes gives {name} the size {given}", HELP_SHAPES)
    used: set[str] = set()
    missing: list[str] = []
    for info in graph.input:
        if info.name in initialisers or info.name in fixed:
            continue
        missing += _bind_input(source, info, shapes, used)
    if missing:
        raise source.error("TW6005", f"sizes are not fixed: {'; '.join(missing)}", HELP_SHAPES)
    unknown = [name for name in shapes if name not in used]
    if unknown:
        names = ", ".join(info.name for info in graph.input if info.name not in initialisers)
        raise source.error(
            "TW6005",
            f"shapes names {', '.join(unknown)}, which the model does not have",
            f"its inputs are {names or 'none'}",
        )
    _forget_symbols(graph)


def _bind_input(
    source: Source, info: ValueInfoProto, shapes: Mapping[str, Any], used: set[str]
) -> list[str]:
    if not info.type.HasField("tensor_type"):
        return []  # reported with the node that reads it
    tensor = info.type.tensor_type
    given = shapes.get(info.name)
    if isinstance(given, tuple | list):
        used.add(info.name)
        if tensor.HasField("shape") and len(tensor.shape.dim) != len(given):
            raise source.error(
                "TW6005",
                f"the input {info.name} has {len(tensor.shape.dim)} dimensions, "
                f"shapes gives it {len(given)}",
            )
        for index, size in enumerate(given):
            dim = tensor.shape.dim[index] if index < len(tensor.shape.dim) else None
            if dim is not None and dim.HasField("dim_value") and dim.dim_value != size:
                raise source.error(
                    "TW6005",
                    f"dimension {index} of the input {info.name} is {dim.dim_value}, "
                    f"shapes says {size}",
                )
            (dim or tensor.shape.dim.add()).dim_value = int(size)
        if not given:
            tensor.shape.SetInParent()
    if not tensor.HasField("shape"):
        return [f"the input {info.name} has no shape at all"]
    missing = []
    for index, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value"):
            continue
        size = shapes.get(dim.dim_param) if dim.dim_param else None
        if isinstance(size, int):
            used.add(dim.dim_param)
            dim.dim_value = size
        else:
            what = f"{dim.dim_param!r} (" if dim.dim_param else "("
            missing.append(f"{what}dimension {index} of the input {info.name})")
    return missing


def free_batches(source: str | Path | ModelProto) -> dict[str, tuple[int, ...] | None]:
    """First dimensions of inputs that have no size: by their name, or where they have none by the
    input's name with the rest of its shape."""
    graph = load(source).model.graph
    stored = {tensor.name for tensor in graph.initializer}
    found: dict[str, tuple[int, ...] | None] = {}
    for info in graph.input:
        dims = info.type.tensor_type.shape.dim
        if info.name in stored or not len(dims) or dims[0].HasField("dim_value"):
            continue
        if dims[0].dim_param:
            found[dims[0].dim_param] = None
        elif all(dim.HasField("dim_value") for dim in dims[1:]):
            found[info.name] = tuple(dim.dim_value for dim in dims[1:])
    return found


def open_inputs(source: str | Path | ModelProto) -> dict[str, bool]:
    """The inputs of a model in order, and whether some size of each is open."""
    graph = load(source).model.graph
    stored = {tensor.name for tensor in graph.initializer}
    found = {}
    for info in graph.input:
        tensor = info.type.tensor_type
        if info.name not in stored:
            fixed = all(dim.HasField("dim_value") for dim in tensor.shape.dim)
            found[info.name] = not (tensor.HasField("shape") and fixed)
    return found


def _forget_symbols(graph: Any) -> None:
    """Drop recorded shapes with symbols: they follow from the inputs now."""
    kept = [
        info
        for info in graph.value_info
        if all(dim.HasField("dim_value") for dim in info.type.tensor_type.shape.dim)
    ]
    del graph.value_info[:]
    graph.value_info.extend(kept)
