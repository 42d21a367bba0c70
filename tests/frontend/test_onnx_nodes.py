"""The node tests of the onnx package: what passed keeps passing, nothing gives wrong results.

`tests/data/onnx_nodes.json` has the state of every test, written by
`python benchmarks/onnx_nodes.py --write tests/data/onnx_nodes.json`, which runs all of them. Here the
operators' own tests run, without the ones that spell out function bodies.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import onnx_nodes  # noqa: E402  # pyright: ignore[reportMissingImports]

EXPECTED = json.loads((ROOT / "tests/data/onnx_nodes.json").read_text(encoding="utf-8"))
SLOW = {"lppool", "maxpool", "averagepool"}  # their data takes seconds to make


def test_node_tests_keep_their_states() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import onnx.backend.test.case.node as node

        for module in pkgutil.iter_modules(node.__path__):
            if module.name not in SLOW:
                importlib.import_module(f"{node.__name__}.{module.name}")
        tests = [t for t in node._NodeTestCases if "_expanded" not in t.name]
        got = {t.name: onnx_nodes.run_test(t) for t in sorted(tests, key=lambda t: t.name)}
    wanted = {name: state for state, names in EXPECTED.items() for name in names}
    changed = {
        name: f"{wanted.get(name)} -> {result.state} {result.reason}"
        for name, result in got.items()
        if result.state != wanted.get(name)
    }
    assert not changed
    assert sum(result.state in ("npu", "host", "folded") for result in got.values()) > 800


def test_no_claimed_test_is_wrong() -> None:
    assert EXPECTED["different"] == []
    assert EXPECTED["failed"] == []


def test_a_wrong_result_is_seen() -> None:
    """The comparison itself: a result that is off is reported."""
    import numpy as np

    class Test:
        rtol, atol = 1e-3, 1e-7

    right = np.ones(3, np.float32)
    assert onnx_nodes.difference(Test, [right], [right]) == ""
    assert "differs" in onnx_nodes.difference(Test, [right], [right * 1.01])
    assert "shape" in onnx_nodes.difference(Test, [right], [right[:2]])
    assert "wanted" in onnx_nodes.difference(Test, [right], [right.astype(np.float64)])
    whole = np.arange(3)
    assert "differs in 1 of 3" in onnx_nodes.difference(Test, [whole], [np.array([0, 1, 3])])
