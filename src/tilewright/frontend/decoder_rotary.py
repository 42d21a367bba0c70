"""Angles of rotary embeddings, with the scalings that published configurations ask for.

Error codes: TW6401 a scaling that lacks something or has impossible numbers, TW6402 one that is not
computed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.json_tables import shown

_PLAIN = (None, "default")
_NEEDED = {
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
    "yarn": ("factor", "original_max_position_embeddings"),
}
_YARN = ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim")


@dataclass(frozen=True)
class Rotary:
    """The angle of one position for each pair of a head; scaling changes slow waves for long texts."""

    base: float = 10000.0
    scaling: Mapping[str, Any] | None = None

    def frequencies(self, head: int) -> np.ndarray:
        exponents = np.arange(0, head, 2, dtype=np.float32) / np.float32(head)
        powers = np.power(np.float64(self.base), exponents.astype(np.float64))
        plain = (1.0 / powers).astype(np.float32)
        if self.scaling is None:
            return plain
        factor = float(self.scaling["factor"])
        if self.scaling["rope_type"] == "linear":
            return plain / np.float32(factor)
        if self.scaling["rope_type"] == "yarn":
            return _yarn(plain, self.base, head, self.scaling)
        return _llama3(plain, factor, self.scaling)

    @property
    def length(self) -> float:
        """What cos and sin are multiplied by."""
        if self.scaling is None or self.scaling["rope_type"] != "yarn":
            return 1.0
        given, factor = self.scaling, float(self.scaling["factor"])
        if "attention_factor" in given:
            return float(given["attention_factor"])

        def grown(by: float) -> float:
            return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

        if "mscale" in given and "mscale_all_dim" in given:
            return grown(float(given["mscale"])) / grown(float(given["mscale_all_dim"]))
        return grown(1.0)

    def tables(self, positions: int, head: int) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin for positions from 0 on, [positions, head / 2]."""
        angles = np.arange(positions, dtype=np.float32)[:, None] * self.frequencies(head)
        cos, sin = (part(angles).astype(np.float32) for part in (np.cos, np.sin))
        return cos * np.float32(self.length), sin * np.float32(self.length)


def _llama3(plain: np.ndarray, factor: float, scaling: Mapping[str, Any]) -> np.ndarray:
    """Long waves slower by a factor, short ones as they are, and a slope between the two."""
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    length = float(scaling["original_max_position_embeddings"])
    waves = 2 * math.pi / plain.astype(np.float64)
    smooth = np.clip((length / waves - low) / (high - low), 0.0, 1.0)
    return ((1 - smooth) * plain / factor + smooth * plain).astype(np.float32)


def _yarn(plain: np.ndarray, base: float, head: int, scaling: Mapping[str, Any]) -> np.ndarray:
    """Pairs that turn often within the original length as they are, those that turn rarely slower by
    a factor, and a slope between the two ([YaRN](https://arxiv.org/abs/2309.00071))."""
    length = float(scaling["original_max_position_embeddings"])

    def pair(turns: float) -> float:
        """Which pair turns so often within the original length."""
        return head * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(float(scaling.get("beta_fast", 32))), pair(float(scaling.get("beta_slow", 1)))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head - 1)
    if low == high:
        high += 0.001
    slower = np.clip((np.arange(head // 2, dtype=np.float32) - low) / (high - low), 0, 1)
    slower = slower.astype(np.float32)
    return plain / np.float32(scaling["factor"]) * slower + plain * (1 - slower)


def positive(key: str, value: Any, place: Location) -> float:
    """A number that float32 holds, above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-30 < value < 1e30:
        raise TilewrightError(
            "TW6401", f"{key} is {shown(value)}, must be a positive number", place
        )
    return float(value)


def scaling_of(given: Mapping[str, Any] | None, place: Location) -> Mapping[str, Any] | None:
    """What a configuration says about scaling, checked; None for none."""
    if given is None:
        return None
    kind = given.get("rope_type", given.get("type"))
    if kind in _PLAIN:
        return None
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise TilewrightError("TW6402", f"rotary scaling {shown(kind)} is not built here", place)
    for key in _NEEDED[kind]:
        if key not in given:
            raise TilewrightError("TW6401", f"rotary scaling lacks {key}", place)
    keys = [*_NEEDED[kind], *(k for k in _YARN if kind == "yarn" and given.get(k) is not None)]
    numbers: dict[str, Any] = {
        key: positive(f"{key} of rotary scaling", given[key], place) for key in keys
    }
    if kind == "llama3" and numbers["low_freq_factor"] >= numbers["high_freq_factor"]:
        raise TilewrightError(
            "TW6401", "low_freq_factor of rotary scaling is not below high_freq_factor", place
        )
    if kind == "yarn":
        numbers["truncate"] = bool(given.get("truncate", True))
    return {**numbers, "rope_type": kind}
