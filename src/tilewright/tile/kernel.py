"""Kernels: functions of tensors written with tiles, traced, compiled, or run on numpy."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError, within_memory
from tilewright.tile.backend import running
from tilewright.tile.formats import OPERAND, VALUE
from tilewright.tile.formats import family as family_of
from tilewright.tile.layouts import Layout
from tilewright.tile.machine import DEFAULT, TileMachine, machine_of
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec

NUMBERS = (int, float, bool, str)


@dataclass(frozen=True)
class Constant:
    """A parameter that is a number (or a word), decided when the kernel is compiled."""

    kind: type
    default: Any


class Kernel:
    """A kernel; call it with arrays to compile (once per shape) and run it."""

    def __init__(self, function: Callable[..., None]) -> None:
        if not inspect.isfunction(function):
            raise TilewrightError(
                "TW1621",
                f"a kernel is a function of tensors, not {type(function).__name__}",
                hint="write @tw.kernel above def",
            )
        self.function = function
        self.code = function.__code__
        self.name = function.__name__
        self.constants: dict[str, Constant] = {}
        self.values: dict[str, Any] = {}  # constants that are decided
        self.specs = self._specs()
        self.outputs = _outputs(list(self.specs))
        self._cache: dict[Any, Any] = {}  # compiled kernels
        self._given_kernels: dict[Any, Kernel] = {}
        self.known_sizes: dict[str, int] = {}  # sizes that need not be given
        functools.update_wrapper(self, function)

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.specs if name not in self.outputs]

    @property
    def location(self) -> Location:
        return Location(self.code.co_filename, self.code.co_firstlineno)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.specs)})>"

    def _specs(self) -> dict[str, TensorSpec]:
        specs = {}
        names = _nonlocals(self.function)
        try:
            signature = inspect.signature(self.function, eval_str=True, locals=names)
        except (NameError, SyntaxError, TypeError) as error:
            raise TilewrightError(
                "TW1621",
                f"the parameter types of {self.name} cannot be read: {error}",
                self.location,
                'write them as tw.bf16["M", "N"]',
            ) from None
        for name, parameter in signature.parameters.items():
            if parameter.annotation in NUMBERS and parameter.kind is parameter.KEYWORD_ONLY:
                self.constants[name] = Constant(parameter.annotation, parameter.default)
                continue
            if not isinstance(parameter.annotation, TensorSpec):
                raise TilewrightError(
                    "TW1621",
                    f"parameter {name} of {self.name} needs a tensor type",
                    self.location,
                    f'write it as {name}: tw.bf16["M", "N"], or as a number after a *: '
                    f"{name}: float = 1.0",
                )
            spec = specs[name] = parameter.annotation
            wide = {"fp8": "bf16", OPERAND: VALUE}.get(spec.dtype)
            if wide and (len(spec.sizes) == 1 or spec.order == "rows"):
                raise TilewrightError(
                    "TW1621",
                    f"parameter {name} of {self.name} is a vector of {spec.dtype}, vectors are {wide}",
                    self.location,
                    f"store it as {wide}, or as a matrix of one row",
                )
        if not specs:
            raise TilewrightError(
                "TW1621", f"{self.name} has no tensors", self.location, 'add out: tw.bf16["M", "N"]'
            )
        return specs

    # --- constants ----------------------------------------------------------------------

    def given(self, **values: Any) -> Kernel:
        """The kernel with some of its constants decided."""
        if not values:
            return self
        for name, value in values.items():
            kind = self.constants[name].kind if name in self.constants else None
            fits = isinstance(value, kind) if kind else False
            if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
                fits = True
            if kind is int and isinstance(value, bool):
                fits = False
            if not fits:
                wanted = f"a {kind.__name__}" if kind else f"one of {', '.join(self.constants)}"
                raise TilewrightError(
                    "TW1646", f"{name} = {value!r} of {self.name} has to be {wanted}", self.location
                )
        key = tuple(sorted(values.items()))
        if key not in self._given_kernels:
            other = copy.copy(self)
            other.values, other._cache, other._given_kernels = {**self.values, **values}, {}, {}
            self._given_kernels[key] = other
        return self._given_kernels[key]

    def run_on(self, tensors: dict[str, Tensor]) -> None:
        """Run the author's function on tensors of a backend."""
        values = {}
        for name, constant in self.constants.items():
            value = self.values.get(name, constant.default)
            if value is inspect.Parameter.empty:
                raise TilewrightError(
                    "TW1646",
                    f"{self.name} needs a value for {name}",
                    self.location,
                    f"give it by name: compile({name}=1)",
                )
            values[name] = value
        try:
            self.function(**tensors, **values)
        except (TilewrightError, MemoryError):
            raise
        except Exception as error:
            raise self._broken(error) from error
        for name in self.outputs:
            if name not in tensors[name].backend.written:
                raise TilewrightError(
                    "TW1629", f"{self.name} never writes {name}", self.location,
                    "outputs are the parameters named out or out_…, or else the last one",
                )  # fmt: skip

    def _broken(self, error: Exception) -> TilewrightError:
        """What stopped the author's function, at the line of it that was running."""
        line, trace = self.code.co_firstlineno, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self.code:
                line = trace.tb_lineno
            trace = trace.tb_next
        reason = (str(error).splitlines() or [""])[0]
        return TilewrightError(
            "TW1651",
            f"{self.name} stops here with {type(error).__name__}: {reason}",
            Location(self.code.co_filename, line),
            "check names and arguments; the functions of the language are in docs/tile-language.md",
        )

    def _split(self, more: dict[str, Any]) -> tuple[Kernel, dict[str, Any]]:
        """The kernel with the constants among these, and the rest: shapes and sizes."""
        chosen = {n: v for n, v in more.items() if n in self.constants}
        return self.given(**chosen), {n: v for n, v in more.items() if n not in chosen}

    # --- shapes -------------------------------------------------------------------------

    def shapes_of(self, arrays: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
        """The shape of each input, from arrays in the order of the parameters."""
        names = self.inputs
        if len(arrays) != len(names):
            raise TilewrightError(
                "TW1619",
                f"{self.name} takes {len(names)} arrays ({', '.join(names)}), {len(arrays)} given",
                self.location,
            )
        try:
            return {
                n: a if isinstance(a, tuple) else tuple(np.shape(a))
                for n, a in zip(names, arrays, strict=True)
            }
        except ValueError:
            raise TilewrightError(
                "TW1619",
                f"{self.name} takes arrays, one of these has rows of different lengths",
                self.location,
            ) from None

    def layouts(
        self, shapes: dict[str, Any], machine: TileMachine | None = None
    ) -> dict[str, Layout]:
        """Every parameter in DRAM, given input shapes or sizes by name, as a machine keeps it."""
        machine = machine or machine_of(DEFAULT)
        known = dict(self.known_sizes)
        symbols = {s for spec in self.specs.values() for s in spec.sizes if isinstance(s, str)}
        try:
            for name, shape in shapes.items():
                if name in self.specs and (sizes := _sizes(shape)) is not None:
                    self.specs[name].bind(name, sizes, known)
                elif name in symbols and isinstance(shape, int) and shape > 0:
                    if known.setdefault(name, shape) != shape:
                        raise TilewrightError(
                            "TW1602", f"{name} is given as {shape}, the arrays have {known[name]}"
                        )
                else:
                    raise TilewrightError(
                        "TW1645", f"{name} = {shape!r} is neither a tensor's shape nor a size"
                    )
        except TilewrightError as error:
            raise error.at(self.location) from None
        layouts = {}
        for name, spec in self.specs.items():
            shape = spec.resolve(known)
            if shape is None:
                missing = [s for s in spec.sizes if isinstance(s, str) and s not in known]
                raise TilewrightError(
                    "TW1622",
                    f"the shape of {name} is not known: {', '.join(missing)} is missing",
                    self.location,
                    f"give the size by name: compile({missing[0]}=64)",
                )
            dtype = self._format(name, spec, machine)
            layouts[name] = Layout(shape, dtype, spec.order, spec.arrangement, machine.side)
        return layouts

    def _format(self, name: str, spec: TensorSpec, machine: TileMachine) -> str:
        """The number format of a parameter on a machine."""
        formats = machine.formats
        for chosen, given in formats.chosen:
            if chosen not in self.specs or self.specs[chosen].dtype not in (OPERAND, VALUE):
                raise TilewrightError(
                    "TW1652",
                    f"{self.name} has no parameter {chosen} whose format could be {given}",
                    self.location,
                    "formats are bound for parameters annotated tw.operand and tw.value",
                )
        dtype = formats.of(name, spec.dtype)
        if family_of(dtype) not in formats.families:
            raise TilewrightError(
                "TW1653",
                f"parameter {name} of {self.name} is {dtype}, which {machine.name} does not have",
                self.location,
                f'write {name}: tw.operand["M", "K"] or tw.value["M", "N"], which every machine has',
            )
        vector = len(spec.sizes) == 1 or spec.order == "rows"
        if dtype != formats.value and (vector or spec.dtype == VALUE):
            raise TilewrightError(
                "TW1652", f"parameter {name} of {self.name} cannot be {dtype}", self.location,
                f"only matrices annotated tw.operand can: it is {formats.value}",
            )  # fmt: skip
        return dtype

    # --- compiling ----------------------------------------------------------------------

    def compile(
        self,
        *inputs: Any,
        target: Any = DEFAULT,
        exact: bool = False,
        formats: Mapping[str, str] | None = None,
        side: int | None = None,
        **shapes: Any,
    ) -> Any:
        """The program for these inputs: arrays, or shapes and sizes by name.

        formats: number formats of parameters annotated tw.operand, by name, and of what
        tw.to_operand makes: {"q": "i8:0.02", "operand": "f16"}. side: of a tile, where the
        machine leaves a choice.

        With `exact`, a solver looks for a better order of short kernels and proves a bound.

        kernel.compile(a, b), kernel.compile(a=(64, 32), b=(32, 96)), kernel.compile(M=64, K=32, N=96)

        Constants (parameters that are numbers) are given by name as well.
        """
        if inputs and (isinstance(inputs[0], str) or hasattr(inputs[0], "tile_machine")):
            target, inputs = inputs[0], inputs[1:]
        if not isinstance(exact, bool):
            raise TilewrightError(
                "TW1646", f"exact is True or False, not {type(exact).__name__}", self.location
            )
        chosen, shapes = self._split(shapes)
        with within_memory(f"compiling {self.name}", self.location):
            machine = machine_of(target).bound(formats, side)
            return machine.compile_kernel(chosen, self._given(inputs, shapes, machine), exact)

    def ir(
        self,
        *inputs: Any,
        target: Any = DEFAULT,
        formats: Mapping[str, str] | None = None,
        side: int | None = None,
        **shapes: Any,
    ) -> str:
        """The traced npu_schedule module as text, without compiling it."""
        chosen, shapes = self._split(shapes)
        machine = machine_of(target).bound(formats, side)
        return str(machine.trace(chosen, self._given(inputs, shapes, machine)).module)

    def _given(
        self, inputs: tuple[Any, ...], shapes: dict[str, Any], machine: TileMachine
    ) -> dict[str, Layout]:
        return self.layouts({**self.shapes_of(inputs), **shapes} if inputs else shapes, machine)

    def __call__(
        self,
        *arrays: np.ndarray,
        target: Any = DEFAULT,
        formats: Mapping[str, str] | None = None,
        side: int | None = None,
        **more: Any,
    ) -> Any:
        """Compile for these arrays, once per shape, and run on the simulator.

        more: constants, and sizes that no array has.
        """
        chosen, sizes = self._split(more)
        if chosen is not self:
            return chosen(*arrays, target=target, formats=formats, side=side, **sizes)
        machine = machine_of(target).bound(formats, side)
        shapes = {**self.shapes_of(arrays), **sizes}
        self.layouts(shapes, machine)  # refuses what makes no sense
        key = (machine, tuple(shapes.items()))
        if key not in self._cache:
            given: dict[str, Any] = dict(shapes)
            self._cache[key] = self.compile(target=target, formats=formats, side=side, **given)
        return self._cache[key].run(*arrays)

    # --- eager --------------------------------------------------------------------------

    def eager(
        self,
        *arrays: np.ndarray,
        profile: Any = None,
        target: Any = DEFAULT,
        formats: Mapping[str, str] | None = None,
        side: int | None = None,
        **more: Any,
    ) -> Any:
        """Run the function on numpy arrays, step by step, with the machine's arithmetic."""
        chosen, sizes = self._split(more)
        machine = machine_of(target if profile is None else profile).bound(formats, side)
        layouts = self.layouts({**self.shapes_of(arrays), **sizes}, machine)
        runner = machine.eager(self.code)
        tensors = self.tensors(runner, layouts)
        with within_memory(f"running {self.name}", self.location):
            for name, tensor in tensors.items():
                given = None if tensor.output else np.asarray(arrays[self.inputs.index(name)])
                runner.bind(tensor, given)
            with running(runner):
                chosen.run_on(tensors)
            results = [runner.result(tensors[name]) for name in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def tensors(self, backend: Any, layouts: dict[str, Layout]) -> dict[str, Tensor]:
        return {
            name: Tensor(backend, name, self.specs[name], layout, name in self.outputs)
            for name, layout in layouts.items()
        }


def _nonlocals(function: Callable[..., None]) -> dict[str, Any]:
    """Variables of functions around it that have a value by now."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it is set later
            continue
    return found


def _outputs(names: list[str]) -> list[str]:
    """The parameters named out or out_…, or else the last one."""
    named = [n for n in names if n == "out" or n.startswith("out_")]
    return named or names[-1:]


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function over typed tensors."""
    return Kernel(function)


def kernel_of(name: str, specs: dict[str, TensorSpec], function: Callable[..., None]) -> Kernel:
    """A kernel with these parameters; the function takes them by name."""

    def run(**tensors: Any) -> None:
        function(**tensors)

    kinds = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, annotation=s) for n, s in specs.items()
    ]
    run.__name__, run.__doc__ = name, function.__doc__
    run.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    return Kernel(run)


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """A shape as numbers; None if it is something else."""
    if not isinstance(shape, Iterable):
        return None
    sizes = tuple(shape)
    return sizes if all(isinstance(size, int | np.integer) for size in sizes) else None
