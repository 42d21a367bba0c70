"""Ten architectures of the zoo from end to end, and the page that `benchmarks/zoo.py` writes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SAMPLE = [
    "transformers/LlamaForCausalLM",
    "transformers/GPT2LMHeadModel",
    "transformers/BertModel",
    "transformers/T5EncoderModel",
    "transformers/ViTModel",
    "torch.nn/mlp",
    "torch.nn/GRU",
    "torch.nn/TransformerEncoder",
    "torch.nn/tagger",
    "flax/attention",
]


def run_zoo(*options: str) -> list[dict]:
    command = [sys.executable, "-W", "ignore", str(BENCHMARKS / "zoo.py"), "--json", *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("library", ["transformers", "torch.nn", "flax"])
def test_architectures_are_verified(library: str) -> None:
    pytest.importorskip("torch" if library == "torch.nn" else library)
    names = [name for name in SAMPLE if name.startswith(library)]
    options = [option for name in names for option in ("--only", name)]
    rows = run_zoo("--stage", "verify", "--exact", *options)
    assert {row["key"] for row in rows} == set(names)
    for row in rows:
        assert row["state"] == "ok" and row["stage"] == "verify", row


def zoo():
    spec = importlib.util.spec_from_file_location("zoo", BENCHMARKS / "zoo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["zoo"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_counts_stages_and_states() -> None:
    module = zoo()
    rows = [
        module.Row("a/one", "verify", "ok", seconds={"import": 1.0, "compile": 2.0, "verify": 1.0}),
        module.Row("a/two", "compile", "refused", "TW1", "why | not", {"import": 1.0, "compile": 2.0}),
        module.Row("b/three", "import", "wrong", reason="off", seconds={"import": 1.0}),
    ]  # fmt: skip
    lines = module.summary(rows)
    assert lines[0] == "3 architectures"
    assert "import: 2 of 3 (66.7%)" in lines
    assert "compile: 1 of 2 (50.0%)" in lines
    assert "verify: 1 of 1 (100.0%)" in lines
    assert "stopped: 1 refused, 1 wrong" in lines
    assert "why \\| not" in module.table(rows)


def test_names_are_unique_and_enough() -> None:
    module = zoo()
    keys = [architecture.key for architecture in module.chosen([], None)]
    assert len(keys) == len(set(keys)) >= 90
    assert set(SAMPLE) <= set(keys)
