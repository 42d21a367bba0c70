"""Words of VMEM that scalar code stores and loads again, such as the counter of a loop that is too
long for a register."""

from __future__ import annotations

from tilewright.targets.atlas.lint.facts import Facts
from tilewright.targets.atlas.lint.state import State
from tilewright.targets.atlas.lint.values import Value, add, overlap

WORD = 4
MOST = 8  # words known at a time: the lowest, where counters lie; tables above them are vectors


def remember(state: State, facts: Facts) -> None:
    """Note a word that is stored; forget the words that other stores may hit."""
    if not facts.stores:
        return
    if facts.memory == "dma":
        start, length = state.x[facts.rd], state.x[facts.rs2]
    else:
        start, length = add(state.x[facts.rs1], facts.immediate), facts.size
    if state.words:
        state.words = tuple(
            (address, value)
            for address, value in state.words
            if not overlap(start, length, address, WORD)
        )
    if facts.mnemonic == "sw" and isinstance(start, int) and not start % WORD:
        known = sorted((*state.words, (start, state.x[facts.rs2])), key=lambda word: word[0])
        state.words = tuple(known[:MOST])


def recalled(state: State, facts: Facts) -> Value | None:
    """What a load brings, if it is a word known to lie there."""
    if facts.mnemonic != "lw" or not state.words:
        return None
    start = add(state.x[facts.rs1], facts.immediate)
    found = next((value for address, value in state.words if address == start), None)
    if found is None or not isinstance(start, int):
        return None
    for older in state.flight:
        if older.facts.stores and overlap(older.start, older.length, start, WORD):
            return None
    return found
