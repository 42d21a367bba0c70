"""Whether a design hangs, and what would make it finish.

The advice is tried, not guessed: the design is run in time again with awaits after the transfers,
then with more slots in the FIFOs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.check import Check
from tilewright.targets.xdna.design import Await, Design, Transfer
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.events import simulate_time

_MANY = 64  # slots that stand for as many as anybody would want
_MOST_TRIED = 16  # FIFOs that get another slot one by one


def deadlock(design: Design) -> Check:
    """The check `deadlock`: the event simulation finishes."""
    try:
        simulate_time(design)
    except TilewrightError as error:
        return Check("deadlock", 1, 0, False, f"{error.message} ({error.hint or _advice(design)})")
    return Check("deadlock", 0, 0, True)


def _advice(design: Design) -> str:
    """The least change found that lets the design finish."""
    moves = [step for step in design.runtime if not isinstance(step, Await)]
    awaits = [step for step in design.runtime if isinstance(step, Await)]
    if _finishes(replace(design, runtime=(*moves, *awaits))):
        return "it finishes if the awaits come after all transfers"
    given = [Await(step.fifo) for step in moves if isinstance(step, Transfer) and step.token]
    if Counter(awaits) - Counter(given) and _finishes(replace(design, runtime=(*moves, *given))):
        return "it finishes if the tokens that tasks give are awaited, after all transfers"
    residents = {link.inputs[0] for link in design.links if link.residency is not None}
    names = [
        fifo.name
        for fifo in design.fifos
        if fifo.name not in residents
        and not all(tile.row == SHIM_ROW for tile in (fifo.producer, *fifo.consumers))
    ]
    if not names or not _finishes(_deeper(design, names, lambda depth: max(depth, _MANY))):
        return "no number of slots helps: each waits for the other, so one has to go first"
    for name in names[:_MOST_TRIED]:
        for more in (1, 2):
            if _finishes(_deeper(design, [name], lambda depth, more=more: depth + more)):
                return f"it finishes with {design.fifo(name).depth + more} slots in @{name}"
    return "it finishes with more slots in several FIFOs"


def _deeper(design: Design, names: list[str], depth: Callable[[int], int]) -> Design:
    fifos = [
        replace(fifo, depth=depth(fifo.depth)) if fifo.name in names else fifo
        for fifo in design.fifos
    ]
    return replace(design, fifos=tuple(fifos))


def _finishes(design: Design) -> bool:
    try:
        simulate_time(design, controller_blocks=True)
    except TilewrightError:
        return False
    return True
