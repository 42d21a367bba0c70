"""One limit of the array and what a design uses of it."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.xdna.design import Tile


@dataclass(frozen=True)
class Check:
    """One limit: what the design uses of it. `detail` says what is wrong if it is."""

    name: str
    used: float
    limit: float
    ok: bool
    detail: str = ""

    def to_json(self) -> dict[str, object]:
        made: dict[str, object] = {
            "name": self.name,
            "used": self.used,
            "limit": self.limit,
            "ok": self.ok,
        }
        return {**made, "detail": self.detail} if self.detail else made


def worst(name: str, used: dict[Tile, int], limit: dict[Tile, int], what: str) -> Check:
    """The tile that uses most of a limit."""
    tile = max(used, key=lambda t: (used[t] / max(1, limit[t]), t))
    ok = used[tile] <= limit[tile]
    detail = f"tile {tile} needs {used[tile]} {what}, it has {limit[tile]}" if not ok else ""
    return Check(name, used[tile], limit[tile], ok, detail)
