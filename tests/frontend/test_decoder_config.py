"""Configurations of language models as strangers write them: every field is checked by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.frontend.decoder_config import read_config

GOOD = {
    "model_type": "llama", "vocab_size": 20, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8, "rope_theta": 10000,
}  # fmt: skip
SCALING = {
    "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
    "original_max_position_embeddings": 16,
}  # fmt: skip


def read(folder: Path, **changes: Any):
    (folder / "config.json").write_text(json.dumps({**GOOD, **changes}))
    return read_config(folder)


def test_numbers_may_be_whole(tmp_path: Path) -> None:
    config = read(tmp_path, rope_scaling=SCALING)
    assert (config.base, config.groups) == (10000.0, 2)
    assert config.frequencies().shape == (4,)


def test_what_is_left_out_is_as_published(tmp_path: Path) -> None:
    """Windows, caps and scales of a family, where the file does not say."""
    gemma2 = read(tmp_path, model_type="gemma2", num_hidden_layers=4)
    assert gemma2.windows == (4096, 0, 4096, 0)
    assert (gemma2.score_cap, gemma2.logit_cap, gemma2.tied) == (50.0, 30.0, True)
    assert gemma2.score_scale == 256**-0.5
    assert read(tmp_path, model_type="gemma2", final_logit_softcapping=None).logit_cap is None
    gemma3 = read(
        tmp_path, model_type="gemma3_text", num_hidden_layers=7, rope_theta=1e6, sliding_window=32,
        rope_scaling={"rope_type": "linear", "factor": 8},
    )  # fmt: skip
    assert gemma3.windows == (32, 32, 32, 32, 32, 0, 32)
    assert gemma3.score_cap is None and gemma3.head_norms and gemma3.result_norms
    far, near = gemma3.rotary(), gemma3.rotary(32)
    assert (far.base, near.base, near.scaling) == (1e6, 1e4, None)
    assert far.scaling == {"rope_type": "linear", "factor": 8.0}
    qwen3 = read(tmp_path, model_type="qwen3", num_hidden_layers=3, head_dim=None)
    assert (qwen3.head, qwen3.windows, qwen3.head_norms) == (128, (), True)
    window = {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2}
    qwen2 = read(tmp_path, model_type="qwen2", num_hidden_layers=3, **window)
    assert (qwen2.windows, qwen2.biases, qwen2.output_biases) == ((0, 0, 9), True, False)
    assert read(tmp_path, model_type="mistral").windows == (4096,)
    assert read(tmp_path, model_type="mistral", sliding_window=None).windows == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rms_norm_eps": {}}, "rms_norm_eps is {}, must be a positive number"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps is '1e-5'"),
        ({"rms_norm_eps": True}, "rms_norm_eps is True"),
        ({"rope_theta": [1]}, r"rope_theta is \[1\]"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0"),
        ({"rope_parameters": [[]]}, r"rope_parameters is \[\[\]\], must be an object"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear', must be an object"),
        ({"rope_scaling": {"type": ["linear"]}}, r"rotary scaling \['linear'\] is not built"),
        ({"rope_scaling": {"type": "linear"}}, "rotary scaling lacks factor"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor of rotary scaling is 0"),
        ({"rope_scaling": {**SCALING, "high_freq_factor": 1}}, "not below high_freq_factor"),
        ({"hidden_act": {"silu": 1}}, "the activation {'silu': 1} is not built here"),
        ({"model_type": ["llama"]}, r"models of type \['llama'\] are not built"),
        ({"vocab_size": 2**80}, "vocab_size is 1208925819614629174706176"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match=message):
        read(tmp_path, **changes)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": 1, "a": 2}', "\0", "[]", "{", "9" * 5000])
def test_files_that_are_no_configuration(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(TilewrightError, match=r"JSON|object|zero|text"):
        read_config(tmp_path)
