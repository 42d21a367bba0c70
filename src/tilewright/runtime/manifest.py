"""The table of contents of a bundle: a compiled model without its artifact, weights and texts, as JSON.

`manifest_of` writes it, `read_manifest` reads it back and takes nothing on trust. Whether the parts
fit together is the business of `targets.checking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.json_tables import Table, plain, shown
from tilewright.runtime.derived_pieces import Derived, read_derived
from tilewright.runtime.manifest_host import host_values_of, read_host_values
from tilewright.targets.artifact import DevicePart, HostPart, Port
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel, State
from tilewright.targets.port_encoding import Encoding

FORMAT = "tilewright.bundle"
VERSION = 3  # of one model
ENTRIES_VERSION = 4  # of several entry points; each has a manifest of its own beside this one
DERIVED_VERSION = 5  # the same, with pieces that are derived from others
STATE_VERSION = 6  # of either, with state that stays on the device


def manifest_of(model: CompiledModel[Any]) -> dict[str, Any]:
    """The manifest; timings of the compilation are left out, so that equal models look equal."""
    return plain(
        {
            "format": FORMAT,
            "version": STATE_VERSION if holds_state(model) else VERSION,
            "name": model.name,
            "target": {"family": model.artifact.family, "name": model.artifact.target},
            "ports": {name: _port(port) for name, port in model.ports.items()},
            "inputs": model.inputs,
            "outputs": model.outputs,
            "parts": [_part(part) for part in model.parts],
            "state": model.state,
            "phases": list(model.phases),
            "provenance": model.provenance,
            "quantisation": model.quantisation,
            "host": None if model.host_graph is None else host_values_of(model.host_graph),
        },
        "the model",
    )


def holds_state(model: CompiledModel[Any]) -> bool:
    """Whether some of what a model takes stays on the device from call to call."""
    return any(tensor.kind == "state" for tensor in model.artifact.tensors.values())


def _port(port: Port) -> dict[str, Any]:
    found: dict[str, Any] = {"shape": port.shape, "dtype": port.dtype, "tensor": port.tensor}
    if port.iteration is not None:
        found["iteration"] = port.iteration
    if port.encoding is not None:
        found["encoding"] = port.encoding.to_json()
    return found


def _part(part: HostPart | DevicePart) -> dict[str, Any]:
    if isinstance(part, HostPart):
        result: dict[str, Any] = {"kind": "host", "function": part.function}
        result["reasons"] = part.reasons
    else:
        result = {"kind": "device", "entry": part.entry}
    return {**result, "inputs": part.inputs, "outputs": part.outputs}


def entries_manifest_of(
    program: CompiledEntries,
    recipes: Mapping[str, Sequence[str]],
    derived: Mapping[str, Derived],
) -> dict[str, Any]:
    """The manifest of several entry points."""
    more = {"derived": {mark: how.to_json() for mark, how in derived.items()}} if derived else {}
    version = DERIVED_VERSION if derived else ENTRIES_VERSION
    if any(map(holds_state, program.entries.values())):
        version = STATE_VERSION
    return plain(
        {
            **more,
            "format": FORMAT,
            "version": version,
            "name": program.name,
            "entries": list(program.entries),
            "state": {
                name: {"readers": state.readers, "writers": state.writers}
                for name, state in program.state.items()
            },
            "recipes": {name: list(recipe) for name, recipe in recipes.items()},
        },
        "the program",
    )


# --- reading ----------------------------------------------------------------------------


def read_entries_manifest(
    document: Any, place: Location
) -> tuple[str, list[str], dict[str, State], dict[str, list[str]], dict[str, Derived]]:
    """Name, entry points, state, the recipes of members (see `shared_members`), and of pieces."""
    top = Table(document, "it", place)
    version = version_of(document, place)
    newer = version == DERIVED_VERSION or (version > DERIVED_VERSION and "derived" in top.values)
    for known in ("format", "version"):
        top.take(known)
    name, entries = top.text("name"), list(top.names("entries"))
    state = {
        key: _read_state(top.inner(f"state {key!r}", value))
        for key, value in top.table("state").items()
    }
    recipes = top.inner("recipes", top.take("recipes"))
    found = {key: list(recipes.names(key)) for key in list(recipes.values)}
    derived = {
        key: read_derived(top.inner(f"derived {key!r}", value))
        for key, value in (top.table("derived") if newer else {}).items()
    }
    top.done()
    if len(set(entries)) != len(entries):
        raise top.bad("names an entry point twice")
    return name, entries, state, found, derived


def _read_state(table: Table) -> State:
    state = State(table.texts("readers"), table.texts("writers"))
    table.done()
    return state


def has_entries(document: Any, place: Location) -> bool:
    """Whether a manifest is that of several entry points."""
    version = version_of(document, place)
    if version == STATE_VERSION:
        return "entries" in Table(document, "it", place).values
    return version >= ENTRIES_VERSION


def version_of(document: Any, place: Location) -> int:
    """The format version of a manifest that this release can read."""
    top = Table(document, "it", place)
    if top.take("format") != FORMAT:
        raise TilewrightError("TW3101", "this is not a Tilewright bundle", place)
    version = top.integer("version", 1)
    if version > STATE_VERSION:
        raise TilewrightError(
            "TW3103",
            f"the bundle has format version {version}, this release reads up to {STATE_VERSION}",
            place,
            hint="use a newer release of Tilewright, or compile the model again with this one",
        )
    return version


def read_manifest(
    document: Any, place: Location
) -> tuple[CompiledModel[Any], tuple[str, str], list[str]]:
    """The model without artifact, weights and texts; family and name of its target; its phases."""
    top = Table(document, "it", place)
    for known in ("format", "version"):
        top.take(known)
    target = top.inner("target", top.take("target"))
    machine = (target.text("family"), target.text("name"))
    target.done()
    model = CompiledModel[Any](
        name=top.text("name"),
        artifact=None,
        ports={
            name: _read_port(top.inner(f"port {name!r}", value), name)
            for name, value in top.table("ports").items()
        },
        inputs=top.names("inputs"),
        outputs=top.names("outputs"),
        parts=top.each("parts", "part", _read_part),
        state=top.texts("state"),
        provenance=top.table("provenance"),
        quantisation=top.table("quantisation"),
        host_graph=read_host_values(top),
    )
    phases = list(top.names("phases"))
    top.done()
    return model, machine, phases


def _read_port(table: Table, name: str) -> Port:
    tensor = table.take("tensor")
    if tensor is not None and not isinstance(tensor, str):
        raise table.bad(f"has tensor {shown(tensor)}, must be a name or null")
    iteration = table.integer("iteration") if "iteration" in table.values else None
    encoding = None
    if "encoding" in table.values:
        encoding = _read_encoding(table.inner(f"port {name!r} encoding", table.take("encoding")))
    port = Port(name, table.shape(), table.text("dtype", 32), tensor, iteration, encoding)
    table.done()
    return port


def _read_encoding(table: Table) -> Encoding:
    shape = table.shape(1)
    encoding = Encoding(table.real("factor"), shape, table.numbers("order", len(shape)))
    table.done()
    return encoding


def _read_part(table: Table) -> HostPart | DevicePart:
    if table.choice("kind", ("host", "device")) == "host":
        function, reasons = table.text("function"), table.names("reasons")
        return HostPart(function, table.names("inputs"), table.names("outputs"), reasons)
    return DevicePart(table.text("entry"), table.names("inputs"), table.names("outputs"))
