"""Decoders built from folders against transformers' own, in float32. Needs torch and transformers."""

from __future__ import annotations

import contextlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tilewright.cli import app
from tilewright.compiling.decoders import compile_decoder
from tilewright.frontend.decoder import Capacity, decoder, head, windows
from tilewright.frontend.decoder_config import DecoderConfig
from tilewright.frontend.decoder_folder import read_decoder
from tilewright.reference.executor import Executor
from tilewright.runtime.llm.alignment import inputs
from tilewright.runtime.llm.contract import Variant
from tilewright.runtime.llm.session import LanguageModel

torch = pytest.importorskip("torch")
if find_spec("torchvision") is not None:
    # transformers imports it, and a wheel for another build of torch lacks its operators.
    _library = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            _library.define(f"{_name}(Tensor dets, Tensor scores, float limit) -> Tensor")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 70,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}  # fmt: skip
SLIDING, FULL = "sliding_attention", "full_attention"
WINDOW = {"use_sliding_window": True, "sliding_window": 4}
TWO = {
    FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Llama", {}),
    ("Llama", {"rope_scaling": LLAMA3, "rope_theta": 500000.0, "tie_word_embeddings": False}),
    ("Llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("Qwen2", {}),
    ("Qwen3", {}),
    ("Gemma", {}),
    ("Llama", {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}),
    ("Llama", {"rope_parameters": YARN}),
    ("Mistral", {"sliding_window": 3}),
    ("Mistral", {"sliding_window": None, "hidden_act": "relu"}),
    ("Qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
    ("Qwen3", {"attention_bias": True, "layer_types": [SLIDING, FULL], **WINDOW}),
    ("Gemma2", {"sliding_window": 3, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0}),
    ("Gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    ("Gemma3", {"sliding_window": 3, "layer_types": [SLIDING, FULL]}),
    ("Gemma3", {"sliding_window": 2, "layer_types": [FULL, SLIDING], "rope_parameters": TWO}),
]


def logits(config: DecoderConfig, weights: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
    """Of the last token, the prompt in two chunks."""
    rows: dict[str, np.ndarray] = {}
    hidden = np.zeros(0)
    for first in (0, 5):
        part, variant = tokens[first : first + 5], Variant("", 5, 8, 1, tuple(windows(config, 16)))
        model = decoder(config, weights, 5, 8, 1, 16)
        sample = inputs(variant, part, first, "f32")
        for spec in model.inputs:
            if spec.name.startswith("past_"):
                sample[spec.name] = np.zeros(spec.shape, np.float32)
                if first:
                    sample[spec.name][:, :first] = rows[spec.name.removeprefix("past_")]
        names = [spec.name for spec in model.outputs]
        found = Executor(model.module, model.weights).run(
            [sample[spec.name] for spec in model.inputs], "main"
        )
        rows, hidden = dict(zip(names, found, strict=True)), found[names.index("hidden")]
    last = head(config, weights, 1)
    return Executor(last.module, last.weights).run([hidden], "main")[0][0, 0]


def written(kind: str, changed: dict[str, Any], folder: Path) -> Any:
    """Their model with weights that are not tame, and its folder as they write it."""
    torch.manual_seed(0)
    names = ("Gemma3Text", "Gemma3") if kind == "Gemma3" else (kind, kind)
    table = getattr(transformers, f"{names[0]}Config")(**{**SIZES, **changed})
    theirs = getattr(transformers, f"{names[1]}ForCausalLM")(table).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(parameter + 0.1 * torch.randn(parameter.shape))
            if "embed" in name:  # what bf16 keeps
                parameter.copy_(parameter.to(torch.bfloat16).float())
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.filterwarnings("ignore")  # of importing transformers
@pytest.mark.parametrize(("kind", "changed"), KINDS)
def test_logits_are_those_of_transformers(
    kind: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    theirs = written(kind, changed, tmp_path)
    config, weights = read_decoder(tmp_path)
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    with torch.no_grad():
        wanted = theirs(torch.tensor([tokens])).logits[0, -1].numpy()
    np.testing.assert_allclose(logits(config, weights, tokens), wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.filterwarnings("ignore")  # of importing transformers
@pytest.mark.parametrize("target", ["atlas-v1", "vpu40"])
@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("Qwen3", {"layer_types": [SLIDING, FULL], "max_window_layers": 1, **WINDOW}),
        ("Gemma2", {"sliding_window": 6, "num_hidden_layers": 1, "attn_logit_softcapping": 2.0}),
    ],
)
def test_tokens_are_those_of_transformers(
    target: str, kind: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    """Generated behind prompts in chunks, past the window and from one capacity to the next: their
    best token wherever it is the best by far, and logits in the same direction."""
    theirs = written(kind, changed, tmp_path)
    program = compile_decoder(tmp_path, Capacity(5, (10, 20)), target)
    tokens, clear = [3, 1, 4, 1, 5, 9, 2], 0
    for found in LanguageModel(program.program).stream(tokens, 9):
        with torch.no_grad():
            wanted = theirs(torch.tensor([tokens])).logits[0, -1].numpy()
        second, best = np.sort(wanted)[-2:]
        lengths = np.linalg.norm(wanted) * np.linalg.norm(found.logits)
        assert wanted @ found.logits / lengths > 0.97
        if best - second > 0.1 * np.abs(wanted).max():
            assert found.token == wanted.argmax()
            clear += 1
        tokens.append(found.token)
    assert clear >= 3


@pytest.mark.filterwarnings("ignore")  # of importing transformers
def test_text_goes_in_and_comes_out(tmp_path: Path) -> None:
    """A folder as transformers writes it, with a tokenizer: compiled, and asked in words."""
    tokenizers = pytest.importorskip("tokenizers")
    sizes = SIZES | {"vocab_size": 280, "num_hidden_layers": 1, "num_attention_heads": 2}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(tmp_path)
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet)
    words.train_from_iterator(["a größer tile of a größer matrix"], trainer)
    words.save(str(tmp_path / "tokenizer.json"))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    bundle = str(tmp_path / "model.twb")
    run("compile", str(tmp_path), "-o", bundle, "--prompt", "6", "--slots", "24")
    prompt = "a größer tile"
    asked = ["--count", "8", "--temperature", "5", "--seed", "3", "--json"]
    text = ["--tokenizer", str(tmp_path), "--prompt", prompt]
    found = json.loads(run("generate", bundle, *text, *asked))
    ids = words.encode(prompt).ids
    assert found["prompt"] == ids
    named = ["--prompt-ids", ",".join(map(str, ids))]
    drawn = [row["token"] for row in json.loads(run("generate", bundle, *named, *asked))["tokens"]]
    assert [row["token"] for row in found["tokens"]] == drawn and len(set(drawn)) > 1
    assert found["text"] == words.decode(drawn)
    assert found["text"].startswith("".join(row["text"] for row in found["tokens"]))
    shown = run(
        "generate", bundle, "--tokenizer", str(tmp_path), "--prompt", prompt, "--count", "2"
    )
    assert "2 tokens on atlas-v1" in shown
