"""Linear layers of published models: name, K, N, how many of it in a block; and how many blocks."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.targets.xdna.bitnet import BLOCKS_2B, LAYERS_2B


@dataclass(frozen=True)
class PublishedModel:
    name: str
    blocks: int
    layers: tuple[tuple[str, int, int, int], ...]


def _decoder(name: str, blocks: int, width: int, keys: int, inner: int) -> PublishedModel:
    """A decoder with gated feed-forward layers; `keys` is the width of all key heads."""
    return PublishedModel(
        name,
        blocks,
        (
            ("q_proj, o_proj", width, width, 2),
            ("k_proj, v_proj", width, keys, 2),
            ("gate_proj, up_proj", width, inner, 2),
            ("down_proj", inner, width, 1),
        ),
    )


MODELS = {
    model.name: model
    for model in (
        PublishedModel("bitnet-2b-4t", BLOCKS_2B, LAYERS_2B),
        _decoder("smollm2-135m", 30, 576, 192, 1536),
        _decoder("smollm2-360m", 32, 960, 320, 2560),
        _decoder("smollm2-1.7b", 24, 2048, 2048, 8192),
    )
}
