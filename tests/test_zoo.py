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


def test_a_page_is_refreshed_row_by_row() -> None:
    """Rows of another run take the place of theirs; the others and the notes stay."""
    module = zoo()
    spent = {"import": 1.0, "compile": 2.0, "verify": 0.5}
    rows = [
        module.Row("a/one", "import", seconds={"import": 1.0}, operations=7),
        module.Row("a/two", "compile", "refused", "TW1", "why | not", {"import": 1.0, "compile": 2.0}),
        module.Row("b/three", "verify", seconds=spent, host_share=0.015, ratio=2.25),
    ]  # fmt: skip
    page = module.table(rows) + "\n## Notes\n\nof a run | before\n"
    assert module.refreshed(page, []) == page
    new = module.Row("a/one", "verify", seconds=spent, operations=9, host_share=0.0, ratio=1.5)
    text = module.refreshed(page, [new])
    assert text == module.table([new, *rows[1:]]) + "\n## Notes\n\nof a run | before\n"


def test_models_that_have_a_row_are_left_out(tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    kept.write_text(json.dumps({"key": "torch.nn/mlp"}) + "\n")
    assert run_zoo("--exact", "--only", "torch.nn/mlp", "--resume", str(kept)) == []
    assert len(kept.read_text().splitlines()) == 1
