"""Taking IREE's wrapping off a module, in place.

before: util.func, hal.tensor.import / export / barrier, compute barriers, util.global + initializer
after:  func.func on tensors; globals are recomputed in the functions that load them
"""

from __future__ import annotations

from typing import cast

from tilewright.dialects.iree_wrappers import wrapped_symbol
from tilewright.dialects.locations import location_of, name_of
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    FunctionType,
    ModuleOp,
    Operation,
    OpResult,
    Region,
    SSAValue,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    arith,
    func,
)
from tilewright.errors import TilewrightError

IDENTITIES = (
    "iree_tensor_ext.compute_barrier.start",
    "iree_tensor_ext.compute_barrier.end",
    "hal.tensor.import",
    "hal.tensor.export",
)
REFUSED = ("flow.", "stream.", "vm.", "hal.executable")


def unwrap(module: ModuleOp) -> None:
    """Turn every `util.func` of a module into a `func.func`; other modules stay as they are."""
    _refuse_late_phases(module)
    wrapped = [op for op in module.walk() if op.name == "util.func"]
    _drop_identities(module)
    globals_ = _initial_values(module)
    for op in list(module.walk()):
        if op.name == "util.global.load":
            _inline_global(op, globals_)
    for op in list(module.walk()):
        if op.name in ("util.global", "util.initializer"):
            op.detach()
            op.erase(safe_erase=False)
    for op in wrapped:
        _as_function(op)
    module.attributes.pop("stream.affinity.default", None)


def _refuse_late_phases(module: ModuleOp) -> None:
    for op in module.walk():
        if name_of(op).startswith(REFUSED):
            raise TilewrightError(
                "TW1230",
                f"{name_of(op)} belongs to a phase in which the model is already cut up for a device",
                location_of(op),
                "stop earlier: iree-compile --compile-to=global-optimization",
            )


def _drop_identities(module: ModuleOp) -> None:
    """Imports and exports turn into the argument or result itself, in tensor types."""
    for op in list(module.walk()):
        if op.name == "hal.tensor.barrier":
            for result, value in zip(op.results, op.operands, strict=False):
                result.replace_all_uses_with(value)
        elif op.name == "hal.tensor.import":
            value = op.operands[0]
            if value.type != op.results[0].type:
                _retype(value, op.results[0].type, op)
            op.results[0].replace_all_uses_with(value)
        elif op.name in IDENTITIES:
            op.results[0].replace_all_uses_with(op.operands[0])
        else:
            continue
        op.detach()
        op.erase(safe_erase=False)


def _retype(value: SSAValue, type_: Attribute, op: Operation) -> None:
    """A function argument takes the tensor type it is imported as."""
    others = {use.operation.results[0].type for use in value.uses if use.operation.results}
    if isinstance(value, OpResult) or len(others) > 1:
        raise TilewrightError(
            "TW1233",
            "an input is imported from something that is no function argument of one type",
            location_of(op),
            "import each argument once",
        )
    value._type = type_  # type: ignore[attr-defined]  # xDSL has no setter for argument types


def _initial_values(module: ModuleOp) -> dict[str, SSAValue | Attribute]:
    """What each global holds: a constant, or a value computed in an initialiser."""
    found: dict[str, SSAValue | Attribute] = {}
    for op in module.walk():
        if op.name == "util.global":
            name = cast(StringAttr, op.properties["sym_name"]).data
            if (value := op.properties.get("initial_value")) is not None:
                found[name] = value
        elif op.name == "util.global.store":
            found[wrapped_symbol(op)] = op.operands[0]  # type: ignore[arg-type]
    return found


def _inline_global(load: Operation, values: dict[str, SSAValue | Attribute]) -> None:
    """Recompute a global before its use."""
    name = wrapped_symbol(load)  # type: ignore[arg-type]
    value = values.get(name)
    block = load.parent
    assert block is not None
    if value is None:
        raise TilewrightError(
            "TW1232",
            f"global @{name} is loaded but has no value",
            location_of(load),
            "keep its util.initializer in the file, or pass it as an argument",
        )
    if isinstance(value, Attribute):
        constant = arith.ConstantOp(value)  # type: ignore[arg-type]
        block.insert_op_before(constant, load)
        new: SSAValue = constant.result
    else:
        new = _copied(value, load, values)
    load.results[0].replace_all_uses_with(new)
    load.detach()
    load.erase()


def _copied(
    value: SSAValue, before: Operation, values: dict[str, SSAValue | Attribute]
) -> SSAValue:
    """A copy of the ops that compute `value`, placed before an op."""
    order: list[Operation] = []
    seen: set[Operation] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        needed = [v for inner in op.walk() for v in inner.operands]
        for operand in needed:
            owner = operand.owner
            if isinstance(owner, Operation) and owner.parent is not None:
                outer = owner
                while outer.parent is not op.parent and outer.parent_op() is not None:
                    if outer is op:
                        break
                    outer = cast(Operation, outer.parent_op())
                if outer is not op and outer.parent is op.parent:
                    visit(outer)
        order.append(op)

    visit(cast(Operation, value.owner))
    mapper: dict[SSAValue, SSAValue] = {}
    block = cast(Block, before.parent)
    for op in order:
        new = op.clone(mapper)
        new.location = op.location
        block.insert_op_before(new, before)
        if new.name == "util.global.load":
            result = new.results[0]
            mapper[op.results[0]] = result
            _inline_global(new, values)
            mapper[op.results[0]] = _last_value(block, before)
    return mapper[value]


def _last_value(block: Block, before: Operation) -> SSAValue:
    previous = before.prev_op
    assert previous is not None
    return previous.results[0]


def _as_function(op: Operation) -> None:
    """A `func.func` in the place of a `util.func`."""
    name = cast(StringAttr, op.properties["sym_name"]).data.removesuffix("$async")
    region = op.detach_region(op.regions[0])
    if region.blocks:
        _drop_fences(region)
    returns = [o for o in region.walk() if o.name == "util.return"]
    results: list[Attribute] = []
    for old in returns:
        results = [v.type for v in old.operands]
        new = func.ReturnOp(*old.operands)
        new.location = old.location
        cast(Block, old.parent).insert_op_before(new, old)
        old.detach()
        old.erase()
    given = cast(FunctionType, op.properties["function_type"])
    inputs = [a.type for a in region.block.args] if region.blocks else list(given.inputs)
    if not returns:
        results = list(given.outputs)
    for kind, types in (("input", inputs), ("output", results)):
        for index, type_ in enumerate(types):
            if not isinstance(type_, TensorType) and "hal." in str(type_):
                raise TilewrightError(
                    "TW1233",
                    f"{kind} {index} of @{name} is {type_}, which never becomes a tensor",
                    location_of(op),
                    "import inputs with hal.tensor.import and export outputs",
                )
    visibility = op.properties.get("sym_visibility")
    function = func.FuncOp(
        name,
        FunctionType.from_lists(inputs, results),
        region,
        "private" if visibility == StringAttr("private") else None,
    )
    function.location = op.location
    block = cast(Block, op.parent)
    block.insert_op_before(function, op)
    op.detach()
    op.erase(safe_erase=False)
    for call in region.walk():
        if call.name == "util.call":
            _as_call(call)


def _as_call(op: Operation) -> None:
    callee = cast(SymbolRefAttr, op.properties["callee"]).root_reference.data
    new = func.CallOp(callee, op.operands, [r.type for r in op.results])
    new.location = op.location
    cast(Block, op.parent).insert_op_before(new, op)
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.detach()
    op.erase()


def _drop_fences(region: Region) -> None:
    """Arguments that only order work on a device go."""
    for argument in list(region.block.args):
        if "hal.fence" in str(argument.type) and not argument.uses:
            region.block.erase_arg(argument)
