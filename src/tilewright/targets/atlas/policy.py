"""How a simulator treats hazards, its initial state and DMA: settings for a run, not a machine."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.errors import TilewrightError

_VALUES = {
    "hazards": ("profile", "fault", "stall", "record"),
    "initial": ("zero", "poison", "random"),
    "dma": ("exact", "early", "late"),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of one run; the default is the machine as its profile defines it.

    hazards: `fault` stops at a hazard, `stall` waits it out, `record` notes every hazard
        and then waits it out; `profile` does what the profile says.
    initial: memory and registers start as `zero`, as `poison` (NaN everywhere) or `random`.
    dma: bytes move at completion (`exact`), at accept (`early`), or only when a wait lets
        the program know (`late`). Timing is the same under all three, and so are the results
        of a program that waits for its transfers.
    compat: reproduce the accidents of the public model.
    """

    hazards: str = "profile"
    initial: str = "zero"
    dma: str = "exact"
    seed: int = 0
    compat: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _VALUES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}")

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read words such as `stall,poison,dma=late,random=7,compat`."""
        policy = cls()
        chosen: dict[str, str] = {}  # what is settled, and by which word
        for word in filter(None, (w.strip() for w in text.split(","))):
            setting = _setting(word)
            for name in setting:
                other = chosen.setdefault(name, word)
                if other != word:
                    raise TilewrightError(
                        "TW3002",
                        f"the policies {other!r} and {word!r} contradict each other",
                        hint="keep one of them",
                    )
            policy = replace(policy, **setting)
        return policy

    def __str__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(shown)


def _setting(word: str) -> dict[str, Any]:
    """`dma=late` → the fields of a policy it settles."""
    key, _, value = word.replace("dma-", "dma=").partition("=")
    if key == "dma" and value in _VALUES["dma"]:
        return {"dma": value}
    if key == "random" and value.isdecimal() and len(value) <= 20 and int(value) < 1 << 64:
        return {"initial": "random", "seed": int(value)}
    if word in _VALUES["hazards"]:
        return {"hazards": word}
    if word in _VALUES["initial"]:
        return {"initial": word}
    if word == "compat":
        return {"compat": True}
    raise TilewrightError(
        "TW3001",
        f"unknown policy {word!r}",
        hint="use fault, stall, record, zero, poison, random[=SEED] (below 2^64), dma=exact, "
        "dma=early, dma=late, compat; separate several with commas",
    )
