"""A model to one checked ELF: program, C, budget, build, run and verify.

>>> compiled = compile_model(imported, "coral")
>>> compiled.sizes["text"], compiled.fits
>>> outputs = compiled.run([image])
>>> compiled.verify().ok
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.ranges import RangeRule
from tilewright.targets.coral.budget import Budget, budget_of
from tilewright.targets.coral.edges import dequantised, quantised
from tilewright.targets.coral.elf import Elf
from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.from_kernels import program_of
from tilewright.targets.coral.generate import Generated, generate
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.integer_products import integer_products
from tilewright.targets.coral.machines import CoralMachine, machine_named
from tilewright.targets.coral.optimise import fold_constants, optimise, read_transposed
from tilewright.targets.coral.program import DTYPES, Program, Value
from tilewright.targets.coral.quantise import quantise
from tilewright.targets.coral.simulator import DEFAULT_LIMIT, CoralSimulator, Outcome, RunOptions
from tilewright.targets.coral.storage import Storage, finish_outputs
from tilewright.targets.coral.toolchain import DEFAULT_STACK, Build, MemoryOverflow, compile_c

Arrays = Sequence[np.ndarray] | Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class CoralOptions:
    """How a model is compiled."""

    precision: str = "keep"  # or "int8": post-training quantisation
    vector: bool = True  # use the vector unit where the machine has one
    fuse: bool = True
    stack: int = DEFAULT_STACK
    constants_in_code: bool = False
    unroll: bool | None = None  # None: as code memory allows
    ranges: str = "max"  # of int8 values, see model/ranges.py


ROOM_FOR_UNROLLING = 0.95  # of code memory


@dataclass
class CoralModel:
    """A compiled model: source, program file, sizes, plan; and a way to run it."""

    program: Program
    machine: CoralMachine
    options: CoralOptions
    groups: list[Group]
    names: list[str]  # of the groups' functions
    storage: Storage
    source: str
    build: Build
    budget: Budget
    sqnr: dict[str, float] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)

    @cached_property
    def elf(self) -> Elf:
        return self.build.program

    @property
    def sizes(self) -> dict[str, Any]:
        return self.budget.to_json()

    @property
    def fits(self) -> bool:
        return self.budget.fits

    def simulator(self, options: RunOptions | None = None) -> CoralSimulator:
        chosen = options or RunOptions()
        if self.machine.external and not chosen.external:
            chosen = replace(chosen, external=self.machine.external)
        return CoralSimulator(self.elf, self.machine, chosen)

    def quantised_inputs(self, inputs: Arrays) -> list[np.ndarray]:
        """Inputs as the program takes them: floats for int8 inputs are quantised here."""
        made = []
        for value, array in zip(self.program.inputs, self._ordered(inputs), strict=True):
            if np.size(array) != value.elements:
                raise TilewrightError(
                    "TW5031",
                    f"{value.name} has shape {value.shape}, {np.shape(array)} was given",
                )
            made.append(quantised(value, array))
        return made

    def _ordered(self, inputs: Arrays) -> list[np.ndarray]:
        if isinstance(inputs, Mapping):
            missing = [n for n in self.program.input_names if n not in inputs]
            if missing:
                raise TilewrightError("TW5031", f"the input {missing[0]} is missing")
            return [inputs[n] for n in self.program.input_names]
        if len(inputs) != len(self.program.inputs):
            raise TilewrightError(
                "TW5031",
                f"the model has {len(self.program.inputs)} inputs, {len(inputs)} were given",
            )
        return list(inputs)

    def run(self, inputs: Arrays, options: RunOptions | None = None) -> list[np.ndarray]:
        """Outputs of the simulated core; integers of a quantised model as they are."""
        return self.run_with_outcome(inputs, options)[0]

    def run_with_outcome(
        self, inputs: Arrays, options: RunOptions | None = None, limit: int = DEFAULT_LIMIT
    ) -> tuple[list[np.ndarray], Outcome]:
        simulator = self.simulator(options)
        for index, array in enumerate(self.quantised_inputs(inputs)):
            simulator.write(f"input_{index}", array)
        outcome = simulator.run(limit)
        if not outcome.ok:
            raise TilewrightError("TW5032", f"the program failed: {outcome.fault or outcome.ret}")
        return [
            simulator.read(f"output_{k}", DTYPES[v.dtype], v.shape)
            for k, v in enumerate(self.program.outputs)
        ], outcome

    def dequantised(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs as numbers of the model."""
        return [dequantised(v, a) for v, a in zip(self.program.outputs, outputs, strict=True)]

    def verify(self, seeds: int = 3, inputs: Sequence[Arrays] = ()) -> Verdict:
        """Run on random inputs and extremes and compare every bit with the reference."""
        cases = [self._ordered(i) for i in inputs]
        cases += [random_inputs(self.program, seed) for seed in range(seeds)]
        cases += extreme_inputs(self.program)
        checks = RunOptions(timing=False, check_uninitialised=True, check_readonly=True)
        for index, case in enumerate(cases):
            prepared = self.quantised_inputs(case)
            wanted = evaluate(self.program, prepared)
            got = self.run(prepared, checks)
            for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
                if not same_bits(a, b):
                    wrong = int(np.sum(~_equal(a.ravel(), b.ravel())))
                    return Verdict(
                        False,
                        index + 1,
                        f"output_{k} of case {index}: {wrong} of {a.size} elements differ",
                    )
        return Verdict(True, len(cases), "every bit equal to the reference")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found."""

    ok: bool
    cases: int
    text: str


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "f":
        return a == b
    return (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit; every NaN is one NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(_equal(a.ravel(), b.ravel())))


def random_inputs(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs that are not tame: normal floats, the whole range of integers."""
    rng = np.random.default_rng(seed)
    return [_random(value, rng) for value in program.inputs]


def _random(value: Value, rng: np.random.Generator) -> np.ndarray:
    dtype = DTYPES[value.dtype]
    if dtype.kind == "f":
        return rng.standard_normal(value.shape).astype(np.float32)
    if dtype.kind == "b":
        return rng.random(value.shape) < 0.5
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, value.shape, dtype=dtype, endpoint=True)


def extreme_inputs(program: Program) -> list[list[np.ndarray]]:
    """The ends of integer ranges; large and special floats."""
    rng = np.random.default_rng(99)
    cases = []
    for low in (True, False):
        case = []
        for value in program.inputs:
            dtype = DTYPES[value.dtype]
            if dtype.kind == "f":
                special = np.array(
                    [0.0, -0.0, 1e30, -1e30, 1e-40, np.inf if low else np.nan, 3.5, -2.5],
                    dtype=np.float32,
                )
                array = rng.standard_normal(value.shape).astype(np.float32)
                mask = rng.random(value.shape) < 0.1
                array = np.where(mask, rng.choice(special, value.shape), array).astype(np.float32)
            elif dtype.kind == "b":
                array = np.full(value.shape, low)
            else:
                limits = np.iinfo(dtype)
                array = np.full(value.shape, limits.min if low else limits.max, dtype=dtype)
            case.append(array)
        cases.append(case)
    return cases


def compile_model(
    model: Imported | Program,
    machine: CoralMachine | str = "coral",
    options: CoralOptions | None = None,
    calibration: Sequence[Sequence[np.ndarray]] = (),
    progress: Callable[[str], None] | None = None,
) -> CoralModel:
    """Compile a model for a Coral machine; fails with a table when it does not fit.

    `calibration` are inputs for quantisation; without any, 32 seeded random ones are used.
    """
    chosen = options or CoralOptions()
    target = machine_named(machine) if isinstance(machine, str) else machine
    say = progress or (lambda _: None)
    if chosen.precision not in ("keep", "int8"):
        raise TilewrightError(
            "TW5033", f"there is no precision {chosen.precision}", hint="keep or int8"
        )
    say("import")
    program = program_of(model) if isinstance(model, Imported) else model
    if not program.outputs:
        raise TilewrightError("TW5033", "the model has no outputs")
    phases = {"1-program": program.text()}
    program = optimise(fold_constants(program), fold_scales=False)
    program = optimise(integer_products(program))
    phases["2-optimised"] = program.text()
    sqnr: dict[str, float] = {}
    if chosen.precision == "int8":
        say("quantise")
        float_program = program
        samples = list(calibration) or [random_inputs(program, 1000 + k) for k in range(32)]
        program = optimise(quantise(program, samples, RangeRule.parse(chosen.ranges)))
        sqnr = signal_to_noise(float_program, program, samples[:8])
        phases["3-quantised"] = program.text()
    program = read_transposed(program)
    finish_outputs(program)
    generated, build = generate_and_build(program, target, chosen, say)
    source, storage = generated.source, generated.storage
    groups, names = generated.groups, generated.names
    phases["4-model.c"] = source
    budget = budget_of(build, program, storage, groups, names, target)
    return CoralModel(
        program,
        target,
        chosen,
        groups,
        names,
        storage,
        source,
        build,
        budget,
        sqnr,
        phases,
    )


def generate_and_build(
    program: Program, machine: CoralMachine, options: CoralOptions, say: Callable[[str], None]
) -> tuple[Generated, Build]:
    """C and ELF; when tables that only the linker counts do not fit, with that much less room."""
    reserve = 0
    for last in (False, False, True):
        say("generate C")
        generated = generate(
            program,
            machine,
            options.fuse,
            options.vector,
            options.stack + reserve,
            options.constants_in_code,
        )
        say("build")
        try:
            return generated, build_within(generated.source, machine, options)
        except MemoryOverflow as error:
            if last or error.memory != machine.data.name:
                raise
            counted = generated.estimate + options.stack
            reserve = machine.data.size + error.missing - counted + 16
    raise AssertionError("the last attempt returns or raises")


def build_within(source: str, machine: CoralMachine, options: CoralOptions) -> Build:
    """Loops unrolled by the compiler where the code memory has the room, rolled otherwise."""
    rolled = ("-fno-unroll-loops",)
    if options.unroll is not False:
        try:
            build = compile_c(source, machine, options.stack, options.constants_in_code)
        except TilewrightError as error:
            if error.code != "TW5012" or options.unroll:
                raise
        else:
            text = sum(s.size for s in build.program.sections if s.name == ".text")
            if options.unroll or text <= ROOM_FOR_UNROLLING * machine.code.size:
                return build
    return compile_c(source, machine, options.stack, options.constants_in_code, rolled)


def signal_to_noise(
    exact: Program, narrow: Program, samples: Sequence[Sequence[np.ndarray]]
) -> dict[str, float]:
    """Decibels of every output of the quantised program against the float one."""
    signal = np.zeros(len(exact.outputs))
    noise = np.zeros(len(exact.outputs))
    for sample in samples:
        wanted = evaluate(exact, sample)
        given = [quantised(v, a) for v, a in zip(narrow.inputs, sample, strict=True)]
        for k, (value, got, want) in enumerate(
            zip(narrow.outputs, evaluate(narrow, given), wanted, strict=True)
        ):
            real = got.astype(np.float64)
            if value.scale is not None:
                real = (real - value.zero) * value.scale
            signal[k] += float(np.sum(want.astype(np.float64) ** 2))
            noise[k] += float(np.sum((real - want) ** 2))
    with np.errstate(divide="ignore"):
        levels = 10 * np.log10(signal / np.where(noise == 0, np.nan, noise))
    return {name: float(x) for name, x in zip(exact.output_names, levels, strict=True)}
