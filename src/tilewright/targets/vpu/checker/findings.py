"""What the verifier reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_MOST_PER_PROPERTY = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A property that does not hold, in a sentence, with the tasks it is about."""

    property: str
    message: str
    tasks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"property": self.property, "message": self.message, "tasks": list(self.tasks)}


@dataclass(slots=True)
class Findings:
    """Findings in order; of each property the first few."""

    found: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, message: str, *tasks: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] <= _MOST_PER_PROPERTY:
            self.found.append(Finding(name, message, tasks))

    def sorted(self) -> list[Finding]:
        return sorted(self.found, key=lambda finding: finding.property)
