"""A model on the simulated array: values by walking designs, time by their event simulation.

The driver on the host rounds rows to int8 with one scale each, and turns int32 sums into values.
A design that is small is walked on every call, any other on its first call: every descriptor, every
kernel call. After that its sums are taken as the exact integer product, which is what the walk has
just been seen to compute; `hazards` says which calls these were. The time of a design does not
depend on values and is simulated once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference.dtypes import numpy_type
from tilewright.targets.artifact import (
    Counters,
    DeviceOptions,
    DevicePart,
    Finding,
    Port,
    StepCall,
    StepValues,
    Watch,
)
from tilewright.targets.xdna.bitnet import quantise_activations
from tilewright.targets.xdna.events import TimeResult
from tilewright.targets.xdna.host import result_of
from tilewright.targets.xdna.layer_weights import unpack
from tilewright.targets.xdna.model_artifact import LayerCall, XdnaArtifact
from tilewright.targets.xdna.values import simulate_values
from tilewright.trace.model import Slice, TraceModel, Track

SIMULATORS = ("walk", "exact")
ALWAYS_WALKED = 1 << 26  # multiplies of a design that is walked on every call
WALKABLE = 1 << 35  # multiplies of a design that is walked at all unless it is asked for
_EXACT_STEP = 1024  # products of int8 summed in f32 without rounding


class ModelDevice:
    """The array with a model's weights in the memory behind it."""

    def __init__(self, artifact: XdnaArtifact, options: DeviceOptions) -> None:
        if options.simulator not in (None, *SIMULATORS):
            raise TilewrightError(
                "TW8091",
                f"the array has no simulator {options.simulator!r}",
                hint=f"simulators: {', '.join(SIMULATORS)}; by default each design is walked once",
            )
        self.artifact, self.options = artifact, options
        self.simulator = options.simulator or "walk once"
        self._values: dict[str, np.ndarray] = {}
        self._seen: set[int] = set()  # designs that were walked
        self._codes: dict[str, np.ndarray] = {}  # weights, decoded when products need them
        self.begin()

    def begin(self) -> None:
        self._cycles = 0
        self._calls: list[StepCall] = []
        self._counters = Counters()
        self._walked = self._computed = 0

    def write(self, port: Port, value: np.ndarray) -> None:
        self._values[port.name] = np.array(value)

    def read(self, port: Port) -> np.ndarray:
        if port.name not in self._values:
            raise TilewrightError("TW8092", f"nothing has computed {port.name} yet")
        return self._values[port.name].astype(numpy_type(port.dtype), copy=False)

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        steps = self.artifact.entries.get(part.entry)
        if steps is None:
            raise TilewrightError("TW8092", f"the array's program has no entry {part.entry!r}")
        for index in steps:
            self._step(index, watch)

    def _step(self, index: int, watch: Watch | None) -> None:
        layer = self.artifact.layers[index]
        M, K, _ = layer.shape
        if layer.x not in self._values:
            raise TilewrightError("TW8092", f"{layer.name} reads {layer.x} before it is there")
        given = self._values[layer.x].reshape(M, K)
        scale = None
        if layer.exact:
            codes = given.astype(np.int8)
        else:
            codes, scale = rounded_rows(given)
        sums = self._sums(layer, codes)
        weight = self.artifact.weights[layer.weight]
        result = values_of(sums, weight.scales, scale, layer.dtype)
        self._values[layer.y] = result.reshape(layer.result_shape)
        self._account(index, layer)
        if watch is not None:
            reads = {"x": codes} if scale is None else {"x": codes, "scale": scale}
            watch(StepValues(index, 0, reads, {"y": self._values[layer.y], "sums": sums}))
        if self.options.progress is not None:
            done = len(self._calls)
            self.options.progress(done, len(self.artifact.layers), self._cycles)

    # --- values ---------------------------------------------------------------------------

    def _sums(self, layer: LayerCall, codes: np.ndarray) -> np.ndarray:
        gemm = self.artifact.gemm(layer)
        if self._walks(layer.design, gemm.multiplies):
            self._seen.add(layer.design)
            self._walked += 1
            return self._walk(layer, codes)
        self._computed += 1
        if layer.weight not in self._codes:
            packed = self.artifact.weights[layer.weight].packed
            self._codes[layer.weight] = unpack(gemm, packed)
        return exact_product(codes, self._codes[layer.weight])

    def _walks(self, design: int, multiplies: int) -> bool:
        if self.options.simulator is not None:
            return self.options.simulator == "walk"
        if multiplies <= ALWAYS_WALKED:
            return True
        return design not in self._seen and multiplies <= WALKABLE

    def _walk(self, layer: LayerCall, codes: np.ndarray) -> np.ndarray:
        design, gemm = self.artifact.designs[layer.design], self.artifact.gemm(layer)
        M, K, _ = gemm.padded
        rows = np.zeros((M, K), np.int8)
        rows[: gemm.M, : gemm.K] = codes
        packed = self.artifact.weights[layer.weight].packed
        drained = simulate_values(design, {"A": rows.reshape(-1), "B": packed})
        if "C" not in drained:
            raise TilewrightError("TW8042", "the design never writes C")
        return result_of(gemm, drained["C"], codes)

    # --- time -----------------------------------------------------------------------------

    def _account(self, index: int, layer: LayerCall) -> None:
        time = self.artifact.time(layer.design)
        start = self._cycles
        writing = self.artifact.rewriting[index]
        self._cycles += math.ceil(time.cycles + writing)
        limit = self.options.max_cycles
        if limit is not None and self._cycles > limit:
            raise TilewrightError(
                "TW8093", f"the array took more than {limit:,} cycles, at {layer.name}"
            )
        moved = time.dram_bytes
        call = StepCall(
            index, 0, layer.name, start, self._cycles, busy_units(time, writing),
            loaded=moved.get("A", 0) + moved.get("B", 0), stored=moved.get("C", 0),
        )  # fmt: skip
        self._calls.append(call)
        counters = self._counters
        counters.cycles = self._cycles
        counters.loaded += call.loaded
        counters.stored += call.stored
        for unit, cycles in call.busy.items():
            counters.busy[unit] = counters.busy.get(unit, 0) + cycles

    @property
    def cycles(self) -> int:
        return self._cycles

    @property
    def calls(self) -> Sequence[StepCall]:
        return self._calls

    @property
    def counters(self) -> Counters:
        return self._counters

    def audit(self) -> Iterable[Finding]:
        """Weights that are not what the compiler packed."""
        from tilewright.targets.xdna.model_check import check_weights

        return check_weights(self.artifact)

    def hazards(self) -> Iterable[Finding]:
        """How values were found, as a remark."""
        text = f"{self._walked} products walked descriptor by descriptor"
        if self._computed:
            text += f", {self._computed} as exact integer products"
            unseen = sum(
                1
                for number, design in enumerate(self.artifact.designs)
                if number not in self._seen and design.gemm is not None
            )
            if unseen:
                text += f"; {unseen} of {len(self.artifact.designs)} designs were never walked"
        return [Finding("TW8094", text, error=False)]

    def trace(self) -> TraceModel | None:
        """Layers one after the other; inside of a design see `tilewright xdna gemm --emit`."""
        units = ("layers", "cores", "dram", "streams", "controller")
        tracks = [Track(unit, "array", "busy cycles, not when" if unit != "layers" else "")
                  for unit in units]  # fmt: skip
        slices = []
        first, last = self.options.window or (0, self._cycles)
        for call in self._calls:
            if call.end < first or call.start > last:
                continue
            slices.append(Slice(0, call.start, call.end, call.name, "multiply"))
            for track, unit in enumerate(units[1:], 1):
                end = call.start + min(call.busy.get(unit, 0), call.end - call.start)
                if end > call.start:
                    slices.append(Slice(track, call.start, end, call.name, unit))
        return TraceModel(
            "", f"{self.artifact.target}", first, min(last, self._cycles), tracks, slices, [], []
        )


def busy_units(time: TimeResult, writing: float) -> dict[str, int]:
    """The busiest core, the busiest stream, DRAM and the controller, which also writes descriptors."""
    busiest: dict[str, float] = {}
    for name, cycles in time.busy.items():
        unit = "cores" if name.startswith("core ") else "streams" if name[0] == "@" else name
        busiest[unit] = max(busiest.get(unit, 0.0), cycles)
    busiest["controller"] = busiest.get("controller", 0.0) + writing
    return {unit: int(cycles) for unit, cycles in sorted(busiest.items())}


def rounded_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 rows and what they were multiplied with; a row that is not finite has a scale of NaN."""
    rows = values.astype(np.float32)
    finite = np.isfinite(rows).all(axis=1, keepdims=True)
    codes, scale = quantise_activations(np.where(finite, rows, np.float32(0)))
    return codes, np.where(finite, scale, np.float32(np.nan)).astype(np.float32)


def values_of(
    sums: np.ndarray, scales: np.ndarray, row_scale: np.ndarray | None, dtype: str
) -> np.ndarray:
    """The layer's result: sums times the scale of the column, over that of the row."""
    if row_scale is None:
        return sums
    wide = sums.astype(np.float32) * scales[None, :] / row_scale
    with np.errstate(over="ignore"):
        return wide.astype(numpy_type(dtype))


def exact_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """int32 sums of int8 products, by floating point in steps that cannot round."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for start in range(0, a.shape[1], _EXACT_STEP):
        left = a[:, start : start + _EXACT_STEP].astype(np.float32)
        right = b[start : start + _EXACT_STEP].astype(np.float32)
        total += (left @ right).astype(np.int64)
    return total.astype(np.int32)
