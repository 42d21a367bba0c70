"""Options of kernels that are two: those of attention, and among them those of what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# Options of `attention_linear` that attention does not have; `together` is one of the product.
AROUND = ("linear", "heads_on_chip", "together")


def options_of_attention(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in AROUND}


def options_of_linear(options: Mapping[str, Any]) -> dict[str, Any]:
    pairs: Iterable[tuple[str, Any]] = options["linear"]
    together = options.get("together")
    return {**dict(pairs), **({"together": together} if together else {})}
