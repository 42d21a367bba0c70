"""State that stays in DDR between runs as the device reads it: in half precision, transposed if need be.

before: a host part casts the whole of %values to f16 in every call, and hands that over; the device
        transposes it
after:  the device part takes %values itself; rows are rounded and put where they belong when they are
        written, once

Only inputs that nothing but such a cast reads are taken over, and only those lie transposed that
nothing reads as they are; others stay what they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import ArrayAttr, StringAttr, arith, func
from tilewright.model.parts import INPUT_PORTS, OUTPUT_PORTS, REASONS, Part, Parts
from tilewright.targets.port_encoding import Encoding
from tilewright.targets.vpu.model.reader import Entry

_CAST = "npu_uk_cast"


def keep_state(parts: Parts, entries: Mapping[str, Entry], names: Iterable[str]) -> Parts:
    """The parts, with these inputs of the model as state of the entries where they can be."""
    for name in names:
        readers = [part for part in parts.parts if name in part.inputs]
        if len(readers) == 1 and readers[0].on_host:
            parts = _taken_over(parts, entries, name, readers[0])
        elif readers and not any(part.on_host for part in readers):
            for part in readers:  # it has the device's own type
                _mark(entries[part.function], name, name)
    return parts


def _taken_over(parts: Parts, entries: Mapping[str, Entry], name: str, part: Part) -> Parts:
    """The parts without the host's cast of an input."""
    function = parts.function(part.function)
    cast = _cast_of(function, part.inputs.index(name))
    if cast is None:
        return parts
    last = function.body.block.last_op
    assert isinstance(last, func.ReturnOp)
    handed = part.outputs[list(last.operands).index(cast.result)]
    takers = [one for one in parts.parts if handed in one.inputs]
    outside = {spec.name for spec in parts.outputs}
    if handed in outside or any(one.on_host for one in takers):
        return parts
    for one in takers:
        _mark(entries[one.function], handed, name)
    less = _without(function, part, cast, name, handed)
    if not less.outputs:
        function.detach()
    rows = [
        less if one is part else replace(one, inputs=_renamed(one.inputs, handed, name))
        for one in parts.parts
    ]
    ports = {port: known for port, known in parts.ports.items() if port != handed}
    kept = tuple(row for row in rows if row is not less or less.outputs)
    return replace(parts, parts=kept, ports=ports)


def _renamed(ports: tuple[str, ...], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if port == old else port for port in ports)


def _mark(entry: Entry, port: str, name: str) -> None:
    """Let an entry take a port as state, under the name of the model's input."""
    entry.inputs = {name if p == port else p: value for p, value in entry.inputs.items()}
    entry.state = (*entry.state, name)


def _cast_of(function: func.FuncOp, place: int) -> UKernelGenericOp | None:
    """The cast that is all that is done with an argument, and only returned."""
    uses = list(function.body.block.args[place].uses)
    cast = uses[0].operation if len(uses) == 1 else None
    if not isinstance(cast, UKernelGenericOp) or cast.symbol.data != _CAST:
        return None
    readers = [use.operation for use in cast.result.uses]
    alone = len(readers) == 1 and isinstance(readers[0], func.ReturnOp)
    return cast if alone else None


def _without(
    function: func.FuncOp, part: Part, cast: UKernelGenericOp, name: str, handed: str
) -> Part:
    """A host function without a cast, its argument and its result, and the part it is then."""
    block = function.body.block
    work = [op for op in block.ops if not isinstance(op, arith.ConstantOp | func.ReturnOp)]
    reasons = list(part.reasons)
    del reasons[work.index(cast)]
    last = block.last_op
    assert isinstance(last, func.ReturnOp)
    results = [value for value in last.operands if value is not cast.result]
    block.erase_op(last)
    block.add_op(func.ReturnOp(*results))
    block.erase_op(cast)
    block.erase_arg(block.args[part.inputs.index(name)])
    function.update_function_type()
    less = replace(
        part,
        inputs=tuple(port for port in part.inputs if port != name),
        outputs=tuple(port for port in part.outputs if port != handed),
        reasons=tuple(reasons),
    )
    texts = ((INPUT_PORTS, less.inputs), (OUTPUT_PORTS, less.outputs), (REASONS, less.reasons))
    for key, values in texts:
        function.attributes[key] = ArrayAttr([StringAttr(value) for value in values])
    return less


# --- where numbers lie ------------------------------------------------------------------


def turned_state(entries: Iterable[Entry]) -> dict[str, Encoding]:
    """Let state lie in the order in which all its readers want it; how, by port."""
    readers: dict[str, list[Entry]] = {}
    for entry in entries:
        for port in entry.state:
            readers.setdefault(port, []).append(entry)
    found = {}
    for port, those in readers.items():
        orders = {_wanted(entry, port) for entry in those}
        order = orders.pop()
        if orders or order is None:
            continue
        shape = those[0].network.values[those[0].inputs[port]].shape
        found[port] = Encoding(1.0, shape, order)
        for entry in those:
            _turn(entry, entry.inputs[port], order)
    return found


def _wanted(entry: Entry, port: str) -> tuple[int, ...] | None:
    """The permutation that is all that an entry does with an input."""
    network, name = entry.network, entry.inputs[port]
    calls = [call for call in network.calls if name in call.operands.values()]
    turns = [call for call in calls if call.family == "transpose"]
    orders = {tuple(call.attributes["permutation"]) for call in turns}
    if len(orders) != 1 or len(turns) != len(calls):
        return None
    outputs = {name, *(call.result for call in turns)} & set(network.outputs)
    return None if outputs else orders.pop()


def _turn(entry: Entry, name: str, order: tuple[int, ...]) -> None:
    """Take an input in another order, and leave out the transposes that made it."""
    network = entry.network
    value = network.values[name]
    gone = {call.result for call in network.calls if name in call.operands.values()}
    network.values[name] = replace(value, shape=tuple(value.shape[d] for d in order))
    network.calls = [
        replace(call, operands={r: name if n in gone else n for r, n in call.operands.items()})
        for call in network.calls
        if call.result not in gone
    ]
    for result in gone:
        del network.values[result]
