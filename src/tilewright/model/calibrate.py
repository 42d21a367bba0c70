"""What values look like: the model is run in float on example inputs, and ranges are noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import FunctionType

from tilewright.dialects.xdsl_api import SSAValue, func
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.frontend.samples import Following
from tilewright.model.capture import capture
from tilewright.model.meanings import meanings_of
from tilewright.model.sample_values import Meaning, draw
from tilewright.model.simplify import simplify
from tilewright.reference import dtypes
from tilewright.reference.dtypes import numpy_type
from tilewright.reference.executor import Executor

Arrays = Mapping[str, np.ndarray]


class RangeObserver(Protocol):
    """Takes note of a value of the model."""

    value: SSAValue

    def observe(self, array: np.ndarray) -> None: ...


def observe(
    model: Imported, values: Iterable[SSAValue], inputs: Sequence[Arrays]
) -> list[dict[SSAValue, np.ndarray]]:
    """The given values of the model, for each set of inputs, computed in the model's own types."""
    wanted = list(dict.fromkeys(values))
    main = next(op for op in model.module.ops if isinstance(op, func.FuncOp))
    block = main.body.block
    copy = model.module.clone()
    twin = next(op for op in copy.ops if isinstance(op, func.FuncOp))
    partner: dict[SSAValue, SSAValue] = dict(zip(block.args, twin.body.block.args, strict=True))
    for op, other in zip(block.ops, twin.body.block.ops, strict=True):
        partner.update(zip(op.results, other.results, strict=True))
    last = twin.body.block.last_op
    assert last is not None
    results = [partner[value] for value in wanted]
    last.detach()
    twin.body.block.add_op(func.ReturnOp(*results))
    kind = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in results]
    )
    twin.properties["function_type"] = kind
    executor = Executor(copy, model.weights)
    found = []
    for arrays in inputs:
        ordered = [np.asarray(arrays[spec.name]) for spec in model.inputs]
        found.append(dict(zip(wanted, executor.run(ordered, twin.sym_name.data), strict=True)))
    return found


def watch(
    model: Imported,
    observers: Mapping[SSAValue, Callable[[np.ndarray], None]],
    inputs: Sequence[Arrays],
) -> None:
    """Show values of the model, when they are made, to observers; none of them is kept."""
    executor = Executor(model.module, model.weights, watch=observers)
    name = main_name(model)
    for arrays in inputs:
        executor.run([np.asarray(arrays[spec.name]) for spec in model.inputs], name)


def main_name(model: Imported) -> str:
    names = [op.sym_name.data for op in model.module.ops if isinstance(op, func.FuncOp)]
    return "main" if "main" in names else names[0]


def calibrate(
    model: Imported,
    observers: Sequence[RangeObserver],
    inputs: Sequence[Arrays],
    outputs: Sequence[tuple[str, SSAValue]] = (),
) -> list[dict[str, np.ndarray]]:
    """Note the range of every value that will be fp8; the outputs asked for, of every sample."""
    those: dict[SSAValue, list[Callable[[np.ndarray], None]]] = {}
    for observer in observers:
        those.setdefault(observer.value, []).append(observer.observe)
    last: dict[SSAValue, np.ndarray] = {}
    for _, value in outputs:
        those.setdefault(value, []).append(partial(last.__setitem__, value))

    def tell(every: list[Callable[[np.ndarray], None]], array: np.ndarray) -> None:
        for one in every:
            one(array)

    told = {value: partial(tell, every) for value, every in those.items()}
    executor = Executor(model.module, model.weights, watch=told)
    found = []
    for arrays in inputs:
        if isinstance(arrays, Following) and found:
            arrays.behind(found[-1])  # it need not run the model for them
        executor.run([np.asarray(arrays[spec.name]) for spec in model.inputs], main_name(model))
        found.append({name: last[value] for name, value in outputs})
    return found


def example_inputs(
    model: Imported, seed: int = 0, meanings: Mapping[str, Meaning] | None = None
) -> dict[str, np.ndarray]:
    """Seeded inputs of the right shapes, as the model means them: see `sample_values`."""
    generator = np.random.default_rng(seed)
    known = input_meanings(model) if meanings is None else meanings
    result = {}
    for spec in model.inputs:
        if spec.name in model.state and spec.name in model.weights:
            result[spec.name] = np.asarray(model.weights[spec.name])
            continue
        drawn = draw(spec.shape, spec.dtype in dtypes.FLOATS, known.get(spec.name), generator)
        result[spec.name] = drawn.astype(numpy_type(spec.dtype))
    return result


def input_meanings(model: Imported) -> dict[str, Meaning]:
    """What the inputs of a model are for, as far as its operations tell."""
    try:
        return meanings_of(capture(simplify(model)))
    except TilewrightError:  # it will be said where the model is compiled
        return {}


def check_inputs(model: Imported, arrays: Arrays, what: str) -> dict[str, np.ndarray]:
    """The arrays by input name, each of the right shape and type."""
    result = {}
    for spec in model.inputs:
        if spec.name not in arrays:
            names = ", ".join(s.name for s in model.inputs)
            raise TilewrightError(
                "TW1703", f"{what} lacks the input {spec.name}", hint=f"the model has: {names}"
            )
        array = np.asarray(arrays[spec.name])
        if tuple(array.shape) != spec.shape:
            raise TilewrightError(
                "TW1704",
                f"{what}: {spec.name} has shape {'x'.join(map(str, array.shape))}, the model "
                f"takes {spec}",
            )
        result[spec.name] = array.astype(numpy_type(spec.dtype))
    return result
