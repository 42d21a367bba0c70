"""Small networks of every kind through the whole compiler: bit for bit, and close to float32."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import networks
import tilewright as tw
from tilewright.compiling import compile_imported
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.program import Program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL: dict[str, Callable[[], Imported]] = {
    "mlp": lambda: networks.mlp(rows=50, width=70, hidden=97, layers=3),
    "cnn": lambda: networks.cnn(size=12, channels=8),
    "decoder": lambda: networks.decoder(41, 128, heads=4, kv_heads=2, hidden=200),
    "decoders": lambda: networks.decoder(20, 128, heads=4, kv_heads=2, hidden=96, layers=4),
    "siglip": lambda: networks.siglip(70, 128, heads=2, hidden=160),
    "siglips": lambda: networks.siglip(36, 128, heads=2, hidden=96, layers=4),
    "bert": lambda: networks.bert(40, 128, heads=2, hidden=160),
    "berts": lambda: networks.bert(32, 64, heads=2, hidden=96, layers=4),
    "expert": lambda: networks.expert(17, 50, 96, heads=4, kv_heads=2, hidden=128),
    "experts": lambda: networks.expert(20, 33, 96, heads=4, kv_heads=2, hidden=96, layers=4),
}


@pytest.mark.parametrize("name", SMALL)
def test_exact_and_close_to_float32(name: str) -> None:
    model = SMALL[name]()
    looped = compile_imported(model, options=CompileOptions(layer_loops=True))
    program = Program(looped, original=model)
    found = program.verify(per_layer=True)
    assert found.ok, found.text()
    accuracy = found.outputs[0].accuracy
    assert accuracy is not None
    assert accuracy.cosine > (0.99 if name.endswith("s") else 0.998)
    if name in ("decoders", "siglips", "berts", "experts"):  # identical layers share their code
        (rounds,) = program.model.artifact.loops
        assert rounds.count >= 3


def test_the_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(tw.__file__).resolve().parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines() if line)
    assert int(rows["cycles"].replace(",", "")) > 1_000_000
    assert rows["values"].startswith("exact") and "cosine 0.99" in rows["float32"]
    assert tw.load(rows["program"]).cycles == int(rows["cycles"].replace(",", ""))
    assert "smollm2_block" in Path(rows["report"]).read_text()
