"""Pass pipelines as text, and running them under observation.

`pass1,pass2{option=value other=x}`: passes are separated by commas, options by blanks; a value
may be quoted, a comma makes a list. `builtin.module(...)` around the whole is accepted.

Error codes: TW1301 unknown pass or pipeline, TW1302 unknown option, TW1303 bad option value,
TW1304 malformed pipeline text, TW1306 a pass gave up, TW1399 a pass broke.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import time
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xdsl.utils.exceptions import DiagnosticException

from tilewright.dialects.locations import location_of
from tilewright.dialects.verification import Verified, verify_module
from tilewright.dialects.xdsl_api import Context, ModuleOp, ModulePass
from tilewright.errors import Location, TilewrightError, within_memory
from tilewright.transforms import PASSES, load_pass
from tilewright.transforms.pipelines import PIPELINES

WRAPPER = "builtin.module("


def parse_pipeline(text: str) -> list[ModulePass]:
    """The passes a pipeline names, ready to run."""
    text = text.strip()
    if text.startswith(WRAPPER):
        if not text.endswith(")"):
            raise _malformed(text, "builtin.module( is not closed")
        text = text[len(WRAPPER) : -1]
    return [make_pass(name, options) for name, options in _split_passes(text)]


def named_pipeline(name: str) -> list[ModulePass]:
    """The passes of a named pipeline."""
    if name not in PIPELINES:
        raise TilewrightError(
            "TW1301", f"there is no pipeline {name}", hint=_did_you_mean(name, PIPELINES)
        )
    return [p for entry in PIPELINES[name] for p in parse_pipeline(entry)]


def _malformed(text: str, reason: str) -> TilewrightError:
    return TilewrightError(
        "TW1304",
        f'cannot read the pipeline "{text}": {reason}',
        hint='write it as "pass1,pass2{option=value other=x}"',
    )


def _split_passes(text: str) -> Iterable[tuple[str, dict[str, str]]]:
    """Pass names with their options as text."""
    position = 0
    while position < len(text):
        end = position
        while end < len(text) and text[end] not in ",{}":
            end += 1
        name = text[position:end].strip()
        if not name or (end < len(text) and text[end] == "}"):
            raise _malformed(text, f"a pass name is missing at character {position + 1}")
        options: dict[str, str] = {}
        if end < len(text) and text[end] == "{":
            close = _closing_brace(text, end)
            options = _split_options(text, text[end + 1 : close])
            end = close + 1
            while end < len(text) and text[end].isspace():
                end += 1
        if end < len(text) and text[end] != ",":
            raise _malformed(text, f"a comma is missing after {name}")
        yield name, options
        position = end + 1
        if end < len(text) and not text[position:].strip():
            raise _malformed(text, "it ends with a comma")


def _closing_brace(text: str, start: int) -> int:
    quote = ""
    for index in range(start + 1, len(text)):
        character = text[index]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "}":
            return index
        elif character == "{":
            break
    raise _malformed(text, "a brace is not closed")


def _split_options(text: str, body: str) -> dict[str, str]:
    options: dict[str, str] = {}
    words: list[str] = []
    word, quote = "", ""
    for character in body + " ":
        if quote:
            if character == quote:
                quote = ""
            else:
                word += character
        elif character in "\"'":
            quote = character
        elif character.isspace():
            if word:
                words.append(word)
            word = ""
        else:
            word += character
    for entry in words:
        key, equals, value = entry.partition("=")
        if not key or (equals and not value):
            raise _malformed(text, f'"{entry}" is not option=value')
        options[key.replace("-", "_")] = value if equals else "true"
    return options


def make_pass(name: str, options: dict[str, str]) -> ModulePass:
    """A pass with its options converted to the types of its fields."""
    if name not in PASSES:
        raise TilewrightError(
            "TW1301", f"there is no pass {name}", hint=_did_you_mean(name, PASSES)
        )
    pass_class = load_pass(name)
    hints = typing.get_type_hints(pass_class)
    fields = {f.name: hints[f.name] for f in dataclasses.fields(pass_class)}
    values: dict[str, object] = {}
    for key, text in options.items():
        shown = key.replace("_", "-")
        if key not in fields:
            known = [f.replace("_", "-") for f in fields]
            raise TilewrightError(
                "TW1302",
                f"pass {name} has no option {shown}",
                hint=f"its options are: {', '.join(known)}" if known else "it takes no options",
            )
        try:
            values[key] = _convert(text, fields[key])
        except ValueError:
            raise TilewrightError(
                "TW1303", f'option {shown} of {name} cannot be "{text}"', hint=_expects(fields[key])
            ) from None
    try:
        return pass_class(**values)
    except ValueError as error:
        raise TilewrightError("TW1303", f"pass {name}: {error}") from None


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else "tilewright opt --list-passes shows all"


def _convert(text: str, kind: object) -> object:
    """Option text as a value of the field's type."""
    if isinstance(kind, types.UnionType):
        return _convert(text, next(k for k in typing.get_args(kind) if k is not type(None)))
    if typing.get_origin(kind) is tuple:
        return tuple(_convert(part, typing.get_args(kind)[0]) for part in text.split(","))
    if typing.get_origin(kind) is typing.Literal:
        if text not in typing.get_args(kind):
            raise ValueError
        return text
    if kind is bool:
        if text not in ("true", "false", "1", "0"):
            raise ValueError
        return text in ("true", "1")
    if kind is int:
        return int(text, 0)
    return float(text) if kind is float else text


def _expects(kind: object) -> str:
    if isinstance(kind, types.UnionType):
        return _expects(next(k for k in typing.get_args(kind) if k is not type(None)))
    if typing.get_origin(kind) is tuple:
        return "it takes values separated by commas"
    if typing.get_origin(kind) is typing.Literal:
        return f"it takes one of {', '.join(map(str, typing.get_args(kind)))}"
    names = {bool: "true or false", int: "an integer", float: "a number"}
    return f"it takes {names.get(kind, 'text')}"  # type: ignore[arg-type]


def option_texts(pass_: ModulePass) -> str:
    """A pass as pipeline text, with the options that differ from their defaults."""
    words = [
        f"{f.name.replace('_', '-')}={_option_text(value)}"
        for f in dataclasses.fields(pass_)
        if (value := getattr(pass_, f.name)) != f.default
    ]
    return pass_.name + (f"{{{' '.join(words)}}}" if words else "")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


@dataclass
class Observer:
    """What happens around each pass; every hook may be left out."""

    before: Callable[[int, ModulePass, ModuleOp], None] = lambda i, p, m: None
    after: Callable[[int, ModulePass, ModuleOp], None] = lambda i, p, m: None
    verify_each: bool = True
    seconds: list[tuple[str, float]] = field(default_factory=list)
    clock: Callable[[], float] = time.perf_counter
    memory: Verified = field(default_factory=dict)

    def timed(self, name: str, action: Callable[[], object]) -> object:
        start = self.clock()
        try:
            return action()
        finally:
            self.seconds.append((name, self.clock() - start))


def run_passes(
    module: ModuleOp,
    passes: Iterable[ModulePass],
    context: Context,
    observer: Observer | None = None,
) -> None:
    """Run passes in order over the module, verifying after each unless told otherwise."""
    observer = observer or Observer()
    for index, pass_ in enumerate(passes):
        observer.before(index, pass_, module)
        observer.timed(pass_.name, lambda p=pass_: _apply(p, context, module))
        if observer.verify_each:
            observer.timed(
                f"verify after {pass_.name}", lambda: verify_module(module, observer.memory)
            )
        observer.after(index, pass_, module)


def _apply(pass_: ModulePass, context: Context, module: ModuleOp) -> None:
    try:
        with within_memory(f"pass {pass_.name}", location_of(module)):
            pass_.apply(context, module)
    except TilewrightError:
        raise
    except DiagnosticException as error:
        reason = (str(error).strip().splitlines() or ["it gave no reason"])[0]
        raise TilewrightError(
            "TW1306", f"pass {pass_.name} failed: {reason}", location_of(module) or Location("")
        ) from None
    except Exception as error:
        if os.environ.get("TILEWRIGHT_TRACEBACK"):
            raise
        raise TilewrightError(
            "TW1399",
            f"pass {pass_.name} broke: {type(error).__name__}: {error}",
            location_of(module),
            "this is a defect of Tilewright; TILEWRIGHT_TRACEBACK=1 shows where",
        ) from error
