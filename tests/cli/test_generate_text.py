"""Text of generated tokens, piece by piece: spaces and characters that take several tokens."""

from __future__ import annotations

from tilewright.cli.generate import _more_text


class Bytes:
    """A tokenizer whose tokens are bytes, without the space at the beginning."""

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode("utf-8", "replace").lstrip(" ")


def pieces(text: str) -> list[str]:
    tokens, told, found = list(text.encode()), "", []
    for count in range(1, len(tokens) + 1):
        piece, told = _more_text(Bytes(), tokens[:count], told)
        found.append(piece)
    return found


def test_spaces_stay_and_characters_come_whole() -> None:
    assert pieces("a b") == ["a", " ", "b"]
    assert pieces(" ü€") == ["", "", "ü", "", "", "€"]
    assert "".join(pieces("größer 𝄞 x")) == "größer 𝄞 x"
