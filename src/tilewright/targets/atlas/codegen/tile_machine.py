"""An Atlas machine as the tile language sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.compile_kernel import compile_kernel, trace
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.codegen.runner import Runner
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.backend import active
from tilewright.tile.formats import Formats
from tilewright.tile.kernel import Kernel
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.row_products import UNITS, Costs
from tilewright.tile.tracer import Tracer

FORMATS = Formats("fp8", "bf16", (("fp8", "fp8"),))


@dataclass(frozen=True)
class Found:
    """What a kernel of a model finds on the chip: tensors that lie there already, and how many bytes
    are its own. phases: of a result in one loop, at most, where more follow more addresses than there
    are registers; 0: any."""

    tensors: frozenset[str]
    room: int
    phases: int = 0


@dataclass(frozen=True)
class AtlasTileMachine:
    """Compiles tile kernels to programs of one profile, and runs them eagerly in its arithmetic.

    found: where that is known while a kernel is traced, which may cut its work by it.
    """

    profile: Profile
    found: Found | None = None

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def side(self) -> int:
        return SIDE

    @property
    def formats(self) -> Formats:
        return FORMATS

    def bound(self, formats: Mapping[str, str] | None, side: int | None) -> AtlasTileMachine:
        """The machine has one side and one format for each role."""
        if side not in (None, SIDE):
            raise TilewrightError("TW1654", f"tiles of {self.name} are {SIDE} wide, not {side}")
        FORMATS.bound(formats)
        for name, given in (formats or {}).items():
            if given != {"operand": "fp8", "value": "bf16"}.get(name, given):
                raise TilewrightError("TW1652", f"{name} cannot be {given} on {self.name}")
        return self

    @property
    def units(self) -> tuple[int, ...]:
        """Where one matrix unit is much faster it takes two of three products, one in each
        accumulator."""
        slow, fast = (self.profile.timing[f"matmul_mxu{unit}"].latency for unit in UNITS)
        return (1, 1, 0) if slow > 2 * fast else (0, 1)

    @property
    def presets_accumulators(self) -> bool:
        return self.profile.timing["push_wide"].unit != "VPU"

    def product_costs(self, rows: int) -> Costs:
        return costs_of(self.profile, rows)

    def eager(self, code: CodeType) -> Runner:
        return Runner(self, code)

    def trace(self, kernel: Kernel, layouts: dict[str, Layout]) -> Tracer:
        return trace(kernel, self.profile, layouts)

    def compile_kernel(
        self, kernel: Kernel, layouts: dict[str, Layout], exact: bool
    ) -> CompiledKernel:
        return compile_kernel(kernel, self.profile, layouts, exact)


def costs_of(profile: Profile, rows: int) -> Costs:
    """Ticks of each matrix unit for one step of a column of products, and for changing columns."""
    timing = profile.timing
    push = timing["push"].interval
    slow, fast = (push + rows * timing[f"matmul_mxu{unit}"].interval for unit in UNITS)
    return Costs((slow, fast), rows * timing["pop_wide"].interval)


def active_profile() -> Profile:
    """The profile that a kernel is being compiled or run for."""
    return _active_machine().profile


def active_found() -> Found | None:
    """What it finds on the chip, if that is known."""
    return _active_machine().found


def _active_machine() -> AtlasTileMachine:
    machine = active().machine
    if not isinstance(machine, AtlasTileMachine):
        raise TilewrightError(
            "TW1607",
            f"this kernel is written for Atlas machines, not for {machine.name}",
            hint="write the kernel without sizes of one machine, or choose an Atlas target",
        )
    return machine
