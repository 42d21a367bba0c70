"""Reading models from MLIR text.

`read_mlir` returns a module of `func.func` on tensors, every op with its line in the file, and the
weights as a table of bytes beside it: `dense_resource<name>` stays a name in the IR.

before: util.func public @main(%a: !hal.buffer_view) -> !hal.buffer_view with hal.tensor.import,
        compute barriers, globals with initialisers, hal.tensor.export
after:  func.func @main(%a: tensor<4x8xf32>) -> tensor<4x16xf32>

Error codes: TW1230 a phase of IREE that is not accepted, TW1231 a resource that is not bytes,
TW1232 a global without a value, TW1233 an input or output that is no tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text, read_text, verify_module
from tilewright.dialects.xdsl_api import Context, ModuleOp
from tilewright.errors import Location, TilewrightError
from tilewright.transforms.iree_unwrap import unwrap

RESOURCE_START = re.compile(r"^[ \t]*\{-#", re.MULTILINE)
RESOURCE_USE = re.compile(r'dense_resource<(?:"((?:[^"\\]|\\.)*)"|([\w.$\-]+))>')
RESOURCE_ENTRY = re.compile(
    r'^\s*(?:"((?:[^"\\]|\\.)*)"|([\w.$\-]+))\s*:\s*"(0x[0-9A-Fa-f]*)"', re.M
)
RESOURCE_ANY = re.compile(r'^\s*(?:"((?:[^"\\]|\\.)*)"|([\w.$\-]+))\s*:\s*"([^"]*)"', re.M)

# Placement of a device: names a target that is not ours, in attributes no one else can read.
AFFINITY = re.compile(r"(?:,\s*)?stream\.affinity\.default\s*=\s*#hal\.device\.\w+<[^>]*>")
DEVICE_GLOBAL = re.compile(r"^[ \t]*util\.global[^\n]*@__device_\d+[^\n]*$", re.M)
DEVICE_GENERIC = re.compile(r'^[ \t]*"util\.global"\(\)[^\n]*__device_\d+[^\n]*$', re.M)
PUBLIC_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)util\.func\s+public\s+@(?P<name>[\w.\-]+)\(", re.M
)


class Weights(Mapping[str, bytes]):
    """The bytes of each resource, decoded when asked for; the alignment prefix is left out."""

    def __init__(self, hexadecimal: dict[str, str] | None = None) -> None:
        self._text = hexadecimal or {}

    def __getitem__(self, name: str) -> bytes:
        return bytes.fromhex(self._text[name][10:])

    def hexadecimal(self, name: str) -> str:
        """A resource as it stood in the text, its alignment included."""
        return self._text[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._text)

    def __len__(self) -> int:
        return len(self._text)


@dataclass
class Model:
    """A module and the weights its `dense_resource` names stand for."""

    module: ModuleOp
    weights: Weights = field(default_factory=Weights)


def read_model(source: str | Path, context: Context | None = None) -> Model:
    """The module and weights in a file, or in MLIR text (anything with a line break or a brace)."""
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    name = "<text>" if is_text else "<stdin>" if source == "-" else str(source)
    text = str(source) if is_text else read_text(str(source))
    body, weights = split_resources(text, name)
    module = parse_text(without_device(body), name, context or make_context())
    unwrap(module)
    verify_module(module)
    return Model(module, weights)


def read_mlir(source: str | Path) -> ModuleOp:
    """The module alone; see `read_model`."""
    return read_model(source).module


def read_wrapped(path: str) -> ModuleOp:
    """The module of a file as it stands: IREE's wrapping and initialisers kept, weights left out."""
    text = read_text(path)
    name = "<stdin>" if path == "-" else path
    return parse_text(without_device(split_resources(text, name)[0]), name, make_context())


def split_resources(text: str, name: str = "<text>", first_line: int = 1) -> tuple[str, Weights]:
    """The text without its `{-# … #-}` section, and that section's resources.

    The section is cut out before parsing: it may hold gigabytes, and it is at the end of the file,
    so line numbers stay.
    """
    start = RESOURCE_START.search(text)
    if start is None:
        return text, Weights()
    section = text[start.start() :]
    found = {m[1] or m[2]: m[3] for m in RESOURCE_ENTRY.finditer(section)}
    for entry in RESOURCE_ANY.finditer(section):
        key, value = entry[1] or entry[2], entry[3]
        if not value.startswith("0x") or len(value) < 10 or len(value) % 2 or key not in found:
            line = text.count("\n", 0, start.start() + entry.start(3)) + first_line
            raise TilewrightError(
                "TW1231",
                f"resource {key} does not hold bytes",
                Location(name, line),
                "a resource is 0x, four bytes of alignment, then the data, all in hexadecimal",
            )
    end = section.find("#-}")
    if end < 0:
        line = text.count("\n", 0, start.start()) + first_line
        raise TilewrightError(
            "TW1231",
            "the resource section has no end",
            Location(name, line),
            "the file may be cut off: the section ends with #-}",
        )
    return text[: start.start()] + section[end + 3 :], Weights(found)


def resource_section(text: str, weights: Weights) -> str:
    """The `{-# … #-}` section with the resources that printed IR still names; may be empty."""
    used = {m[1] or m[2]: m[0][len("dense_resource<") : -1] for m in RESOURCE_USE.finditer(text)}
    entries = [
        f'      {written}: "{weights.hexadecimal(name)}"'
        for name, written in sorted(used.items())
        if name in weights
    ]
    if not entries:
        return ""
    body = ",\n".join(entries)
    return f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{body}\n    }}\n  }}\n#-}}\n"


def without_device(text: str) -> str:
    """The text with device globals, affinities and asynchronous stubs blanked out in place."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    if "hal.device" in text:
        text = DEVICE_GLOBAL.sub(blank, text)
        text = DEVICE_GENERIC.sub(blank, text)
        text = AFFINITY.sub(blank, text)
    if "$async" in text:
        text = _without_stubs(text)
    return text


def _without_stubs(text: str) -> str:
    """Functions `@f` that only call `@f$async` and wait, blanked out."""
    for match in list(PUBLIC_FUNCTION.finditer(text)):
        if f"@{match['name']}$async(" not in text or match["name"].endswith("$async"):
            continue
        end = text.find(f"\n{match['indent']}}}", match.end())
        if end < 0:
            continue
        stop = end + len(match["indent"]) + 2
        blanked = re.sub(r"[^\n]", " ", text[match.start() : stop])
        text = text[: match.start()] + blanked + text[stop:]
    return text
