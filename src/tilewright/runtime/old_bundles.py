"""Bundles of format versions 1 and 2, which knew one family of machines, as version 3 has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.io.json_tables import Table
from tilewright.io.pieces import Content
from tilewright.runtime.manifest import VERSION

FAMILY = "atlas"
_CONTENTS = f"{FAMILY}/contents.json"
_MOVED = ("profile", "segments", "regions", "steps")  # from the manifest to the program


def upgraded(
    document: Any, members: Mapping[str, Content], place: Location
) -> tuple[Any, dict[str, Content]]:
    """Manifest and members of an old bundle in today's form."""
    top = Table(document, "it", place)
    profile = top.inner("profile", top.take("profile"))
    ports = {name: _port(top, name, value) for name, value in top.table("ports").items()}
    parts, entries = [], {}
    for number, value in enumerate(top.list("parts")):
        part = top.inner(f"part {number}", value)
        if part.choice("kind", ("host", "device")) == "device":
            name = f"part{number}"
            entries[name] = {
                "segments": part.take("segments"),
                "inputs": _places(part, "inputs", ports),
                "outputs": _places(part, "outputs", ports),
            }
            value = {key: x for key, x in value.items() if key != "segments"} | {"entry": name}
        parts.append(value)
    provenance = dict(top.table("provenance"))
    bound, cause = provenance.pop("bound", None), provenance.pop("bound_cause", "")
    terms = provenance.pop("bound_terms", {})
    if (document["version"] == 2) != ("values" in document):  # version 2 brought it
        raise top.bad(
            "lacks 'values'" if document["version"] == 2 else "has an unknown field 'values'"
        )
    contents = {
        **{key: top.take(key) for key in _MOVED},
        "loops": top.take("rounds"),
        "entries": entries,
        "bound": {"cycles": bound, "cause": cause, "terms": terms} if bound else None,
        "values": document.get("values"),
    }
    raw = np.frombuffer(json.dumps(contents).encode(), np.uint8)
    if _CONTENTS in members:
        raise top.bad(f"comes with a member {_CONTENTS!r} that it does not name")
    moved = {
        f"{FAMILY}/{name}" if name.startswith("code/") or name == "weights.safetensors" else name: x
        for name, x in members.items()
    }
    kept = {
        key: x
        for key, x in document.items()
        if key not in (*_MOVED, "rounds", "values", "parts", "ports")
    }
    manifest = {
        **kept,
        "version": VERSION,
        "target": {"family": FAMILY, "name": profile.text("name")},
        "ports": ports,
        "parts": parts,
        "provenance": provenance,
    }
    return manifest, {**moved, _CONTENTS: raw}


def _port(top: Table, name: str, value: Any) -> Any:
    """A port calls its place a tensor now; what is wrong with it is seen where it is read."""
    if not isinstance(value, dict):
        raise top.bad(f"has a port {name!r} that is not an object")
    return {("tensor" if key == "region" else key): x for key, x in value.items()}


def _places(part: Table, key: str, ports: dict[str, Any]) -> list[str]:
    return [str(ports.get(name, {}).get("tensor") or "") for name in part.names(key)]
