"""Functions of npu_schedule as programs: the code generator's instructions as npu_isa.

The function becomes a kernel of the tile language (`tile/schedules.py`), which goes the way of all
kernels: npu_schedule of tiles, buffers and transfers, scheduled code.
"""

from __future__ import annotations

from tilewright.dialects.locations import copy_location
from tilewright.dialects.xdsl_api import (
    Attribute,
    Block,
    DenseIntOrFPElementsAttr,
    Operation,
    SSAValue,
    StringAttr,
    TensorType,
    func,
    i8,
)
from tilewright.errors import Location
from tilewright.targets.atlas.codegen.compiled_kernel import CompiledKernel
from tilewright.targets.atlas.dialect.npu_isa import BufferOp, NativeInstOp
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text_isa import record_of, spelling
from tilewright.tile.layouts import Layout
from tilewright.tile.schedules import compile_schedule


def generate_code(function: func.FuncOp, profile: Profile) -> CompiledKernel:
    """Replace a function's body by its buffers and its instruction stream; the compiled kernel.

    before: loops, slices and launches on tensors
    after:  npu_isa.buffer for every tensor in memory, then npu_isa.native_inst ...
    """
    compiled = compile_schedule(function, profile)
    names = [a.name_hint or f"arg{i}" for i, a in enumerate(function.body.block.args)]
    outputs = function.function_type.outputs
    buffers = [
        _buffer(name, type_, compiled.bases[key], compiled.layouts[key], role)
        for role, keys, shown, types in (
            ("input", compiled.inputs, names, function.function_type.inputs),
            ("output", compiled.outputs, compiled.outputs, outputs),
        )
        for key, name, type_ in zip(keys, shown, types, strict=True)
    ]
    constants = [_constant(k, *entry) for k, entry in enumerate(compiled.data)]
    results: list[SSAValue] = [b.result for b in buffers[len(names) :]]
    declared: list[Operation] = [*buffers, *constants]
    copy_location(function, *declared)
    block = Block(
        ops=[*declared, *instructions(compiled.program), func.ReturnOp(*results)],
        arg_types=function.function_type.inputs,
    )
    for old, new in zip(function.body.block.args, block.args, strict=True):
        new.name_hint = old.name_hint
    old = function.body.block
    function.body.add_block(block)
    function.body.erase_block(old, safe_erase=False)
    return compiled


def instructions(program: Program) -> list[NativeInstOp]:
    """A program as operations; branch offsets count instructions, as in the text form."""
    place = Location(program.source)
    return [
        NativeInstOp(spelling(row.opcode), record_of(row.opcode, row.operands, place))
        for row in program
    ]


def _buffer(name: str, type_: Attribute, address: int, layout: Layout, role: str) -> BufferOp:
    kind = "bf16_row" if layout.is_vector else "bf16_split_halves"
    attributes: dict[str, Attribute] = {
        "layout": StringAttr("fp8_tile" if layout.dtype == "fp8" else kind),
        "role": StringAttr(role),
    }
    return BufferOp(name, address, layout.bytes, type_, attributes)


def _constant(number: int, address: int, raw: bytes) -> BufferOp:
    """Bytes the program finds in DRAM: tables, and numbers no instruction makes."""
    type_ = TensorType(i8, [len(raw)])
    signed = [byte - 256 if byte > 127 else byte for byte in raw]
    attributes: dict[str, Attribute] = {
        "layout": StringAttr("bytes"),
        "role": StringAttr("constant"),
        "value": DenseIntOrFPElementsAttr.from_list(type_, signed),
    }
    return BufferOp(f"constants_{number}", address, len(raw), type_, attributes)
