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
