"""An XDNA array as a target of whole models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError
from tilewright.io.pieces import Content
from tilewright.targets.target import Description, Memory
from tilewright.targets.xdna.device import ArrayDevice, load_device

if TYPE_CHECKING:
    import numpy as np

    from tilewright.errors import Location
    from tilewright.frontend.imported import Imported
    from tilewright.model.options import CompileOptions, Progress
    from tilewright.targets.compiled_model import CompiledModel
    from tilewright.targets.xdna.model_artifact import XdnaArtifact

DEVICES = {"xdna1": "npu1", "xdna2": "npu2"}
TERNARY = "-ternary"  # ending of the targets whose weights are -1, 0 and 1
FILES = (".toml", ".json")  # of users' arrays
HOST_BYTES = 1 << 36  # addresses behind the shim; how much memory there is is the computer's


def find(name: str | Path) -> XdnaTarget:
    """An array by the name of the target, or by the file that describes it."""
    text = str(name)
    plain = text.removesuffix(TERNARY)
    array = load_device(DEVICES.get(plain, plain))
    if "i8" not in array.mac:
        raise TilewrightError(
            "TW8001", f"{array.name} has no multiply for i8, which layers of models need"
        )
    if plain.endswith(FILES):
        text = array.name + text[len(plain) :]
    return XdnaTarget(text, array, "ternary" if text.endswith(TERNARY) else "i8")


@dataclass(frozen=True)
class XdnaTarget:
    """One array and the kind of weights it multiplies with."""

    name: str
    array: ArrayDevice
    weight_kind: str

    @property
    def family(self) -> str:
        return "xdna"

    def compile(
        self,
        model: Imported,
        options: CompileOptions,
        samples: Sequence[Mapping[str, np.ndarray]],
        progress: Progress,
    ) -> CompiledModel[XdnaArtifact]:
        from tilewright.targets.xdna.model_compiler import compile_model

        return compile_model(
            model, self.name, self.array, self.weight_kind, options, samples, progress
        )

    def read(self, members: Mapping[str, Content], place: Location) -> XdnaArtifact:
        from tilewright.targets.xdna.model_members import read_artifact

        return read_artifact(members, place)

    def describe(self) -> Description:
        array = self.array
        mode = array.mac["i8"]
        r, s, t = mode.shape
        weights = "ternary weights, two bits" if self.weight_kind == "ternary" else "int8 weights"
        return Description(
            name=self.name,
            family="xdna",
            summary=f"{array.columns} columns of {array.core_rows} cores at "
            f"{array.clock_hz / 1e9:g} GHz, {weights}",
            memories=(
                Memory("ddr", HOST_BYTES, 64, "the host's, behind the shim tiles"),
                Memory("l2", array.tile["memory"].memory_bytes, 4, "per memory tile"),
                Memory("l1", array.tile["core"].memory_bytes, 4, "per core"),
            ),
            formats=("int8 rows with one scale each", weights, "int32 sums"),
            modelled=(
                "descriptors, locks, channels, routes and memories of a design",
                "values of every transfer and product; time by events",
            ),
            not_modelled=(
                "operations other than products with constant weights: the host's",
                "time of the host: rounding rows, scaling sums, dispatch",
            ),
            units=("cores", "dram", "streams", "controller"),
            macs_per_cycle=r * s * t / mode.interval * array.core_rows * array.columns,
        )
