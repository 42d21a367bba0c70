"""Kernels of the library that are kernels of whole models on one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.targets.atlas.kernels.record_entries import RECORD_ENTRIES
from tilewright.targets.atlas.kernels.references import IDEALS, REFERENCES
from tilewright.targets.atlas.kernels.references_heads import HEAD_IDEALS
from tilewright.targets.atlas.kernels.registry import ENTRIES, entry
from tilewright.targets.atlas.model.kernel_records import RECORDS, build
from tilewright.tile.layouts import to_codes


def test_every_record_is_an_entry_with_an_ideal() -> None:
    assert set(RECORD_ENTRIES) == {name for name, e in ENTRIES.items() if e.record is not None}
    ideals = {**IDEALS, **HEAD_IDEALS}
    assert set(RECORD_ENTRIES) == set(ideals) and not set(ideals) & set(REFERENCES)


def test_parameters_are_the_library_s_own() -> None:
    kernel = entry("matmul_bias").kernel
    assert list(kernel.specs) == ["a", "b", "bias", "out"]
    assert kernel.specs["bias"].sizes == ("M", "N") and kernel.specs["b"].sizes == ("K", "N")
    assert entry("linear").kernel.specs["bias"].sizes == ("N",)
    assert entry("attention").kernel.specs["kt"].sizes == ("G", "D", "N")
    assert entry("attention").kernel.specs["q"].sizes == ("G", "R", "M", "D")
    assert entry("rms_norm").doc == "x / sqrt(mean of x^2 + 1e-6), row by row"


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_one_matrix_takes_the_cycles_of_a_batch_of_one(target: str) -> None:
    for name, shapes in (("silu_gate", (50, 40)), ("layer_norm", (33, 70))):
        record = RECORD_ENTRIES[name]
        batch: dict[str, Any] = {
            role: shapes[1:] if len(spec.sizes) == 1 else (1, *shapes)
            for role, spec in build(record.record, record.options).specs.items()
        }
        alone = entry(name).build(target, {"M": shapes[0], "N": shapes[1]})
        assert alone.cycles == build(record.record, record.options).compile(target, **batch).cycles


def test_the_reference_is_the_record_s() -> None:
    x = to_codes(np.array([[1.0, -2.0, 0.5]]), "bf16")
    found = entry("relu").reference.exact(None, x)  # a profile plays no part in it
    assert found.tolist() == to_codes(np.array([[1.0, 0.0, 0.5]]), "bf16").tolist()
    found[0, 0] = 0  # it belongs to the caller
    assert x[0, 0] != 0


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min"])
def test_rows_that_are_too_long_are_reduced_in_passes(kind: str) -> None:
    """A tile at a time, with the bits of rows that stay on chip."""
    x = np.random.default_rng(0).normal(size=(1, 3, 3001))
    options = {"kind": kind, "along": "row", "passes": True}
    compiled = build("reduce", options).compile("atlas-v0", x=x.shape, L=1)
    codes = to_codes(x, "bf16")
    profile = compiled.profile
    expected = RECORDS["reduce"].compute(profile, options, {"x": codes})["out"]
    assert np.array_equal(compiled.run(x).view(np.uint16), expected)
