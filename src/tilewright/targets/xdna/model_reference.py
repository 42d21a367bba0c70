"""The layers of a model by their meaning: no design, no descriptor, no simulator.

Weights are decoded element by element from the definition of the packed layouts, rows are rounded
here, sums are 64-bit integers. Nothing is shared with the device but the files of the artifact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference.dtypes import numpy_type
from tilewright.targets.artifact import Counters, DevicePart, Port, StepCall, StepValues, Watch
from tilewright.targets.xdna.model_artifact import LayerCall, XdnaArtifact
from tilewright.trace.model import TraceModel


class ReferenceDevice:
    def __init__(self, artifact: XdnaArtifact) -> None:
        self.artifact = artifact
        self._held: dict[str, np.ndarray] = {}
        self._weights: dict[str, np.ndarray] = {}

    def begin(self) -> None:
        self._held.clear()

    def write(self, port: Port, value: np.ndarray) -> None:
        self._held[port.name] = np.asarray(value)

    def read(self, port: Port) -> np.ndarray:
        if port.name not in self._held:
            raise TilewrightError("TW8092", f"nothing has computed {port.name} yet")
        return self._held[port.name].astype(numpy_type(port.dtype), copy=False)

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        for index, layer in enumerate(self.artifact.layers):
            if layer.entry == part.entry:
                self._layer(index, layer, watch)

    def _layer(self, index: int, layer: LayerCall, watch: Watch | None) -> None:
        M, K, _ = layer.shape
        x = self._held[layer.x].reshape(M, K)
        weight = self.artifact.weights[layer.weight]
        if layer.weight not in self._weights:
            gemm = self.artifact.gemm(layer)
            self._weights[layer.weight] = decoded(
                weight.packed, gemm.weights, gemm.K, gemm.N, gemm.padded[1], gemm.k, gemm.n,
                gemm.block,
            )  # fmt: skip
        matrix = self._weights[layer.weight]
        reads: dict[str, np.ndarray]
        if layer.exact:
            codes = x
            sums = _product(codes, matrix)
            y, reads = sums, {"x": codes.astype(np.int8)}
        else:
            codes, scale = _int8_rows(x)
            sums = _product(codes, matrix)
            # Sums become float32 first: that is where the host's arithmetic begins.
            real = np.multiply(sums.astype(np.float32), weight.scales, dtype=np.float32)
            with np.errstate(over="ignore"):
                y = np.divide(real, scale, dtype=np.float32).astype(numpy_type(layer.dtype))
            reads = {"x": codes, "scale": scale}
        self._held[layer.y] = y.reshape(layer.result_shape)
        if watch is not None:
            watch(StepValues(index, 0, reads, {"y": self._held[layer.y], "sums": sums}))

    @property
    def cycles(self) -> int:
        return 0

    @property
    def calls(self) -> Sequence[StepCall]:
        return ()

    @property
    def counters(self) -> Counters:
        return Counters()

    def trace(self) -> TraceModel | None:
        return None


def _int8_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """BitNet's rounding of each row: 127 / max(|x|, 1e-5), ties to even, -128 to 127."""
    codes = np.zeros(x.shape, np.int8)
    scales = np.empty((len(x), 1), np.float32)
    for index, row in enumerate(x.astype(np.float32)):
        if not np.isfinite(row).all():
            scales[index] = np.nan
            continue
        top = max(np.float32(np.abs(row).max()), np.float32(1e-5))
        scales[index] = np.float32(127) / top
        nearest = np.round(row * scales[index, 0])  # numpy rounds ties to even
        codes[index] = np.minimum(np.maximum(nearest, -128), 127).astype(np.int8)
    return codes, scales


def _product(codes: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Sums in float64, which holds all integers below 2^53, and then as int32."""
    return (codes.astype(np.float64) @ matrix.astype(np.float64)).astype(np.int64).astype(np.int32)


def decoded(
    packed: np.ndarray, kind: str, K: int, N: int, padded_k: int, k: int, n: int,
    block: tuple[int, int, int],
) -> np.ndarray:  # fmt: skip
    """The K x N weights by the address of each: panel of n columns, tile of k rows, place in it."""
    _, s, t = block
    rows, columns = np.arange(K)[:, None], np.arange(N)[None, :]
    tile = columns // n * (padded_k // k) + rows // k
    row, column = rows % k, columns % n
    data = packed.view(np.uint8)
    if kind == "ternary":
        nibble = 8 * (row % 8) + column % 8
        group = column // 16 * (k // 8) + row // 8
        byte = data[tile * (k * n // 4) + group * 32 + nibble // 2]
        crumb = byte >> (4 * (nibble % 2) + 2 * (column % 16 // 8)).astype(np.uint8) & 3
        return crumb.astype(np.int8) - np.int8(1)
    within = (row // s * (n // t) + column // t) * s * t + row % s * t + column % t
    return data[tile * (k * n) + within].view(np.int8)
