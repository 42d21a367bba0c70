"""The node tests of the `onnx` package on the importer and the reference executor.

    python benchmarks/onnx_nodes.py                  the table by operator, and totals
    python benchmarks/onnx_nodes.py --only Attention tests of some operators, with details
    python benchmarks/onnx_nodes.py --write FILE     keep the state of every test in a file

Every test is one model with inputs and outputs. States:

npu          passes; all kernels it became are of families that run on the NPU
host         passes; at least one kernel is of a host family (lookups, sorting, running sums)
folded       passes; all of it was computed at import, as with shapes and constants
unsupported  refused with a reason before anything runs
different    runs, and the results are not those of the test
failed       ends in an error that is no refusal
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx_file import OLDEST_OPSET
from tilewright.integrations.onnx_backend import Prepared

STATES = ("npu", "host", "folded", "unsupported", "different", "failed")


@dataclass
class Result:
    """What became of one test."""

    name: str
    operator: str
    state: str
    reason: str = ""


def load_tests() -> list[Any]:
    """The node tests with their data, in order of name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return sorted(load_model_tests(kind="node"), key=lambda test: test.name)


def operator_of(test: Any) -> str:
    """The operator a test is about: its only node, or the first that is no constant."""
    expanded = "_expanded" in test.name
    nodes = [n.op_type for n in test.model.graph.node]
    first = next((n for n in nodes if n != "Constant"), nodes[0])
    return f"{first} …" if expanded and len(nodes) > 1 else first


def run_test(test: Any) -> Result:
    """Import the test's model, run it, compare."""
    name, operator = test.name, operator_of(test)
    prepared = Prepared(in_reach(test.model))
    state = "folded"
    try:
        for inputs, outputs in test.data_sets:
            if any(isinstance(v, list) or v is None for v in (*inputs, *outputs)):
                return Result(name, operator, "unsupported", "sequences and optionals")
            got = prepared.run([array_of(v) for v in inputs])
            reason = difference(test, [array_of(v) for v in outputs], got)
            if reason:
                return Result(name, operator, "different", reason)
        for program in prepared.programs.values():
            state = max(state, where(program.module), key=("folded", "npu", "host").index)
    except TilewrightError as error:
        refused = error.code.startswith("TW6")
        return Result(name, operator, "unsupported" if refused else "failed", str(error))
    except Exception as error:  # a crash is a result of its own here, never the end of the run
        return Result(name, operator, "failed", f"{type(error).__name__}: {error}")
    return Result(name, operator, state)


def in_reach(model: Any) -> Any:
    """The model in operator set 13 where its own is older but its operators are the same there."""
    from onnx import defs

    entry = next((o for o in model.opset_import if o.domain == ""), None)
    if entry is None or entry.version >= OLDEST_OPSET:
        return model
    for node in model.graph.node:
        versions = {
            defs.get_schema(node.op_type, v).since_version for v in (entry.version, OLDEST_OPSET)
        }
        if len(versions) > 1:
            return model
    entry.version = OLDEST_OPSET
    return model


def array_of(value: Any) -> np.ndarray:
    """A test's value, some of which are TensorProtos, as an array."""
    if hasattr(value, "data_type"):
        from onnx import numpy_helper

        return numpy_helper.to_array(value)
    return np.asarray(value)


def where(module: Any) -> str:
    """Whether kernels are all for the NPU, some for the host, or there are none."""
    families = [
        family_of(op.symbol.data) if isinstance(op, UKernelGenericOp) else None
        for op in module.walk()
        if isinstance(op, UKernelGenericOp | MatmulOp)
    ]
    if any(family is not None and family.runs_on == "host" for family in families):
        return "host"
    return "npu" if families else "folded"


def difference(test: Any, wanted: Any, got: Any) -> str:
    """How results differ from the test's, or nothing."""
    if len(wanted) != len(got):
        return f"{len(got)} results, {len(wanted)} wanted"
    for index, (want, have) in enumerate(zip(wanted, got, strict=True)):
        want, have = np.asarray(want), np.asarray(have)
        if want.shape != have.shape:
            return f"result {index} has shape {have.shape}, {want.shape} wanted"
        if want.dtype.kind in "fV" or want.dtype.itemsize < have.dtype.itemsize:
            same_type = want.dtype == have.dtype
        else:
            same_type = want.dtype.kind == have.dtype.kind
        if not same_type and str(want.dtype) not in ("int4", "uint4"):
            return f"result {index} is {have.dtype}, {want.dtype} wanted"
        # As in onnx's own runner: two units in the last place of bf16.
        rtol = max(test.rtol, 2**-6) if want.dtype.name == "bfloat16" else test.rtol
        floats = want.dtype.kind in "fV"
        a, b = (v.astype(np.float64) if floats else v.astype(object) for v in (want, have))
        if floats and not np.allclose(a, b, rtol=rtol, atol=test.atol, equal_nan=True):
            with np.errstate(all="ignore"):
                return f"result {index} differs by {np.nanmax(np.abs(a - b)):.3g}"
        if not floats and not np.array_equal(want.astype(np.int64), have.astype(np.int64)):
            return f"result {index} differs in {int((a != b).sum())} of {a.size} elements"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the node tests of the onnx package.")
    parser.add_argument("--only", nargs="*", default=[], help="operators or test names to run")
    parser.add_argument("--write", metavar="FILE", help="write the state of every test as JSON")
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    options = parser.parse_args()
    tests = load_tests()
    if options.only:
        chosen = set(options.only)
        tests = [t for t in tests if t.name in chosen or operator_of(t).rstrip(" …") in chosen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [run_test(test) for test in tests]
    if options.json:
        print(json.dumps([vars(r) for r in results], indent=2))
    else:
        print_table(results, bool(options.only))
    if options.write:
        states = {state: [r.name for r in results if r.state == state] for state in STATES}
        Path(options.write).write_text(json.dumps(states, indent=1) + "\n", encoding="utf-8")
    return 0


def print_table(results: list[Result], details: bool) -> None:
    """A line per operator, then totals; with details also every test that does not pass."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        rows[result.operator][result.state] += 1
    width = max((len(name) for name in rows), default=8)
    print(f"{'operator':<{width}}" + "".join(f"{state:>13}" for state in STATES))
    for name, counts in sorted(rows.items()):
        print(f"{name:<{width}}" + "".join(f"{counts[state] or '':>13}" for state in STATES))
    totals = Counter(result.state for result in results)
    print(f"{'total':<{width}}" + "".join(f"{totals[state]:>13}" for state in STATES))
    operators = {name for name in rows if "…" not in name}
    passing = {n for n in operators if sum(rows[n][s] for s in ("npu", "host", "folded"))}
    whole = {n for n in passing if not sum(rows[n][s] for s in STATES[3:])}
    print(
        f"{len(results)} tests: {sum(totals[s] for s in STATES[:3])} pass; {len(operators)} operators: "
        f"{len(whole)} pass all of their tests, {len(passing) - len(whole)} some, "
        f"{len(operators) - len(passing)} none"
    )
    if details:
        for result in results:
            if result.reason:
                print(f"{result.state:<12} {result.name}: {result.reason}")


if __name__ == "__main__":
    sys.exit(main())
