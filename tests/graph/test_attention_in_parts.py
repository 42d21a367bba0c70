"""Attention over more keys than fit: some tiles of them at a time, any number of them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.compiling import compile_imported
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.program import Program
from tilewright.targets.atlas.model import heads

WIDTH = 64


def model(rows: int, keys: tuple[int, ...], count: int, groups: int, kind: str) -> Imported:
    net = ModelBuilder("long")
    q = net.input("q", (1, rows, count, WIDTH))
    sides = [
        [net.input(f"{name}{k}", (1, size, groups, WIDTH)) for k, size in enumerate(keys)]
        for name in "kv"
    ]
    k, v = (parts[0] if len(parts) == 1 else net.concat(parts, 1) for parts in sides)
    mask = net.input("mask", (1, rows, sum(keys)), "i1") if kind == "mask" else None
    net.output("y", net.attention(q, k, v, causal=kind == "causal", mask=mask))
    return net.build()


def ideal(model: Imported, given: dict[str, np.ndarray], kind: str) -> np.ndarray:
    """In float64."""
    q, (k, v) = given["q"][0].astype(np.float64), (
        np.concatenate([given[n][0] for n in sorted(given) if n.startswith(side)]).astype(float)
        for side in "kv"
    )  # fmt: skip
    share = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, share, 1) for x in (k, v))
    scores = np.einsum("mhd,nhd->hmn", q, k) / np.sqrt(WIDTH)
    rows, keys = scores.shape[1:]
    seen = np.ones((rows, keys), bool)
    if kind == "causal":
        seen = np.tri(rows, keys, keys - rows, dtype=bool)
    elif kind == "mask":
        seen = given["mask"][0]
    scores = np.where(seen, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), -1e30)
    weights = np.exp(scores - top)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    return np.einsum("hmn,nhd->mhd", weights, v).reshape(1, rows, -1)


CASES = {
    "ragged": (50, (301,), 2, 2, "none"),
    "causal": (70, (301,), 2, 1, "causal"),
    "more queries than keys": (170, (140,), 1, 1, "causal"),
    "mask": (40, (301,), 2, 1, "mask"),
    "two sources": (33, (70, 200), 2, 1, "none"),
    "one row": (1, (333,), 3, 1, "none"),
}


SPANS = {
    "spans": (192, (260,), 2, 1, "none"),
    "ragged spans": (150, (301,), 1, 1, "none"),
    "spans in a loop": (500, (260,), 2, 1, "none"),
    "causal spans of three heads": (128, (145,), 3, 1, "causal"),
    "causal spans": (512, (512,), 2, 1, "causal"),
    "ragged causal spans": (300, (300,), 1, 1, "causal"),
    "causal spans behind other keys": (288, (416,), 2, 1, "causal"),
    "diagonal across tiles": (300, (517,), 4, 2, "causal"),
    "diagonal across tiles from the start on": (289, (296,), 1, 1, "causal"),
}


@pytest.mark.parametrize("target", ["atlas-v1", "atlas-v0"])
@pytest.mark.parametrize("case", [*CASES, *SPANS])
def test_parts_are_exact(case: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to the reference bit for bit, and near the true result, with growing maxima."""
    if target == "atlas-v0" and case not in SPANS:
        pytest.skip("what changes with the profile is how spans are found")
    rows, keys, count, groups, kind = (CASES | SPANS)[case]
    monkeypatch.setattr(heads, "WHOLE_KEYS", 64)
    monkeypatch.setattr(heads, "KEY_TILES", 2)
    monkeypatch.setattr(heads, "SPAN", 64 if case in SPANS else 1 << 30)
    monkeypatch.setattr(heads, "SPAN_TILES", (4,) if count == 1 or kind == "causal" else (3,))
    monkeypatch.setattr(heads, "together_causal", lambda *sizes: 4)
    imported = model(rows, keys, count, groups, kind)
    random = np.random.default_rng(len(case))
    given: dict[str, np.ndarray] = {
        spec.name: random.standard_normal(spec.shape).astype(np.float32)
        for spec in imported.inputs
        if spec.name != "mask"
    }
    last = f"k{len(keys) - 1}"
    given[last] *= np.linspace(0.2, 3, keys[-1], dtype=np.float32)[None, :, None, None]
    if kind == "mask":
        seen = random.random((1, rows, sum(keys))) < 0.4
        seen[0, 3], seen[0, 5, :200], seen[0, 6, 64:] = False, False, False
        given["mask"] = seen
    program = Program(compile_imported(imported, target, samples=[given]))
    steps = program.model.artifact.steps
    (options,) = (step.options for step in steps if step.kernel.startswith("attention"))
    assert options["keys"] == 2 and ("span" in options) == (case in SPANS)
    shares = case in SPANS and kind == "causal"
    assert options.get("sharing", 1) == (count // groups if shares else 1)
    found = program.verify(given)
    assert found.ok
    wanted, result = ideal(imported, given, kind), np.asarray(found.results["y"], np.float64)
    if kind == "mask":
        assert not result[0, 3].any()
    assert np.dot(result.ravel(), wanted.ravel()) > 0.995 * np.linalg.norm(result) * np.linalg.norm(
        wanted
    )


def test_keys_beyond_what_fits() -> None:
    """8,200 keys, which no kernel holds as scores."""
    imported = model(8, (8200,), 1, 1, "none")
    program = Program(compile_imported(imported))
    assert program.verify().ok
