"""Ways to spoil a file: bytes, text, numbers, nesting, and the values of a JSON document."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Sequence
from typing import Any

TOKEN = re.compile(r"[%#@^!]?[\w.$]+|\s+|[^\s\w]")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|(?<=[<x])\d+(?=[x>])")
OPENING = {"(": ")", "[": "]", "{": "}", "<": ">"}

NUMBERS = [
    "0", "-1", "1", "2", "3", "7", "31", "32", "33", "63", "64", "127", "128", "255", "256", "2047",
    "2048", "4095", "4096", "65535", "65536", "2147483647", "2147483648", "-2147483648", "4294967295",
    "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "18446744073709551615", "18446744073709551616", "1000000", "1000000000000", "0x7FFFFFFF",
    "0xFFFFFFFFFFFFFFFFF", "-0", "00", "1.5", "-1.5", "1e400", "-1e400", "1e-400", "nan", "inf", "1e10",
    "9" * 400, "0." + "3" * 200, "?", "*",
]  # fmt: skip
PIECES = [
    "", " ", "\n", "\t", "\0", "\r\n", "\ufeff", "é", "\U0001f600", "\u202e", "\\", '"', "'", "#", "//", "/*",
    "->", "=>", "::", ":", ";", ",", "(", ")", "[", "]", "{", "}", "<", ">", "%", "@", "!", "^", "?", "*",
    "true", "false", "null", "None", "NaN", "-", "+", "=", "0x", "0b", "x", "\x7f", "\x1b[2J", "%s", "{0}",
]  # fmt: skip


def mutated_bytes(content: bytes, choose: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """A file with a few of its bytes changed, moved, cut or repeated."""
    data = bytearray(content)
    for _ in range(choose.choice((1, 1, 1, 2, 3, 8))):
        at = choose.randrange(len(data) + 1)
        kind = choose.randrange(10)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            del data[at : at + choose.choice((1, 2, 4, 8, 100))]
        elif kind == 2:
            data[at:at] = choose.randbytes(choose.choice((1, 2, 4, 8, 100)))
        elif kind == 3 and others:
            other = choose.choice(others)
            start = choose.randrange(len(other) + 1)
            data[at:at] = other[start : start + choose.choice((4, 64, 1000))]
        elif kind == 4:
            piece = bytes(data[at : at + choose.choice((1, 4, 16, 64))])
            data[at:at] = piece * choose.choice((1, 2, 50))
        elif kind == 5 and len(data) >= at + 4:
            width = choose.choice((1, 2, 4, 8))
            value = choose.choice((0, 1, (1 << (8 * width)) - 1, 1 << (8 * width - 1), 255))
            data[at : at + width] = (value % (1 << (8 * width))).to_bytes(width, "little")
        elif at < len(data):
            data[at] = choose.choice((data[at] ^ (1 << choose.randrange(8)), 0, 255, 128))
    return bytes(data)


def mutated_text(text: str, choose: random.Random, others: Sequence[str] = ()) -> str:
    """A text with a few tokens, numbers or lines changed, or something nested in it."""
    for _ in range(choose.choice((0, 1, 1, 1, 1, 2, 3, 6))):
        text = _mutation(text, choose, others)
    return text[: 1 << 20]


def _mutation(text: str, choose: random.Random, others: Sequence[str]) -> str:
    kind = choose.randrange(14)
    if kind < 3:
        return _replaced_number(text, choose)
    if kind < 8:
        return _replaced_token(text, choose, others)
    if kind == 8:
        lines = text.split("\n")
        at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
        changed = choose.randrange(4)
        if changed == 0:
            del lines[at]
        elif changed == 1:
            lines.insert(at, lines[other])
        elif changed == 2:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at] = "\n".join([lines[at]] * choose.choice((2, 30)))
        return "\n".join(lines)
    at = choose.randrange(len(text) + 1)
    if kind == 9:
        return text[:at] + choose.choice(PIECES) + text[at + choose.choice((0, 0, 1, 3)) :]
    if kind == 10:
        return text[:at] if choose.random() < 0.5 else text[at:]
    if kind == 11:
        return _nested(text, choose)
    if kind == 12 and others:
        other = choose.choice(others)
        start = choose.randrange(len(other) + 1)
        return text[:at] + other[start : start + choose.choice((5, 50, 500))] + text[at:]
    return _repeated(text, choose)


def _replaced_number(text: str, choose: random.Random) -> str:
    found = list(NUMBER.finditer(text))
    if not found:
        return text
    number = choose.choice(found)
    new = choose.choice(NUMBERS)
    if choose.random() < 0.3:  # the same size wherever it is written
        return re.sub(rf"(?<![\w.]){re.escape(number[0])}(?![\w.])|(?<=[<x]){re.escape(number[0])}(?=[x>])",
                      new.replace("\\", ""), text)  # fmt: skip
    return text[: number.start()] + new + text[number.end() :]


def _replaced_token(text: str, choose: random.Random, others: Sequence[str]) -> str:
    tokens = list(TOKEN.finditer(text))
    if not tokens:
        return text
    token = choose.choice(tokens)
    pool = tokens
    if others and choose.random() < 0.3:
        pool = list(TOKEN.finditer(choose.choice(others))) or tokens
    if choose.random() < 0.7:  # a word of its kind: a value for a value, a bracket for a bracket
        pool = [other for other in pool if _kind(other[0]) == _kind(token[0])] or pool
        return text[: token.start()] + choose.choice(pool)[0] + text[token.end() :]
    new = choose.choice((choose.choice(pool)[0], choose.choice(pool)[0], "", token[0] * 2))
    return text[: token.start()] + new + text[token.end() :]


def _kind(token: str) -> tuple[str, bool]:
    """What a token begins with: a sign, a digit, a space or a letter; and whether it has a dot."""
    first = token[0]
    sort = "a" if first.isalpha() else "0" if first.isdigit() else " " if first.isspace() else first
    return sort, "." in token


def _nested(text: str, choose: random.Random) -> str:
    """Something in brackets in brackets in brackets."""
    places = [i for i, letter in enumerate(text) if letter in OPENING]
    if not places:
        return text
    at = choose.choice(places)
    depth = choose.choice((2, 40, 400, 5000))
    close = OPENING[text[at]] if choose.random() < 0.7 else ""
    end = text.find(close, at) if close else -1
    if end < 0:
        return text[:at] + text[at] * depth + text[at:]
    return text[:at] + text[at] * depth + text[at : end + 1] + close * depth + text[end + 1 :]


def _repeated(text: str, choose: random.Random) -> str:
    """An item of a list, or a term of a sum, many times."""
    at = choose.randrange(len(text) + 1)
    length = choose.choice((1, 3, 10, 40))
    piece = text[at : at + length]
    separator = choose.choice(("", ", ", " + ", " ", "\n", "x"))
    count = choose.choice((2, 10, 200, 3000))
    return text[:at] + separator.join([piece] * count) + text[at + length :]


# --- JSON -------------------------------------------------------------------------------

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 31, 32, 33, 255, 256, 4096, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1,
    2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320, "", "x", "0", "\0", "é", "\ud800", "a" * 5000,
    "../../etc/passwd", "%n", [], {}, [0], [[]], [[[[]]]], {"": 0}, {"x": {"x": {}}}, [1, 2, 3], ["a"], [None],
    [2**32, 2**32, 0], [2**31, 2**31, 2**31], [-1], [0, 0], [1] * 100,
]  # fmt: skip


def mutated_json(document: Any, choose: random.Random) -> Any:
    """A document in which a few values are something else, missing, twice, or nested."""
    document = copy.deepcopy(document)
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        document = _mutated_value(document, choose)
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in a document."""
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        current = pending.pop()
        items: Any = ()
        if isinstance(current, dict):
            items = list(current.items())
        elif isinstance(current, list):
            items = list(enumerate(current))
        for key, inner in items:
            found.append((current, key))
            if isinstance(inner, dict | list):
                pending.append(inner)
    return found


def _mutated_value(document: Any, choose: random.Random) -> Any:
    places = _places(document)
    if not places or choose.random() < 0.01:
        return choose.choice(VALUES)
    container, key = choose.choice(places)
    old = container[key]
    kind = choose.randrange(9)
    if kind < 3:
        container[key] = copy.deepcopy(choose.choice(VALUES))
    elif kind == 3 and isinstance(old, int) and not isinstance(old, bool):
        container[key] = choose.choice(
            (old + 1, old - 1, -old, old * 2, old + 32, old << 32, old ^ 1)
        )
    elif kind == 4:
        del container[key]
    elif kind == 5:
        other, at = choose.choice(places)
        container[key] = copy.deepcopy(
            other.get(at) if isinstance(other, dict) else _item(other, at)
        )
    elif kind == 6 and isinstance(container, list):
        container.insert(key, copy.deepcopy(old))
    elif kind == 6:
        container[choose.choice(("", "x", "shape", str(key) + "2", "\u00e9"))] = copy.deepcopy(old)
    elif kind == 7:
        for _ in range(choose.choice((1, 3, 60))):
            old = [old] if choose.random() < 0.5 else {"x": old}
        container[key] = old
    elif isinstance(old, str):
        container[key] = mutated_text(old, choose)
    elif isinstance(old, list):
        choose.shuffle(old)
    return document


def _item(values: list[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def json_text(document: Any, choose: random.Random) -> str:
    """A document as text, now and then one that JSON does not allow."""
    text = json.dumps(document)
    kind = choose.randrange(40)
    if kind == 0:
        return "[" * 100_000
    if kind == 1:
        return text.replace(":", ":" + "[" * choose.choice((10, 2000)), 1)
    if kind == 2:
        return mutated_text(text, choose)
    return text
