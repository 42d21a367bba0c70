"""Calls of torch against what is imported of them, many in one module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import import_module, to_numpy
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")

Calls = dict[str, Callable[..., Any]]


class Many(torch.nn.Module):
    """The results of many calls on the same inputs, by name."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *inputs: Any) -> Any:
        return {name: call(*inputs) for name, call in self.calls.items()}


def check(calls: Calls, inputs: tuple[Any, ...], tmp_path: Path, tolerance: float = 2e-6) -> None:
    module = Many(calls).eval()
    with torch.no_grad():
        found = module(*inputs)
        expected = {}
        for name, value in found.items():
            parts = list(value) if isinstance(value, (tuple, list)) else [value]
            expected[name] = [to_numpy(part) for part in parts]
    wanted = [array for arrays in expected.values() for array in arrays]
    names = [name for name, arrays in expected.items() for _ in arrays]
    program = torch.export.export(module, inputs).run_decompositions({})
    torch.export.save(program, tmp_path / "saved.pt2")
    given = [to_numpy(value) for value in inputs]
    for imported in (read_pt2(tmp_path / "saved.pt2"), import_module(module, inputs)):
        results = run(imported.module, given, weights=imported.weights)
        assert len(results) == len(wanted)
        for name, mine, theirs in zip(names, results, wanted, strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, name
            scale = np.max(
                np.abs(theirs.astype(np.float64)), initial=1.0, where=np.isfinite(theirs)
            )
            limit = tolerance * scale if theirs.dtype.kind == "f" else 0
            np.testing.assert_allclose(
                mine.astype(np.float64), theirs.astype(np.float64), 0, limit, err_msg=name
            )
