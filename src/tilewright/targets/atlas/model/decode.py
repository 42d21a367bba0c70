"""The launches of an encoded module, from which code is generated.

`encode.py` writes such modules, or somebody by hand: functions of the device with `npu_kernel.launch`, `pack`, `unpack` and `layers`. Values of the module are single
assignments, tensors of the device are memory. What a layer loop carries is one tensor, which every
iteration overwrites, so nobody may need its first content any more; this is checked here.

Error codes: TW1715 a module that is no program of this target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from tilewright.dialects.encodings import StoredAttr, scale_of
from tilewright.dialects.launches import (
    ENCODING,
    NOTE,
    STAYS,
    TENSOR,
    TENSORS,
    BitcastOp,
    LaunchOp,
    PackOp,
    UnpackOp,
    attribute,
    plain,
)
from tilewright.dialects.layers import LayersOp, LayerYieldOp
from tilewright.dialects.locations import location_of
from tilewright.dialects.xdsl_api import (
    Attribute,
    BFloat16Type,
    Block,
    DictionaryAttr,
    Float8E4M3FNType,
    Operation,
    SSAValue,
    TensorType,
    arith,
    bf16,
    f8E4M3FN,
    func,
)
from tilewright.errors import TilewrightError
from tilewright.model.partition import main_of
from tilewright.model.parts import Parts, texts_of
from tilewright.model.weights import resource_name
from tilewright.targets.atlas.artifact.atlas_artifact import Kind
from tilewright.targets.atlas.kernels import arrangements
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.launches import Launch, LaunchProgram, LayerLoop, StoredTensor
from tilewright.targets.port_encoding import Encoding
from tilewright.tile.layouts import Layout, to_codes

CONSTANT = "tw.constant"  # mark of a constant that is a value of the model, not a layer's weight
STACKED = "tw.tensors"  # of a layer loop: names of the tensors that hold weights of all iterations
LAYERS = "tw.layers"  # of a layer loop: what its iterations are called
HELD, KEPT = "tw.held", "tw.kept"  # tensors that stay on the device between functions, behind ports
ELEMENTS = {"fp8": f8E4M3FN, "bf16": bf16}


# --- types ------------------------------------------------------------------------------


def type_of(layout: Layout, scale: float | None = None) -> TensorType:
    """The type of a tensor that is stored like this."""
    element = ELEMENTS[layout.dtype]
    plainly = layout.order == "tiles" and layout.arrangement is None
    if plainly and scale is None:
        return TensorType(element, layout.given)
    table = {} if layout.arrangement is None else arrangements.written(layout.arrangement)
    encoded = attribute(table)
    assert isinstance(encoded, DictionaryAttr)
    return TensorType(element, layout.given, StoredAttr.of(layout.order, scale, encoded))


def layout_of(type_: Attribute, op: Operation) -> Layout:
    """How a value of a type is stored."""
    if not isinstance(type_, TensorType):
        _refuse(op, f"{type_} is no tensor")
    if isinstance(type_.element_type, Float8E4M3FNType):
        dtype = "fp8"
    elif isinstance(type_.element_type, BFloat16Type):
        dtype = "bf16"
    else:
        _refuse(op, f"the device stores no {type_.element_type}")
    shape, stored = tuple(type_.get_shape()), type_.encoding
    if not isinstance(stored, StoredAttr):
        return Layout(shape, dtype)
    if not stored.arrangement.data:
        return Layout(shape, dtype, stored.order.data)
    try:
        arrangement = arrangements.read(plain(stored.arrangement))
    except ValueError as error:
        _refuse(op, f"{type_} {error}")
    layout = Layout(arrangement.stored, dtype, stored.order.data, arrangement)
    if layout.given != shape:
        _refuse(op, f"{type_} has an arrangement of another shape")
    return layout


def encoding_of(op: PackOp) -> Encoding | None:
    """How what is packed lies in its tensor, where that is not as it is."""
    if ENCODING not in op.attributes:
        return None
    try:
        found = Encoding.of(plain(op.attributes[ENCODING]))
        assert isinstance(op.source.type, TensorType)
        wrong = found.wrong(tuple(op.source.type.get_shape()))
    except (AttributeError, KeyError, TypeError, ValueError):
        _refuse(op, "an encoding without factor, shape and order")
    if wrong is None and found.stored != layout_of(op.result.type, op).given:
        wrong = f"stored shape {list(found.stored)}"
    if wrong is not None:
        _refuse(op, f"an encoding has {wrong}")
    return found


# --- reading ----------------------------------------------------------------------------


def read_launches(encoded: Parts) -> LaunchProgram:
    """The launches of an encoded module."""
    return _Reader(encoded).run()


class _Reader:
    def __init__(self, encoded: Parts) -> None:
        self.encoded = encoded
        self.result = LaunchProgram()
        self.tensors: dict[str, StoredTensor] = {}
        self.known: dict[SSAValue, StoredTensor] = {}
        self.turns: dict[SSAValue, int] = {}  # which iteration of a layer loop leaves this result

    def run(self) -> LaunchProgram:
        held: dict[SSAValue, StoredTensor] = {}  # between functions
        parts = {part.function: part for part in self.encoded.parts}
        for call in main_of(self.encoded.module).body.block.ops:
            if not isinstance(call, func.CallOp):
                continue
            part = parts[call.callee.string_value()]
            if part.on_host:
                continue
            function = self.encoded.function(part.function)
            block = function.body.block
            count = len(part.inputs)
            for value, argument in zip(call.operands[count:], block.args[count:], strict=True):
                if value not in held:
                    _refuse(call, f"{part.function} reads what no function before it leaves")
                self.known[argument] = held[value]
            arguments: dict[SSAValue, str] = dict(zip(block.args, part.inputs, strict=False))
            first = len(self.result.launches)
            for op in block.ops:
                self._operation(op, arguments)
            last = block.last_op
            assert isinstance(last, func.ReturnOp)
            count = len(part.outputs)
            for name, value in zip(part.outputs, last.operands, strict=False):
                self._output(name, value, last)
            for value, made in zip(call.results[count:], last.operands[count:], strict=True):
                held[value] = self._tensor(made, last)
            self.result.spans[part.function] = (first, len(self.result.launches))
        return self.result

    def _operation(self, op: Operation, arguments: Mapping[SSAValue, str]) -> None:
        """An operation of a function."""
        match op:
            case PackOp():
                port = arguments.get(op.source)
                if port is None:
                    _refuse(op, "what is packed is no argument of its function")
                self.known[op.result] = self._named(
                    op, "state" if STAYS in op.attributes else "input"
                )
                self.result.ports[port] = self.known[op.result].name
                encoding = encoding_of(op)
                if encoding is not None:
                    self.result.encodings[port] = encoding
            case LaunchOp():
                self.known[op.result] = self._launch(op, None)
            case BitcastOp():
                self.known[op.result] = self._tensor(op.source, op)
            case LayersOp():
                self._loop(op)
            case arith.ConstantOp() | UnpackOp() | func.ReturnOp():
                pass
            case _:
                _refuse(op, f"{op.name} is not for the device")

    def _output(self, port: str, value: SSAValue, op: Operation) -> None:
        if not isinstance(value.owner, UnpackOp):
            _refuse(op, f"{port} is not unpacked")
        tensor = self._tensor(value.owner.source, value.owner)
        self.result.ports[port] = tensor.name
        if value.owner.source in self.turns:
            self.result.turns[port] = self.turns[value.owner.source]
        if tensor.kind == "activation":
            tensor.kind = "output"

    # --- tensors ------------------------------------------------------------------------

    def _named(self, op: PackOp | LaunchOp, kind: Kind) -> StoredTensor:
        """The tensor that holds the result of an operation."""
        note = op.attributes.get(TENSOR)
        return self._made(op, op.result, None if note is None else plain(note), kind)

    def _others(self, op: LaunchOp) -> dict[str, StoredTensor]:
        """The tensors of what a launch leaves beside its result."""
        found = op.others_by_role()
        names = op.note(TENSORS.removeprefix(NOTE)) or [None] * len(found)
        if len(names) != len(found):
            _refuse(op, f"{len(found)} further results have {len(names)} names")
        made = {
            role: self._made(op, value, name, "activation")
            for (role, value), name in zip(found.items(), names, strict=True)
        }
        self.known |= {found[role]: tensor for role, tensor in made.items()}
        return made

    def _made(
        self, op: PackOp | LaunchOp, value: SSAValue, name: str | None, kind: Kind
    ) -> StoredTensor:
        name = value.name_hint or "value" if name is None else name
        layout = layout_of(value.type, op)
        found = self.tensors.get(name)
        if found is not None:
            if kind in ("input", "state") and found.kind == kind and found.layout == layout:
                return found  # another function takes the same
            _refuse(op, f"there are two tensors {name}")
        self.tensors[name] = StoredTensor(name, layout, kind)
        return self.tensors[name]

    def _tensor(self, value: SSAValue, op: Operation) -> StoredTensor:
        """The tensor that holds a value."""
        if value in self.known:
            return self.known[value]
        constant = value.owner
        name = resource_name(constant) if isinstance(constant, Operation) else None
        if name is None or not isinstance(constant, arith.ConstantOp):
            _refuse(op, "it reads what is neither on the device nor a weight")
        kind = "constant" if CONSTANT in constant.attributes else "weight"
        return self._weight(name, value.type, kind, op)

    def _weight(self, name: str, type_: Attribute, kind: Kind, op: Operation) -> StoredTensor:
        layout = layout_of(type_, op)
        found = self.tensors.get(name)
        if found is None:
            array = self.encoded.weights.get(name)
            if array is None or tuple(array.shape) != layout.given:
                _refuse(op, f"there is no weight {name} of {'x'.join(map(str, layout.given))}")
            found = StoredTensor(name, layout, kind, to_codes(array, layout.dtype))
            self.tensors[name] = found
        elif found.content is None or found.layout != layout:
            _refuse(op, f"there are two tensors {name}")
        return found

    # --- launches -----------------------------------------------------------------------

    def _launch(self, op: LaunchOp, into: StoredTensor | None) -> StoredTensor:
        kernel = op.kernel.data
        if kernel not in RECORDS:
            known = ", ".join(RECORDS)
            _refuse(op, f"there is no kernel {kernel}", f"kernels are {known}")
        operands = {role: self._tensor(value, op) for role, value in op.operands_by_role().items()}
        output = into or self._named(op, "activation")
        options, others = op.options(), self._others(op)
        _check_kernel(op, kernel, options, {**operands, "out": output, **others})
        self.result.launches.append(
            Launch(
                op.note("layer", output.name),
                kernel,
                operands,
                output,
                options,
                tuple(op.note("sources", ())),
                op.note("macs", 0),
                scale_of(op.result),
                op.note("largest"),
                others,
            )
        )
        return output

    def _loop(self, loop: LayersOp) -> None:
        """A layer loop: carried values are tensors that every iteration overwrites."""
        own = self._given(loop)
        names = texts_of(loop, STACKED)
        rows = zip(names, loop.weight_arguments, loop.weight_names(), strict=True)
        for name, argument, every in rows:
            stacked = [self._weight(one, argument.type, "weight", loop) for one in every]
            tensor = stacked[0]
            if tensor.name != name:
                tensor = StoredTensor(name, tensor.layout, "weight", tensor.content)
            own[tensor] = stacked
            self.known[argument] = tensor
        variables: dict[SSAValue, StoredTensor] = {}
        for start, argument, result, last in zip(
            loop.start,
            loop.carried_arguments,
            loop.outputs[: len(loop.start)],
            loop.terminator.carried,
            strict=True,
        ):
            tensor = self._tensor(start, loop)
            _check_overwritten(loop, start, argument, last, tensor)
            self.known[argument] = self.known[result] = variables[last] = tensor
        first = len(self.result.launches)
        for op in loop.block.ops:
            if isinstance(op, LaunchOp):
                self.known[op.result] = self._launch(op, variables.get(op.result))
            elif not isinstance(op, LayerYieldOp):
                _refuse(op, f"{op.name} inside of a layer loop")
        end = len(self.result.launches)
        own |= self._kept(loop)
        self.result.layer_loops.append(
            LayerLoop(loop.iterations, first, end, texts_of(loop, LAYERS), own)
        )

    def _given(self, loop: LayersOp) -> dict[StoredTensor, list[StoredTensor]]:
        """Inputs of the model that every iteration has for itself: they lie side by side."""
        own: dict[StoredTensor, list[StoredTensor]] = {}
        for argument, values in zip(loop.each_arguments, loop.each_values(), strict=True):
            for value in values:
                if not isinstance(value.owner, PackOp) or value.uses.get_length() != 1:
                    _refuse(
                        loop, "what iterations have for themselves is an input, for one of them"
                    )
            tensors = [self._tensor(value, loop) for value in values]
            own[tensors[0]] = tensors
            self.known[argument] = tensors[0]
            turns = {tensor.name: turn for turn, tensor in enumerate(tensors)}
            for port, name in self.result.ports.items():
                if name in turns:
                    self.result.ports[port] = tensors[0].name
                    self.result.turns[port] = turns[name]
        return own

    def _kept(self, loop: LayersOp) -> dict[StoredTensor, list[StoredTensor]]:
        """Outputs of the model that every iteration leaves for itself: they lie side by side too."""
        own: dict[StoredTensor, list[StoredTensor]] = {}
        carried = set(loop.terminator.carried)
        for value, results in zip(loop.terminator.collected, loop.collected_results(), strict=True):
            maker = value.owner
            if (
                value in carried
                or not isinstance(maker, LaunchOp)
                or maker.parent is not loop.block
            ):
                _refuse(loop, "an iteration keeps a value that it does not compute for itself")
            tensor = self._tensor(value, loop)
            if tensor in own:
                _refuse(loop, "an iteration keeps a value twice")
            own[tensor] = [tensor] * loop.iterations
            for turn, result in enumerate(results):
                if any(not isinstance(use.operation, UnpackOp) for use in result.uses):
                    _refuse(loop, f"{tensor.name} of one iteration is read on the device")
                self.known[result], self.turns[result] = tensor, turn
        return own


def _check_kernel(
    op: LaunchOp, kernel: str, options: dict[str, Any], tensors: dict[str, StoredTensor]
) -> None:
    """Whether a kernel takes its options, and tensors that are stored like these."""
    try:
        made = RECORDS[kernel].build(options)
        shapes = {role: tensor.layout.shape for role, tensor in tensors.items()}
        layouts = made.layouts(shapes)
    except TilewrightError as error:
        _refuse(op, f"{kernel}: {error.message}", error.hint)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        _refuse(op, f"{kernel} does not take these options and operands: {error!r}")
    for role in layouts.keys() | tensors.keys():
        wanted = layouts.get(role)
        found = tensors[role].layout if role in tensors else None
        if wanted != found:
            _refuse(op, f"{kernel}: {role} is {found or 'missing'}, it has to be {wanted}")


def _check_overwritten(
    loop: LayersOp, start: SSAValue, argument: SSAValue, last: SSAValue, tensor: StoredTensor
) -> None:
    """Whether an iteration may leave a carried value where the first one finds its own."""
    maker = last.owner
    if not isinstance(maker, LaunchOp) or maker.parent is not loop.block:
        _refuse(loop, "an iteration leaves a value that it does not compute")
    if tensor.content is not None:
        _refuse(loop, f"an iteration would overwrite {tensor.name}, which is constant")
    if len([value for value in loop.terminator.carried if value is last]) > 1:
        _refuse(loop, "an iteration leaves a value twice")
    order = {op: number for number, op in enumerate(loop.block.ops)}
    if any(order[use.operation] >= order[maker] for use in argument.uses):
        _refuse(loop, f"an iteration reads {tensor.name} after the next one's was written there")
    aliases = [start]
    while isinstance(aliases[-1].owner, BitcastOp):
        aliases.append(aliases[-1].owner.source)
    block = loop.parent
    assert isinstance(block, Block)
    places = {op: number for number, op in enumerate(block.ops)}
    for use in (use for alias in aliases for use in alias.uses):
        place = places.get(use.operation)
        if use.operation is loop and sum(value is start for value in loop.start) == 1:
            continue
        if place is None or place >= places[loop]:
            _refuse(loop, f"{tensor.name} is read after an iteration has overwritten it")


def _refuse(op: Operation, message: str, hint: str | None = None) -> NoReturn:
    raise TilewrightError("TW1715", message, location_of(op), hint)
