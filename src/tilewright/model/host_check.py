"""The host's values a second time, by other code than the executor's: numpy in float64.

    problems = HostCheck(graph, weights).differences(ports)

Every operation of a `HostGraph` is computed from the ports the host was given and rounded to its
type. What no rounding enters has to agree in every bit; other numbers within `NEAR` of the coarsest type
on the way from what is known, of which no mistake in what is computed from what, by which function, is
that small. `host_meanings` says what the families mean.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tilewright.model.host_graph import HostGraph, HostOperation, content_digest
from tilewright.model.host_meanings import EXACT, MEANINGS, Given

# The largest difference, relative to the number or to the usual size of the numbers beside it.
NEAR = {"f64": 1e-3, "f32": 1e-3, "f16": 1e-2, "bf16": 3e-2, "f8E4M3FN": 0.2, "f8E5M2": 0.4}
FEW = 0.01  # share of whole numbers that may come out otherwise where they come from rounded ones
TYPES: dict[str, np.dtype] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "i1": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
    **{f"{sign}i{8 * n}": np.dtype(f"{'u' if sign else 'i'}{n}") for sign in ("", "u") for n in (1, 2, 4, 8)},
}  # fmt: skip


@dataclass
class HostCheck:
    """One look at the ports of a run."""

    graph: HostGraph
    weights: Mapping[str, np.ndarray]  # of the host, by the names of the model
    unknown: set[str] = field(default_factory=set)  # families that have no second meaning
    values: dict[str, np.ndarray] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)  # values that no rounding entered
    near: dict[str, float] = field(default_factory=dict)  # of values: `NEAR` of the coarsest type

    def differences(self, ports: Mapping[str, np.ndarray]) -> list[str]:
        """What is wrong with the ports that the host filled, a line each."""
        found = self._constants()
        for port, value in self.graph.given.items():
            if port in ports:
                self.values[value] = ports[port]
                self.exact.add(value)
        filled: dict[str, list[str]] = {}
        for port, value in self.graph.made.items():
            filled.setdefault(value, []).append(port)
        for value in list(self.values):
            found += self._compare(value, filled.get(value, ()), ports)
        for operation in self.graph.operations:
            self._compute(operation)
            if operation.output in self.values:
                value = operation.output
                found += self._compare(value, filled.get(value, ()), ports)
        return found

    def _constants(self) -> list[str]:
        found = []
        for name, constant in self.graph.constants.items():
            wanted = TYPES[constant.dtype]
            if constant.weight:
                array = self.weights.get(constant.weight)
                if array is None:
                    found.append(f"the host lacks the weights {constant.weight}")
                    continue
                if content_digest(array) != constant.digest:
                    found.append(f"the host's weights {constant.weight} are not the model's")
                self.values[name] = np.asarray(array).reshape(constant.shape)
            else:
                raw = base64.b64decode(constant.data)
                self.values[name] = np.frombuffer(raw, wanted).reshape(constant.shape)
            self.exact.add(name)
        return found

    def _compute(self, operation: HostOperation) -> None:
        meaning = MEANINGS.get(operation.family)
        names = [name for names in operation.operands.values() for name in names]
        if meaning is None:
            self.unknown.add(operation.family)
        if meaning is None or any(name not in self.values for name in names):
            return
        wanted = TYPES[operation.dtype]
        operands = {
            role: tuple(_wide(self.values[name]) for name in names)
            for role, names in operation.operands.items()
        }
        types = {
            role: self.values[names[0]].dtype for role, names in operation.operands.items() if names
        }
        given = Given(operands, types, operation.attributes, operation.shape, wanted)
        if 0 in operation.shape:
            result = np.empty(operation.shape, wanted)
        else:
            with np.errstate(all="ignore"):
                result = _narrow(np.asarray(meaning(given)), wanted)
        self.values[operation.output] = np.broadcast_to(result, operation.shape)
        entered = [self.near.get(name, 0.0) for name in names]
        self.near[operation.output] = max([_near(wanted), *entered])
        whole = wanted.kind in "biu" and all(t.kind in "biu" for t in types.values())
        if (operation.family in EXACT or whole) and all(name in self.exact for name in names):
            self.exact.add(operation.output)

    def _compare(
        self, value: str, filled: Sequence[str], ports: Mapping[str, np.ndarray]
    ) -> list[str]:
        found = []
        for port in filled:
            if port not in ports:
                continue
            near = max(_near(self.values[value].dtype), self.near.get(value, 0.0))
            near = 0.0 if value in self.exact else near
            text = difference(self.values[value], ports[port], near)
            if text is not None:
                found.append(f"the host fills {port}, which should be {value}: {text}")
            else:
                self.values[value] = ports[port]  # what later operations really found
                self.near.pop(value, None)
        return found


def _near(dtype: np.dtype) -> float:
    """`NEAR` of a type; whole numbers may be computed by way of float32."""
    return next((NEAR[name] for name in NEAR if TYPES[name] == dtype), NEAR["f32"])


def _wide(array: np.ndarray) -> np.ndarray:
    """Numbers to compute with."""
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def _narrow(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    if wanted == np.bool_:
        return array != 0 if array.dtype.kind == "f" else (array.astype(np.int64) & 1).astype(bool)
    if wanted.kind in "iu" and array.dtype.kind == "f":
        limits = np.iinfo(wanted)
        kept = np.clip(np.nan_to_num(array, nan=0.0), limits.min, limits.max)
        return np.trunc(kept).astype(wanted)
    if wanted.itemsize < 4 and wanted.kind not in "iu":
        return array.astype(np.float32).astype(wanted)
    return array.astype(wanted)


def difference(expected: np.ndarray, found: np.ndarray, near: float) -> str | None:
    """Where two arrays differ more than they may, in words; near: 0 for equal bits."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{found.dtype} of {list(found.shape)} instead of {expected.dtype} of {list(expected.shape)}"
    if expected.dtype.kind in "biu":
        wrong = expected != found
        if near and wrong.sum() <= max(1, FEW * wrong.size):
            return None
    else:
        a, b = expected.astype(np.float64), found.astype(np.float64)
        with np.errstate(all="ignore"):
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            if near:
                finite = a[np.isfinite(a)]
                usual = np.sqrt(np.mean(np.square(finite))) if finite.size else 0.0
                wrong &= ~(np.abs(a - b) <= near * np.maximum(np.abs(a), usual))
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} elements differ, the first at {list(at)}: "
        f"{expected[at]} expected, {found[at]} found"
    )
