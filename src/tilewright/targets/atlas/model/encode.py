"""What lowering made of a model, as a module: the last form before code.

before: kernel calls with ranges that calibration filled in, parts, folded layers
after:  @main calls @host0, @device_0, …; functions of the device consist of `npu_kernel.launch` on
        stored tensors, in `npu_kernel.layers` where layers are folded; weights are codes beside it

Nothing that comes later looks at the model or at ranges: `decode.py` reads this module, or one
that was parsed from its text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tilewright.dialects.launches import (
    ENCODING,
    STAYS,
    TENSOR,
    TENSORS,
    BitcastOp,
    LaunchOp,
    PackOp,
    UnpackOp,
    attribute,
)
from tilewright.dialects.layers import LayersOp, LayerYieldOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    TensorType,
    UnitAttr,
    f32,
    func,
)
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.parts import (
    DEVICE,
    HOST,
    INPUT_PORTS,
    OUTPUT_PORTS,
    PLACE,
    REASONS,
    Part,
    Port,
    texts_of,
)
from tilewright.model.parts import Parts as Encoded
from tilewright.model.weights import weight_constant
from tilewright.targets.artifact import HostPart
from tilewright.targets.atlas.model.calls import Call, Tensor, content_codes
from tilewright.targets.atlas.model.decode import (
    CONSTANT,
    HELD,
    KEPT,
    LAYERS,
    STACKED,
    type_of,
)
from tilewright.targets.atlas.model.host import DeviceCalls, Parts
from tilewright.targets.atlas.model.launches import LayerLoop
from tilewright.targets.atlas.model.layer_loops import Folded
from tilewright.tile.layouts import NUMPY


def encode(model: Imported, parts: Parts, folded: Folded) -> Encoded:
    """The module of a model whose ranges are known."""
    return _Encoder(model, parts, folded).run()


@dataclass
class _Function:
    """A function of the device while it is written."""

    part: Part
    block: Block
    current: dict[Tensor, SSAValue] = field(default_factory=dict)  # what tensors hold
    held: list[Tensor] = field(default_factory=list)  # from functions before
    kept: list[Tensor] = field(default_factory=list)  # for functions behind
    results: list[SSAValue] = field(default_factory=list)


class _Encoder:
    def __init__(self, model: Imported, parts: Parts, folded: Folded) -> None:
        self.model, self.parts, self.folded = model, parts, folded
        self.weights: dict[str, np.ndarray] = {}
        self.entering = {parts.port_of[row.tensor]: row.tensor for row in parts.lowered.inputs}
        self.leaving = {
            parts.port_of[value]: (
                value,
                tensor if tensor in parts.apart else parts.renamed.get(tensor, tensor),
            )
            for value, tensor in parts.lowered.outputs.items()
        }
        self.types: dict[str, TensorType] = {}
        named = [(name, value) for value, name in parts.port_of.items()]
        values = [(name, value) for name, value in named if isinstance(value, SSAValue)]
        for name, value in (*values, *parts.graph.outputs, *named):
            self.types.setdefault(name, _port_type(value))
        self.stacked = {t: loop for loop in folded.layer_loops for t in loop.own}

    def run(self) -> Encoded:
        rows: list[Part] = []
        written: list[func.FuncOp | _Function] = []
        home: dict[Tensor, _Function] = {}
        for span in self.parts.sequence():
            if isinstance(span, HostPart):
                part = Part(span.function, HOST, span.inputs, span.outputs, span.reasons)
                written.append(self.parts.functions[span.function].clone())
            else:
                function = self._device(span, len(rows), home)
                part = function.part
                written.append(function)
            rows.append(part)
        functions = [one if isinstance(one, func.FuncOp) else self._closed(one) for one in written]
        for part, function in zip(rows, functions, strict=True):
            _note(function, part)
        main = self._main(rows, functions)
        self.weights |= self.parts.host_weights
        ports = {
            name: Port(name, tuple(kind.get_shape()), str(kind.element_type), kind)
            for name, kind in self.types.items()
        }
        return Encoded(
            ModuleOp([main, *functions]),
            self.weights,
            self.model.inputs,
            self.model.outputs,
            ports,
            tuple(rows),
            self.model.source,
            dict(self.model.state),
        )

    # --- functions ------------------------------------------------------------------------

    def _device(self, span: DeviceCalls, number: int, home: dict[Tensor, _Function]) -> _Function:
        """A function of the device, but for what later ones read of it."""
        calls = self.folded.calls[span.first : span.end]
        block = Block(arg_types=[self.types[name] for name in span.inputs])
        part = Part(f"device_{number}", DEVICE, span.inputs, span.outputs)
        function = _Function(part, block)
        for name, argument in zip(span.inputs, block.args, strict=True):
            tensor = self.entering[name]
            if tensor in home:
                continue  # it holds something else by now
            pack = PackOp(argument, _type(tensor), self._notes(tensor))
            function.current[tensor] = _add(block, pack, tensor.name)
        for tensor in _read_before_written(calls, self.stacked):
            if tensor not in function.current:
                if tensor not in home:
                    raise _nowhere(tensor)
                function.held.append(tensor)
                home[tensor].kept.append(tensor)
                kind = home[tensor].current[tensor].type
                function.current[tensor] = block.insert_arg(kind, len(block.args))
        at = span.first
        while at < span.end:
            loop = next((loop for loop in self.folded.layer_loops if loop.first == at), None)
            if loop is None:
                self._launch(function, function.block, self.folded.calls[at], function.current)
                at += 1
            else:
                self._loop(function, loop)
                at = loop.end
        home.update(dict.fromkeys(function.current, function))
        for name in span.outputs:
            value, tensor = self.leaving[name]
            if tensor not in function.current:
                raise _nowhere(tensor)
            unpack = UnpackOp(function.current[tensor], value.type)
            function.results.append(_add(block, unpack, name))
        return function

    def _notes(self, tensor: Tensor) -> dict[str, Attribute]:
        """What there is to say of a tensor that is handed over."""
        notes: dict[str, Attribute] = {TENSOR: attribute(tensor.name)}
        if tensor.kind == "state":
            notes[STAYS] = UnitAttr()
        encoding = self.parts.encodings.get(tensor)
        if encoding is not None:
            notes[ENCODING] = attribute(encoding.to_json())
        return notes

    def _closed(self, function: _Function) -> func.FuncOp:
        """The function, with what others read of it behind its ports."""
        kept = list(dict.fromkeys(function.kept))
        results = [*function.results, *(function.current[tensor] for tensor in kept)]
        function.block.add_op(func.ReturnOp(*results))
        types = ([a.type for a in function.block.args], [value.type for value in results])
        made = func.FuncOp(function.part.function, types, Region([function.block]))
        for name, tensors in ((HELD, function.held), (KEPT, kept)):
            if tensors:
                made.attributes[name] = attribute([tensor.name for tensor in tensors])
        return made

    def _main(self, rows: list[Part], functions: list[func.FuncOp]) -> func.FuncOp:
        """The functions one after the other."""
        graph = self.parts.graph
        block = Block(arg_types=[value.type for value in graph.inputs])
        held: dict[str, SSAValue] = {}
        for name, argument in zip(graph.inputs.values(), block.args, strict=True):
            held[name] = _hinted(argument, name)
        stays: dict[str, SSAValue] = {}
        for part, function in zip(rows, functions, strict=True):
            kind = function.function_type
            operands = [held[name] for name in part.inputs]
            operands += [stays[name] for name in texts_of(function, HELD)]
            call = func.CallOp(part.function, operands, list(kind.outputs))
            block.add_op(call)
            count = len(part.outputs)
            held.update(zip(part.outputs, call.results, strict=False))
            stays.update(zip(texts_of(function, KEPT), call.results[count:], strict=True))
        results = [held[name] for name, _ in graph.outputs]
        block.add_op(func.ReturnOp(*results))
        types = ([value.type for value in graph.inputs], [value.type for value in results])
        return func.FuncOp("main", types, Region([block]))

    # --- launches ---------------------------------------------------------------------------

    def _constant(self, function: _Function, tensor: Tensor) -> SSAValue:
        constant = weight_constant(tensor.name, _type(tensor))
        if tensor.kind == "constant":
            constant.attributes[CONSTANT] = UnitAttr()
        self._store(tensor)
        return _add(function.block, constant, tensor.name)

    def _store(self, tensor: Tensor) -> None:
        if tensor.name not in self.weights:
            codes = content_codes(tensor)
            self.weights[tensor.name] = codes.view(NUMPY[tensor.layout.dtype])

    def _launch(
        self, function: _Function, block: Block, call: Call, current: dict[Tensor, SSAValue]
    ) -> None:
        """A call, on what its tensors hold now."""
        operands: dict[str, SSAValue] = {}
        for role, tensor in call.operands.items():
            if tensor not in current and tensor.content is not None:
                function.current[tensor] = current[tensor] = self._constant(function, tensor)
            if tensor not in current:
                raise _nowhere(tensor)
            operands[role] = current[tensor]
        scale = call.result_scale
        notes = {
            "tw.tensor": call.output.name,
            "tw.layer": call.name,
            "tw.sources": list(call.sources),
            "tw.macs": call.macs,
            "tw.largest": None if scale is None else scale.largest,
            TENSORS: [one.name for one in call.others.values()] or None,
        }
        attributes = {**call.all_options(), **{k: v for k, v in notes.items() if v is not None}}
        launch = LaunchOp(
            call.kernel,
            operands,
            type_of(call.output.layout, None if scale is None else scale.scale()),
            {name: attribute(value) for name, value in attributes.items()},
            {role: _type(one) for role, one in call.others.items()},
        )
        current[call.output] = _add(block, launch, call.output.name)
        for one, value in zip(call.others.values(), launch.others, strict=True):
            current[one] = _hinted(value, one.name)

    def _loop(self, function: _Function, loop: LayerLoop[Tensor]) -> None:
        """A layer loop: what is read in it before it is written is carried."""
        calls = self.folded.calls[loop.first : loop.end]
        written = {one for call in calls for one in call.results.values()}
        carried = [t for t in _read_before_written(calls, self.stacked) if t in written]
        last = {call.output: call for call in calls}
        types = [_result_type(last[tensor]) for tensor in carried]
        kept = {tensor: every for tensor, every in loop.own.items() if tensor in written}
        given = {t: every for t, every in loop.own.items() if t.kind in ("input", "state")}
        stacked = {t: every for t, every in loop.own.items() if t not in kept and t not in given}
        body = Block(arg_types=[*types, *(_type(tensor) for tensor in (*given, *stacked))])
        inside = dict(function.current)
        start = []
        for tensor, argument, kind in zip(carried, body.args, types, strict=False):
            if tensor not in inside:
                raise _nowhere(tensor)
            value = inside[tensor]
            if value.type != kind:
                value = _add(function.block, BitcastOp(value, kind), tensor.name)
            start.append(value)
            inside[tensor] = _hinted(argument, tensor.name)
        each = [[inside[one] for one in every] for every in given.values()]
        for tensor, argument in zip((*given, *stacked), body.args[len(types) :], strict=True):
            inside[tensor] = _hinted(argument, tensor.name)
        for one in (one for every in stacked.values() for one in every):
            self._store(one)
        for call in calls:
            self._launch(function, body, call, inside)
        body.add_op(LayerYieldOp([inside[t] for t in carried], [inside[t] for t in kept]))
        types += [inside[tensor].type for tensor in kept for _ in range(loop.count)]
        attributes: dict[str, Attribute] = {LAYERS: attribute(list(loop.names))}
        if stacked:
            attributes[STACKED] = attribute([tensor.name for tensor in stacked])
        names = [[one.name for one in every] for every in stacked.values()]
        made = LayersOp(loop.count, start, each, names, Region([body]), types, attributes)
        function.block.add_op(made)
        tensors = [*carried, *(one for every in kept.values() for one in every)]
        for tensor, result in zip(tensors, made.outputs, strict=True):
            function.current[tensor] = _hinted(result, tensor.name)


def _read_before_written(
    calls: Iterable[Call], stacked: dict[Tensor, LayerLoop[Tensor]]
) -> list[Tensor]:
    """Tensors whose content from before the calls is read, in order."""
    written: set[Tensor] = set()
    found: dict[Tensor, None] = {}
    for call in calls:
        for tensor in call.operands.values():
            if tensor not in written and tensor.content is None and tensor not in stacked:
                found[tensor] = None
        written.update(call.results.values())
    return list(found)


def _type(tensor: Tensor) -> TensorType:
    return type_of(tensor.layout, None if tensor.scale is None else tensor.scale.scale())


def _result_type(call: Call) -> TensorType:
    scale = call.result_scale
    return type_of(call.output.layout, None if scale is None else scale.scale())


def _port_type(value: SSAValue | Tensor) -> TensorType:
    """What is handed over: a value of the model, or f32 of the shape that the device wants."""
    if isinstance(value, Tensor):
        return TensorType(f32, value.layout.given)
    assert isinstance(value.type, TensorType)
    return value.type


def _add(block: Block, op: Operation, name: str) -> SSAValue:
    block.add_op(op)
    return _hinted(op.results[0], name)


def _hinted(value: SSAValue, name: str) -> SSAValue:
    if SSAValue.is_valid_name(name):
        value.name_hint = name
    return value


def _note(function: func.FuncOp, part: Part) -> None:
    """Say of a function where it runs and what it is handed."""
    function.attributes[PLACE] = attribute(part.place)
    function.attributes[INPUT_PORTS] = attribute(list(part.inputs))
    function.attributes[OUTPUT_PORTS] = attribute(list(part.outputs))
    if part.reasons:
        function.attributes[REASONS] = attribute(list(part.reasons))


def _nowhere(tensor: Tensor) -> TilewrightError:
    return TilewrightError("TW1715", f"{tensor.name} is read where nothing has made it")
