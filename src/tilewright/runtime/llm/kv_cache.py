"""Keys and values of the tokens so far: rows in slots, and which tokens they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import Port
from tilewright.targets.port_types import PORT_TYPES


class KVCache:
    """`capacity` slots for every layer; the first `stored` of them count, what is behind is hidden.

    Rows are kept as the ports give them: what one entry point computed, the next one reads.
    """

    def __init__(self, rows: Mapping[str, Port], capacity: int, slots: int = 0) -> None:
        """`slots` are handed out where an entry point has more of them than count."""
        self.capacity = capacity
        self.tokens: list[int] = []
        self.rows = {
            name: np.zeros((max(capacity, slots), *port.shape[2:]), PORT_TYPES[port.dtype])
            for name, port in rows.items()
        }

    @property
    def stored(self) -> int:
        return len(self.tokens)

    def need(self, count: int) -> None:
        """There is room for so many more tokens, or it is an error."""
        if self.stored + count > self.capacity:
            raise TilewrightError(
                "TW3161",
                f"the KV cache is full: {self.stored} of {self.capacity} slots are taken, "
                f"{count} more are needed",
                hint="compile for more slots, shorten the prompt, or generate fewer tokens",
            )

    def append(self, tokens: Sequence[int], rows: Mapping[str, np.ndarray]) -> None:
        """Store the last rows of an entry point's [1, T, …] results as those of new tokens."""
        count = len(tokens)
        self.need(count)
        first = self.stored
        for name, held in self.rows.items():
            given = rows[name]
            held[first : first + count] = given[0, given.shape[1] - count :]
        self.tokens += map(int, tokens)

    def trim(self, position: int) -> None:
        """Forget the tokens from a position on; their rows stay where nobody reads them."""
        if not 0 <= position <= self.stored:
            raise TilewrightError(
                "TW3162",
                f"position {position} is behind the {self.stored} tokens that are stored",
                hint="positions go on where the tokens before them end",
            )
        del self.tokens[position:]

    def past(self, slots: int) -> dict[str, np.ndarray]:
        """Inputs with the first slots of every layer; rows that do not count are hidden by masks."""
        return {f"past_{name}": held[None, :slots] for name, held in self.rows.items()}

    def block(self, first: int, end: int) -> dict[str, np.ndarray]:
        """A copy of some rows."""
        return {name: held[first:end].copy() for name, held in self.rows.items()}

    def restore(self, tokens: Sequence[int], rows: Mapping[str, np.ndarray]) -> None:
        """Store rows that an earlier run computed."""
        self.append(tokens, {name: part[None] for name, part in rows.items()})
