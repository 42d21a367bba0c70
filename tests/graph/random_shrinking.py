"""Making a failing program small: fewer outputs and operations, smaller dimensions.

Every step keeps a program valid by construction or is tried on numpy first, and is kept if the
failure stays of the same kind. The numbers of what remains do not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from random_formats import formats, in_format
from random_programs import Node, RandomProgram, Spec, tidied

Fails = Callable[[RandomProgram], bool]


def shrink(program: RandomProgram, fails: Fails, seconds: float = 60.0) -> RandomProgram:
    """The smallest program that was found in time for which `fails` still holds."""
    end = time.perf_counter() + seconds
    progress = True
    while progress and time.perf_counter() < end:
        progress = False
        for smaller in _candidates(program):
            if time.perf_counter() > end:
                break
            if _valid(smaller) and fails(smaller):
                program, progress = smaller, True
                break
    return program


def _valid(program: RandomProgram) -> bool:
    if not program.inputs or not program.outputs:
        return False
    try:
        values = program.run(0)
    except (ValueError, IndexError):
        return False
    return all(
        value.size > 0 and (value.dtype.kind != "f" or bool(np.isfinite(value).all()))
        for value in values.values()
    )


def _candidates(program: RandomProgram) -> Iterator[RandomProgram]:
    yield from _fewer_outputs(program)
    yield from _later_starts(program)
    yield from _without_nodes(program)
    yield from _other_outputs(program)
    yield from _smaller_sizes(program)
    if program.style != "functions":
        yield replace(program, style="functions")
    if formats(program) != {"float32"}:
        yield in_format(program, "float32")


def _fewer_outputs(program: RandomProgram) -> Iterator[RandomProgram]:
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield tidied(program, (name,))
        for name in program.outputs:
            yield tidied(program, tuple(n for n in program.outputs if n != name))


def _other_outputs(program: RandomProgram) -> Iterator[RandomProgram]:
    """An operand of the operation that makes an output in its place."""
    makers = {node.result: node for node in program.nodes}
    for name in program.outputs:
        for operand in makers[name].operands if name in makers else ():
            if operand in makers and operand not in program.outputs:
                rest = tuple(operand if n == name else n for n in program.outputs)
                yield tidied(program, rest)


def _later_starts(program: RandomProgram) -> Iterator[RandomProgram]:
    """A result becomes an input, which takes away all that only it needed; large steps first."""
    values = program.run(0)
    for node in reversed(program.nodes):
        value = values[node.result]
        if value.dtype.kind != "f" or node.result in program.outputs:
            continue
        kept = tuple(other for other in program.nodes if other is not node)
        name = f"x_{node.result}"
        gain = float(np.std(value)) or 1.0
        spec = Spec(value.shape, "normal", round(gain, 3) or 1.0, format=program.format)
        inputs = {**program.inputs, name: spec}
        renamed = tuple(_renamed(other, node.result, name) for other in kept)
        yield tidied(replace(program, inputs=inputs, nodes=renamed))


def _without_nodes(program: RandomProgram) -> Iterator[RandomProgram]:
    """An operation is left out: its readers read its operand."""
    for node in reversed(program.nodes):
        for operand in node.operands:
            if operand in program.weights:
                continue
            kept = tuple(
                _renamed(other, node.result, operand)
                for other in program.nodes
                if other is not node
            )
            outputs = tuple(operand if n == node.result else n for n in program.outputs)
            if len(set(outputs)) == len(outputs):
                yield tidied(replace(program, nodes=kept), outputs)


def _renamed(node: Node, old: str, new: str) -> Node:
    if old not in node.operands:
        return node
    return replace(node, operands=tuple(new if name == old else name for name in node.operands))


def _smaller_sizes(program: RandomProgram) -> Iterator[RandomProgram]:
    """One size smaller wherever it occurs."""
    specs = [*program.inputs.values(), *program.weights.values()]
    sizes = sorted({size for spec in specs for size in spec.shape}, reverse=True)
    for size in sizes:
        for smaller in (1, 2, 4, 8, 32, size // 2, size - 1):
            if smaller < size:
                yield _resized(program, size, smaller)


def _resized(program: RandomProgram, old: int, new: int) -> RandomProgram:
    def sizes(shape):
        return tuple(new if size == old else size for size in shape)

    def spec(given: Spec) -> Spec:
        limit = new if given.limit == old and given.kind == "ids" else given.limit
        return replace(given, shape=sizes(given.shape), limit=limit)

    def node(given: Node) -> Node:
        options = dict(given.options)
        for name in ("shape",):
            if name in options:
                options[name] = sizes(options[name])
        for name in ("width", "tokens", "keys", "end"):
            if options.get(name) == old:
                options[name] = new
        if options.get("half") == old // 2 and new % 2 == 0:
            options["half"] = new // 2
        return replace(given, options=options)

    return replace(
        program,
        inputs={name: spec(s) for name, s in program.inputs.items()},
        weights={name: spec(s) for name, s in program.weights.items()},
        nodes=tuple(node(n) for n in program.nodes),
    )
