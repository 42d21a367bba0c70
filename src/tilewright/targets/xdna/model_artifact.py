"""What a model is on the array: one configuration, a runtime sequence per shape, packed weights.

Host memory behind the shim holds int8 rows of every value that layers read, packed weights, and
int32 sums. The host's driver turns values into int8 rows with one scale each, and sums into values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.io.archive import Member
from tilewright.targets.artifact import (
    Bound,
    Device,
    DeviceOptions,
    DevicePart,
    Finding,
    HostPart,
    LayerLoop,
    Port,
    Step,
    Tensor,
)
from tilewright.targets.target import Description
from tilewright.targets.xdna.design import Design
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.events import TimeResult, simulate_time
from tilewright.targets.xdna.gemm import gemm_behind
from tilewright.targets.xdna.layer_program import rewritten
from tilewright.targets.xdna.problem import Gemm

ALIGNMENT = 64
SPACE = "ddr"


@dataclass(frozen=True)
class LayerCall:
    """One product: which design multiplies which rows with which weights."""

    name: str
    entry: str
    x: str  # value names: ports, or results of earlier layers of the entry
    y: str
    shape: tuple[int, int, int]
    result_shape: tuple[int, ...]
    dtype: str  # of the result
    weight: str  # in the artifact's table of weights
    exact: bool  # int8 in, int32 out, no scales
    design: int
    source: str = ""

    @property
    def macs(self) -> int:
        M, K, N = self.shape
        return M * K * N


@dataclass(frozen=True)
class PackedWeight:
    """Weights in the order of the kernel's tiles, and their scales, one per column."""

    packed: np.ndarray  # int8, as the design's B
    scales: np.ndarray  # float32
    digest: str  # of the codes, as the compiler had them
    rule: str  # where the codes come from, for people


@dataclass(frozen=True, eq=False)
class XdnaArtifact:
    """Layers of a model on one configuration of the array."""

    target: str
    array: ArrayDevice
    weight_kind: str  # i8 or ternary
    designs: tuple[Design, ...]
    layers: tuple[LayerCall, ...]
    weights: Mapping[str, PackedWeight]

    @property
    def family(self) -> str:
        return "xdna"

    @property
    def loops(self) -> Sequence[LayerLoop]:
        return ()

    def gemm(self, layer: LayerCall) -> Gemm:
        return gemm_behind(self.designs[layer.design])

    @cached_property
    def entries(self) -> dict[str, list[int]]:
        """Entry -> its steps."""
        found: dict[str, list[int]] = {}
        for index, layer in enumerate(self.layers):
            found.setdefault(layer.entry, []).append(index)
        return found

    @cached_property
    def times(self) -> dict[int, TimeResult]:
        """Simulated time of each design that was asked for."""
        return {}

    def time(self, design: int) -> TimeResult:
        if design not in self.times:
            self.times[design] = simulate_time(self.designs[design], self.array)
        return self.times[design]

    @cached_property
    def rewriting(self) -> list[float]:
        """Cycles in which the controller writes descriptors of panels before each layer."""
        gemms = [self.gemm(layer) for layer in self.layers]
        each = self.array.controller.push_seconds * self.array.clock_hz
        pairs = zip([*gemms[-1:], *gemms[:-1]], gemms, strict=True)
        return [rewritten(before, gemm) * each for before, gemm in pairs]

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._tensors

    @cached_property
    def _steps(self) -> list[Step]:
        return [
            Step(
                layer.name,
                f"gemm_{self.weight_kind}",
                {"x": codes_name(layer.x), "w": layer.weight, "y": sums_name(layer.y)},
                _options(layer, self.gemm(layer)),
                (layer.source,) if layer.source else (),
                layer.macs,
                self.layer_bound(layer)[0],
            )
            for layer in self.layers
        ]

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        """Weights, then the values of the layers, one after the other."""
        made: dict[str, Tensor] = {}
        address = 0

        def add(name: str, size: int, first: int, last: int, **more: Any) -> None:
            nonlocal address
            if name in made:
                return
            made[name] = Tensor(name, SPACE, address, size, first=first, last=last, **more)
            address += -(-size // ALIGNMENT) * ALIGNMENT

        final = max(0, len(self.layers) - 1)
        kind = "2-bit crumbs" if self.weight_kind == "ternary" else "int8"
        for name, weight in self.weights.items():
            add(
                name, weight.packed.nbytes, 0, final, kind="weight",
                encoding=f"{kind} in tiles; {weight.rule}", dtype=self.weight_kind,
            )  # fmt: skip
        read_by: dict[str, list[int]] = {}
        for index, layer in enumerate(self.layers):
            read_by.setdefault(layer.x, []).append(index)
        for index, layer in enumerate(self.layers):
            M, K, N = self.gemm(layer).padded
            rows = "int8 as given" if layer.exact else "int8 rows, one scale each"
            readers = read_by[layer.x]
            add(
                codes_name(layer.x), M * K, readers[0], readers[-1], kind="activation",
                encoding=rows, dtype="i8", shape=(M, K),
            )  # fmt: skip
            add(
                sums_name(layer.y), 4 * M * N, index, final, kind="activation",
                encoding="int32 sums", dtype="i32", shape=(M, N),
            )  # fmt: skip
        return made

    # --- what no program can beat ---------------------------------------------------------

    def layer_bound(self, layer: LayerCall) -> tuple[int, str]:
        """Cycles of the multiplies at full rate, or of every byte across DRAM once."""
        M, K, N = layer.shape
        mode = self.array.mac["i8"]
        r, s, t = mode.shape
        peak = r * s * t / mode.interval * self.array.core_rows * self.array.columns
        weight = K * N // 4 if self.weight_kind == "ternary" else K * N
        seconds = (M * K + weight + 4 * M * N) / self.array.dram.bandwidth
        terms = {
            "multiplies": int(layer.macs / peak),
            "bytes across DRAM": int(seconds * self.array.clock_hz),
        }
        cause = max(terms, key=lambda name: terms[name])
        return terms[cause], cause

    def bound(self) -> Bound | None:
        terms: dict[str, int] = {}
        for layer in self.layers:
            cycles, cause = self.layer_bound(layer)
            terms[cause] = terms.get(cause, 0) + cycles
        cause = max(terms, key=lambda name: terms[name]) if terms else ""
        return Bound(
            sum(terms.values()), cause, terms,
            ("the host's quantisation and scaling", "dispatch of each layer"),
        )  # fmt: skip

    def describe(self) -> Description:
        """The array, also where it is a user's own."""
        from tilewright.targets.xdna.xdna_target import XdnaTarget

        return XdnaTarget(self.target, self.array, self.weight_kind).describe()

    # --- files, checks, devices -----------------------------------------------------------

    def members(self) -> Iterable[Member]:
        from tilewright.targets.xdna.model_members import members_of

        return members_of(self)

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        from tilewright.targets.xdna.model_check import check_artifact

        return check_artifact(self, parts, ports)

    def listing(self) -> str:
        """The configuration and sequence of every shape as MLIR, and the layers that use it."""
        from tilewright.targets.xdna.mlir_emit import emit_mlir

        pieces = []
        for number, design in enumerate(self.designs):
            users = [layer.name for layer in self.layers if layer.design == number]
            pieces.append(f"// layers: {', '.join(users)}\n{emit_mlir(design)}")
        return "\n".join(pieces)

    def device(self, options: DeviceOptions) -> Device:
        from tilewright.targets.xdna.model_device import ModelDevice

        return ModelDevice(self, options)

    def reference(self) -> Device:
        from tilewright.targets.xdna.model_reference import ReferenceDevice

        return ReferenceDevice(self)


def codes_name(value: str) -> str:
    return f"{value}:codes"


def sums_name(value: str) -> str:
    return f"{value}:sums"


def _options(layer: LayerCall, gemm: Gemm) -> dict[str, Any]:
    return {
        "shape": list(layer.shape),
        "padded": list(gemm.padded),
        "tile": [gemm.m, gemm.k, gemm.n],
        "policy": gemm.policy,
        "design": layer.design,
    }
