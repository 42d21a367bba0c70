"""What a decoder of the Llama, Qwen or Gemma family looks like, from its `config.json`.

What a file leaves out has the value that published code gives it for the family. Error codes: TW6401 a
folder or file that cannot be read, TW6402 a network that is not of a family known here, or has
something this release does not compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.decoder_rotary import Rotary, positive, scaling_of
from tilewright.io.file_access import decode_text, read_bytes
from tilewright.io.json_tables import load_document, shown

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")
_GEMMA = ("gemma", "gemma2", "gemma3_text")
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "elementwise_relu",
}
_HEAD = {"qwen3": 128, "gemma": 256, "gemma2": 256, "gemma3_text": 256}  # if no width is given
_SLIDING, _FULL = "sliding_attention", "full_attention"
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
    output_biases: bool = False  # of the product behind attention
    mlp_biases: bool = False
    head_norms: bool = False  # of queries and keys, head by head
    result_norms: bool = False  # of what attention and MLP give, before it is added
    activation: str = "silu"
    norm_offset: float = 0.0  # added to the weights of norms
    embedding_scale: float = 1.0
    score_scale: float | None = None  # 1 / sqrt(head) if not given
    score_cap: float | None = None  # scores become cap * tanh(score / cap)
    logit_cap: float | None = None
    windows: tuple[int, ...] = ()  # of each layer: tokens it sees; 0: all. Empty: all of them
    local: Rotary | None = None  # angles of layers with a window, if they have others

    def rotary(self, window: int = 0) -> Rotary:
        """The angles of layers with this window."""
        if window and self.local is not None:
            return self.local
        return Rotary(self.base, self.scaling)

    def frequencies(self) -> np.ndarray:
        """The angle of one position, for each pair of a head."""
        return self.rotary().frequencies(self.head)

    def tables(self, positions: int, window: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin for positions from 0 on, [positions, head / 2]."""
        return self.rotary(window).tables(positions, self.head)

    def window(self, layer: int) -> int:
        """How many tokens a layer sees, itself included; 0: all."""
        return self.windows[layer] if self.windows else 0


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
    return _Reader(table, family, place).config()


@dataclass(frozen=True)
class _Reader:
    """One configuration, and how values are taken from it."""

    table: Mapping[str, Any]
    family: str
    place: Location

    def config(self) -> DecoderConfig:
        heads, width = self.number("num_attention_heads"), self.number("hidden_size")
        gemma, qwen2 = self.family in _GEMMA, self.family == "qwen2"
        if self.flag("use_bidirectional_attention"):
            raise TilewrightError(
                "TW6402", "attention to later tokens is not built here", self.place
            )
        biases = self.flag("attention_bias") and not qwen2
        rope, local = self._rotary()
        head = self.number("head_dim", _HEAD.get(self.family, width // heads))
        layers = self.number("num_hidden_layers")
        capped = self.family in ("gemma2", "gemma3_text")
        two = self.family == "gemma2"
        scale = self.positive("query_pre_attn_scalar", 256.0) if capped else None
        config = DecoderConfig(
            family=self.family,
            vocabulary=self.number("vocab_size"),
            width=width,
            hidden=self.number("intermediate_size"),
            layers=layers,
            heads=heads,
            groups=self.number("num_key_value_heads", heads),
            head=head,
            epsilon=positive("rms_norm_eps", self.table.get("rms_norm_eps", 1e-6), self.place),
            base=rope.base,
            scaling=rope.scaling,
            tied=self.flag("tie_word_embeddings", gemma),
            biases=qwen2 or biases,
            output_biases=biases,
            mlp_biases=self.flag("mlp_bias"),
            head_norms=self.family in ("qwen3", "gemma3_text"),
            result_norms=capped,
            activation=self._activation(),
            norm_offset=1.0 if gemma else 0.0,
            embedding_scale=math.sqrt(width) if gemma else 1.0,
            score_scale=None if scale is None or scale == head else scale**-0.5,
            score_cap=self.cap("attn_logit_softcapping", 50.0 if two else None) if capped else None,
            logit_cap=self.cap("final_logit_softcapping", 30.0 if two else None)
            if capped
            else None,
            windows=self._windows(layers),
            local=local,
        )
        if config.heads % config.groups or config.head % 2:
            raise TilewrightError(
                "TW6401",
                f"{config.heads} heads of {config.head} over {config.groups} of keys cannot be",
                self.place,
            )
        return config

    # --- values -------------------------------------------------------------------------

    def number(self, key: str, default: int | None = None) -> int:
        value = self.table.get(key, default)
        if value is None:
            value = default
        if type(value) is not int or not 1 <= value <= 1 << 24:
            message = f"{key} is {shown(value)}, must be a positive number"
            raise TilewrightError("TW6401", message, self.place)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.table.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            message = f"{key} is {shown(value)}, must be true or false"
            raise TilewrightError("TW6401", message, self.place)
        return value

    def positive(self, key: str, default: float) -> float:
        return positive(key, self.table.get(key, default), self.place)

    def cap(self, key: str, default: float | None) -> float | None:
        """A cap of scores or logits; null is none."""
        value = self.table.get(key, default)
        return None if value is None else positive(key, value, self.place)

    def _object(self, key: str) -> Mapping[str, Any] | None:
        value = self.table.get(key) or None
        if value is not None and not isinstance(value, dict):
            message = f"{key} is {shown(value)}, must be an object"
            raise TilewrightError("TW6401", message, self.place)
        return value

    def _activation(self) -> str:
        name = self.table.get("hidden_activation") or self.table.get("hidden_act")
        name = name or ("gelu_pytorch_tanh" if self.family in _GEMMA else "silu")
        if self.family == "gemma" and name == "gelu":
            name = "gelu_pytorch_tanh"  # as the published code reads it
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            message = f"the activation {shown(name)} is not built here"
            raise TilewrightError("TW6402", message, self.place)
        return _ACTIVATIONS[name]

    # --- rotary embeddings, windows -----------------------------------------------------

    def _rotary(self) -> tuple[Rotary, Rotary | None]:
        """The angles of most layers, and of those with a window if they have others."""
        given, old = self._object("rope_parameters") or {}, self._object("rope_scaling")
        if self.family != "gemma3_text":
            return self._angles(given, old, self.table.get("rope_theta", 10000.0)), None
        parts = {}
        for kind in (_FULL, _SLIDING):
            part = given.get(kind) or {}
            if not isinstance(part, dict):
                message = f"rope_parameters of {kind} are {shown(part)}, must be an object"
                raise TilewrightError("TW6401", message, self.place)
            parts[kind] = part
        whole = self._angles(parts[_FULL], old, self.table.get("rope_theta", 1e6))
        base = self.table.get("rope_local_base_freq", 10000.0)
        return whole, self._angles(parts[_SLIDING], None, base)

    def _angles(self, given: Mapping[str, Any], old: Mapping[str, Any] | None, base: Any) -> Rotary:
        share = given.get("partial_rotary_factor", self.table.get("partial_rotary_factor"))
        if share not in (None, 1, 1.0):
            raise TilewrightError(
                "TW6402", "rotary embeddings of parts of a head are not built here", self.place
            )
        base = positive("rope_theta", given.get("rope_theta", base), self.place)
        return Rotary(base, scaling_of(old or given or None, self.place))

    def _windows(self, layers: int) -> tuple[int, ...]:
        """The window of every layer; nothing where all layers see everything."""
        if self.family in ("llama", "gemma"):
            return ()
        chosen = self.family not in ("qwen2", "qwen3") or self.flag("use_sliding_window")
        if not chosen or self.table.get("sliding_window", 4096) is None:
            return ()
        window = self.number("sliding_window", 4096)
        found = tuple(window if kind == _SLIDING else 0 for kind in self._kinds(layers))
        return found if any(found) else ()

    def _kinds(self, layers: int) -> list[str]:
        """Which attention every layer has."""
        given = self.table.get("layer_types")
        if given is not None and self.family != "mistral":
            known = isinstance(given, list) and all(kind in (_SLIDING, _FULL) for kind in given)
            if not known or len(given) != layers:
                raise TilewrightError(
                    "TW6401",
                    f"layer_types are no list of {layers} times {_SLIDING} or {_FULL}",
                    self.place,
                )
            return given
        if self.family in ("qwen2", "qwen3"):
            first = self.table.get("max_window_layers", 28)
            if type(first) is not int or first < 0:
                message = f"max_window_layers is {shown(first)}, must be a number from 0 on"
                raise TilewrightError("TW6401", message, self.place)
            return [_SLIDING if n >= first else _FULL for n in range(layers)]
        period = {"mistral": 0, "gemma2": 2}.get(self.family)
        if period is None:
            period = self.number("sliding_window_pattern", 6)
        return [_FULL if period and (n + 1) % period == 0 else _SLIDING for n in range(layers)]
