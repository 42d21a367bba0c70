"""A compiled model to call: what `tw.load` and `tw.compile` return."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.runtime.compiled_model import CompiledModel, Port
from tilewright.runtime.session import Session

if TYPE_CHECKING:
    from tilewright.runtime.summary import Summary
    from tilewright.runtime.verification import Verification


class LoadedProgram:
    """A compiled model.

    program(x)            the outputs, one array or a tuple, for inputs in the model's order
    program.run(x=x)      the outputs by name
    program.cycles        ticks of a run; they do not depend on the numbers
    program.report()      cycles per layer against the bound; print it
    program.memory_map    where everything lies; print it
    program.asm           the code as assembly text
    """

    def __init__(self, model: CompiledModel, machine: str | None = None) -> None:
        self.model = model
        self.session = Session(model, machine)

    # --- running ------------------------------------------------------------------------

    def __call__(self, *arrays: Any) -> Any:
        """The outputs; a model's own memory is kept inside."""
        results = self.session.run(list(arrays))
        names = zip(self.model.outputs, results, strict=True)
        own = [array for name, array in names if name not in self.model.state.values()]
        return own[0] if len(own) == 1 else tuple(own)

    def run(self, inputs: Any = None, /, **named: Any) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name."""
        return self.session.run(inputs, **named)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Name, shape and type of every input."""
        return tuple(self.model.ports[name] for name in self.model.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Name, shape and type of every output."""
        return tuple(self.model.ports[name] for name in self.model.outputs)

    def verify(self, inputs: dict[str, Any] | None = None, **options: Any) -> Verification:
        """Check values against the reference, step by step; see `runtime.verify.verify`."""
        from tilewright.runtime.verify import verify

        return verify(self.model, inputs, **options)

    def save(self, path: str | Path) -> None:
        """Write the program as one file, to be read by `tw.load`."""
        from tilewright.runtime.bundle import save

        save(self.model, path)

    # --- looking ------------------------------------------------------------------------

    def _have_run(self) -> None:
        """Run on zeros unless there was a run: cycles do not depend on the numbers."""
        if not self.session.ran:
            from tilewright.runtime.example_inputs import example_inputs

            self.session.run(example_inputs(self.model, "zeros"))
            self.session.reset_state()

    @property
    def cycles(self) -> int:
        """Ticks of a run on the device."""
        self._have_run()
        return self.session.cycles

    def report(self) -> Summary:
        """What the program is and where its cycles go; print it, or ask for `to_json()`."""
        from tilewright.runtime.summary import summarise

        self._have_run()
        return summarise(self.model, self.session)

    @cached_property
    def asm(self) -> str:
        """The code as assembly text, every step marked by a label."""
        from tilewright.runtime.listing import listing

        return listing(self.model)

    @cached_property
    def memory_map(self) -> Any:
        """Every region with its place and life; print it."""
        from tilewright.runtime.memory_map import MemoryMap

        return MemoryMap.of(self.model)

    def __repr__(self) -> str:
        from tilewright.runtime.values import describe

        into = ", ".join(describe(port) for port in self.inputs)
        out = ", ".join(describe(port) for port in self.outputs)
        return f"<{self.model.name} for {self.model.profile.name}: ({into}) -> ({out})>"


def load(path: str | Path, machine: str | None = None) -> LoadedProgram:
    """The program in a bundle, ready to run."""
    from tilewright.runtime.bundle import load as load_model

    return LoadedProgram(load_model(path), machine)
