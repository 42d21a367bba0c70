"""Cut a model into parts for the host and for the device, in an order that always exists.

before: @main with all operations; some have a reason why they are the host's: tw.host
after:  @host_0, @device_0, @host_1, … and a @main that calls them one after the other

Every operation gets a level: as high as all it waits for, and one higher than what is done on the
other side. Levels of the host are even, those of the device odd; a level is a part. Values of a
model are single assignments, so the relation has no cycles, and no order takes fewer parts.

Constants belong to no part: each part has the ones it reads. An output that is an input, a
constant or another output is copied by the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.dialects.locations import copy_location
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    Block,
    FunctionType,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    func,
)
from tilewright.frontend.imported import Imported
from tilewright.model.parts import (
    DEVICE,
    HOST,
    HOST_REASON,
    INPUT_PORTS,
    OUTPUT_PORTS,
    PLACE,
    REASONS,
    Part,
    Parts,
    Port,
)
from tilewright.model.weights import named_weights

COPIED = "an output that is an input, a constant or another output"


@dataclass
class _Level:
    """One part while it is put together."""

    host: bool
    ops: list[Operation] = field(default_factory=list)
    copies: list[tuple[str, SSAValue]] = field(default_factory=list)  # port, what it holds


def main_of(module: ModuleOp) -> func.FuncOp:
    """The function `main`, or the only one."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    return next((f for f in functions if f.sym_name.data == "main"), functions[0])


def marked(model: Imported, reasons: Mapping[Operation, str]) -> Imported:
    """A copy of a model in which the operations of the host say why they are."""
    module = model.module.clone()
    for op, copy in zip(model.module.walk(), module.walk(), strict=True):
        if op in reasons:
            copy.attributes[HOST_REASON] = StringAttr(reasons[op])
    return replace(model, module=module)


def partition(model: Imported) -> Parts:
    """The parts of a model: operations with the attribute `tw.host`, a reason, are the host's, all
    others the device's. The given model stays as it is.
    """
    reasons = {
        op: reason.data
        for op in main_of(model.module).body.block.ops
        if isinstance(reason := op.attributes.get(HOST_REASON), StringAttr)
    }
    return _Partition(model, reasons).run()


class _Partition:
    def __init__(self, model: Imported, reasons: Mapping[Operation, str]) -> None:
        self.model, self.reasons = model, reasons
        self.main = main_of(model.module)
        block = self.main.body.block
        last = block.last_op
        assert isinstance(last, func.ReturnOp)
        self.results = list(last.operands)
        self.arguments = list(block.args)
        self.ops = [op for op in block.ops if not isinstance(op, (arith.ConstantOp, func.ReturnOp))]
        self.port_of: dict[SSAValue, str] = {}
        self.names: set[str] = set()
        self.ports: dict[str, Port] = {}
        self.parts: list[Part] = []

    def run(self) -> Parts:
        copies = self._name_ports()
        levels = self._levels(copies)
        wanted = self._wanted(levels)
        functions = [self._function(level, wanted) for level in levels]
        module = ModuleOp([self._main(functions), *functions])
        used = set(named_weights(module))
        weights = {name: a for name, a in self.model.weights.items() if name in used}
        for name in self.model.state:  # first values of the model's own memory
            if name in self.model.weights:
                weights[name] = self.model.weights[name]
        return Parts(
            module,
            weights,
            self.model.inputs,
            self.model.outputs,
            self.ports,
            tuple(self.parts),
            self.model.source,
            dict(self.model.state),
        )

    # --- ports --------------------------------------------------------------------------

    def _name_ports(self) -> list[tuple[str, SSAValue]]:
        """Ports of inputs and outputs; the outputs that need a copy."""
        copies = []
        for value, spec in zip(self.arguments, self.model.inputs, strict=True):
            self._port(value, spec.name)
        for value, spec in zip(self.results, self.model.outputs, strict=True):
            if value in self.port_of or isinstance(value.owner, arith.ConstantOp):
                copies.append((self._add_port(spec.name, value), value))
            else:
                self._port(value, spec.name)
        self.copied = {name: value for name, value in copies}
        return copies

    def _port(self, value: SSAValue, name: str | None = None) -> str:
        if value not in self.port_of:
            if name is None:
                name = value.name_hint or f"value{len(self.port_of)}"
            self.port_of[value] = self._add_port(name, value)
        return self.port_of[value]

    def _add_port(self, name: str, value: SSAValue) -> str:
        base, count = name, 0
        while name in self.names:
            count += 1
            name = f"{base}~{count}"
        self.names.add(name)
        kind = value.type
        assert isinstance(kind, TensorType)
        shape = tuple(kind.get_shape())
        self.ports[name] = Port(name, shape, str(kind.element_type), kind)
        return name

    # --- order --------------------------------------------------------------------------

    def _levels(self, copies: Sequence[tuple[str, SSAValue]]) -> list[_Level]:
        level: dict[SSAValue, tuple[int, bool]] = {}
        found: dict[int, _Level] = {}

        def place(reads: Iterable[SSAValue], host: bool) -> int:
            number = 0 if host else 1
            for value in reads:
                if value in level:
                    other, other_host = level[value]
                    number = max(number, other + (other_host != host))
            return number

        for op in self.ops:
            host = op in self.reasons
            number = place(op.operands, host)
            found.setdefault(number, _Level(host)).ops.append(op)
            level.update((result, (number, host)) for result in op.results)
        for name, value in copies:
            number = place([value], True)
            found.setdefault(number, _Level(True)).copies.append((name, value))
        return [found[number] for number in sorted(found)]

    def _wanted(self, levels: Sequence[_Level]) -> set[SSAValue]:
        """Values that leave the part that makes them."""
        home: dict[SSAValue, int] = {
            result: number
            for number, level in enumerate(levels)
            for op in level.ops
            for result in op.results
        }
        wanted = {value for value in self.results if value in home}
        for number, level in enumerate(levels):
            reads = [value for op in level.ops for value in op.operands]
            reads += [value for _, value in level.copies]
            wanted |= {value for value in reads if home.get(value, number) != number}
        return wanted

    # --- functions ----------------------------------------------------------------------

    def _function(self, level: _Level, wanted: set[SSAValue]) -> func.FuncOp:
        made = {result for op in level.ops for result in op.results}
        read = [value for op in level.ops for value in op.operands]
        read += [value for _, value in level.copies]
        reads = list(
            dict.fromkeys(
                value
                for value in read
                if value not in made and not isinstance(value.owner, arith.ConstantOp)
            )
        )
        block = Block(arg_types=[value.type for value in reads])
        known: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))
        for value, argument in known.items():
            argument.name_hint = value.name_hint

        def get(value: SSAValue) -> SSAValue:
            if value not in known:
                assert isinstance(value.owner, arith.ConstantOp)
                known[value] = _copy(block, value.owner, {}).results[0]
            return known[value]

        for op in level.ops:
            copy = _copy(block, op, {value: get(value) for value in op.operands})
            known.update(zip(op.results, copy.results, strict=True))
        leaving = [value for op in level.ops for value in op.results if value in wanted]
        results = [known[value] for value in leaving]
        results += [get(value) for _, value in level.copies]
        block.add_op(func.ReturnOp(*results))
        outputs = [self._port(value) for value in leaving] + [name for name, _ in level.copies]
        place = HOST if level.host else DEVICE
        number = sum(part.place == place for part in self.parts)
        reasons = [self._reason(op) for op in level.ops] if level.host else []
        reasons += [f"{name}: {COPIED}" for name, _ in level.copies]
        part = Part(
            f"{place}_{number}",
            place,
            tuple(self._port(value) for value in reads),
            tuple(outputs),
            tuple(reasons),
        )
        self.parts.append(part)
        types = ([value.type for value in reads], [value.type for value in results])
        return _function(part, types, block)

    def _reason(self, op: Operation) -> str:
        layer = op.attributes.get("tw.layer")
        name = layer.data if isinstance(layer, StringAttr) and layer.data else _family(op)
        return f"{name}: {self.reasons[op]}"

    def _main(self, functions: Sequence[func.FuncOp]) -> func.FuncOp:
        """The calls in order, by ports."""
        block = Block(arg_types=[value.type for value in self.arguments])
        held: dict[str, SSAValue] = {}
        for value, argument in zip(self.arguments, block.args, strict=True):
            argument.name_hint = value.name_hint
            held[self.port_of[value]] = argument
        for part, function in zip(self.parts, functions, strict=True):
            call = func.CallOp(
                part.function,
                [held[name] for name in part.inputs],
                list(function.function_type.outputs),
            )
            block.add_op(call)
            held.update(zip(part.outputs, call.results, strict=True))
        names = [
            spec.name if spec.name in self.copied else self.port_of[value]
            for value, spec in zip(self.results, self.model.outputs, strict=True)
        ]
        block.add_op(func.ReturnOp(*[held[name] for name in names]))
        kind = FunctionType.from_lists(
            [value.type for value in self.arguments], [value.type for value in self.results]
        )
        main = func.FuncOp(self.main.sym_name.data, kind, Region([block]))
        main.attributes.update(self.main.attributes)
        copy_location(self.main, main)
        return main


def _copy(block: Block, op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    copy = op.clone(value_mapper=values)
    copy.attributes.pop(HOST_REASON, None)
    copy_location(op, copy)
    for old, new in zip(op.results, copy.results, strict=True):
        new.name_hint = old.name_hint
    block.add_op(copy)
    return copy


def _family(op: Operation) -> str:
    symbol = op.properties.get("symbol")
    return symbol.data.removeprefix("npu_uk_") if isinstance(symbol, StringAttr) else op.name


def _function(
    part: Part, types: tuple[list[Attribute], list[Attribute]], block: Block
) -> func.FuncOp:
    function = func.FuncOp(part.function, types, Region([block]))
    function.attributes[PLACE] = StringAttr(part.place)
    function.attributes[INPUT_PORTS] = _texts(part.inputs)
    function.attributes[OUTPUT_PORTS] = _texts(part.outputs)
    if part.reasons:
        function.attributes[REASONS] = _texts(part.reasons)
    return function


def _texts(values: Iterable[str]) -> ArrayAttr:
    return ArrayAttr([StringAttr(value) for value in values])
