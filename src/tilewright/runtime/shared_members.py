"""Files of a bundle that have content in common, stored once.

Members come in pieces: headers and arrays. A piece that occurs more than once is stored by itself
under the digest of its bytes, and a member with such pieces is a recipe: digests in order. Members
that share nothing stay as they are, so that a loader can map them into memory. A piece that others
in the store give (`derived_pieces`) is not stored at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member
from tilewright.io.deferred import blocks_of
from tilewright.io.pieces import Content, Pieces
from tilewright.runtime.derived_pieces import Derived, find

SMALLEST = 1024  # bytes; smaller pieces are not worth a member of their own
FOLDER = "store/"
MOST_TIMES = 64  # what recipes may make of a file, in its own size

Recipe = list[str]  # digests


def digest(pieces: Sequence[bytes | np.ndarray]) -> str:
    """What names content: 128 bits of BLAKE2b."""
    found = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        if isinstance(piece, bytes):
            found.update(piece)
        else:
            for block in blocks_of(piece):
                found.update(block)
    return found.hexdigest()


def share(
    members: Sequence[Member],
) -> tuple[list[Member], dict[str, Recipe], dict[str, Derived]]:
    """Members with what they have in common stored once, recipes of those that need it, and how
    pieces come from others."""
    digests: dict[int, str] = {}  # of pieces that are the same array; members hold them meanwhile
    marks = {}
    for number, member in enumerate(members):
        for place, piece in enumerate(member.pieces):
            if _size(piece) >= SMALLEST:
                if id(piece) not in digests:
                    digests[id(piece)] = digest([piece])
                marks[number, place] = digests[id(piece)]
    often = {mark for mark, count in Counter(marks.values()).items() if count > 1}
    arrays = ((mark, members[number].pieces[place]) for (number, place), mark in marks.items())
    derived = find((mark, piece) for mark, piece in arrays if isinstance(piece, np.ndarray))
    often |= {mark for one, how in derived.items() for mark in (one, *how.sources)}
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
    stored = [store[mark] for mark in sorted(store) if mark not in derived]
    return [*kept, *stored], recipes, derived


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
    members: Mapping[str, np.ndarray],
    recipes: Mapping[str, Recipe],
    derived: Mapping[str, Derived],
    place: Location,
) -> dict[str, Content]:
    """The members with those of recipes put together; the store has to hold exactly what they name,
    but for what is derived from it."""
    store = {n.removeprefix(FOLDER): x for n, x in members.items() if n.startswith(FOLDER)}
    named = {mark for recipe in recipes.values() for mark in recipe}
    for mark in sorted(derived.keys() - named):
        raise TilewrightError("TW3105", f"the bundle derives {mark}, which nothing uses", place)
    named |= {mark for how in derived.values() for mark in how.sources}
    for mark in sorted((named - derived.keys()) ^ set(store)):
        what = "lacks" if mark in named else "does not name"
        raise TilewrightError("TW3105", f"the bundle {what} {FOLDER}{mark}", place)
    for mark, how in derived.items():
        if any(source in derived for source in how.sources):
            raise TilewrightError("TW3105", f"{mark} is derived from what is derived", place)
    for mark, content in store.items():
        if digest([content]) != mark:
            raise TilewrightError(
                "TW3105", f"{FOLDER}{mark} has other content than its name says", place
            )
    for mark, how in derived.items():
        content = how.computed(store, place)
        if digest([content]) != mark:
            raise TilewrightError(
                "TW3105", f"what is derived as {mark} has other content than its name says", place
            )
        store[mark] = content
    total = sum(len(store[mark]) for recipe in recipes.values() for mark in recipe)
    if total > MOST_TIMES * sum(len(content) for content in members.values()):
        raise TilewrightError("TW3105", "its recipes make far more of it than there is", place)
    result: dict[str, Content] = {n: x for n, x in members.items() if not n.startswith(FOLDER)}
    for name, recipe in recipes.items():
        if name in result:
            raise TilewrightError("TW3105", f"the bundle has {name} and a recipe for it", place)
        pieces = [store[mark] for mark in recipe]
        result[name] = pieces[0] if len(pieces) == 1 else Pieces(pieces)
    return result
