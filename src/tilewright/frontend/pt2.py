"""Reading saved PyTorch programs (`torch.export.save`) without torch.

A `.pt2` file is a zip of JSON and raw tensor bytes. Nothing in it is unpickled, every size and
offset is checked against the file, and weights are views into the file, not copies.

Error codes: TW6110 a file that is no program, TW6111 a version that is not known, TW6112 a damaged
program, TW6113 a tensor that is not plain bytes, TW6105 a dynamic size.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError, plain_reason
from tilewright.frontend.aten import import_graph
from tilewright.frontend.aten_graph import (
    BY_CODE,
    BY_NAME,
    ExportedGraph,
    Node,
    Ref,
    ScalarType,
    TensorInfo,
    dynamic_size,
    place_of,
)
from tilewright.frontend.aten_sizes import UNKNOWN, by_data
from tilewright.frontend.imported import Array, Imported

SCHEMA_MAJOR = 8
MODEL = "models/model.json"
JSON_LIMIT = 1 << 30
_DAMAGE = (
    KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError,
    struct.error, MemoryError,
)  # fmt: skip


def read_pt2(path: str | Path, check_sums: bool = True) -> Imported:
    """The model in a saved program, as a module with its weights mapped from the file."""
    return import_graph(read_program(path, check_sums))


def read_program(path: str | Path, check_sums: bool = True) -> ExportedGraph:
    """The graph of a saved program; `check_sums` reads every weight once to find damaged bytes."""
    source = str(path)
    archive = _Archive(source, check_sums)
    try:
        model = archive.json(MODEL)
        _check_version(model, source)
        module = model["graph_module"]
        return _Reader(source, module["graph"], module["signature"], archive).graph(
            _output_names(module)
        )
    except _DAMAGE as error:
        detail = f"no {error}" if isinstance(error, KeyError) else plain_reason(error)
        raise damaged(source, f"{MODEL} cannot be read ({detail})") from error
    finally:
        archive.zip.close()


def damaged(source: str, message: str) -> TilewrightError:
    return TilewrightError(
        "TW6112", message, Location(source), "save the program again with torch.export.save"
    )


def _check_version(model: dict[str, Any], source: str) -> None:
    version = model["schema_version"]
    if version["major"] != SCHEMA_MAJOR:
        raise TilewrightError(
            "TW6111",
            f"the program has schema version {version['major']}.{version.get('minor', 0)}, "
            f"version {SCHEMA_MAJOR} is read",
            Location(source),
            "save it with torch 2.13",
        )


# --------------------------------------------------------------------------- the zip


class _Archive:
    """The members of the file, found in its directory and mapped into memory."""

    def __init__(self, source: str, check_sums: bool) -> None:
        self.source = source
        self.check_sums = check_sums
        try:
            self.zip = zipfile.ZipFile(source)
            self.data = np.memmap(source, mode="r", dtype=np.uint8)
        except OSError as error:
            raise TilewrightError(
                "TW0010", f"cannot read the file: {error.strerror or error}", Location(source)
            ) from None
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
            raise TilewrightError(
                "TW6110",
                "this is not a saved PyTorch program, or it is cut off",
                Location(source),
                "a .pt2 file is written by torch.export.save(program, path)",
            ) from None
        names = [name for name in self.zip.namelist() if name.endswith(f"/{MODEL}")]
        if len(names) != 1:
            raise TilewrightError(
                "TW6110",
                f"the archive holds {len(names) or 'no'} exported models, one is needed",
                Location(source),
                "a .pt2 file is written by torch.export.save(program, path)",
            )
        self.root = names[0][: -len(MODEL)]
        if self._optional("byteorder", b"little").strip() != b"little":
            raise TilewrightError(
                "TW6113", "the tensors are stored most significant byte first", Location(source)
            )

    def _optional(self, name: str, default: bytes) -> bytes:
        return self._read(name) if self.root + name in self.zip.namelist() else default

    def _read(self, name: str) -> bytes:
        info = self.zip.getinfo(self.root + name)
        if info.file_size > JSON_LIMIT:
            raise damaged(self.source, f"{name} claims {info.file_size} bytes")
        try:
            return self.zip.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise damaged(self.source, f"{name} is damaged ({error})") from None

    def json(self, name: str) -> Any:
        return json.loads(self._read(name))

    def bytes_of(self, name: str) -> Array:
        """A member's bytes as they lie in the file."""
        info = self.zip.getinfo(self.root + name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise TilewrightError("TW6113", f"{name} is compressed", Location(self.source))
        header = info.header_offset
        if header + 30 > self.data.size or bytes(self.data[header : header + 4]) != b"PK\x03\x04":
            raise damaged(self.source, f"{name} does not begin where the directory says")
        lengths = struct.unpack("<HH", bytes(self.data[header + 26 : header + 30]))
        start = header + 30 + sum(lengths)
        if start + info.file_size > self.data.size:
            raise damaged(self.source, f"{name} reaches beyond the end of the file")
        member = self.data[start : start + info.file_size]
        if self.check_sums and zlib.crc32(member.data) != info.CRC:
            raise damaged(self.source, f"{name} has changed since it was written")
        return member

    def tensors(self) -> dict[str, Array]:
        """Weights and constants by the model's names, as views into the file."""
        found: dict[str, Array] = {}
        storages: dict[str, Array] = {}
        for folder, config in (
            ("weights", "model_weights_config"),
            ("constants", "model_constants_config"),
        ):
            listing = f"data/{folder}/{config}.json"
            if self.root + listing not in self.zip.namelist():
                continue
            for name, entry in self.json(listing)["config"].items():
                if entry["use_pickle"]:
                    raise TilewrightError(
                        "TW6113",
                        f"{name} is stored as a pickle, which may run code and is never loaded",
                        Location(self.source),
                        "make it a plain tensor: a parameter or a buffer",
                    )
                member = f"data/{folder}/{entry['path_name']}"
                if member not in storages:
                    storages[member] = self.bytes_of(member)
                found[name] = self._view(name, storages[member], entry["tensor_meta"])
        return found

    def _view(self, name: str, storage: Array, meta: dict[str, Any]) -> Array:
        kind = scalar_type(meta["dtype"], f"the tensor {name}", self.source)
        size = kind.storage.itemsize
        shape, strides = sizes(meta["sizes"]), sizes(meta["strides"])
        offset = meta["storage_offset"]["as_int"]
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if min((offset, *shape, *strides)) < 0 or (
            0 not in shape and (last + 1) * size > storage.size
        ):
            raise damaged(self.source, f"the tensor {name} reaches beyond its {storage.size} bytes")
        if 0 in shape:
            return np.zeros(shape, kind.storage)
        whole = storage[: storage.size // size * size].view(kind.storage)
        return np.lib.stride_tricks.as_strided(
            whole[offset:], shape, [s * size for s in strides], writeable=False
        )


# --------------------------------------------------------------------------- the graph


def sizes(values: list[dict[str, Any]]) -> tuple[int, ...]:
    """Sizes that must be numbers; a dynamic one is a ValueError."""
    found = []
    for value in values:
        if "as_int" not in value:
            raise ValueError("a dynamic size")
        found.append(int(value["as_int"]))
    return tuple(found)


def _described(size: dict[str, Any]) -> int | str:
    """A size as a number, or as sympy writes it out."""
    return int(size["as_int"]) if "as_int" in size else str(size["as_expr"]["expr_str"])


def _number(value: dict[str, Any]) -> int | float | Ref:
    """A size or another number among the arguments of a call."""
    if "as_name" in value:
        return Ref(value["as_name"])
    return int(value["as_int"]) if "as_int" in value else float(value["as_float"])


def scalar_type(code: int, what: str, source: str) -> ScalarType:
    kind = BY_CODE.get(code)
    if kind is None:
        raise TilewrightError(
            "TW6113",
            f"{what} has element type {code} of torch, which has no counterpart",
            Location(source),
            "use f32, bf16, f16, fp8, integers or complex numbers of f32 and f64",
        )
    return kind


_PLAIN = ("as_int", "as_bool", "as_string", "as_ints", "as_bools", "as_strings")
_IGNORED = ("as_memory_format", "as_layout", "as_device")


class _Reader:
    """The JSON of a graph as nodes."""

    def __init__(
        self, source: str, graph: dict[str, Any], signature: dict[str, Any], archive: _Archive
    ) -> None:
        self.source = source
        self.json = graph
        self.signature = signature
        self.archive = archive

    def graph(self, output_names: list[str]) -> ExportedGraph:
        nodes = [self._node(entry) for entry in self.json["nodes"]]
        values, unknown = self._values(nodes)
        result = ExportedGraph(self.source, nodes, values, [], [], unknown=unknown)
        for spec in self.signature["input_specs"]:
            self._input(spec, result)
        for spec in self.signature["output_specs"]:
            self._output(spec, result)
        if len(output_names) == len(result.outputs):
            pairs = zip(output_names, result.outputs, strict=True)
            result.outputs = [(name, value) for name, (_, value) in pairs]
        result.outputs = [(n, v) for n, v in result.outputs if v is not None]
        result.tensors = self.archive.tensors()
        self._check(result)
        return result

    def _values(
        self, nodes: list[Node]
    ) -> tuple[dict[str, TensorInfo], dict[str, tuple[int | str, ...]]]:
        """What every value is, and the sizes of those that data decides."""
        values: dict[str, TensorInfo] = {
            name: TensorInfo((), BY_NAME["i64"]) for name in self.json.get("sym_int_values", ())
        }
        for node in nodes:  # numbers taken out of tensors
            for name in {*node.results} & {*self.json.get("sym_float_values", ())}:
                given = self.json["tensor_values"][node.get("self").name]["dtype"]
                kind = scalar_type(given, f"{node.target} in {node.name}", self.source)
                values[name] = TensorInfo((), kind)
        unknown: dict[str, tuple[int | str, ...]] = {}
        makers = {name: node for node in nodes for name in node.results}
        for name, meta in self.json["tensor_values"].items():
            kind = scalar_type(meta["dtype"], f"the value {name}", self.source)
            try:
                shape = sizes(meta["sizes"])
            except ValueError:
                texts = tuple(_described(size) for size in meta["sizes"])
                if not by_data(texts):
                    raise self._dynamic(name, meta["sizes"], makers.get(name)) from None
                unknown[name] = texts
                shape = tuple(s if isinstance(s, int) else UNKNOWN for s in texts)
            if min(shape, default=0) < 0 and name not in unknown:
                raise ValueError(f"{name} has a negative size")
            values[name] = TensorInfo(shape, kind)
        return values, unknown

    def _dynamic(
        self, name: str, described: list[dict[str, Any]], node: Node | None
    ) -> TilewrightError:
        text = [s["as_int"] if "as_int" in s else s["as_expr"]["expr_str"] for s in described]
        return dynamic_size(name, text, node, self.source)

    def _node(self, entry: dict[str, Any]) -> Node:
        metadata = entry.get("metadata") or {}
        results: list[str] = []
        for output in entry["outputs"]:
            if "as_tensor" in output:
                results.append(output["as_tensor"]["name"])
            elif "as_tensors" in output:
                results.extend(item["name"] for item in output["as_tensors"])
            else:
                numbers = [v for k, v in output.items() if k in ("as_sym_int", "as_sym_float")]
                results.extend(value["as_name"] for value in numbers)
        target = str(entry["target"]).removeprefix("torch.ops.")
        node = Node(
            target,
            str(entry.get("name") or target),
            {},
            tuple(results),
            layer_of(metadata.get("nn_module_stack")),
            place_of(metadata.get("stack_trace")) or Location(self.source),
        )
        for item in entry["inputs"]:
            node.arguments[item["name"]] = self._argument(item["arg"], node)
        return node

    def _argument(self, argument: dict[str, Any], node: Node) -> Any:
        ((kind, value),) = argument.items()
        if kind == "as_tensor":
            return Ref(value["name"])
        if kind == "as_tensors":
            return [Ref(item["name"]) for item in value]
        if kind == "as_optional_tensors":
            return [Ref(v["as_tensor"]["name"]) if "as_tensor" in v else None for v in value]
        if kind == "as_float":
            return float(value)
        if kind == "as_floats":
            return [float(v) for v in value]
        if kind == "as_complex":
            return complex(value["real"], value["imag"])
        if kind == "as_none" or kind in _IGNORED:
            return None
        if kind == "as_scalar_type":
            return scalar_type(value, f"{node.target} in {node.name}", self.source)
        if kind in _PLAIN:
            return value
        if kind in ("as_sym_int", "as_sym_float"):
            return _number(value)
        if kind == "as_sym_ints":
            return [_number(item) for item in value]
        if kind == "as_sym_bool" and "as_name" in value:
            return None  # of an assertion
        if kind.startswith("as_sym"):
            raise node.error(
                "TW6105",
                f"{node.target} takes a size that is not a number",
                "export with fixed sizes: leave dynamic_shapes out",
            )
        return Unreadable(kind)

    def _input(self, spec: dict[str, Any], graph: ExportedGraph) -> None:
        ((kind, body),) = spec.items()
        if kind == "user_input":
            if "as_tensor" in body["arg"]:
                graph.inputs.append(body["arg"]["as_tensor"]["name"])
        elif kind == "parameter":
            graph.weights[body["arg"]["name"]] = body["parameter_name"]
            graph.parameters.add(body["arg"]["name"])
        elif kind == "buffer":
            table = graph.weights if body.get("persistent", True) else graph.literals
            table[body["arg"]["name"]] = body["buffer_name"]
        elif kind == "tensor_constant":
            graph.literals[body["arg"]["name"]] = body["tensor_constant_name"]
        elif kind != "constant_input":
            raise TilewrightError(
                "TW6113", f"the program has an input of kind {kind}", Location(self.source)
            )

    def _output(self, spec: dict[str, Any], graph: ExportedGraph) -> None:
        ((kind, body),) = spec.items()
        argument = body["arg"]
        if kind == "buffer_mutation":
            graph.mutated[body["buffer_name"]] = argument["name"]
            return
        if kind != "user_output":
            raise TilewrightError(
                "TW6113",
                f"the program has an output of kind {kind}",
                Location(self.source),
                "export a model in eval mode that does not write to its inputs",
            )
        name = f"output_{len(graph.outputs)}"
        ((form, value),) = argument.items()
        found: Any = None
        if form == "as_tensor":
            found = Ref(value["name"])
        elif form in ("as_int", "as_bool", "as_float"):
            found = float(value) if form == "as_float" else value
        graph.outputs.append((name, found))

    def _check(self, graph: ExportedGraph) -> None:
        """Every name leads somewhere and stored tensors have the shapes the graph says."""
        for name, fqn in {**graph.weights, **graph.literals}.items():
            array = graph.tensors.get(fqn)
            if array is None:
                raise TilewrightError(
                    "TW6112", f"the file has no data for {fqn}", Location(self.source)
                )
            info = graph.values[name]
            if array.shape != info.shape or array.dtype != info.dtype.storage:
                raise damaged(
                    self.source, f"{fqn} is stored as {array.shape} {array.dtype}, not as {info}"
                )
        read = [value.name for _, value in graph.outputs if isinstance(value, Ref)]
        read += [*graph.inputs, *graph.mutated.values()]
        for node in graph.nodes:
            read += [*node.results, *node.references()]
        for name in read:
            if name not in graph.values:
                raise damaged(self.source, f"the value {name} has no type")
        known = {*graph.weights.values(), *graph.literals.values()}
        for fqn in graph.mutated:
            if fqn not in known:
                raise damaged(self.source, f"the model changes {fqn}, which it does not have")


class Unreadable:
    """An argument of a kind that no mapping reads, such as a sub-graph."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def layer_of(stack: str | None) -> str:
    """The innermost module's path in `key,path,type;key,path,type`."""
    last = (stack or "").split(";")[-1].split(",")
    return last[1] if len(last) > 2 else ""


def _output_names(module: dict[str, Any]) -> list[str]:
    """Names from the shape of what the model returns: dictionary keys, else positions."""
    try:
        text = module["module_call_graph"][0]["signature"]["out_spec"]
        return spec_names(json.loads(text)[1])
    except _DAMAGE:
        return []


def spec_names(spec: dict[str, Any], path: str = "") -> list[str]:
    """The leaves of a serialised pytree, by keys and positions."""
    children = spec["children_spec"]
    if spec["type"] is None:
        return [path or "output"]
    keys: list[Any] = list(range(len(children)))
    if str(spec["type"]).endswith(("dict", "Dict")):
        keys = json.loads(spec["context"])
    found = []
    for key, child in zip(keys, children, strict=True):
        prefix = f"{path}_{key}" if path else f"output_{key}" if isinstance(key, int) else str(key)
        found += spec_names(child, prefix)
    return found
