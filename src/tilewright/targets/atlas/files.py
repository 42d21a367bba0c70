"""Program files of every form, chosen by suffix.

| suffix      | form       | holds                                             |
|-------------|------------|---------------------------------------------------|
| .S .s .asm  | "assembly" | everything                                        |
| .txt .isa   | "text"     | instructions, as `mnemonic key=value`             |
| .hex .mem   | "hex"      | instruction words, eight digits a line            |
| .bin        | "binary"   | instruction words, four bytes each                |
| .json       | "json"     | everything                                        |
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes, write_atomically
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.assembly.lexer import strip_comment
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.images import from_binary, parse_hex, print_hex, to_binary
from tilewright.targets.atlas.profile import Profile, load_profile, profile_names
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.program_json import parse_json, print_json, profile_of
from tilewright.targets.atlas.text_isa import parse_text_isa, print_text_isa

FORMS = ("assembly", "text", "hex", "binary", "json")
SUFFIXES = {
    ".s": "assembly", ".asm": "assembly",
    ".txt": "text", ".isa": "text",
    ".hex": "hex", ".mem": "hex",
    ".bin": "binary",
    ".json": "json",
}  # fmt: skip
MAX_FILE = 1 << 28
DEFAULT_PROFILE = "atlas-v1"


def form_of(path: str) -> str | None:
    """The form a file's suffix names; None if it names none."""
    return SUFFIXES.get(Path(path).suffix.lower())


def read_program(path: str | Path, profile: Profile, form: str | None = None) -> Program:
    """The program in a file ("-": standard input).

    The suffix chooses the form. Assembly and the text form are told apart by content, as
    both are common in files of either suffix, and so are files of unknown suffix.
    """
    path = str(path)
    content = read_bytes(path, MAX_FILE)
    return parse_program(content, "<stdin>" if path == "-" else path, profile, form)


def parse_program(content: bytes, path: str, profile: Profile, form: str | None = None) -> Program:
    """The program in the content of a file."""
    if form is not None and form not in FORMS:
        raise _no_form(form, path)
    chosen = form or form_of(path)
    if chosen == "binary" or (chosen is None and 0 in content):
        return from_binary(content, profile, path)
    text = decode_text(content, path)
    if form is None and chosen in ("assembly", "text", None):
        chosen = sniff(text, chosen)
    if chosen == "assembly":
        return assemble(text, profile, path)
    if chosen == "text":
        return parse_text_isa(text, profile, path)
    if chosen == "hex":
        return parse_hex(text, profile, path)
    return parse_json(text, profile, path)


def profile_for(path: str, name: str | None) -> Profile:
    """The profile named, else the one a JSON program says it is for, else the default."""
    if name is None and form_of(path) == "json" and os.path.isfile(path):
        head = read_bytes(path, MAX_FILE)[:4096]
        name = profile_of(head.decode("utf-8", "replace"))
        if name not in profile_names():
            name = None
    return load_profile(DEFAULT_PROFILE if name is None else name)


_KEY_VALUE = re.compile(r"\s[A-Za-z][A-Za-z0-9]*[ \t]*=")
_HEX_LINE = re.compile(r"\s*(?:@?[0-9A-Fa-f]{8}|@[0-9A-Fa-f]+)\s*")
_SAMPLE = 40  # lines that decide


def sniff(text: str, suffix_form: str | None) -> str:
    """The form of a text: by its first lines, the suffix where they do not tell."""
    seen = 0
    for line in text[: 1 << 16].split("\n"):
        line = strip_comment(line)
        words = line.split()
        if not words:
            continue
        if words[0].startswith(("{", "[")) and suffix_form is None:
            return "json"
        if _KEY_VALUE.search(line) and not words[0].startswith("."):
            return "text"
        if suffix_form != "assembly" and _HEX_LINE.fullmatch(line):
            return "hex"
        if len(words) > 1 or words[0].endswith(":") or words[0].startswith("."):
            return "assembly"
        seen += 1
        if seen >= _SAMPLE:
            break
    return suffix_form or "assembly"


def format_program(program: Program, form: str, profile: Profile | None = None) -> bytes:
    """The content of a file that holds a program."""
    if form == "assembly":
        return disassemble(program).encode()
    if form == "text":
        return print_text_isa(program).encode()
    if form == "hex":
        return print_hex(program, profile).encode()
    if form == "binary":
        return to_binary(program, profile)
    if form == "json":
        return print_json(program, profile).encode()
    raise _no_form(form, "")


def write_program(
    program: Program,
    path: str | Path,
    profile: Profile | None = None,
    form: str | None = None,
) -> int:
    """Write a program in the form its suffix names ("-": standard output); returns the bytes written.

    What a form cannot hold is an error, never left out.
    """
    path = str(path)
    chosen = form or form_of(path)
    if chosen is None or chosen not in FORMS:
        raise _no_form(form, path)
    content = format_program(program, chosen, profile)
    if path == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, content)
    return len(content)


def _no_form(form: str | None, path: str) -> TilewrightError:
    suffixes = ", ".join([".S", *(s for s in SUFFIXES if s not in (".s", ".asm", ".isa", ".mem"))])
    if form is not None:
        message, hint = f"there is no program form {form!r}", f"forms are {', '.join(FORMS)}"
    else:
        message, hint = "the name does not say which form to write", f"end it in {suffixes}"
    return TilewrightError("TW1054", message, Location(path) if path else None, hint)
