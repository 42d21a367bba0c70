"""A machine profile as TOML text that is complete in itself, for files that carry their machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tilewright.targets.atlas.profile import TABLES, Profile


def profile_text(profile: Profile) -> str:
    """TOML that `profile.parse_profile` turns back into an equal profile."""
    lines = [
        f"name = {_value(profile.name)}",
        f"description = {_value(profile.description)}",
        f"units = {_value(list(profile.units))}",
        f"features = {_value(sorted(profile.features))}",
    ]
    tables: dict[str, dict[str, Any]] = {}
    for key, table in TABLES.items():
        tables.setdefault(table, {})[key] = getattr(profile, key)
    tables["dma"] = asdict(profile.dma)
    tables["compat"] = asdict(profile.accidents)
    tables["timing"] = {
        key: [timing.unit, timing.latency, timing.interval]
        for key, timing in profile.timing.items()
    }
    for table, values in tables.items():
        lines += ["", f"[{table}]"]
        lines += [f"{key} = {_value(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _value(value: str | int | bool | list[Any]) -> str:
    """A TOML value; its strings, numbers and lists are spelled as in JSON."""
    # TOML forbids the character DEL in strings, which JSON leaves as it is.
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")
