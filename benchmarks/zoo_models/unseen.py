"""Architectures on which nothing was developed: what the compiler knew when they came is in the results."""

from __future__ import annotations

from typing import Any

from zoo_models import Architecture, Example, library, seeded
from zoo_models.image_models import image, timm_model
from zoo_models.transformers_models import (
    AUDIO,
    EXPERTS,
    GROUPED,
    IMAGE,
    PAIR,
    TEXT,
    VOCABULARY,
    build,
)

# name of the model class, config class, what is given to it, what differs from the defaults
ROWS: list[tuple[str, str, str, dict[str, Any]]] = [
    # decoders
    ("XGLMForCausalLM", "XGLMConfig", "tokens",
     {"vocab_size": VOCABULARY, "d_model": 64, "ffn_dim": 128, "num_layers": 2,
      "attention_heads": 4, "max_position_embeddings": 64}),
    ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", "tokens", GROUPED | EXPERTS | {"head_dim": 16}),
    ("HeliumForCausalLM", "HeliumConfig", "tokens", GROUPED | {"head_dim": 16}),
    ("GraniteMoeForCausalLM", "GraniteMoeConfig", "tokens",
     GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ("Mamba2ForCausalLM", "Mamba2Config", "tokens",
     {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
      "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8}),
    ("RwkvForCausalLM", "RwkvConfig", "tokens",
     {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "context_length": 64}),
    # encoders
    ("NystromformerModel", "NystromformerConfig", "tokens", TEXT),
    ("FunnelModel", "FunnelConfig", "tokens",
     {"vocab_size": VOCABULARY, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 64,
      "n_head": 4, "d_head": 16, "d_inner": 128}),
    ("BigBirdModel", "BigBirdConfig", "tokens", TEXT | {"attention_type": "original_full"}),
    ("CanineModel", "CanineConfig", "tokens", TEXT),
    # encoder and decoder
    ("BlenderbotModel", "BlenderbotConfig", "two texts", PAIR),
    ("ProphetNetModel", "ProphetNetConfig", "two texts",
     {"vocab_size": VOCABULARY, "hidden_size": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
      "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
      "num_decoder_attention_heads": 4, "max_position_embeddings": 64}),
    # images, videos, speech, series of numbers
    ("DINOv3ViTModel", "DINOv3ViTConfig", "image", IMAGE),
    ("PvtModel", "PvtConfig", "image",
     {"image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64],
      "num_attention_heads": [1, 2, 3, 4]}),
    ("TimesformerModel", "TimesformerConfig", "video", IMAGE | {"num_frames": 2}),
    ("SEWModel", "SEWConfig", "speech", AUDIO | {"squeeze_factor": 2}),
    ("PatchTSMixerModel", "PatchTSMixerConfig", "series",
     {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8,
      "d_model": 32, "num_layers": 2}),
]  # fmt: skip

TIMM: list[tuple[str, int, dict[str, Any]]] = [
    ("twins_svt_small", 64, {"img_size": 64, "depths": (1, 1, 1, 1), "embed_dims": (32, 64, 96, 128),
                             "num_heads": (1, 2, 3, 4)}),
    ("tiny_vit_5m_224", 64, {"depths": (1, 1, 1, 1), "embed_dims": (32, 64, 96, 128),
                             "num_heads": (1, 2, 3, 4), "window_sizes": (4, 4, 4, 2)}),
    ("convmixer.ConvMixer", 35, {"dim": 64, "depth": 2, "kernel_size": 7, "patch_size": 7}),
]  # fmt: skip


def clip() -> Example:
    """Two towers that meet in a matrix of likenesses."""
    torch, transformers = library("torch"), library("transformers")

    config = transformers.CLIPConfig(
        text_config=TEXT, vision_config=IMAGE, projection_dim=32, return_loss=False
    )
    module = seeded(lambda: transformers.CLIPModel(config))
    ids = torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(2))
    return Example(module, (), {"input_ids": ids, "pixel_values": image(32)})


def architectures() -> list[Architecture]:
    return [
        *(Architecture(row[0], "transformers", lambda row=row: build(*row)) for row in ROWS),
        Architecture("CLIPModel", "transformers", clip),
        *(Architecture(row[0], "timm", lambda row=row: timm_model(*row)) for row in TIMM),
    ]
