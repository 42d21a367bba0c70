"""Programs as JSON: everything a program holds, instructions as in the text form.

    {"schema": "tilewright.atlas.program/1", "profile": "atlas-v1", "source": "k.S",
     "instructions": [{"mnemonic": "addi", "args": {"rd": 1, "rs1": 0, "rs2": 0, "imm": 5}}],
     "lines": [3], "labels": {"loop": 0},
     "data": [{"space": "dram", "address": 0, "bytes": "<base64>"}]}

A bare list of instructions, or any object with one under "instructions" (as kernel
manifests have), is read too.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.json_tables import load_document
from tilewright.targets.atlas.assembly.data import check_blocks
from tilewright.targets.atlas.assembly.lexer import LABEL, REGISTERS
from tilewright.targets.atlas.assembly.unit import MAX_INSTRUCTIONS, is_target
from tilewright.targets.atlas.encoding import operand_range
from tilewright.targets.atlas.isa import MAX_OPERANDS, RECORD_KEYS, Opcode
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Data, Program
from tilewright.targets.atlas.text_isa import (
    WORD,
    find_row,
    operands_of_record,
    render_records,
    spelling,
)

SCHEMA = "tilewright.atlas.program/1"
_KEYS = ("schema", "profile", "source", "instructions", "lines", "labels", "data")


def print_json(program: Program, profile: Profile | None) -> str:
    """The program as JSON, one instruction per line."""

    def style(row: Opcode) -> tuple[str, str, str]:
        return f'  {{"mnemonic": "{spelling(row)}", "args": {{', '"{key}": {value}', "}}"

    head = {"schema": SCHEMA, "profile": profile.name if profile else None}
    head["source"] = program.source
    tail: dict[str, Any] = {}
    if program.lines.any():
        tail["lines"] = program.lines.tolist()
    tail["labels"] = program.labels
    tail["data"] = [
        {
            "space": block.space,
            "address": block.address,
            "bytes": base64.b64encode(block.bytes).decode("ascii"),
        }
        for block in program.data
    ]
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    rows = ",\n".join(render_records(program, style))
    parts.append(f' "instructions": [\n{rows}\n ]' if rows else ' "instructions": []')
    parts.extend(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in tail.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def parse_json(text: str, profile: Profile, source: str = "<json>") -> Program:
    """The program of a JSON text."""
    document = load_document(text, source)
    place = Location(source)
    if isinstance(document, list):
        document = {"instructions": document}
    if not isinstance(document, dict):
        raise _shape(place, "a program is an object or a list of instructions")
    if "schema" in document:
        if document["schema"] != SCHEMA:
            raise _shape(place, f"the schema is {_show(document['schema'])}, not {SCHEMA!r}")
        for key in document:
            if key not in _KEYS:
                raise _shape(place, f"there is no key {_show(key)}")
    if "instructions" not in document:
        hint = None
        if "kernels" in document:
            hint = "this is a manifest of several kernels; take the object of one of them"
        raise _shape(place, "the list of instructions is missing", hint)
    items = document["instructions"]
    if not isinstance(items, list):
        raise _shape(place, "the instructions are not a list")
    opcodes, operands = _instructions(items, place)
    name = document.get("source")
    program = Program(opcodes, operands, np.zeros(len(items), np.int32), source)
    if "lines" in document:
        program.lines = _lines(document["lines"], len(items), place)
        if isinstance(name, str) and name:
            program.source = name
    program.labels = _labels(document.get("labels", {}), len(items), place)
    program.data = check_blocks(_data(document.get("data", []), place), profile, place)
    return program


def profile_of(text: str) -> str | None:
    """The profile a JSON program was written for, if it says one near its beginning."""
    head = text[:4096]
    start = head.find('"profile":')
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(head[start + 10 :].lstrip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _shape(place: Location, message: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW1058", message, place, hint)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


# Row, channel in its name, allowed keys, and (key, smallest, largest, factor) per operand.
_Known = tuple[Opcode, int | None, frozenset[str], list[tuple[str, int, int, int]]]


_INTEGERS = frozenset((int,))  # and not bool
_ZEROS = [[0] * (MAX_OPERANDS - used) for used in range(MAX_OPERANDS + 1)]


def _instructions(items: list[Any], place: Location) -> tuple[np.ndarray, np.ndarray]:
    if len(items) > MAX_INSTRUCTIONS:
        message = f"the program has more than {MAX_INSTRUCTIONS} instructions"
        raise TilewrightError("TW1015", message, place)
    known: dict[str, _Known] = {}
    indices: list[int] = []
    flat: list[int] = []
    for number, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("mnemonic"), str):
            raise _shape(place, f"instruction {number} is not an object with a mnemonic")
        args = item.get("args", {})
        if not isinstance(args, dict) or not item.keys() <= {"mnemonic", "args"}:
            raise _shape(
                place, f"instruction {number} has other parts than a mnemonic and an object of args"
            )
        name = item["mnemonic"]
        entry = known.get(name)
        if entry is None:
            row, channel = _located(number, lambda n=name: find_row(n, place))
            entry = known[name] = (row, channel, frozenset(RECORD_KEYS[row.record]), _ranges(row))
        row, channel, keys, ranges = entry
        values = []
        plain = channel is None and args.keys() <= keys
        for key, low, high, factor in ranges:
            value = args.get(key, 0)
            if type(value) is not int or not low <= value <= high:
                plain = False
                break
            values.append(value * factor)
        if not _INTEGERS.issuperset(map(type, args.values())):
            key = next(key for key, value in args.items() if type(value) is not int)
            raise _shape(
                place, f"{key} of instruction {number} is {_show(args[key])}, not an integer"
            )
        if not plain:
            values = _located(
                number, lambda r=row, c=channel, a=args: operands_of_record(r, c, a, place)
            )
        indices.append(row.index)
        flat.extend(values)
        flat.extend(_ZEROS[len(values)])
    opcodes = np.array(indices, np.uint8)
    operands = np.fromiter(flat, np.int32, len(flat)).reshape(-1, MAX_OPERANDS)
    return opcodes, operands


def _ranges(row: Opcode) -> list[tuple[str, int, int, int]]:
    result = []
    for operand in row.operands:
        low, high, step = operand_range(operand)
        factor = WORD if is_target(row, operand) else 1
        result.append((operand.key, -(-low // factor), high // factor, factor))
        assert step == 1 or factor == WORD
    return result


def _located(number: int, action: Any) -> Any:
    """The action's result; its error also says which instruction is wrong."""
    try:
        return action()
    except TilewrightError as error:
        raise TilewrightError(
            error.code, f"instruction {number}: {error.message}", error.location, error.hint
        ) from None


def _lines(value: Any, count: int, place: Location) -> np.ndarray:
    good = isinstance(value, list) and len(value) == count
    if not good or any(type(n) is not int or not 0 <= n < 1 << 31 for n in value):
        raise _shape(place, "lines is not a list with a line number for every instruction")
    return np.array(value, np.int32)


def _labels(value: Any, count: int, place: Location) -> dict[str, int]:
    if not isinstance(value, dict):
        raise _shape(place, "labels is not an object of name and instruction index")
    for name, index in value.items():
        if type(index) is not int or not 0 <= index <= count:
            raise _shape(place, f"the label {_show(name)} does not name an instruction index")
        if LABEL.fullmatch(name) is None or name.lower() in REGISTERS:
            raise _shape(place, f"{_show(name)} cannot be the name of a label")
    return dict(value)


def _data(value: Any, place: Location) -> list[Data]:
    if not isinstance(value, list):
        raise _shape(place, "data is not a list")
    blocks: list[Data] = []
    for item in value:
        try:
            space, address, text = item["space"], item["address"], item["bytes"]
            content = base64.b64decode(text, validate=True)
        except (TypeError, KeyError, ValueError, binascii.Error):
            raise _shape(
                place, "a block of data is not an object of space, address and base64 bytes"
            ) from None
        if space not in ("dram", "vmem") or type(address) is not int or not 0 <= address < 1 << 44:
            raise _shape(place, f"data cannot be placed at {_show(space)} {_show(address)}")
        blocks.append(Data(space, address, content))
    return blocks
