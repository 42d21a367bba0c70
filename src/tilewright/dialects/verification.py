"""Verifying a module: one error at its operation, and unchanged operations only once.

xDSL's own verifier is thorough and slow, and a pipeline verifies after every pass. A `Verified`
memory passed from call to call remembers how each operation looked when it last verified, its
regions included: their arguments, their operations and their terminators. Functions and modules,
which answer for everything inside them, are always verified again.

Error code: TW1211 an operation that does not verify.
"""

from __future__ import annotations

from xdsl.utils.exceptions import DiagnosticException

from tilewright.dialects.error_hints import verify_hint
from tilewright.dialects.locations import location_of, name_of
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Block,
    IntegerAttr,
    IsTerminator,
    ModuleOp,
    Operation,
    SSAValue,
    StringAttr,
    UnregisteredOp,
    VerifyException,
    func,
)
from tilewright.errors import TilewrightError

# How an operation looked when it verified: operands, types, attributes, place.
Verified = dict[Operation, tuple[object, ...]]


def verify_module(module: ModuleOp, memory: Verified | None = None) -> None:
    """Raise one TilewrightError, at its operation, unless the whole module verifies.

    Beyond what xDSL checks, every value must be defined before it is used, functions must end
    with a terminator, and a name that is given twice is found at its second place.
    """
    memory = {} if memory is None else memory
    defined: set[SSAValue] = set()
    for op in module.walk():
        _verify_order(op, defined)
        if op.name == "linalg.index":
            _verify_index(op)
        if isinstance(op, func.FuncOp):
            _verify_ends(op)
        elif isinstance(op, ModuleOp):
            _verify_names(op)
        else:
            look = _look(op)
            if memory.get(op) == look:
                continue
            memory[op] = look
        try:
            op.verify(verify_nested_ops=False)
        except TilewrightError as error:
            place = location_of(op)
            raise (error.at(place) if place else error) from None
        except (VerifyException, DiagnosticException, ValueError, AssertionError) as error:
            raise _refused(op, _verify_message(error)) from None


def _refused(op: Operation, reason: str) -> TilewrightError:
    return TilewrightError(
        "TW1211", f"{name_of(op)}: {reason}", location_of(op), verify_hint(reason)
    )


def _verify_index(op: Operation) -> None:
    """The number of a loop is one of those around it."""
    around = op.parent_op()
    loops = around.get_attr_or_prop("iterator_types") if around is not None else None
    wanted = op.get_attr_or_prop("dim")
    if isinstance(loops, ArrayAttr) and isinstance(wanted, IntegerAttr):
        number = wanted.value.data
        if not 0 <= number < len(loops):
            raise _refused(op, f"dimension {number} is not one of the {len(loops)} loops around it")


def _verify_ends(function: func.FuncOp) -> None:
    """Every block of a body ends with an operation that says where to go on."""
    for block in function.body.blocks:
        last = block.last_op
        if last is None or not (last.has_trait(IsTerminator) or isinstance(last, UnregisteredOp)):
            raise _refused(last or function, "the body does not end with func.return")


def _verify_names(module: ModuleOp) -> None:
    """No two functions, globals or modules of one module share a name."""
    met: set[str] = set()
    for op in module.body.block.ops:
        name = op.get_attr_or_prop("sym_name")
        if isinstance(name, StringAttr):
            if name.data in met:
                raise _refused(op, f"the name @{name.data} is defined twice")
            met.add(name.data)


def _look(op: Operation) -> tuple[object, ...]:
    """Everything an operation is verified by."""
    block = op.parent
    inside = [_look_of_block(inner) for region in op.regions for inner in region.blocks]
    return (
        tuple([operand.type for operand in op.operands]),
        tuple([result.type for result in op.results]),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        block,
        block is not None and block.last_op is op,
        tuple(op.successors),
        tuple(inside),
    )


def _look_of_block(block: Block) -> tuple[object, ...]:
    """A block as the operation around it sees it."""
    last = block.last_op
    return (
        tuple([argument.type for argument in block.args]),
        tuple(block.ops),
        () if last is None else tuple([operand.type for operand in last.operands]),
    )


def _verify_order(op: Operation, defined: set[SSAValue]) -> None:
    """Operands come from operations met earlier, or from another block of the region."""
    for operand in op.operands:
        owner = operand.owner
        if isinstance(owner, Operation) and operand not in defined:
            block = owner.parent
            if block is not None and block.parent is not None and len(block.parent.blocks) > 1:
                continue
            name = f"%{operand.name_hint}" if operand.name_hint else "a value"
            raise _refused(op, f"uses {name} before it is defined")
    defined.update(op.results)


def _verify_message(error: Exception) -> str:
    """The sentence that says what is wrong, without xDSL's drawing of the IR."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
