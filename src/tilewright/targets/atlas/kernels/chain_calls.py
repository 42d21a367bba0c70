"""One step of a sum over K per call, the sum staying in accumulator 0 of matrix unit 0.

The first call overwrites the accumulator, a middle one adds to it, the last one adds and stores.
Nothing else may use that accumulator in between. `matmul` does the same in one program; these
calls are for callers that put programs together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tiles import Accumulator, Tiles
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.tile.bodies import BODIES
from tilewright.tile.layouts import Layout
from tilewright.tile.types import TensorSpec

UNIT = 0
ACCUMULATOR = TensorSpec("bf16", (32, 32), "accumulator")
_TILE = TensorSpec("fp8", (32, 32))
_RESULT = TensorSpec("bf16", (32, 32))


@dataclass
class ChainCall:
    """A call of the chain, with what a kernel offers."""

    name: str
    meaning: str
    begins: bool
    ends: bool
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.__name__, self.__doc__ = self.name, self.meaning
        self.specs = {"a": _TILE, "b": _TILE}
        if not self.begins:
            self.specs["sum"] = ACCUMULATOR
        self.outputs = ["out" if self.ends else "out_sum"]
        self.specs[self.outputs[0]] = _RESULT if self.ends else ACCUMULATOR

    def compile(
        self, target: str | Profile = "atlas-v1", exact: bool = False, **_: tuple[int, ...]
    ) -> CompiledKernel:
        profile = load_profile(target) if isinstance(target, str) else target
        routine = Routine(profile)
        code = routine.code()
        tiles = Tiles(code)
        operands = []
        for place in (0, 1024):
            code.dma_load(place, place, 1024)
            operands.append(tiles.load(place, "fp8"))
        if self.begins:
            total = BODIES["matmul_acc_first"](tiles, *operands, unit=UNIT)
        else:
            total = Accumulator(code.accumulator(UNIT), UNIT)
            total = BODIES["matmul_acc_mid"](tiles, total, *operands)
        layouts = {"a": Layout((32, 32), "fp8"), "b": Layout((32, 32), "fp8")}
        bases = {"a": 0, "b": 1024}
        if self.ends:
            result = tiles.pop(total)
            tiles.store(result, 2048)
            for half in (0, 1024):
                code.dma_store(2048 + half, 2048 + half, 1024)
            layouts["out"], bases["out"] = Layout((32, 32), "bf16"), 2048
        routine.items.append(code)
        program = routine.compile(self.name, exact=exact)
        return CompiledKernel(self, profile, program, layouts, bases, [], self.outputs)  # type: ignore[arg-type]


matmul_acc_first = ChainCall("matmul_acc_first", "accumulator = a @ b", True, False)
matmul_acc_mid = ChainCall("matmul_acc_mid", "accumulator += a @ b", False, False)
matmul_acc_last = ChainCall("matmul_acc_last", "out = accumulator + a @ b", False, True)
