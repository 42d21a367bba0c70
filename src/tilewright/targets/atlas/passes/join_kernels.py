"""Launches as the instruction lists of a kernel manifest, one after the other.

An interchange format, no way of compiling: a straight function whose launches work on single tiles
comes out with the manifest's kernels in place, each value in a region of DRAM of its own. Loops,
edges and memory are the code generator's (`convert-npu-schedule-to-isa{target=…}`).

Error codes: TW1314 no kernel for a symbol, TW1321 an address role without an operand, TW1331 a
construct without a place here, TW1332 a tile or attribute that does not fit a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import copy_location, error_at
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    func,
    tensor,
)
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.dialect.npu_isa import BufferOp, NativeInstOp
from tilewright.tile.layouts import Layout
from tilewright.transforms.kernel_manifest import LAYOUTS, Kernel, Manifest
from tilewright.transforms.launches import call_of_launch

_DTYPES = {"f8E4M3FN": "fp8", "bf16": "bf16"}
_ELSEWHERE = "compile it with convert-npu-schedule-to-isa{target=…}"


def join_kernels(function: func.FuncOp, manifest: Manifest) -> None:
    """Replace a function's body by its buffers and the kernels it launches.

    before: %t = npu_schedule.matmul_tile %a, %b
    after:  npu_isa.buffer "a" at 0 …; npu_isa.native_inst "lui" {rd = 1, imm = 0} …
    """
    joined = _Joined(manifest)
    old = function.body.block
    for index, argument in enumerate(old.args):
        joined.declare(function, argument.name_hint or f"arg{index}", argument, "input")
    last = old.last_op
    assert isinstance(last, func.ReturnOp)
    returned = set(last.operands)
    for op in old.ops:
        if isinstance(op, tensor.ExtractSliceOp):
            joined.slice(op)
        elif (call := call_of_launch(op)) is not None:
            joined.launch(op, call, op.results[0] in returned)
        elif op is not last:
            raise error_at(op, "TW1331", "has no place among kernels of a manifest", _ELSEWHERE)
    results = [joined.buffer(last, value).result for value in last.operands]
    copy_location(function, *joined.buffers.values())
    block = Block(
        ops=[*joined.buffers.values(), *joined.instructions, func.ReturnOp(*results)],
        arg_types=[argument.type for argument in old.args],
    )
    for before, after in zip(old.args, block.args, strict=True):
        after.name_hint = before.name_hint
    function.body.add_block(block)
    function.body.erase_block(old, safe_erase=False)


@dataclass
class _Joined:
    manifest: Manifest
    buffers: dict[SSAValue, BufferOp] = field(default_factory=dict)
    addresses: dict[SSAValue, int] = field(default_factory=dict)
    instructions: list[Operation] = field(default_factory=list)
    end: int = 0

    def declare(self, op: Operation, name: str, value: SSAValue, role: str) -> int:
        """A region for a value, behind all others; its address."""
        type_ = value.type
        if not isinstance(type_, TensorType) or str(type_.element_type) not in _DTYPES:
            raise error_at(
                op,
                "TW1331",
                f"a value of type {type_} has no place in memory",
                "kernels work on tensors of f8E4M3FN and bf16",
            )
        layout = Layout(tuple(type_.get_shape()), _DTYPES[str(type_.element_type)])
        attributes: dict[str, Attribute] = {
            "layout": StringAttr("fp8_tile" if layout.dtype == "fp8" else "bf16_split_halves"),
            "role": StringAttr(role),
        }
        self.addresses[value] = self.end
        self.buffers[value] = BufferOp(name, self.end, layout.bytes, type_, attributes)
        self.end += layout.bytes
        return self.addresses[value]

    def buffer(self, op: Operation, value: SSAValue) -> BufferOp:
        if value not in self.buffers:
            raise error_at(op, "TW1331", "returns a part of a tensor", _ELSEWHERE)
        return self.buffers[value]

    def slice(self, op: tensor.ExtractSliceOp) -> None:
        """A tile of a tensor, found by numbers alone."""
        where, sizes = (
            [int(n) for n in values.get_values()] for values in (op.static_offsets, op.static_sizes)
        )
        layout = self._layout(op, op.source)
        if op.offsets or sizes != [layout.side] * 2 or any(n % layout.side for n in where):
            raise error_at(op, "TW1331", "is no tile at a place known here", _ELSEWHERE)
        steps = zip(where, layout.strides, strict=True)
        self.addresses[op.result] = self._address(op, op.source) + sum(
            n // layout.side * stride for n, stride in steps
        )

    def _layout(self, op: Operation, value: SSAValue) -> Layout:
        type_ = self.buffer(op, value).result.type
        assert isinstance(type_, TensorType)
        return Layout(tuple(type_.get_shape()), _DTYPES[str(type_.element_type)])

    def _address(self, op: Operation, value: SSAValue) -> int:
        if value not in self.addresses:
            raise error_at(op, "TW1331", "reads what an unfinished chain computes", _ELSEWHERE)
        return self.addresses[value]

    def launch(self, op: Operation, call: KernelCall, returned: bool) -> None:
        kernel = self.manifest.find(call.symbol)
        if kernel is None:
            raise error_at(
                op,
                "TW1314",
                f'the kernel manifest {self.manifest.source} has no kernel for "{call.symbol}"',
            )
        _check_fit(op, call, kernel)
        inputs = [self._address(op, operand) for operand in op.operands]
        addresses: dict[str, int] = {}
        points = kernel.roles("dram_in")
        for number, point in enumerate(points):
            operand, offset = _operand(op, kernel, number, len(points), len(inputs))
            addresses[point.role] = inputs[operand] + offset
        for number, point in enumerate(kernel.roles("dram_out")):
            if op.results[0] not in self.addresses:
                name, role = f"temp{len(self.buffers)}", "output" if returned else "temporary"
                self.declare(op, name, op.results[0], role)
            addresses[point.role] = self.addresses[op.results[0]] + (point.offset or 1024 * number)
        try:
            rows = kernel.relocated(addresses)
        except TilewrightError as error:
            raise error_at(op, error.code, error.message, error.hint) from None
        made = [NativeInstOp(row.mnemonic, dict(row.args)) for row in rows]
        copy_location(op, *made)
        self.instructions += made


def _operand(op: Operation, kernel: Kernel, number: int, count: int, inputs: int) -> Sequence[int]:
    """Which operand, and how far into it, an input role of a kernel reads.

    A kernel that does not say has one role per operand, or one per half of each operand.
    """
    point = kernel.roles("dram_in")[number]
    if point.operand is not None and point.operand < inputs:
        return point.operand, point.offset
    if point.operand is None and count in (inputs, 2 * inputs):
        return (number, 0) if count == inputs else (number // 2, 1024 * (number % 2))
    raise error_at(
        op,
        "TW1321",
        f"kernel {kernel.name} reads {count} addresses, the launch has {inputs} operands",
        "name the operand of each patch point in the manifest",
    )


def _check_fit(op: Operation, call: KernelCall, kernel: Kernel) -> None:
    """The kernel computes exactly what the launch asks: element types, attributes, tile shape."""
    wanted, result = (LAYOUTS.get(n) for n in (kernel.input_layout, kernel.output_layout))

    def refused(reason: str, hint: str | None = None) -> TilewrightError:
        return error_at(op, "TW1332", reason, hint)

    if wanted is None:
        raise refused(f"kernel {kernel.name} has the unknown layout {kernel.input_layout}")
    for number, type_ in enumerate(call.tensor_types()):
        if str(type_.element_type) != wanted[0]:
            raise refused(
                f"operand {number} holds {type_.element_type}, kernel {kernel.name} takes {wanted[0]}",
                "convert the operand, or choose a kernel of its type",
            )
        shape = tuple(type_.get_shape())
        if shape != tuple(kernel.tile_shape[:2]):
            have, need = ("x".join(map(str, n)) for n in (shape, kernel.tile_shape))
            raise refused(
                f"a tile of {have} does not fit kernel {kernel.name}, which works on {need}",
                _ELSEWHERE,
            )
    if result is not None and str(call.result.element_type) != result[0]:
        raise refused(
            f"the result holds {call.result.element_type}, kernel {kernel.name} makes {result[0]}"
        )
    rank = call.result.get_num_dims()
    for name in call.attributes:
        if not ((name == "axis" and call.axis(rank) == rank - 1) or "." in name):
            raise refused(f"kernel {kernel.name} cannot honour the attribute {name}")
    if len(call.operand_types) > len({p.operand for p in kernel.roles("dram_in")} - {None}) > 0:
        raise refused(f"kernel {kernel.name} takes fewer than {len(call.operand_types)} operands")
