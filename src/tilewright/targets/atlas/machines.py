"""What every Atlas machine offers, and how to get one."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.outcome import Fault, Outcome, Statistics
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

MACHINES = ("native", "python")


class Machine(Protocol):
    """A simulated Atlas; the Python and the native machine agree in everything here."""

    breakpoints: set[int]
    trace_window: tuple[int, int] | None

    @property
    def faults(self) -> list[Fault]: ...

    @property
    def cycles(self) -> int: ...

    @property
    def next_index(self) -> int | None:
        """At a claim point: the instruction decode is about to claim."""
        ...

    @property
    def statistics(self) -> Statistics: ...

    @property
    def trace(self) -> np.ndarray: ...

    def load(self, program: Program, keep_memory: bool = False) -> None: ...

    def reset(self) -> None: ...

    def run(
        self,
        max_cycles: int | None = None,
        until_cycle: int | None = None,
        until_pc: int | None = None,
        max_instructions: int | None = None,
    ) -> Outcome: ...

    def step(self) -> Outcome: ...

    def watch(self, space: str, address: int = 0, size: int = 1) -> None: ...

    def unwatch(self, space: str, address: int = 0, size: int = 1) -> None: ...

    def snapshot(self) -> object: ...

    def restore(self, snapshot: object) -> None: ...

    def read(self, space: str, address: int, count: int) -> bytes: ...

    def write(self, space: str, address: int, data: bytes) -> None: ...

    def read_register(self, name: str) -> int | bytes: ...

    def write_register(self, name: str, value: int | bytes) -> None: ...


def native_missing() -> str | None:
    """Why the native machine cannot be used, or None if it can."""
    try:
        import tilewright.targets.atlas.native  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def make_machine(profile: Profile, policy: Policy, kind: str | None = None) -> Machine:
    """A machine of the kind asked for; the fastest there is when none is named."""
    if kind not in (None, *MACHINES):
        raise TilewrightError(
            "TW3002", f"there is no machine {kind!r}", hint=f"machines are {', '.join(MACHINES)}"
        )
    reason = native_missing() if kind != "python" else None
    if kind == "native" and reason is not None:
        raise TilewrightError(
            "TW3003",
            f"the native machine is not built: {reason}",
            hint="install the package with a C++20 compiler present (pip install .), "
            "or choose --machine python",
        )
    if kind == "python" or reason is not None:
        from tilewright.targets.atlas.machine import PythonMachine

        return PythonMachine(profile, policy)
    from tilewright.targets.atlas.native import NativeMachine

    return NativeMachine(profile, policy)
