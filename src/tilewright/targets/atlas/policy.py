"""How a simulator treats hazards, its initial state and DMA: settings for a run, not a machine."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

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
        for word in filter(None, (w.strip() for w in text.split(","))):
            key, _, value = word.replace("dma-", "dma=").partition("=")
            if key == "dma" and value in _VALUES["dma"]:
                policy = replace(policy, dma=value)
            elif key == "random" and value.isdigit() and len(value) < 20:
                policy = replace(policy, initial="random", seed=int(value) & (2**64 - 1))
            elif not value and key in _VALUES["hazards"]:
                policy = replace(policy, hazards=key)
            elif not value and key in _VALUES["initial"]:
                policy = replace(policy, initial=key)
            elif not value and key == "compat":
                policy = replace(policy, compat=True)
            else:
                raise TilewrightError(
                    "TW3001",
                    f"unknown policy {word!r}",
                    hint="use fault, stall, record, zero, poison, random[=SEED], dma=exact, "
                    "dma=early, dma=late, compat; separate several with commas",
                )
        return policy

    def __str__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(shown)
