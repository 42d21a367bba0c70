"""A compiled model to call: what `tw.load` and `tw.compile` return."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.io.file_access import write_atomically
from tilewright.runtime import arguments
from tilewright.runtime.session import Session
from tilewright.targets.artifact import Counters, Port
from tilewright.targets.compiled_model import CompiledModel

if TYPE_CHECKING:
    from tilewright.runtime.summary import Summary
    from tilewright.runtime.verification import Verification


class Program:
    """A compiled model.

    program(x)            the outputs, one array or a tuple, for inputs in the model's order
    program(x=x)          the same for inputs by name; torch tensors give torch tensors
    program.run(x=x)      the outputs by name
    program.verify()      values against the references and float32; print it
    program.cycles        ticks of a run; they do not depend on the numbers
    program.report()      cycles per layer against the bound; print it, or report("page.html")
    program.statistics    what the units of the machine did in the last run
    program.memory_map    where everything lies; print it
    program.asm           the code as people read it, such as assembly
    program.save(path)    one file, for `tw.load`
    """

    def __init__(
        self, model: CompiledModel[Any], machine: str | None = None, original: Any = None
    ) -> None:
        """`original` is what was compiled, to compare with in float32."""
        if not isinstance(model, CompiledModel):
            raise arguments.wrong("a program", "made by tw.compile or tw.load", model)
        self.model, self.original = model, original
        self.session = Session(model, machine)

    # --- running ------------------------------------------------------------------------

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The outputs; a model's own memory is kept inside."""
        if arrays and named:
            raise TilewrightError(
                "TW3120", "inputs were given both by name and in order", hint="choose one"
            )
        values: list[Any] = []
        if named:
            results = self.session.run({name: _array(value) for name, value in named.items()})
        else:
            values = leaves(self.model, arrays)
            listed = self.session.run([_array(value) for value in values])
            results = dict(zip(self.model.outputs, listed, strict=True))
        return self.returned(results, [*values, *named.values()])

    def returned(self, results: Mapping[str, np.ndarray], given: Sequence[Any]) -> Any:
        """Results as a call gives them back: one or a tuple, tensors for tensors."""
        own: list[Any] = [a for name, a in results.items() if name not in self.kept]
        if any(hasattr(value, "detach") for value in given):
            from tilewright.frontend.torch import from_numpy

            own = [from_numpy(array) for array in own]
        return own[0] if len(own) == 1 else tuple(own)

    @property
    def kept(self) -> frozenset[str]:
        """Outputs that are the model's own memory for the next call."""
        return frozenset(self.model.state.values())

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

    def verify(self, inputs: Any = None, **options: Any) -> Verification:
        """Check values against the reference, step by step; see `runtime.verify.verify`.

        inputs: as those of a call: arrays by name, or in the model's order; random ones for those
        that are not given.
        """
        from tilewright.runtime.verify import verify

        options.setdefault("original", self.original)
        return verify(
            self.model, self._by_name(inputs), **known_options(options, self.model.inputs, verify)
        )

    def _by_name(self, inputs: Any) -> dict[str, Any] | None:
        if inputs is None:
            return None
        if isinstance(inputs, Mapping):
            return {name: _array(value) for name, value in inputs.items()}
        given = inputs if isinstance(inputs, tuple) or _is_tree(inputs) else (inputs,)
        own = [name for name in self.model.inputs if name not in self.model.state]
        values = leaves(self.model, given)
        names = own if len(values) == len(own) else list(self.model.inputs)
        if len(values) != len(names):
            raise TilewrightError(
                "TW3120",
                f"{len(values)} inputs were given, {self.model.name} takes {len(own)}",
                hint=f"inputs are {', '.join(own)}",
            )
        return {name: _array(value) for name, value in zip(names, values, strict=True)}

    def save(self, path: str | Path) -> None:
        """Write the program as one file, to be read by `tw.load`."""
        from tilewright.runtime.bundle import save

        save(self.model, Path(arguments.path("path", path)))

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

    @property
    def statistics(self) -> Counters:
        """What the units did in the last run: busy ticks, instructions, bytes moved."""
        self._have_run()
        return self.session.statistics

    def report(self, path: str | Path | None = None, seed: int = 0) -> Summary:
        """What the program is and where its cycles go; print it, or ask for `to_json()`.

        With a path, also one HTML page of all that, verified on random inputs of `seed`.
        """
        from tilewright.runtime.summary import summarise

        if path is not None:
            from tilewright.report.measure import report_data
            from tilewright.report.model_page import model_page

            data = report_data(self.model, seed=seed, original=self.original)
            write_atomically(str(path), model_page(data).encode())
        self._have_run()
        return summarise(self.model, self.session)

    @cached_property
    def asm(self) -> str:
        """The program as people read it: assembly with every step marked by a label, a task list, C."""
        return self.model.artifact.listing()

    @cached_property
    def memory_map(self) -> Any:
        """Every region with its place and life; print it."""
        from tilewright.runtime.memory_map import MemoryMap

        return MemoryMap.of(self.model)

    def __repr__(self) -> str:
        from tilewright.runtime.values import describe

        into = ", ".join(describe(port) for port in self.inputs)
        out = ", ".join(describe(port) for port in self.outputs)
        return f"<{self.model.name} for {self.model.artifact.target}: ({into}) -> ({out})>"


def known_options(
    options: Mapping[str, Any], inputs: Sequence[str], *functions: Callable[..., Any]
) -> Mapping[str, Any]:
    """The options of a call, all of which one of the functions has beside what it works on."""
    known = [
        parameter.name
        for function in functions
        for parameter in [*inspect.signature(function).parameters.values()][2:]
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = (
                f"did you mean {near[0]}?" if near else f"it has {', '.join(dict.fromkeys(known))}"
            )
            if name in inputs:
                hint = f'inputs are given as a table: verify({{"{name}": …}})'
            raise TilewrightError("TW0070", f"verify has no option {name!r}", hint=hint)
    return options


def bound_inputs(
    model: CompiledModel[Any], arrays: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The inputs of a call by name."""
    if arrays and named:
        raise TilewrightError(
            "TW3120", "inputs were given both by name and in order", hint="choose one"
        )
    if arrays and len(arrays) != len(model.inputs):
        raise TilewrightError(
            "TW3120",
            f"{len(arrays)} inputs were given, {model.name} takes {len(model.inputs)}",
            hint=f"inputs are {', '.join(model.inputs)}",
        )
    given = named or dict(zip(model.inputs, arrays, strict=True))
    return {name: np.asarray(_array(value)) for name, value in given.items()}


def leaves(model: CompiledModel[Any], arguments: Sequence[Any]) -> list[Any]:
    """The arrays of a call in the order of the model's inputs: arguments may be dictionaries, lists
    and tuples of arrays, as those of the function that was compiled.

    JAX takes dictionaries apart by sorted keys, PyTorch as they are; names tell which it was.
    """
    if not any(isinstance(value, Mapping) or _is_tree(value) for value in arguments):
        return list(arguments)
    own = [name for name in model.inputs if name not in model.state]
    for order in (sorted, list):
        rows = [row for value in arguments for row in _leaves(value, (), order)]
        names = own if len(rows) == len(own) else list(model.inputs)
        if len(rows) == len(names) and all(
            _plain(name).endswith(_plain("_".join(path)))
            for name, (path, _) in zip(names, rows, strict=True)
        ):
            return [leaf for _, leaf in rows]
    paths = [".".join(path) for value in arguments for path, _ in _leaves(value, (), list)]
    raise TilewrightError(
        "TW3120",
        f"the arrays {', '.join(paths)} are not those that {model.name} takes",
        hint=f"inputs are {', '.join(own)}",
    )


def _leaves(value: Any, path: tuple[str, ...], order: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key in order(value):
            yield from _leaves(value[key], (*path, str(key)), order)
    elif _is_tree(value):
        for index, part in enumerate(value):
            yield from _leaves(part, (*path, str(index)), order)
    else:
        yield path, value


def _is_tree(value: Any) -> bool:
    """Whether it is a list of arrays, and not one of numbers, which is an array itself."""
    return isinstance(value, list | tuple) and any(
        hasattr(part, "shape") or isinstance(part, Mapping) or _is_tree(part) for part in value
    )


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _array(value: Any) -> Any:
    """A torch tensor as numpy sees it; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    from tilewright.frontend.torch import to_numpy

    return to_numpy(value)
