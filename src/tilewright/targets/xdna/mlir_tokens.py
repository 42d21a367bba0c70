"""Words of `aie` MLIR text, with the lines they stand on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.errors import Location, TilewrightError

_WORD = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<arrow>->)
    |(?P<word>[%@!]?-?[A-Za-z0-9_][\w.$-]*|[%@!][\w.$-]+)
    |(?P<mark>[(){}\[\]<>,:=*+])""",
    re.X,
)


@dataclass(frozen=True)
class Token:
    text: str
    line: int
    column: int


class Tokens:
    """A cursor over the words of a text."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.tokens: list[Token] = []
        self.at = 0
        place, line, begin = 0, 1, 0
        while place < len(text):
            found = _WORD.match(text, place)
            if found is None:
                raise TilewrightError(
                    "TW8071",
                    f"unexpected character {text[place]!r}",
                    Location(file, line, place - begin + 1),
                )
            word = found.group()
            if found.lastgroup != "space":
                self.tokens.append(Token(word, line, place - begin + 1))
            newlines = word.count("\n")
            if newlines:
                line += newlines
                begin = place + word.rindex("\n") + 1
            place = found.end()

    @property
    def text(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def ahead(self, distance: int = 1) -> str:
        index = self.at + distance
        return self.tokens[index].text if index < len(self.tokens) else ""

    def place(self) -> Location:
        if not self.tokens:
            return Location(self.file)
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        return Location(self.file, token.line, token.column)

    def wrong(self, sentence: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError("TW8071", sentence, self.place(), hint)

    def take(self) -> str:
        if self.at >= len(self.tokens):
            raise self.wrong("the text ends in the middle of an operation")
        self.at += 1
        return self.tokens[self.at - 1].text

    def expect(self, *words: str) -> None:
        for word in words:
            if self.text != word:
                raise self.wrong(f"expected {word!r}, found {self.text!r}")
            self.at += 1

    def accept(self, word: str) -> bool:
        if self.text == word:
            self.at += 1
            return True
        return False

    def integer(self) -> int:
        word = self.text
        if not re.fullmatch(r"-?\d{1,18}", word):
            raise self.wrong(f"expected a number, found {word!r}")
        self.at += 1
        return int(word)

    def symbol(self) -> str:
        if not self.text.startswith("@"):
            raise self.wrong(f"expected a symbol, found {self.text!r}")
        return self.take()[1:]

    def value(self) -> str:
        if not self.text.startswith("%"):
            raise self.wrong(f"expected a value, found {self.text!r}")
        return self.take()

    def result_and_name(self) -> tuple[str, str]:
        """`%result = name`, or the name alone."""
        result = ""
        if self.text.startswith("%") and self.ahead() == "=":
            result = self.value()
            self.expect("=")
        return result, self.take()

    def string(self) -> str:
        if not self.text.startswith('"'):
            raise self.wrong(f"expected a string, found {self.text!r}")
        return self.take()[1:-1]

    def integers(self) -> tuple[int, ...]:
        """`[1, 2, 3]`"""
        self.expect("[")
        numbers = []
        while not self.accept("]"):
            numbers.append(self.integer())
            self.accept(",")
        return tuple(numbers)

    def attributes(self) -> dict[str, object]:
        """`{name = value : type, ...}`; nothing if there is no brace."""
        found: dict[str, object] = {}
        if not self.accept("{"):
            return found
        while not self.accept("}"):
            name = self.take()
            found[name] = True
            if self.accept("="):
                if self.text == "[":
                    found[name] = self.integers()
                elif self.text.startswith('"'):
                    found[name] = self.string()
                elif self.text.startswith("@"):
                    found[name] = self.symbol()
                elif self.text in ("true", "false"):
                    found[name] = self.take() == "true"
                else:
                    found[name] = self.integer()
                if self.accept(":"):
                    self.take()
            self.accept(",")
        return found
