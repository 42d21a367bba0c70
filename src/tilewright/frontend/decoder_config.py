"""What a decoder of the Llama, Qwen or Gemma family looks like, from its `config.json`.

Error codes: TW6401 a folder or file that cannot be read, TW6402 a network that is not of a family
known here, or has something this release does not compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.io.json_tables import load_document, shown

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma")
_IGNORED_ROPE = (None, "default")
_LARGEST = 16 << 20  # bytes of a configuration


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder: embedding, layers of attention and gated MLP, norm, head."""

    family: str
    vocabulary: int
    width: int
    hidden: int
    layers: int
    heads: int
    groups: int
    head: int
    epsilon: float = 1e-5
    base: float = 10000.0
    scaling: Mapping[str, Any] | None = None  # of rotary frequencies
    tied: bool = True  # the head is the embedding
    biases: bool = False  # of queries, keys and values
    head_norms: bool = False  # of queries and keys, head by head
    activation: str = "silu"
    norm_offset: float = 0.0  # added to the weights of norms
    embedding_scale: float = 1.0

    def frequencies(self) -> np.ndarray:
        """The angle of one position, for each pair of a head."""
        exponents = np.arange(0, self.head, 2, dtype=np.float32) / np.float32(self.head)
        plain = (1.0 / np.power(np.float64(self.base), exponents.astype(np.float64))).astype(
            np.float32
        )
        kind = None if self.scaling is None else self.scaling["rope_type"]
        if self.scaling is None or kind is None:
            return plain
        factor = float(self.scaling["factor"])
        if kind == "linear":
            return plain / np.float32(factor)
        return _llama3(plain, factor, self.scaling)

    def tables(self, positions: int) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin for positions from 0 on, [positions, head / 2]."""
        angles = np.arange(positions, dtype=np.float32)[:, None] * self.frequencies()
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _llama3(plain: np.ndarray, factor: float, scaling: Mapping[str, Any]) -> np.ndarray:
    """Long waves slower by a factor, short ones as they are, and a slope between the two."""
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    length = float(scaling["original_max_position_embeddings"])
    waves = 2 * math.pi / plain.astype(np.float64)
    smooth = np.clip((length / waves - low) / (high - low), 0.0, 1.0)
    return ((1 - smooth) * plain / factor + smooth * plain).astype(np.float32)


def read_config(folder: str | Path) -> DecoderConfig:
    """The network of a Hugging Face folder."""
    path = Path(folder) / "config.json"
    place = Location(str(path))
    table = load_document(decode_text(read_bytes(str(path), _LARGEST), str(path)), str(path))
    if not isinstance(table, dict):
        raise TilewrightError("TW6401", "the configuration is not an object", place)
    return config_of(table, place)


def config_of(table: Mapping[str, Any], place: Location) -> DecoderConfig:
    """The network that a configuration describes; what is not computed here is an error."""
    family = table.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise TilewrightError(
            "TW6402",
            f"models of type {shown(family)} are not built here",
            place,
            f"types are {', '.join(FAMILIES)}; others can be exported with torch.export",
        )

    def number(key: str, default: int | None = None) -> int:
        value = table.get(key, default)
        if value is None:
            value = default
        if type(value) is not int or not 1 <= value <= 1 << 24:
            message = f"{key} is {shown(value)}, must be a positive number"
            raise TilewrightError("TW6401", message, place)
        return value

    def table_of(key: str) -> Mapping[str, Any] | None:
        value = table.get(key) or None
        if value is not None and not isinstance(value, dict):
            raise TilewrightError("TW6401", f"{key} is {shown(value)}, must be an object", place)
        return value

    heads, width = number("num_attention_heads"), number("hidden_size")
    gemma, qwen2 = family == "gemma", family == "qwen2"
    activation = table.get("hidden_activation") or table.get("hidden_act") or "silu"
    if gemma and activation == "gelu":
        activation = "gelu_pytorch_tanh"  # as the published code reads it
    known = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
    if not isinstance(activation, str) or activation not in known:
        message = f"the activation {shown(activation)} is not built here"
        raise TilewrightError("TW6402", message, place)
    if table.get("attention_bias") and not qwen2:
        raise TilewrightError("TW6402", "biases of all projections are not built here", place)
    if table.get("mlp_bias"):
        raise TilewrightError("TW6402", "biases of the MLP are not built here", place)
    if table.get("use_sliding_window") or (family == "mistral" and table.get("sliding_window")):
        raise TilewrightError("TW6402", "attention in a sliding window is not built here", place)
    rope = table_of("rope_parameters") or {}
    base = rope.get("rope_theta", table.get("rope_theta", 10000.0))
    config = DecoderConfig(
        family=family,
        vocabulary=number("vocab_size"),
        width=width,
        hidden=number("intermediate_size"),
        layers=number("num_hidden_layers"),
        heads=heads,
        groups=number("num_key_value_heads", heads),
        head=number("head_dim", width // heads),
        epsilon=_positive("rms_norm_eps", table.get("rms_norm_eps", 1e-6), place),
        base=_positive("rope_theta", base, place),
        scaling=_scaling(table_of("rope_scaling") or rope or None, place),
        tied=bool(table.get("tie_word_embeddings", gemma)),
        biases=qwen2,
        head_norms=family == "qwen3",
        activation=known[activation],
        norm_offset=1.0 if gemma else 0.0,
        embedding_scale=math.sqrt(width) if gemma else 1.0,
    )
    if config.heads % config.groups or config.head % 2:
        raise TilewrightError(
            "TW6401",
            f"{config.heads} heads of {config.head} over {config.groups} of keys cannot be",
            place,
        )
    return config


def _positive(key: str, value: Any, place: Location) -> float:
    """A number that float32 holds, above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-30 < value < 1e30:
        raise TilewrightError(
            "TW6401", f"{key} is {shown(value)}, must be a positive number", place
        )
    return float(value)


def _scaling(given: Mapping[str, Any] | None, place: Location) -> Mapping[str, Any] | None:
    if given is None:
        return None
    kind = given.get("rope_type", given.get("type"))
    if kind in _IGNORED_ROPE:
        return None
    wanted = {
        "linear": ("factor",),
        "llama3": (
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "original_max_position_embeddings",
        ),
    }
    if not isinstance(kind, str) or kind not in wanted:
        raise TilewrightError("TW6402", f"rotary scaling {shown(kind)} is not built here", place)
    for key in wanted[kind]:
        if key not in given:
            raise TilewrightError("TW6401", f"rotary scaling lacks {key}", place)
    numbers = {
        key: _positive(f"{key} of rotary scaling", given[key], place) for key in wanted[kind]
    }
    if kind == "llama3" and numbers["low_freq_factor"] >= numbers["high_freq_factor"]:
        raise TilewrightError(
            "TW6401", "low_freq_factor of rotary scaling is not below high_freq_factor", place
        )
    return {**numbers, "rope_type": kind}
