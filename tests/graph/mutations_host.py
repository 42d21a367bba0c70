"""Mistakes in what the host does: its functions, its weights, the ports between it and the device.

Each changes the assembled model (`mutations.Kind` of the stage "model").
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from mutations import Chosen, _pick, kind
from xdsl.dialects.builtin import FloatAttr, StringAttr

from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import ModuleOp, Operation, func
from tilewright.targets.artifact import HostPart
from tilewright.targets.compiled_model import CompiledModel

# What a function is taken for.
TAKEN_FOR = {
    "npu_uk_elementwise_add": "npu_uk_elementwise_sub",
    "npu_uk_elementwise_sub": "npu_uk_elementwise_add",
    "npu_uk_elementwise_mul": "npu_uk_elementwise_add",
    "npu_uk_elementwise_max": "npu_uk_elementwise_min",
    "npu_uk_silu": "npu_uk_gelu_tanh",
    "npu_uk_elementwise_relu": "npu_uk_elementwise_abs",
    "npu_uk_elementwise_tanh": "npu_uk_elementwise_sigmoid",
    "npu_uk_softmax": "npu_uk_elementwise_neg",
    "npu_uk_cast": "npu_uk_elementwise_neg",
}


def _hosts(model: CompiledModel[Any]) -> list[tuple[int, HostPart]]:
    return [(k, part) for k, part in enumerate(model.parts) if isinstance(part, HostPart)]


def _edit(model: CompiledModel[Any], change: Callable[[list[Operation]], Chosen]) -> Chosen:
    """Change the host's functions; the text of what was changed."""
    if not model.host_module:
        return None
    module = parse_text(model.host_module, "host")
    assert isinstance(module, ModuleOp)
    used = {part.function for _, part in _hosts(model)}
    ops = [
        op
        for function in module.ops
        if isinstance(function, func.FuncOp) and function.sym_name.data in used
        for op in function.body.block.ops
    ]
    text = change(ops)
    if text is not None:
        model.host_module = print_module(module)
    return text


@kind("model")
def a_host_function_taken_for_another(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    """One operation of the host is another of the same form."""

    def change(ops: list[Operation]) -> Chosen:
        found = [
            op for op in ops if isinstance(op, UKernelGenericOp) and op.symbol.data in TAKEN_FOR
        ]
        op = _pick(choose, found)
        if op is None:
            return None
        old, op.symbol = op.symbol.data, StringAttr(TAKEN_FOR[op.symbol.data])
        return f"{old} became {op.symbol.data}"

    return _edit(model, change)


@kind("model")
def a_host_operation_left_out(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    """Whoever reads the result of an operation finds its operand."""

    def change(ops: list[Operation]) -> Chosen:
        found = [
            (op, value)
            for op in ops
            if op.results
            for value in op.operands
            if value.type == op.results[0].type
        ]
        chosen = _pick(choose, found)
        if chosen is None:
            return None
        op, value = chosen
        op.results[0].replace_all_uses_with(value)
        return op.name

    return _edit(model, change)


@kind("model")
def host_operands_exchanged(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    """Two operands of one form, of one operation or of what a function returns."""

    def change(ops: list[Operation]) -> Chosen:
        found = [
            (op, a, b)
            for op in ops
            for a in range(len(op.operands))
            for b in range(a)
            if op.operands[a].type == op.operands[b].type and op.operands[a] is not op.operands[b]
        ]
        chosen = _pick(choose, found)
        if chosen is None:
            return None
        op, a, b = chosen
        op.operands[a], op.operands[b] = op.operands[b], op.operands[a]
        return op.name

    return _edit(model, change)


@kind("model")
def a_number_of_the_host_halved(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    def change(ops: list[Operation]) -> Chosen:
        found = [
            (op, name)
            for op in ops
            for name, value in op.attributes.items()
            if isinstance(value, FloatAttr) and value.value.data
        ]
        chosen = _pick(choose, found)
        if chosen is None:
            return None
        op, name = chosen
        value = op.attributes[name]
        assert isinstance(value, FloatAttr)
        op.attributes[name] = FloatAttr(value.value.data / 2, value.type)
        return f"{name} of {op.name}"

    return _edit(model, change)


@kind("model")
def host_ports_exchanged(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    """A part reads, or fills, two ports of one form in each other's place."""
    found = []
    for number, part in _hosts(model):
        for side in ("inputs", "outputs"):
            names = getattr(part, side)
            for a in range(len(names)):
                for b in range(a):
                    one, other = model.ports[names[a]], model.ports[names[b]]
                    if (one.shape, one.dtype) == (other.shape, other.dtype):
                        found.append((number, side, a, b))
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    number, side, a, b = chosen
    part = model.parts[number]
    names = list(getattr(part, side))
    names[a], names[b] = names[b], names[a]
    model.parts[number] = replace(part, **{side: tuple(names)})
    return f"{side} {names[a]} and {names[b]} of {part}"


@kind("model")
def a_host_port_taken_for_another(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    """A part reads another port of the same form that is filled already."""
    found, filled = [], [*model.inputs]
    for number, part in enumerate(model.parts):
        if isinstance(part, HostPart):
            for place, name in enumerate(part.inputs):
                port = model.ports[name]
                for other in filled:
                    same = (port.shape, port.dtype) == (
                        model.ports[other].shape,
                        model.ports[other].dtype,
                    )
                    if other != name and same:
                        found.append((number, place, other))
        filled += part.outputs
    chosen = _pick(choose, found)
    if chosen is None:
        return None
    number, place, other = chosen
    part = model.parts[number]
    names = list(part.inputs)
    names[place] = other
    model.parts[number] = replace(part, inputs=tuple(names))
    return f"{other} for {part.inputs[place]}"


@kind("model")
def a_host_weight_changed(choose: random.Random, model: CompiledModel[Any]) -> Chosen:
    name = _pick(choose, sorted(model.host_weights))
    if name is None:
        return None
    array = model.host_weights[name].copy()
    flat = array.reshape(-1)
    at = choose.randrange(flat.size)
    flat[at] = flat[at] * np.asarray(2, array.dtype) + np.asarray(1, array.dtype)
    model.host_weights = {**model.host_weights, name: array}
    return f"{name} at {at}"
