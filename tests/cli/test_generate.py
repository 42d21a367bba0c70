"""A folder of a language model from `compile` to `generate`, and what can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run_command
from tilewright.cli import main
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.decoder import drawn_weights, weight_names
from tilewright.frontend.decoder_config import DecoderConfig, config_of, read_config
from tilewright.frontend.decoder_folder import read_decoder
from tilewright.io.safetensors_file import save_safetensors

TABLE = {
    "model_type": "llama",
    "vocab_size": 61,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
PLACE = Location("config.json")


def write(folder: Path, table: dict[str, Any] | None = None, **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    table = {**(table or TABLE), **changed}
    (folder / "config.json").write_text(json.dumps(table))
    save_safetensors(folder / "model.safetensors", drawn_weights(config_of(table, PLACE)))
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language")
    model = write(folder / "tiny")
    with pytest.raises(SystemExit) as caught:
        main(
            [
                "compile",
                str(model),
                "-o",
                str(folder / "tiny.twb"),
                "--prompt",
                "4",
                "--slots",
                "12",
            ]
        )
    assert not caught.value.code
    return folder / "tiny.twb"


def test_tokens_with_their_cycles(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["generate", str(bundle), "--prompt-ids", "3,1,4,1,5", "--count", "4"]
    status, out, _ = run_command(capsys, *given, "--json")
    found = json.loads(out)
    assert status == 0 and [row["position"] for row in found["tokens"]] == [5, 6, 7, 8]
    assert found["cycles_per_token"] > 0 and found["cycles"] >= sum(
        row["cycles"] for row in found["tokens"]
    )
    status, out, _ = run_command(capsys, *given)
    assert status == 0 and out.count("cycles") >= 5
    assert all(str(row["token"]) in out for row in found["tokens"])
    first = found["tokens"][0]["token"]
    status, out, _ = run_command(capsys, *given, "--stop", str(first), "--json")
    assert [row["token"] for row in json.loads(out)["tokens"]] == [first]
    drawn = [
        [row["token"] for row in json.loads(out)["tokens"]]
        for _, out, _ in (
            run_command(capsys, *given, "--temperature", "2", "--seed", seed, "--json")
            for seed in "775"
        )
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt-ids", ",".join("1" * 13)], "KV cache is full"),
        (["--prompt-ids", "61"], "61 is no token"),
        (["--prompt-ids", "1,x"], "are no tokens"),
        (["--prompt", "hello"], "--prompt needs --tokenizer"),
        ([], "give --prompt or --prompt-ids"),
    ],
)
def test_prompts_that_cannot_be(
    bundle: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status, _, error = run_command(capsys, "generate", str(bundle), *arguments)
    assert status == 2 and message in error


def test_all_of_it_is_verified(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_command(capsys, "verify", str(bundle))
    assert status == 0 and "all entry points verified" in out


# --- folders ----------------------------------------------------------------------------


def test_a_folder_is_read(tmp_path: Path) -> None:
    config, weights = read_decoder(write(tmp_path / "tiny"))
    assert config == DecoderConfig("llama", 61, 64, 96, 1, 2, 1, 64, tied=False)
    assert set(weights) == set(weight_names(config))
    assert weights["model.embed_tokens.weight"].dtype.name == "bfloat16"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "models of type 'bert'"),
        ({"hidden_act": "relu"}, "activation 'relu'"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"num_key_value_heads": 3, "num_attention_heads": 4}, "cannot be"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "rotary scaling 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "lacks factor"),
        ({"attention_bias": True}, "biases of all projections"),
        ({"model_type": "mistral", "sliding_window": 64}, "sliding window"),
    ],
)
def test_configurations_that_are_not_built(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        config_of({**TABLE, **change}, PLACE)


def test_folders_with_something_wrong(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny")
    good = drawn_weights(read_config(folder))
    name = "model.layers.0.mlp.up_proj.weight"
    cases: list[tuple[dict[str, np.ndarray], str]] = [
        ({k: v for k, v in good.items() if k != name}, f"lack {name}"),
        ({**good, "model.layers.1.extra": np.zeros(2, np.float32)}, "no place for the weights"),
    ]
    for weights, message in cases:
        save_safetensors(folder / "model.safetensors", weights)
        with pytest.raises(TilewrightError, match=message):
            read_decoder(folder)
    save_safetensors(folder / "model.safetensors", {**good, name: np.zeros((3, 64), np.float32)})
    with pytest.raises(SystemExit):
        main(["compile", str(folder), "-o", str(tmp_path / "x.twb"), "--slots", "130"])
    assert not (tmp_path / "x.twb").exists()
    (folder / "model.safetensors").write_bytes(b"no")
    with pytest.raises(TilewrightError, match="cut short"):
        read_decoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(TilewrightError, match="neither"):
        read_decoder(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../x"}}')
    with pytest.raises(TilewrightError, match="malformed"):
        read_decoder(folder)
    (folder / "config.json").write_text("[")
    with pytest.raises(TilewrightError, match="not JSON"):
        read_config(folder)


def test_weights_in_several_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny")
    whole = drawn_weights(read_config(folder))
    (folder / "model.safetensors").unlink()
    names = sorted(whole)
    files = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, some in files.items():
        save_safetensors(folder / file, {name: whole[name] for name in some})
    table = {name: file for file, some in files.items() for name in some}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    _, weights = read_decoder(folder)
    np.testing.assert_array_equal(weights["model.norm.weight"], whole["model.norm.weight"])
