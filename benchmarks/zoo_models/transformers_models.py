"""Architectures of transformers, two layers each, with inputs as the library's users give them."""

from __future__ import annotations

from typing import Any

from zoo_models import Architecture, Example, library, seeded

VOCABULARY = 99
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = TEXT | {"num_key_value_heads": 2}
GPT = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
PAIR: dict[str, Any] = {
    "vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": 2,
}  # fmt: skip
T5 = {
    "vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
    "num_heads": 4, "decoder_start_token_id": 0,
}  # fmt: skip
IMAGE: dict[str, Any] = {
    "image_size": 32, "patch_size": 8, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}
AUDIO: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "conv_dim": (32, 32, 32), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "vocab_size": 32,
}  # fmt: skip

# name of the model class, config class, what is given to it, what differs from the defaults
ROWS: list[tuple[str, str, str, dict[str, Any]]] = [
    # decoders
    ("LlamaForCausalLM", "LlamaConfig", "tokens", GROUPED),
    ("MistralForCausalLM", "MistralConfig", "tokens", GROUPED | {"sliding_window": 8}),
    ("Qwen2ForCausalLM", "Qwen2Config", "tokens", GROUPED),
    ("Qwen3ForCausalLM", "Qwen3Config", "tokens", GROUPED | {"head_dim": 16}),
    ("GemmaForCausalLM", "GemmaConfig", "tokens", GROUPED | {"head_dim": 16}),
    ("Gemma2ForCausalLM", "Gemma2Config", "tokens",
     GROUPED | {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16}),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", "tokens",
     GROUPED | {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16}),
    ("PhiForCausalLM", "PhiConfig", "tokens", TEXT),
    ("Phi3ForCausalLM", "Phi3Config", "tokens", GROUPED),
    ("GPT2LMHeadModel", "GPT2Config", "tokens", GPT),
    ("GPTNeoForCausalLM", "GPTNeoConfig", "tokens",
     {"vocab_size": VOCABULARY, "hidden_size": 64, "num_layers": 2, "num_heads": 4,
      "intermediate_size": 128, "max_position_embeddings": 64, "window_size": 8,
      "attention_types": [[["global", "local"], 1]]}),
    ("GPTNeoXForCausalLM", "GPTNeoXConfig", "tokens", TEXT),
    ("GPTJForCausalLM", "GPTJConfig", "tokens", GPT | {"rotary_dim": 8}),
    ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", "tokens", GPT),
    ("CodeGenForCausalLM", "CodeGenConfig", "tokens", GPT | {"rotary_dim": 8}),
    ("OPTForCausalLM", "OPTConfig", "tokens",
     TEXT | {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    ("BloomForCausalLM", "BloomConfig", "tokens",
     {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
    ("FalconForCausalLM", "FalconConfig", "tokens", TEXT),
    ("MptForCausalLM", "MptConfig", "tokens",
     {"vocab_size": VOCABULARY, "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}),
    ("StableLmForCausalLM", "StableLmConfig", "tokens", GROUPED),
    ("CohereForCausalLM", "CohereConfig", "tokens", GROUPED),
    ("OlmoForCausalLM", "OlmoConfig", "tokens", GROUPED),
    ("Olmo2ForCausalLM", "Olmo2Config", "tokens", GROUPED),
    ("GraniteForCausalLM", "GraniteConfig", "tokens", GROUPED),
    ("SmolLM3ForCausalLM", "SmolLM3Config", "tokens", GROUPED),
    ("Starcoder2ForCausalLM", "Starcoder2Config", "tokens", GROUPED),
    ("NemotronForCausalLM", "NemotronConfig", "tokens", GROUPED),
    ("MixtralForCausalLM", "MixtralConfig", "tokens",
     GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", "tokens",
     GROUPED | EXPERTS | {"shared_expert_intermediate_size": 64}),
    ("MambaForCausalLM", "MambaConfig", "tokens",
     {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    # encoders
    ("BertModel", "BertConfig", "tokens", TEXT),
    ("BertForSequenceClassification", "BertConfig", "tokens", TEXT),
    ("RobertaModel", "RobertaConfig", "tokens", TEXT),
    ("XLMRobertaModel", "XLMRobertaConfig", "tokens", TEXT),
    ("AlbertModel", "AlbertConfig", "tokens", TEXT | {"embedding_size": 32}),
    ("DistilBertModel", "DistilBertConfig", "tokens",
     {"vocab_size": VOCABULARY, "dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4}),
    ("ElectraModel", "ElectraConfig", "tokens", TEXT | {"embedding_size": 32}),
    ("MPNetModel", "MPNetConfig", "tokens", TEXT),
    ("DebertaV2Model", "DebertaV2Config", "tokens",
     TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    ("ModernBertModel", "ModernBertConfig", "tokens", TEXT | {"local_attention": 8}),
    ("XLNetModel", "XLNetConfig", "tokens",
     {"vocab_size": VOCABULARY, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128}),
    ("FNetModel", "FNetConfig", "tokens", TEXT),
    ("ConvBertModel", "ConvBertConfig", "tokens", TEXT | {"embedding_size": 32}),
    ("SqueezeBertModel", "SqueezeBertConfig", "tokens",
     TEXT | {"embedding_size": 64, "q_groups": 2, "k_groups": 2, "v_groups": 2,
             "post_attention_groups": 1, "intermediate_groups": 2, "output_groups": 2}),
    # encoder and decoder
    ("T5Model", "T5Config", "two texts", T5),
    ("T5EncoderModel", "T5Config", "tokens", T5),
    ("MT5ForConditionalGeneration", "MT5Config", "two texts", T5),
    ("BartModel", "BartConfig", "two texts", PAIR),
    ("PegasusModel", "PegasusConfig", "two texts", PAIR),
    ("MarianModel", "MarianConfig", "two texts", PAIR),
    ("WhisperModel", "WhisperConfig", "speech and text",
     PAIR | {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20}),
    # images
    ("ViTModel", "ViTConfig", "image", IMAGE),
    ("DeiTModel", "DeiTConfig", "image", IMAGE),
    ("BeitModel", "BeitConfig", "image", IMAGE),
    ("Dinov2Model", "Dinov2Config", "image", IMAGE),
    ("SiglipVisionModel", "SiglipVisionConfig", "image", IMAGE),
    ("CLIPVisionModel", "CLIPVisionConfig", "image", IMAGE),
    ("CLIPTextModel", "CLIPTextConfig", "tokens", TEXT),
    ("SwinModel", "SwinConfig", "image",
     {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
      "window_size": 4}),
    ("ConvNextModel", "ConvNextConfig", "image", STAGES),
    ("ConvNextV2Model", "ConvNextV2Config", "image", STAGES),
    ("ResNetModel", "ResNetConfig", "image", STAGES | {"embedding_size": 16}),
    ("RegNetModel", "RegNetConfig", "image",
     STAGES | {"embedding_size": 16, "groups_width": 8}),
    ("SegformerModel", "SegformerConfig", "image",
     {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64],
      "num_attention_heads": [1, 2, 3, 4]}),
    ("MobileNetV2Model", "MobileNetV2Config", "image", {"depth_multiplier": 0.25}),
    ("MobileViTModel", "MobileViTConfig", "image",
     {"image_size": 64, "hidden_sizes": [32, 48, 64], "num_attention_heads": 4,
      "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96]}),
    ("YolosModel", "YolosConfig", "image",
     IMAGE | {"image_size": [32, 32], "num_detection_tokens": 5}),
    ("DPTModel", "DPTConfig", "image", IMAGE),
    # speech, and series of numbers
    ("Wav2Vec2Model", "Wav2Vec2Config", "speech", AUDIO),
    ("HubertModel", "HubertConfig", "speech", AUDIO),
    ("WavLMModel", "WavLMConfig", "speech", AUDIO | {"num_buckets": 16}),
    ("ASTModel", "ASTConfig", "spectrogram",
     {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
      "num_attention_heads": 4, "max_length": 40, "num_mel_bins": 32}),
    ("PatchTSTModel", "PatchTSTConfig", "series",
     {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8,
      "d_model": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64}),
]  # fmt: skip


def inputs(kind: str, config: Any) -> dict[str, Any]:
    """What the model is called with; nothing that the library fills in by itself."""
    torch = library("torch")

    generator = torch.Generator().manual_seed(2)

    def numbers(*shape: int) -> Any:
        return torch.randn(shape, generator=generator)

    def tokens(length: int) -> Any:
        return torch.randint(3, VOCABULARY, (1, length), generator=generator)

    if kind == "tokens":
        return {"input_ids": tokens(12)}
    if kind == "two texts":
        return {"input_ids": tokens(12), "decoder_input_ids": tokens(7)}
    if kind == "speech and text":
        return {"input_features": numbers(1, 16, 40), "decoder_input_ids": tokens(7)}
    if kind == "speech":
        return {"input_values": numbers(1, 800)}
    if kind == "spectrogram":
        return {"input_values": numbers(1, 40, 32)}
    if kind == "series":
        return {"past_values": numbers(1, 32, 3)}
    size = getattr(config, "image_size", 64)
    size = size[0] if isinstance(size, (list, tuple)) else size
    size = 64 if size > 64 else size
    if kind == "video":
        return {"pixel_values": numbers(1, config.num_frames, 3, size, size)}
    return {"pixel_values": numbers(1, 3, size, size)}


def build(model: str, config: str, kind: str, options: dict[str, Any]) -> Example:
    transformers = library("transformers")

    made = getattr(transformers, config)(**options)
    module = seeded(lambda: getattr(transformers, model)(made))
    return Example(module, (), inputs(kind, made))


def architectures() -> list[Architecture]:
    return [Architecture(row[0], "transformers", lambda row=row: build(*row)) for row in ROWS]
