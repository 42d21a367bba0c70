"""Options of kernels as typed dictionaries: what may be given, of which type, and what is meant otherwise.

    class SoftmaxOptions(TypedDict):
        factor: Annotated[float, Option("what the result is multiplied by", 1.0)]

`given` checks the JSON values of a launch against such a class and adds what was left out, so that
makers, references and counts of work find every option. `table` is what the documentation says.

Error codes: TW1717 options that a kernel does not take.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from tilewright.errors import TilewrightError

REQUIRED = object()
Value = TypeVar("Value")


@dataclass(frozen=True)
class Option:
    """What an option says, its value where it is not given, and from where to where integers go."""

    meaning: str
    default: Any = REQUIRED
    least: int = 0
    most: int = 1 << 24


@dataclass(frozen=True)
class Numbered:
    """Options `name0`, `name1`, …, which are found under one name by their numbers."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Field:
    """An option of a class of options."""

    name: str
    type: Any
    about: Option | Numbered


@cache
def fields_of(options: type) -> tuple[Field, ...]:
    """The options of a class, in its order."""
    found = []
    for name, hint in get_type_hints(options, include_extras=True).items():
        type_, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        (about,) = (note for note in notes if isinstance(note, Option | Numbered))
        found.append(Field(name, type_, about))
    return tuple(found)


def given(options: type, values: Mapping[str, Any]) -> Any:
    """All options of a class: checked where `values` has them, else as the class says."""
    fields, left, found = fields_of(options), dict(values), {}
    for field in fields:
        about = field.about
        if isinstance(about, Numbered):
            (inner,) = get_args(field.type)[1:]
            names = [name for name in left if _number_of(name, about) is not None]
            found[field.name] = {
                _number_of(name, about): _value(name, inner, left.pop(name)) for name in names
            }
        elif field.name in left:
            value = _value(field.name, field.type, left.pop(field.name))
            if type(value) is int and not about.least <= value <= about.most:
                raise TilewrightError(
                    "TW1717",
                    f"the option {field.name} is {value}, not from {about.least} to {about.most}",
                )
            found[field.name] = value
        elif about.default is REQUIRED:
            raise TilewrightError(
                "TW1717", f"the option {field.name} is missing", hint=f"it says {about.meaning}"
            )
        else:
            found[field.name] = about.default
    if left:
        known = ", ".join(_name(field) for field in fields) or "none"
        raise TilewrightError(
            "TW1717", f"there is no option {min(left)}", hint=f"options are {known}"
        )
    return found


def needed(value: Value | None, name: str) -> Value:
    """The value of an option that others make necessary."""
    if value is None:
        raise TilewrightError("TW1717", f"the option {name} is missing, others need it")
    return value


def _number_of(name: str, about: Numbered) -> int | None:
    """The number behind the name of a numbered option."""
    number = name.removeprefix(about.name)
    plain = number.isascii() and number.isdigit() and number == str(int(number[:9]))
    return int(number) if plain and name != number else None


def _value(name: str, type_: Any, value: Any) -> Any:
    """A value as its type has it."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        return _one_of(name, type_, value)
    if is_typeddict(type_):
        if not isinstance(value, Mapping):
            _refuse(name, type_, value)
        return given(type_, value)
    if origin is Literal:
        if not any(value == one and type(value) is type(one) for one in arguments):
            _refuse(name, type_, value)
        return value
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            _refuse(name, type_, value)
        inner = list(arguments) if origin is tuple else list(arguments) * len(value)
        if len(inner) != len(value):
            _refuse(name, type_, value)
        return [_value(name, one, part) for one, part in zip(inner, value, strict=True)]
    if type_ is float and type(value) is int:
        return value
    kind = Mapping if origin is dict else type_
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        _refuse(name, type_, value)
    return value


def _one_of(name: str, type_: Any, value: Any) -> Any:
    """A value of one of several types."""
    for one in get_args(type_):
        try:
            return _value(name, one, value)
        except TilewrightError:
            continue
    _refuse(name, type_, value)


def _refuse(name: str, type_: Any, value: Any) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) < 60 else f"{shown[:57]}..."
    raise TilewrightError("TW1717", f"the option {name} is {shown}, wanted: {described(type_)}")


# --- documentation ------------------------------------------------------------------------


def described(type_: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        return _alternatives([described(one) for one in arguments])
    if origin is Literal:
        return _alternatives([f'"{one}"' for one in arguments])
    if origin is list:
        return f"[{described(arguments[0])}, …]"
    if origin is tuple:
        return f"[{', '.join(described(one) for one in arguments)}]"
    if origin is dict:
        return "table"
    if is_typeddict(type_):
        return f"table of {type_.__name__}"
    words = {
        bool: "true or false",
        int: "integer",
        float: "number",
        str: "text",
        types.NoneType: "nothing",
    }
    return words[type_]


def _alternatives(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def table(options: type) -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default, meaning) of every option."""
    for field in fields_of(options):
        about, type_ = field.about, field.type
        if isinstance(about, Numbered):
            yield _name(field), described(get_args(type_)[1]), "", about.meaning
            continue
        default = about.default
        shown = str(default).lower()
        if default is REQUIRED or default is None or default == ():
            shown = "needed" if default is REQUIRED else ""
        yield _name(field), described(_without_none(type_)), shown, about.meaning


def _without_none(type_: Any) -> Any:
    """A type of options whose default is that they say nothing, without the nothing."""
    if get_origin(type_) not in (Union, types.UnionType):
        return type_
    left = tuple(one for one in get_args(type_) if one is not types.NoneType)
    return Union[left]  # noqa: UP007


def _name(field: Field) -> str:
    if isinstance(field.about, Numbered):
        return f"{field.about.name}0, {field.about.name}1, …"
    return field.name
