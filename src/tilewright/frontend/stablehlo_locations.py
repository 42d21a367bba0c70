"""Locations as MLIR prints them with debug information, made plain.

before: %0 = stablehlo.add %a, %b : tensor<f32> loc(#loc7)
        #loc7 = loc("jit(f)/encoder/add"(#loc6))     at the end of the text, through any chain
after:  %0 = stablehlo.add %a, %b : tensor<f32> loc("jit(f)/encoder/add"("model.py":12:8))

Names of values, such as `loc("params['w']")` on an argument, stay. Lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.dialects.xdsl_api import Attribute, NameLoc, StringAttr

DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)[ \t]*$", re.M)
OPENING = re.compile(r'"(?:[^"\\]|\\.)*"|\bloc\(')

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLACE = re.compile(r":(\d+):(\d+)(?: to (?:\d*:)?\d+)?")
_ALIAS = re.compile(r"#loc\d*")


@dataclass(frozen=True)
class Found:
    """What a location says: the outermost name, and where in the user's files."""

    name: str = ""
    place: str = ""

    def text(self, otherwise: str) -> str:
        if not self.name:
            return f"loc({self.place or otherwise})"
        return f'loc("{self.name}"({self.place or otherwise}))'


def plain_locations(text: str, file: str) -> str:
    """The text with every alias of a location written out in one level."""
    if "loc(" not in text:
        return text
    definitions = {m[1]: m[2] for m in DEFINITION.finditer(text)}
    resolved: dict[str, Found] = {}
    quoted = file.replace("\\", "\\\\").replace('"', '\\"')

    def lookup(alias: str) -> Found:
        if alias not in resolved:
            resolved[alias] = Found()  # a definition in terms of itself says nothing
            resolved[alias] = _Reader(definitions.get(alias, "unknown"), lookup).read()
        return resolved[alias]

    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#loc") and DEFINITION.match(line):
            line = ""
        elif "loc(" in line:
            indent = len(line) - len(line.lstrip()) + 1
            line = _written_out(line, f'"{quoted}":{number}:{indent}', lookup)
        lines.append(line)
    return "\n".join(lines)


def _written_out(line: str, here: str, lookup: Callable[[str], Found]) -> str:
    """A line with its locations in one level; what has no place of its own is `here`."""
    parts: list[str] = []
    position = 0
    while (opening := OPENING.search(line, position)) is not None:
        if opening[0] != "loc(":
            parts.append(line[position : opening.end()])
            position = opening.end()
            continue
        reader = _Reader(line, lookup, opening.end())
        found = reader.read()
        end = line.find(")", reader.position)
        parts += [line[position : opening.start()], found.text(here)]
        position = len(line) if end < 0 else end + 1
    return "".join(parts) + line[position:]


class _Reader:
    """Reads one location: strings, places, callsite(a at b), fused[a, b], aliases."""

    def __init__(self, text: str, lookup: Callable[[str], Found], position: int = 0) -> None:
        self.text = text
        self.lookup = lookup
        self.position = position

    def read(self) -> Found:
        self._space()
        if found := _STRING.match(self.text, self.position):
            self.position = found.end()
            return self._after_string(found)
        if found := _ALIAS.match(self.text, self.position):
            self.position = found.end()
            return self.lookup(found[0])
        for word in ("callsite", "fused", "unknown"):
            if self.text.startswith(word, self.position):
                self.position += len(word)
                return Found() if word == "unknown" else self._many()
        self.position = len(self.text)
        return Found()

    def _after_string(self, string: re.Match[str]) -> Found:
        if place := _PLACE.match(self.text, self.position):
            self.position = place.end()
            return Found("", f"{string[0]}:{place[1]}:{place[2]}")
        if self.text.startswith("(", self.position):
            self.position += 1
            inner = self.read()
            self.position += 1
            return Found(string[1], inner.place)
        return Found(string[1])

    def _many(self) -> Found:
        """The first place and the first name among several; in a call that is the callee's."""
        if self.text[self.position : self.position + 1] == "<":  # metadata of a fused location
            self.position = self.text.find("[", self.position)
        closing = {"(": ")", "[": "]"}.get(self.text[self.position : self.position + 1])
        self.position += 1
        name = place = ""
        while closing is not None and self.position < len(self.text):
            found = self.read()
            name, place = name or found.name, place or found.place
            self._space()
            if self.text.startswith(closing, self.position):
                self.position += 1
                break
            self.position += 2 if self.text.startswith("at", self.position) else 1
        return Found(name, place)

    def _space(self) -> None:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1


def name_in(location: Attribute) -> str:
    """The name a location gives, or nothing."""
    if not isinstance(location, NameLoc):
        return ""
    name = next((v for v in vars(location).values() if isinstance(v, StringAttr)), None)
    return name.data if name is not None else ""


# What JAX's own transformations and control flow add to a name.
WRAPPER = re.compile(
    r"(?:p?jit|vmap|jvp|transpose|remat\d*|checkpoint|custom_\w+|closed_call|while|body|cond|scan|"
    r"branch_\d+_fun)\b.*"
)


def layer_in(name: str) -> str:
    """The user's own scopes in a name JAX gives: jit(f)/encoder/layer_0/dot_general is encoder.layer_0."""
    parts = name.split("/")[:-1]
    return ".".join(part for part in parts if part and not WRAPPER.fullmatch(part))
