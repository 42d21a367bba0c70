"""More families of transformers, two layers each: relatives that do one thing otherwise."""

from __future__ import annotations

from typing import Any

from zoo_models import Architecture
from zoo_models.transformers_models import AUDIO, EXPERTS, GROUPED, IMAGE, TEXT, VOCABULARY, build

LATENT: dict[str, Any] = {
    "num_key_value_heads": 4, "moe_intermediate_size": 32, "n_shared_experts": 1,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
    "v_head_dim": 16, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
}  # fmt: skip

# name of the model class, config class, what is given to it, what differs from the defaults
ROWS: list[tuple[str, str, str, dict[str, Any]]] = [
    # decoders: several kinds of experts, rotations by complex numbers, latent keys, convolutions
    ("Llama4ForCausalLM", "Llama4TextConfig", "tokens",
     GROUPED | {"head_dim": 16, "intermediate_size_mlp": 128, "num_local_experts": 4}),
    ("DeepseekV2ForCausalLM", "DeepseekV2Config", "tokens",
     TEXT | LATENT | {"n_routed_experts": 4, "topk_method": "greedy"}),
    ("DeepseekV3ForCausalLM", "DeepseekV3Config", "tokens",
     TEXT | LATENT | {"n_routed_experts": 8, "n_group": 2, "topk_group": 1}),
    ("GptOssForCausalLM", "GptOssConfig", "tokens",
     GROUPED | {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2,
                "sliding_window": 8}),
    ("PhimoeForCausalLM", "PhimoeConfig", "tokens",
     GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ("OlmoeForCausalLM", "OlmoeConfig", "tokens", GROUPED | EXPERTS),
    ("Gemma3nForCausalLM", "Gemma3nTextConfig", "tokens",
     GROUPED | {"head_dim": 16, "vocab_size_per_layer_input": VOCABULARY,
                "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 0, "laurel_rank": 8,
                "layer_types": ["sliding_attention", "full_attention"],
                "activation_sparsity_pattern": [0.0, 0.0], "sliding_window": 8}),
    ("Glm4ForCausalLM", "Glm4Config", "tokens", GROUPED | {"head_dim": 16}),
    ("Lfm2ForCausalLM", "Lfm2Config", "tokens",
     GROUPED | {"layer_types": ["conv", "full_attention"]}),
    ("Cohere2ForCausalLM", "Cohere2Config", "tokens", GROUPED | {"sliding_window": 8}),
    ("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", "tokens",
     GROUPED | {"lru_width": 64, "attention_window_size": 16,
                "block_types": ("recurrent", "attention")}),
    ("BioGptForCausalLM", "BioGptConfig", "tokens", TEXT),
    # encoders
    ("RoFormerModel", "RoFormerConfig", "tokens", TEXT | {"embedding_size": 32}),
    ("LayoutLMModel", "LayoutLMConfig", "tokens", TEXT),
    ("MobileBertModel", "MobileBertConfig", "tokens",
     TEXT | {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}),
    ("RemBertModel", "RemBertConfig", "tokens",
     TEXT | {"input_embedding_size": 32, "output_embedding_size": 64}),
    ("EsmModel", "EsmConfig", "tokens", TEXT | {"position_embedding_type": "rotary"}),
    ("Data2VecTextModel", "Data2VecTextConfig", "tokens", TEXT),
    ("Data2VecAudioModel", "Data2VecAudioConfig", "speech", AUDIO),
    ("Data2VecVisionModel", "Data2VecVisionConfig", "image", IMAGE),
]  # fmt: skip


def architectures() -> list[Architecture]:
    return [Architecture(row[0], "transformers", lambda row=row: build(*row)) for row in ROWS]
