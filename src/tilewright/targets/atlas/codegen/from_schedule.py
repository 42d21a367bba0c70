"""From npu_schedule to tile programs: tensors get addresses, slices become tile accesses.

before: %t = tensor.extract_slice %x[%i, 0] [32, 32] [1, 1]
after:  Read(t, base + stride * i, 2048)

Handles functions of loops (`scf.for`), slices that are whole tiles, and launches of families
with a micro-kernel body. Tensors are function arguments; those written to are carried through
the loops and returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tilewright.dialects.kernel_symbols import kernel_call
from tilewright.dialects.locations import error_at, location_of
from tilewright.dialects.npu_schedule import UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    Block,
    BlockArgument,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    Operation,
    SSAValue,
    TensorType,
    arith,
    func,
    scf,
    tensor,
)
from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Affine,
    Carried,
    Compute,
    For,
    Pieces,
    Read,
    Reload,
    Spill,
    SpillSlot,
    Statement,
    Value,
    Variable,
    Write,
)
from tilewright.tile.bodies import BODIES
from tilewright.tile.launches import cost, launch_body
from tilewright.tile.layouts import SIDE

ROW = 32  # bytes of a row of a register
DTYPES = {"f8E4M3FN": "fp8", "bf16": "bf16"}
DYNAMIC = -(2**63)


class TensorLayout(Protocol):
    """What this needs to know of a tensor in DRAM."""

    @property
    def order(self) -> str: ...

    @property
    def matrix(self) -> tuple[int, int]: ...

    @property
    def tile_bytes(self) -> int: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next: leading dimensions, tile rows, tile columns."""
        ...


@dataclass(frozen=True)
class Placed:
    """A tensor at an address, in DRAM or, between kernels of one program, in VMEM.

    rounds: the program carries the kernel out several times, each time with another tensor; the
    address is that of the first. copy: a result in VMEM also goes to this address in DRAM.
    changes: a number of its own if the kernel both reads and writes it. padding: it also moves what lies beyond the
    tensor's edges, because somebody else reads that or has written something there. unwritten: what
    lies there may be anything, so that no reader may bring it along. positive: none of its zeros is
    -0, so that a row of it is the same as one that was spread by adding zeros.
    """

    layout: TensorLayout
    base: int
    on_chip: bool = False
    rounds: bool = False
    copy: int | None = None
    changes: int = 0
    padding: bool = True
    unwritten: bool = False
    positive: bool = False


def tile_program(function: func.FuncOp, tensors: Sequence[Placed]) -> list[Statement]:
    """The tile program of a function whose arguments are at these places."""
    block = function.body.block
    reader = _Reader(dict(zip(block.args, tensors, strict=True)))
    return reader.block(block)


@dataclass
class _Reader:
    tensors: dict[SSAValue, Placed]
    tiles: dict[SSAValue, Value] = field(default_factory=dict)
    numbers: dict[SSAValue, Affine] = field(default_factory=dict)
    accumulators: dict[int, Value] = field(default_factory=dict)  # by slot
    rows: list[Statement] = field(default_factory=list)
    # By identity, with the attributes they are of.
    lists: dict[int, tuple[DenseArrayBase[IntegerType], list[int]]] = field(default_factory=dict)

    def block(self, block: Block) -> list[Statement]:
        outer, self.rows = self.rows, []
        for op in block.ops:
            self._operation(op)
        result, self.rows = self.rows, outer
        return result

    def _operation(self, op: Operation) -> None:
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            self.numbers[op.result] = Affine(op.value.value.data)
        elif isinstance(op, arith.AddiOp):
            a, b = self._number(op, op.lhs), self._number(op, op.rhs)
            self.numbers[op.result] = Affine(a.constant + b.constant, (*a.terms, *b.terms))
        elif isinstance(op, arith.MuliOp):
            a, b = self._number(op, op.lhs), self._number(op, op.rhs)
            if b.terms:
                raise error_at(op, "TW1461", "a product of loop variables")
            terms = tuple((v, f * b.constant) for v, f in a.terms)
            self.numbers[op.result] = Affine(a.constant * b.constant, terms)
        elif isinstance(op, tensor.ExtractSliceOp):
            self._read(op)
        elif isinstance(op, tensor.InsertSliceOp):
            self._write(op)
        elif isinstance(op, UKernelLaunchOp):
            self._launch(op)
        elif isinstance(op, scf.ForOp):
            self._loop(op)
        elif not isinstance(op, scf.YieldOp | func.ReturnOp):
            raise error_at(op, "TW1460", "has no place in a tile program")

    def _number(self, op: Operation, value: SSAValue) -> Affine:
        if value not in self.numbers:
            raise error_at(op, "TW1461", "an index that is not a loop variable plus a constant")
        return self.numbers[value]

    # --- slices -------------------------------------------------------------------------

    def _list(self, attribute: DenseArrayBase[IntegerType]) -> list[int]:
        """The numbers of an attribute, of which many operations share one."""
        known = self.lists.get(id(attribute))
        if known is None:
            numbers = [int(n) for n in attribute.get_values()]
            known = self.lists[id(attribute)] = attribute, numbers
        return known[1]

    def _offset(self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp, placed: Placed) -> Affine:
        """The byte offset of the tile an operation names."""
        dynamic = iter(op.offsets)
        static, sizes = self._list(op.static_offsets), list(self._list(op.static_sizes))
        strides = placed.layout.strides
        units = (1,) * (len(strides) - 2) + (SIDE, SIDE // 2 if _is_half(placed, op) else SIDE)
        if len(static) == len(strides) - 1:  # a vector is one row of tiles
            strides, units = (*strides[:-2], strides[-1]), (*units[:-2], units[-1])
        elif strides[-2] == placed.layout.tile_bytes == SIDE * SIDE:
            # Rows of 32 bytes follow each other down the tiles, so a tile may start at any row.
            strides = (*strides[:-2], strides[-2] // SIDE, strides[-1])
            units = (*units[:-2], 1, units[-1])
            sizes[-2] = 1
        constant, terms = placed.base, dict[Variable, int]()
        if placed.rounds:
            terms[LAYER] = 1
        for offset, size, stride, unit in zip(static, sizes, strides, units, strict=True):
            if size not in (1, unit):
                raise error_at(op, "TW1462", f"a slice of {size} elements is not a tile")
            place = self._number(op, next(dynamic)) if offset == DYNAMIC else Affine(offset)
            for amount in (place.constant, *(factor for _, factor in place.terms)):
                if amount % unit:
                    raise error_at(op, "TW1462", f"offset {amount} is not at a tile's edge")
            constant += place.constant // unit * stride
            for variable, factor in place.terms:
                terms[variable] = terms.get(variable, 0) + factor // unit * stride
        return Affine(constant, tuple((v, f) for v, f in terms.items() if f))

    def _read(self, op: tensor.ExtractSliceOp) -> None:
        placed = self._tensor(op, op.source)
        value = Value(_dtype(op.result))
        self.tiles[op.result] = value
        shape = _shape(op.result)
        row = len(shape) == 1
        size = placed.layout.tile_bytes
        place = self._offset(op, placed)
        pieces = self._content(op, placed, row)
        read = Read(
            value, place, size, _line(op), row, placed.on_chip, placed.changes, pieces,
            bare=placed.unwritten, positive=placed.positive,
        )  # fmt: skip
        self.rows.append(read)
        given = isinstance(op.source, BlockArgument) and isinstance(
            op.source.block.parent_op(), func.FuncOp
        )
        # One number per row: repeat it across the tile, unless the program itself wrote it so.
        if shape == (SIDE, 1) and not _is_half(placed, op) and given:
            column = Value(value.dtype)
            body = launch_body("reduction_sum", {"axes": (1,)})
            self.rows.append(Compute(body, (value,), (column,), {"cost": 2}, _line(op)))
            self.tiles[op.result] = column

    def _write(self, op: tensor.InsertSliceOp) -> None:
        placed = self._tensor(op, op.dest)
        self.tensors[op.result] = placed
        size = placed.layout.tile_bytes
        value = self.tiles[op.source]
        place = self._offset(op, placed)
        pieces = self._content(op, placed)
        inside = self._rows_inside(op, placed)
        write = Write(value, place, size, _line(op), placed.on_chip, placed.changes, pieces, inside)
        self.rows.append(write)
        if placed.copy is not None:
            there = place.shifted(placed.copy - placed.base)
            moved = self._content(op, replace(placed, on_chip=False))
            self.rows.append(Write(value, there, size, _line(op), pieces=moved, rows=write.rows))

    def _rows_inside(self, op: tensor.InsertSliceOp, placed: Placed) -> int:
        """Rows of the tile an operation names that are inside the tensor, all where a loop decides."""
        static = self._list(op.static_offsets)
        arranged = placed.layout.order not in ("tiles", "panels", "rows")
        if arranged or placed.changes or len(static) < 2 or static[-2] == DYNAMIC:
            return SIDE
        return max(1, min(SIDE, placed.layout.matrix[0] - static[-2]))

    def _content(
        self,
        op: tensor.ExtractSliceOp | tensor.InsertSliceOp,
        placed: Placed,
        row: bool = False,
    ) -> Pieces | None:
        """What of the tile an operation names is inside the tensor, if that is not all of it."""
        halves = placed.layout.tile_bytes // (SIDE * SIDE)
        every = tuple((half * SIDE * SIDE, ROW) for half in range(halves)) if row else None
        if (
            placed.on_chip
            or placed.padding
            or placed.layout.order not in ("tiles", "panels", "rows")
        ):
            return every
        dynamic = iter(op.offsets)
        numbers = [
            self._number(op, next(dynamic)) if n == DYNAMIC else Affine(n)
            for n in self._list(op.static_offsets)
        ]
        rows, columns = placed.layout.matrix
        # Blocks that follow a loop lie wholly inside.
        across = SIDE if numbers[-1].terms else columns - numbers[-1].constant
        vector = len(numbers) == len(placed.layout.strides) - 1
        down = 1 if vector else SIDE
        if not vector and not numbers[-2].terms:
            if numbers[-2].constant % SIDE:
                return every
            down = min(SIDE, rows - numbers[-2].constant)
        wide = SIDE // halves
        used = min(halves, -(-across // wide))
        if down < 1 or used < 1 or (down == SIDE and used == halves):
            return every
        return tuple((half * SIDE * SIDE, down * ROW) for half in range(used))

    def _tensor(self, op: Operation, value: SSAValue) -> Placed:
        if value not in self.tensors:
            raise error_at(op, "TW1463", "a slice of a tensor that is not in DRAM")
        return self.tensors[value]

    # --- launches -----------------------------------------------------------------------

    def _launch(self, op: UKernelLaunchOp) -> None:
        attributes = {**op.properties, **op.attributes}
        attributes.pop("symbol", None)
        types = [v.type for v in op.operands]
        call = kernel_call(op.symbol.data, types, attributes, op.results[0].type)
        family = call.family.name if call else op.symbol.data
        if call is None or (family not in BODIES and family not in _WITHOUT_BODY):
            raise error_at(op, "TW1464", f"{family} has no micro-kernel on tiles")
        inputs = tuple(self.tiles[v] for v in op.operands)
        values = {name: _python(value) for name, value in attributes.items()}
        values["dtype"] = _dtype(op.results[0])
        slot = values.get("slot", 0)
        result = Value(values["dtype"])
        if family in ("matmul_acc_mid", "matmul_acc_last"):
            if slot not in self.accumulators:
                raise error_at(op, "TW1465", f"accumulator {slot} has no first product")
            chained = Value("acc")
            inputs = (self.accumulators[slot], *inputs)
            self._compute(BODIES["matmul_acc_mid"], inputs, chained, family, op)
            self.accumulators[slot] = chained
            if family == "matmul_acc_last":
                del self.accumulators[slot]
                self._compute(BODIES["matmul_pop"], (chained,), result, family, op)
        elif "tilewright.park" in op.attributes:
            place = SpillSlot({"fp8": 1024, "bf16": 2048}[result.dtype], lasting=True)
            self.rows.append(Spill(inputs[0], place, _line(op)))
            self.rows.append(Reload(result, place, _line(op)))
        elif family == "matmul_acc_first":
            self.accumulators[slot] = Value("acc")
            body = launch_body(family, values)
            self._compute(body, inputs, self.accumulators[slot], family, op)
        else:
            self._compute(launch_body(family, values), inputs, result, family, op)
        self.tiles[op.results[0]] = result

    def _compute(self, body, inputs: tuple[Value, ...], result: Value, family: str, op) -> None:
        options = {"cost": cost(family)}
        local = family.startswith("elementwise_") or family in _LOCAL
        calm = local and family.removeprefix("elementwise_") in _CALM
        self.rows.append(Compute(body, inputs, (result,), options, _line(op), local, calm))

    # --- loops --------------------------------------------------------------------------

    def _loop(self, op: scf.ForOp) -> None:
        start, stop, step = (self._number(op, v) for v in (op.lb, op.ub, op.step))
        if start.terms or step.terms or step.constant < 1:
            raise error_at(op, "TW1461", "loop bounds that are not constants")
        trips = max(0, -(-(stop.constant - start.constant) // step.constant))
        block = op.body.block
        variable = Variable(trips, block.args[0].name_hint or "")
        if stop.terms:
            distance = stop.shifted(-start.constant)
            variable.count = self._count(op, distance, step.constant)
            around, factor = variable.count.terms[0]
            variable.trips = variable.count.constant + factor * (around.trips - 1)
        self.numbers[block.args[0]] = Affine(start.constant, ((variable, step.constant),))
        inside: list[tuple[SSAValue, SSAValue, SSAValue, SSAValue]] = []
        last = block.last_op
        assert last is not None
        rows = zip(op.iter_args, block.args[1:], last.operands, op.results, strict=True)
        for initial, argument, following, result in rows:
            if initial in self.tensors:
                self.tensors[argument] = self.tensors[result] = self.tensors[initial]
            else:
                self.tiles[argument] = Value(_dtype(argument))
                self.tiles[result] = Value(_dtype(result))
                inside.append((initial, argument, following, result))
        body = self.block(block)
        carried = tuple(Carried(*(self.tiles[v] for v in names)) for names in inside)
        unroll = "tilewright.unroll" in op.attributes
        if variable.count is not None and unroll:
            raise error_at(op, "TW1461", "a loop to unroll whose bounds are not constants")
        self.rows.append(For(variable, body, True if unroll else None, carried))

    def _count(self, op: scf.ForOp, distance: Affine, step: int) -> Affine:
        """Iterations of a loop that goes further in every iteration of one around."""
        around, factor = distance.terms[0]
        if len(distance.terms) > 1 or around.count is not None:
            raise error_at(op, "TW1461", "loop bounds that follow more than one loop around")
        if factor < 1 or factor % step or distance.constant % step or distance.constant < step:
            raise error_at(
                op, "TW1461", "loop bounds that do not grow by whole iterations, from one on"
            )
        return Affine(distance.constant // step, ((around, factor // step),))


def _is_half(placed: Placed, op: tensor.ExtractSliceOp | tensor.InsertSliceOp) -> bool:
    """Whether the tensor keeps left halves of tiles only, all columns equal."""
    return placed.layout.tile_bytes == SIDE * SIDE and _dtype(op.result) == "bf16"


_LOCAL = ("silu", "silu_gate", "gelu_tanh", "requant", "dequant", "cast")
# Finite for finite numbers, zeros too, unless they are enormous.
_CALM = (
    *("add", "sub", "mul", "max", "min", "neg", "abs", "relu", "tanh", "sin", "cos", "sigmoid"),
    *("silu", "silu_gate", "gelu_tanh", "requant", "dequant", "cast"),
)
_WITHOUT_BODY = (
    "cast",
    "fill",
    "matmul_acc_last",
    "reduction_sum",
    "reduction_max",
    "reduction_min",
)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def _dtype(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    name = str(value.type.element_type)
    if name not in DTYPES:
        raise ValueError(f"tiles hold {' or '.join(DTYPES)}, not {name}")
    return DTYPES[name]


def _line(op: Operation) -> str:
    place = location_of(op)
    return str(place.line) if place else ""


def _python(value: Any) -> Any:
    if isinstance(value, DenseArrayBase):
        return tuple(int(v) for v in value.get_values())
    data = getattr(value, "value", value)
    return getattr(data, "data", data)
