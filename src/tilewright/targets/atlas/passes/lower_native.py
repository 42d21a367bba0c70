"""Launches as real machine instructions from a kernel manifest.

A function is executed symbolically: loops are walked, slices become places in DRAM, and every
launch appends its kernel's instructions with each address bound to the tile it reads or writes.
Tensors lie in DRAM tile by tile (32x32, row of tiles after row of tiles), so that one transfer
moves one tile; partly filled tiles at the border are padded with zeros by whoever writes the
inputs, and it is followed through the kernels where zeros stay.

Error codes: TW1331 a construct without a native form, TW1333 a slice off the tile grid, TW1334 a write that would need a copy, TW1335 out of memory,
TW1336 too many instructions, TW1314 no kernel for a symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import copy_location, error_at
from tilewright.dialects.npu_schedule import MatmulTileOp, SoftmaxFragmentOp, UKernelLaunchOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    FloatAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    arith,
    func,
    scf,
    tensor,
)
from tilewright.errors import TilewrightError
from tilewright.planning.plan import plan
from tilewright.targets.atlas.dialect.npu_isa import BufferOp, NativeInstOp
from tilewright.targets.atlas.passes.native_tiles import (
    ALIGNMENT,
    TILE,
    TILE_LAYOUTS,
    Buffer,
    Launch,
    Machine,
    View,
    bind_input,
    check_fit,
    filled_by,
)
from tilewright.transforms.canonicalize import constant_index
from tilewright.transforms.kernel_manifest import Manifest
from tilewright.transforms.launches import call_of_launch
from tilewright.transforms.tile_emitter import DYNAMIC


@dataclass
class _Lowering:
    manifest: Manifest
    machine: Machine
    buffers: list[Buffer] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    aliases: list[tuple[Buffer, Buffer]] = field(default_factory=list)
    instruction_count: int = 0
    # What the launches of an unfinished chain leave in the accumulator.
    chain_filled: tuple[int, int] = (0, 0)

    # Values

    def new_buffer(self, op: Operation, name: str, type_: Attribute, role: str) -> Buffer:
        if not isinstance(type_, TensorType) or str(type_.element_type) not in TILE_LAYOUTS:
            raise error_at(
                op,
                "TW1331",
                f"a value of type {type_} has no place in memory",
                "native kernels work on tensors of f8E4M3FN and bf16",
            )
        shape = type_.get_shape()
        rows, columns = (shape[-2], shape[-1]) if len(shape) > 1 else (1, prod(shape))
        layout, tile_bytes = TILE_LAYOUTS[str(type_.element_type)]
        grid = (-(-rows // TILE), -(-columns // TILE))
        buffer = Buffer(name, type_, role, grid, layout, tile_bytes)
        self.buffers.append(buffer)
        return buffer

    def run_function(self, function: func.FuncOp) -> list[View]:
        """Walk the body; returns the views the function returns."""
        block = function.body.block
        values: dict[SSAValue, View | int] = {}
        for index, argument in enumerate(block.args):
            name = argument.name_hint or f"arg{index}"
            buffer = self.new_buffer(function, name, argument.type, "input")
            values[argument] = View(buffer, tuple(buffer.type.get_shape()))
        returned = self.run_block(block, values)
        return [self.view(function, value, values) for value in returned]

    def run_block(self, block: Block, values: dict[SSAValue, View | int]) -> list[SSAValue]:
        """Execute a block's operations; returns the operands of its terminator."""
        for op in block.ops:
            if isinstance(op, (func.ReturnOp, scf.YieldOp)):
                return list(op.operands)
            self.run_op(op, values)
        return []

    def run_op(self, op: Operation, values: dict[SSAValue, View | int]) -> None:
        if isinstance(op, arith.ConstantOp):
            self.run_constant(op, values)
        elif isinstance(op, (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.DivUIOp)):
            left, right = (self.index(op, v, values) for v in op.operands)
            compute = {
                "arith.addi": left + right,
                "arith.subi": left - right,
                "arith.muli": left * right,
                "arith.divui": left // max(1, right),
            }
            values[op.results[0]] = compute[op.name]
        elif isinstance(op, tensor.EmptyOp):
            buffer = self.new_buffer(op, f"temp{len(self.buffers)}", op.tensor.type, "temporary")
            values[op.tensor] = View(buffer, tuple(buffer.type.get_shape()))
        elif isinstance(op, tensor.ExtractSliceOp):
            source = self.view(op, op.source, values)
            values[op.result] = self.slice(op, source, op, op.result.type, values)
        elif isinstance(op, tensor.InsertSliceOp):
            self.run_insert(op, values)
        elif isinstance(op, tensor.PadOp):
            values[op.result] = self.pad(op, values)
        elif isinstance(op, scf.ForOp):
            self.run_loop(op, values)
        elif isinstance(op, (UKernelLaunchOp, MatmulTileOp, SoftmaxFragmentOp)):
            self.run_launch(op, values)
        else:
            raise error_at(op, "TW1331", "has no native form", "fold it away or run it on the host")

    def run_constant(self, op: arith.ConstantOp, values: dict[SSAValue, View | int]) -> None:
        number = constant_index(op.result)
        if number is not None:
            values[op.result] = number
        elif isinstance(op.result.type, TensorType):
            name = op.result.name_hint or f"constant{len(self.buffers)}"
            buffer = self.new_buffer(op, name, op.result.type, "constant")
            buffer.value = op.value
            values[op.result] = View(buffer, tuple(buffer.type.get_shape()))

    def index(self, op: Operation, value: SSAValue, values: dict[SSAValue, View | int]) -> int:
        known = values.get(value)
        if not isinstance(known, int):
            raise error_at(op, "TW1331", "needs an index that is known when compiling")
        return known

    def view(self, op: Operation, value: SSAValue, values: dict[SSAValue, View | int]) -> View:
        known = values.get(value)
        if not isinstance(known, View):
            raise error_at(op, "TW1331", "uses a value that has no place in memory")
        return known

    # Slices

    def offsets(
        self,
        op: tensor.ExtractSliceOp | tensor.InsertSliceOp,
        values: dict[SSAValue, View | int],
    ) -> list[int]:
        dynamic = iter(op.offsets)
        return [
            self.index(op, next(dynamic), values) if n == DYNAMIC else n
            for n in op.static_offsets.get_values()
        ]

    def slice(
        self,
        at: Operation,
        source: View,
        op: tensor.ExtractSliceOp | tensor.InsertSliceOp,
        type_: Attribute,
        values: dict[SSAValue, View | int],
    ) -> View:
        """The part of a view that a slice selects; it must start on a tile."""
        assert isinstance(type_, TensorType)
        offsets = self.offsets(op, values)
        sizes = list(op.static_sizes.get_values())
        if any(stride != 1 for stride in op.static_strides.get_values()):
            raise error_at(at, "TW1333", "takes every n-th element; tiles are contiguous")
        if len(offsets) < 2:
            offsets, sizes = [0, *offsets], [1, *sizes]
        row, column = offsets[-2], offsets[-1]
        if row % TILE or column % TILE:
            raise error_at(
                at,
                "TW1333",
                f"starts at row {row}, column {column}, which is not on the grid of {TILE}x{TILE} tiles",
                "tile with sizes that are multiples of 32",
            )
        leading, extents = offsets[:-2], sizes[:-2]
        shape = source.shape[:-2]
        if any(
            e != 1 and (o, e) != (0, n) for o, e, n in zip(leading, extents, shape, strict=True)
        ):
            raise error_at(at, "TW1333", "takes part of a batch; one or all can be taken")
        batch = 0
        for offset, count in zip(leading, shape, strict=True):
            batch = batch * count + offset
        return View(
            source.buffer,
            tuple(type_.get_shape()),
            source.batch + batch,
            source.row + row // TILE,
            source.column + column // TILE,
        )

    def run_insert(self, op: tensor.InsertSliceOp, values: dict[SSAValue, View | int]) -> None:
        """The source must already have been written in place by the launch that made it."""
        source, into = (self.view(op, v, values) for v in (op.source, op.dest))
        target = self.slice(op, into, op, op.source.type, values)
        if (source.buffer, source.address()) != (target.buffer, target.address()):
            raise error_at(
                op,
                "TW1334",
                "would copy a tile that was made elsewhere",
                "let the launch's result be inserted directly, and only once",
            )
        values[op.result] = into

    def pad(self, op: tensor.PadOp, values: dict[SSAValue, View | int]) -> View:
        """Padding up to the next tile is already in memory where the tiles end in zeros."""
        source = self.view(op, op.source, values)
        shape = tuple(op.result.type.get_shape())
        last = op.region.block.last_op
        assert last is not None
        filler = last.operands[0].owner
        zero = (
            isinstance(filler, arith.ConstantOp)
            and isinstance(filler.value, FloatAttr)
            and filler.value.value.data == 0
        )
        grid = (-(-shape[-2] // TILE), -(-shape[-1] // TILE)) if len(shape) > 1 else None
        if (
            not zero
            or any(op.static_low.get_values())
            or grid != tuple(-(-n // TILE) for n in source.shape[-2:])
            or shape[:-2] != source.shape[:-2]
            or not source.ends_in_zeros()
        ):
            raise error_at(
                op,
                "TW1331",
                "pads more than the zeros that the last tiles are known to hold",
                "pad on the host, or apply kernels that do not keep zeros to whole tiles",
            )
        return replace(source, shape=shape)

    # Control and launches

    def run_loop(self, op: scf.ForOp, values: dict[SSAValue, View | int]) -> None:
        start, stop, step = (self.index(op, v, values) for v in (op.lb, op.ub, op.step))
        if step <= 0:
            raise error_at(op, "TW1331", "has a step that is not positive")
        carried = [self.view(op, v, values) for v in op.iter_args]
        block = op.body.block
        for position in range(start, stop, step):
            inner = dict(values)
            inner[block.args[0]] = position
            inner.update(zip(block.args[1:], carried, strict=True))
            carried = [self.view(op, v, inner) for v in self.run_block(block, inner)]
        values.update(zip(op.results, carried, strict=True))

    def run_launch(self, op: Operation, values: dict[SSAValue, View | int]) -> None:
        call = call_of_launch(op)
        if call is None:
            raise error_at(op, "TW1314", "launches a symbol of no kernel family")
        inputs = [self.view(op, operand, values) for operand in op.operands]
        if call.family.name == "reshape":
            values[op.results[0]] = self.reshape(op, inputs[0], call)
            return
        kernel = self.manifest.find(call.symbol)
        if kernel is None:
            raise error_at(
                op,
                "TW1314",
                f'the kernel manifest {self.manifest.source} has no kernel for "{call.symbol}"',
            )
        check_fit(op, call, kernel, inputs)
        filled = filled_by(call, inputs)
        rows, columns = self.chain_filled
        self.chain_filled = max(rows, filled[0]), max(columns, filled[1])
        output = None
        if kernel.roles("dram_out"):
            output = self.destination(op, values)
            values[op.results[0]] = output
            output.buffer.written[output.batch, output.row, output.column] = self.chain_filled
            self.chain_filled = (0, 0)
        self.instruction_count += len(kernel.instructions)
        if self.instruction_count > self.machine.max_instructions:
            raise error_at(
                op,
                "TW1336",
                f"the program grows beyond {self.machine.max_instructions} instructions",
            )
        self.launches.append(Launch(op, kernel, inputs, output))

    def reshape(self, op: Operation, source: View, call: KernelCall) -> View:
        """Merging or splitting batches leaves the tiles in place when rows fill whole tiles."""
        old, new = source.shape, tuple(call.result.get_shape())
        whole_rows = len(old) < 2 or len(new) < 2 or (old[-2] % TILE == 0 and new[-2] % TILE == 0)
        if not whole_rows or old[-1:] != new[-1:] or source.batch or source.row or source.column:
            raise error_at(op, "TW1331", "reshapes across tiles", "reshape on the host")
        grid = (new[-2] // TILE, source.buffer.grid[1]) if len(new) > 1 else source.buffer.grid
        alias = Buffer(
            source.buffer.name,
            call.result,
            source.buffer.role,
            grid,
            source.buffer.layout,
            source.buffer.tile_bytes,
            origin=source.buffer,
        )
        root = dict(self.aliases).get(source.buffer, source.buffer)
        self.aliases.append((alias, root))
        return View(alias, new)

    def destination(self, op: Operation, values: dict[SSAValue, View | int]) -> View:
        """Where a launch writes: straight into the tensor it is inserted into, or a new buffer."""
        result = op.results[0]
        uses = list(result.uses)
        user = uses[0].operation if len(uses) == 1 else None
        if isinstance(user, tensor.InsertSliceOp) and user.source is result:
            into = values.get(user.dest)
            if isinstance(into, View):
                if into.buffer.role != "temporary" or not user.dest.has_one_use():
                    raise error_at(
                        user,
                        "TW1334",
                        "would overwrite a tensor that is still needed",
                        "insert into a fresh tensor.empty",
                    )
                return self.slice(user, into, user, result.type, values)
        buffer = self.new_buffer(op, f"temp{len(self.buffers)}", result.type, "temporary")
        return View(buffer, tuple(buffer.type.get_shape()))

    # Addresses and output

    def place(self, function: func.FuncOp, results: set[Buffer]) -> None:
        """Give every buffer its place in DRAM; those that never live together may share bytes."""
        origins = dict(self.aliases)
        for step, launch in enumerate(self.launches):
            views = [*launch.inputs, *([launch.output] if launch.output else [])]
            for view in views:
                origins.get(view.buffer, view.buffer).steps.append(step)
        self.buffers = [b for b in self.buffers if b.steps or b.role != "temporary" or b in results]
        end = len(self.launches) + 1
        machine = self.machine
        planned = [b.lifetime(str(n), end, b in results) for n, b in enumerate(self.buffers)]
        searching = machine.strategy in ("auto", "exact")
        try:
            done = plan(
                planned,
                capacity=machine.size if searching else None,
                alignment=ALIGNMENT,
                strategy=machine.strategy,
            )
        except TilewrightError as error:
            raise error_at(function, "TW1335", error.message, error.hint) from None
        needed = max((part.peak for part in done.regions.values()), default=0)
        if needed > machine.size:
            raise error_at(
                function,
                "TW1335",
                f"needs {needed} bytes of DRAM, the machine has {machine.size}",
                "let buffers share memory with memory-plan=auto, or give dram-size",
            )
        for number, buffer in enumerate(self.buffers):
            buffer.address = machine.base + done.offsets[str(number)]
        for alias, origin in self.aliases:
            alias.address = origin.address

    def emit(self, launch: Launch) -> list[Operation]:
        """The kernel's instructions with every role bound to its buffer."""
        addresses: dict[str, int] = {}
        points = launch.kernel.roles("dram_in")
        for number, point in enumerate(points):
            operand, offset = bind_input(launch, number, len(points), point.operand, point.offset)
            addresses[point.role] = launch.inputs[operand].address() + offset
        for number, point in enumerate(launch.kernel.roles("dram_out")):
            assert launch.output is not None
            addresses[point.role] = launch.output.address() + (point.offset or 1024 * number)
        try:
            instructions = launch.kernel.relocated(addresses)
        except TilewrightError as error:
            raise error_at(launch.op, error.code, error.message, error.hint) from None
        operations: list[Operation] = [NativeInstOp(i.mnemonic, dict(i.args)) for i in instructions]
        copy_location(launch.op, *operations)
        return operations


def lower_function(function: func.FuncOp, manifest: Manifest, machine: Machine) -> None:
    """Replace a function's body by its buffers and its instruction stream.

    before: loops, slices and launches on tensors
    after:  npu_isa.buffer for every tensor in memory, then npu_isa.native_inst ...
    """
    lowering = _Lowering(manifest, machine)
    returned = lowering.run_function(function)
    origins = dict(lowering.aliases)
    results_in = {origins.get(view.buffer, view.buffer) for view in returned}
    for buffer in results_in:
        if buffer.role == "temporary":
            buffer.role = "output"
    lowering.place(function, results_in)
    # A result is declared with the shape the caller sees, also when its last tiles are partial.
    shown = {buffer: buffer.type for buffer in lowering.buffers}
    for view, type_ in zip(returned, function.function_type.outputs, strict=True):
        buffer = origins.get(view.buffer, view.buffer)
        if buffer.role == "output" and view.address() == buffer.address:
            assert isinstance(type_, TensorType)
            shown[buffer] = type_
    declared = {buffer: _declaration(buffer, shown[buffer]) for buffer in lowering.buffers}
    operations: list[Operation] = list(declared.values())
    for launch in lowering.launches:
        operations += lowering.emit(launch)
    results: list[SSAValue] = []
    for view, type_ in zip(returned, function.function_type.outputs, strict=True):
        buffer = origins.get(view.buffer, view.buffer)
        if shown[buffer] == type_ and view.address() == buffer.address:
            results.append(declared[buffer].result)
            continue
        attributes = {"layout": StringAttr(buffer.layout), "role": StringAttr("view")}
        part = BufferOp(
            buffer.name,
            view.address(),
            buffer.address + buffer.size - view.address(),
            type_,
            attributes,
        )
        operations.append(part)
        results.append(part.result)
    copy_location(function, *(op for op in operations if isinstance(op, BufferOp)))
    block = Block(ops=[*operations, func.ReturnOp(*results)])
    for index, argument in enumerate(function.body.block.args):
        block.insert_arg(argument.type, index)
        block.args[index].name_hint = argument.name_hint
    old = function.body.block
    function.body.add_block(block)
    function.body.erase_block(old, safe_erase=False)


def _declaration(buffer: Buffer, type_: TensorType) -> BufferOp:
    attributes: dict[str, Attribute] = {
        "layout": StringAttr(buffer.layout),
        "role": StringAttr(buffer.role),
    }
    if buffer.value is not None:
        attributes["value"] = buffer.value
    return BufferOp(buffer.name, buffer.address, buffer.size, type_, attributes)
