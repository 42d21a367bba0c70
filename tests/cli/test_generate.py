"""A folder of a language model from `compile` to `generate`, and what can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import run_command
from tilewright.cli import main
from tilewright.compiling.decoders import compile_decoder
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.decoder import Capacity, drawn_weights, weight_names
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
    folder = str(bundle.parent / "tiny")
    status, out, _ = run_command(capsys, "verify", str(bundle), "--model", folder, "--json")
    found = json.loads(out)["entries"]
    assert status == 0 and set(found) == {"prefill", "generate", "head"}
    assert all(0.98 < one["outputs"][0]["accuracy"]["cosine"] < 1 for one in found.values())


def test_all_of_it_is_linted(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every entry point, or the one that is named; other programs have none."""
    status, out, _ = run_command(capsys, "lint", str(bundle))
    assert status == 0 and out.count("clean; ") == 3
    assert all(f"entry point {name}, segment 0" in out for name in ("prefill", "generate", "head"))
    status, out, _ = run_command(capsys, "lint", str(bundle), "--json")
    assert set(json.loads(out)["entries"]) == {"prefill", "generate", "head"}
    status, out, _ = run_command(capsys, "lint", str(bundle), "--entry", "head", "--json")
    assert len(json.loads(out)["segments"]) == 1
    status, out, _ = run_command(capsys, "disasm", str(bundle), "--entry", "head")
    assert status == 0 and "dma.store" in out
    status, out, _ = run_command(capsys, "sim", str(bundle), "--entry", "head")
    assert status == 0 and "cycles" in out
    for command in ("disasm", "sim"):
        status, _, error = run_command(capsys, command, str(bundle))
        assert status == 2 and "choose one with --entry: prefill, generate, head" in error
        (bundle.parent / "x.S").write_text("delay 1\n")
        status, _, error = run_command(
            capsys, command, str(bundle.parent / "x.S"), "--entry", "head"
        )
        assert status == 2 and "--entry is for compiled models" in error


# --- samples and goals ------------------------------------------------------------------


def test_a_folder_is_calibrated_on_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of files: other tokens, other ranges; every entry point reaches a goal of its own."""
    folder, bundles = str(write(tmp_path / "tiny")), []
    for number, ids in enumerate(([1, 2, 3, 4, 5, 6], [[60, 59, 58, 57, 56, 55]])):
        np.savez(tmp_path / f"{number}.npz", ids=ids)
        bundles.append(tmp_path / f"{number}.twb")
        given = ["--calibrate", str(tmp_path / f"{number}.npz"), "--prompt", "4", "--slots", "12"]
        status, out, _ = run_command(
            capsys, "compile", folder, "-o", str(bundles[-1]), *given, "--accuracy", "0.5", "--json"
        )
        entries = json.loads(out)["entries"]
        goals = [one["provenance"]["accuracy_goal"] for one in entries.values()]
        assert status == 0 and len(goals) == 3 and all(g["chosen"]["keep"] == [] for g in goals)
    assert bundles[0].read_bytes() != bundles[1].read_bytes()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tokens": np.zeros(3, int)}, "calibrated on the array ids"),
        ({"ids": np.zeros((2, 3), int)}, "whole numbers in a row"),
        ({"ids": np.array([61])}, "numbers from 0 to 60"),
    ],
)
def test_files_that_no_model_is_calibrated_on(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # pyright: ignore[reportArgumentType]
    given = ["compile", str(write(tmp_path / "tiny")), "-o", str(tmp_path / "no.twb")]
    status, _, error = run_command(capsys, *given, "--calibrate", str(tmp_path / "bad.npz"))
    assert status == 2 and message in error and not (tmp_path / "no.twb").exists()


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
        ({"hidden_act": "mish"}, "activation 'mish'"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"num_key_value_heads": 3, "num_attention_heads": 4}, "cannot be"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rotary scaling 'longrope'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "lacks original_max"),
        ({"rope_scaling": {"rope_type": "linear"}}, "lacks factor"),
        ({"attention_bias": "yes"}, "attention_bias is 'yes', must be true or false"),
        ({"model_type": "mistral", "sliding_window": 0}, "sliding_window is 0"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"] * 2}, "no list of 1 times"),
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "later tokens"),
        ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": 1}}, "an object"),
        ({"model_type": "gemma2", "final_logit_softcapping": -1}, "softcapping is -1"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "parts of a head"),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": -1},
            "max_window_layers is -1",
        ),
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
        ({**good, name: np.zeros((3, 64), np.float32)}, f"tiny  {name} is 3x64, the configuration"),
        ({**good, "model.norm.weight": np.zeros(63, np.float32)}, "model.norm.weight is 63"),
        ({**good, name: good[name].astype(np.int32)}, f"{name} is int32, weights are floats"),
    ]
    for weights, message in cases:
        save_safetensors(folder / "model.safetensors", weights)
        with pytest.raises(TilewrightError, match=message):
            read_decoder(folder)
    save_safetensors(folder / "model.safetensors", {**good, name: np.zeros((3, 64), np.float32)})
    with pytest.raises(SystemExit):
        main(["compile", str(folder), "-o", str(tmp_path / "x.twb"), "--slots", "130"])
    assert not (tmp_path / "x.twb").exists()
    for number in (np.nan, np.inf):
        weights = {**good, name: good[name].copy()}
        weights[name][3, 5] = number
        save_safetensors(folder / "model.safetensors", weights)
        for target in ("atlas-v1", "vpu40"):
            with pytest.raises(TilewrightError, match=f"{name} has numbers that are not finite"):
                compile_decoder(folder, Capacity(4, (12,)), target)
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
