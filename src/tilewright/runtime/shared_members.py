"""Files of a bundle that have content in common, stored once.

Members come in pieces: headers and arrays. A piece that occurs more than once is stored by itself
under the digest of its bytes, and a member with such pieces is a recipe: digests in order. Members
that share nothing stay as they are, so that a loader can map them into memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member

SMALLEST = 1024  # bytes; smaller pieces are not worth a member of their own
FOLDER = "store/"
MOST_TIMES = 64  # what recipes may make of a file, in its own size

Recipe = list[str]  # digests


def digest(pieces: Sequence[bytes | np.ndarray]) -> str:
    """What names content: 128 bits of BLAKE2b."""
    found = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        found.update(
            piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).view(np.uint8).data
        )
    return found.hexdigest()


def share(members: Sequence[Member]) -> tuple[list[Member], dict[str, Recipe]]:
    """Members with what they have in common stored once, and recipes of those that need it."""
    marks = {
        (number, place): digest([piece])
        for number, member in enumerate(members)
        for place, piece in enumerate(member.pieces)
        if _size(piece) >= SMALLEST
    }
    often = {mark for mark, count in Counter(marks.values()).items() if count > 1}
    kept: list[Member] = []
    store: dict[str, Member] = {}
    recipes: dict[str, Recipe] = {}
    for number, member in enumerate(members):
        if not any(marks.get((number, place)) in often for place in range(len(member.pieces))):
            kept.append(member)
            continue
        recipe: Recipe = []
        for run, known in _runs(member, number, marks, often):
            mark = known or digest(run)
            store.setdefault(mark, Member(FOLDER + mark, list(run)))
            recipe.append(mark)
        recipes[member.name] = recipe
    return [*kept, *(store[mark] for mark in sorted(store))], recipes


def _runs(
    member: Member, number: int, marks: Mapping[tuple[int, int], str], often: set[str]
) -> Iterator[tuple[list[bytes | np.ndarray], str | None]]:
    """The pieces of a member: those that are shared alone, with their digests, the others in a row
    together."""
    own: list[bytes | np.ndarray] = []
    for place, piece in enumerate(member.pieces):
        mark = marks.get((number, place))
        if mark not in often:
            own.append(piece)
            continue
        if own:
            yield own, None
            own = []
        yield [piece], mark
    if own:
        yield own, None


def _size(piece: bytes | np.ndarray) -> int:
    return len(piece) if isinstance(piece, bytes) else piece.nbytes


# --- reading ----------------------------------------------------------------------------


def assembled(
    members: Mapping[str, np.ndarray], recipes: Mapping[str, Recipe], place: Location
) -> dict[str, np.ndarray]:
    """The members with those of recipes put together; the store has to hold exactly what they name."""
    store = {n.removeprefix(FOLDER): x for n, x in members.items() if n.startswith(FOLDER)}
    named = {mark for recipe in recipes.values() for mark in recipe}
    for mark in sorted(named ^ set(store)):
        what = "lacks" if mark in named else "does not name"
        raise TilewrightError("TW3105", f"the bundle {what} {FOLDER}{mark}", place)
    for mark, content in store.items():
        if digest([content]) != mark:
            raise TilewrightError(
                "TW3105", f"{FOLDER}{mark} has other content than its name says", place
            )
    total = sum(len(store[mark]) for recipe in recipes.values() for mark in recipe)
    if total > MOST_TIMES * sum(len(content) for content in members.values()):
        raise TilewrightError("TW3105", "its recipes make far more of it than there is", place)
    result = {n: x for n, x in members.items() if not n.startswith(FOLDER)}
    for name, recipe in recipes.items():
        if name in result:
            raise TilewrightError("TW3105", f"the bundle has {name} and a recipe for it", place)
        pieces = [store[mark] for mark in recipe]
        result[name] = pieces[0] if len(pieces) == 1 else _joined(pieces)
    return result


def _joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
