"""Rows of prompts that were seen before, in blocks of tokens.

A block is named by a rolling hash over all tokens up to its end, and holds its tokens and the block
before it: a hit compares tokens, all the way down, and never trusts the hash. Blocks form trees; when
there are too many, the leaf that was used least recently goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import TilewrightError

Rows = dict[str, np.ndarray]
_MASK = (1 << 64) - 1


def rolling(tokens: Sequence[int], start: int = 0, one: Callable[[int], int] = hash) -> int:
    """h = 31 h + hash(token), in 64 bits."""
    found = start
    for token in tokens:
        found = (31 * found + one(int(token))) & _MASK
    return found


@dataclass(eq=False)
class _Block:
    tokens: tuple[int, ...]
    rows: Rows
    parent: _Block | None
    key: int
    used: int = 0
    children: set[int] = field(default_factory=set)  # ids of the blocks behind it


class PrefixCache:
    """At most `blocks` blocks of `size` tokens; full blocks only."""

    def __init__(
        self, size: int = 256, blocks: int = 128, one: Callable[[int], int] = hash
    ) -> None:
        if size < 1 or blocks < 1:
            raise TilewrightError("TW3163", "a prefix cache has blocks of at least one token")
        self.size, self.blocks, self._one = size, blocks, one
        self._found: dict[int, list[_Block]] = {}  # several where hashes collide
        self._time = 0
        self.hits = self.misses = self.evicted = 0

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def lookup(self, tokens: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Rows]]:
        """The blocks that a prompt begins with, in order; the last token is never among them,
        because its hidden state has to be computed."""
        parent, key = None, 0
        for first in range(0, len(tokens) - self.size, self.size):
            part = tuple(map(int, tokens[first : first + self.size]))
            key = rolling(part, key, self._one)
            block = self._get(key, part, parent)
            if block is None:
                self.misses += 1
                return
            self.hits += 1
            self._touch(block)
            parent = block
            yield block.tokens, block.rows

    def insert(self, tokens: Sequence[int], rows: Callable[[int, int], Rows]) -> None:
        """Keep the full blocks of a prompt; `rows` gives copies of some of them."""
        parent, key = None, 0
        for first in range(0, len(tokens) - self.size + 1, self.size):
            part = tuple(map(int, tokens[first : first + self.size]))
            key = rolling(part, key, self._one)
            block = self._get(key, part, parent)
            if block is None:
                if len(self) >= self.blocks and not self._evict(parent):
                    return
                block = _Block(part, rows(first, first + self.size), parent, key)
                self._found.setdefault(key, []).append(block)
                if parent is not None:
                    parent.children.add(id(block))
            self._touch(block)
            parent = block

    def _get(self, key: int, tokens: tuple[int, ...], parent: _Block | None) -> _Block | None:
        for block in self._found.get(key, ()):
            if block.tokens == tokens and block.parent is parent:
                return block
        return None

    def _touch(self, block: _Block) -> None:
        self._time += 1
        block.used = self._time

    def _evict(self, kept: _Block | None) -> bool:
        """Drop the leaf that was used least recently, but not the one to be continued."""
        leaves = [
            block
            for row in self._found.values()
            for block in row
            if not block.children and block is not kept
        ]
        if not leaves:
            return False
        oldest = min(leaves, key=lambda block: block.used)
        row = self._found[oldest.key]
        row.remove(oldest)
        if not row:
            del self._found[oldest.key]
        if oldest.parent is not None:
            oldest.parent.children.discard(id(oldest))
        self.evicted += 1
        return True
