"""Which products are one kernel with attention, and that such models are exact."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.targets.atlas.model import attention_products
from tilewright.targets.atlas.model.attention_products import with_products
from tilewright.targets.atlas.model.calls import Call, Numbers, Tensor
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import Layout

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from networks import siglip

PROFILE = load_profile("atlas-v1")


def tensor(name: str, shape: tuple[int, ...], dtype: str, order: str = "tiles") -> Tensor:
    return Tensor(name, Layout(shape, dtype, order), "activation")


def block(rows: int, heads: int, width: int = 768) -> list[Call]:
    """Attention and its product, as a vision transformer has them."""
    head = width // heads
    q, v = (tensor(name, (1, heads, rows, head), "fp8") for name in "qv")
    kt = tensor("kt", (1, heads, head, rows), "fp8", "panels")
    found = tensor("found", (1, heads, rows, head), "fp8")
    weights = Tensor("w", Layout((width, width), "fp8", "panels"), "weight", Numbers(np.zeros(0)))
    residual, out = (tensor(name, (1, rows, width), "bf16") for name in ("x", "y"))
    attention = Call("attention", "attention", {"q": q, "kt": kt, "v": v}, found, macs=1)
    operands = {"a": found, "w": weights, "residual": residual}
    options = {"out": "bf16", "heads": True, "residual": True, "activation": None}
    return [attention, Call("product", "linear", operands, out, options, macs=2)]


def joined(calls: list[Call], **changes: object) -> list[Call]:
    return with_products(calls, replace(PROFILE, **changes), {calls[-1].output})  # pyright: ignore


def test_heads_that_would_be_copied_come_from_dram():
    (call,) = joined(block(1024, 12))
    assert call.kernel == "attention_linear" and call.macs == 3
    assert call.options == {"out": "bf16", "residual": True, "rows": 128}
    assert list(call.operands) == ["q", "kt", "v", "w", "residual"]


def test_heads_stay_on_chip_where_everything_fits():
    (call,) = joined(block(100, 3, 96))
    assert call.options["heads_on_chip"] is True
    assert "rows" not in call.options


@pytest.mark.parametrize(
    "calls",
    [
        block(
            512, 12
        ),  # the heads stay in VMEM without that, and the weights do not fit beside them
        block(1500, 6, 384),  # rows left over would make a part of their own
        [*block(100, 3, 96), block(100, 3, 96)[0]],
    ],
)
def test_others_stay_as_they_are(calls):
    if len(calls) == 3:  # somebody else reads the heads
        calls[2].operands["q"] = calls[0].output
    assert [call.kernel for call in joined(calls)][:2] == ["attention", "linear"]


def test_little_memory_and_one_unit_for_all():
    assert len(joined(block(100, 3, 96), vmem_bytes=96 * 1024)) == 2
    calls = block(100, 3, 96)
    assert len(with_products(calls, load_profile("atlas-v0"), {calls[-1].output})) == 2


def test_models_are_exact():
    program = tw.compile(siglip(70, 96, 3, 64))
    assert "attention_linear" in {step.kernel for step in program.model.artifact.steps}
    assert program.verify().ok


def test_what_does_not_fit_is_done_apart(monkeypatch):
    """However wrong the estimate was."""
    monkeypatch.setattr(attention_products, "_options", lambda *_: {"heads_on_chip": True})
    small = replace(PROFILE, vmem_bytes=40 * 1024)
    program = tw.compile(siglip(128, 96, 3, 32), target=small)
    assert [step.kernel for step in program.model.artifact.steps].count("attention") == 1
    assert program.verify().ok
