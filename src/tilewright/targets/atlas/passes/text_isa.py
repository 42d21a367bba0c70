"""npu_isa modules as program text.

Error codes: TW1340 an operation that is no instruction, TW1341 no function of that name, TW1342
abstract and native instructions in one function.
"""

from __future__ import annotations

import json

from tilewright.dialects.locations import error_at
from tilewright.dialects.xdsl_api import (
    DenseIntOrFPElementsAttr,
    ModuleOp,
    Operation,
    StringAttr,
    arith,
    func,
    tensor,
)
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.dialect.npu_isa import BufferOp, Instruction, NativeInstOp
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.program import Data
from tilewright.targets.atlas.text_isa import parse_text_isa

# What only describes data: places, constants and slices.
_DATA = (
    BufferOp,
    func.ReturnOp,
    arith.ConstantOp,
    tensor.EmptyOp,
    tensor.ExtractSliceOp,
    tensor.InsertSliceOp,
    tensor.PadOp,
)


def _functions(module: ModuleOp, name: str | None) -> list[func.FuncOp]:
    found = [f for f in module.walk() if isinstance(f, func.FuncOp) and not f.is_declaration]
    if name is not None:
        found = [f for f in found if f.sym_name.data == name]
    if not found:
        wanted = "a function" if name is None else f"a function @{name}"
        raise TilewrightError("TW1341", f"the module has no body of {wanted} to translate")
    return found


def text_program(module: ModuleOp, name: str | None = None) -> str:
    """Every instruction on a line of its own; functions follow each other, named in comments.

    before: npu_isa.native_inst "addi" {rd = 1, rs1 = 0, imm = 64}
    after:  addi rd=1, rs1=0, imm=64
    """
    lines: list[str] = []
    for function in _functions(module, name):
        lines.append(f"# {function.sym_name.data}")
        forms: set[type] = set()
        for op in function.body.block.ops:
            line = _line(op)
            if line is None:
                continue
            forms.add(NativeInstOp if isinstance(op, NativeInstOp) else Instruction)
            if len(forms) > 1:
                raise error_at(
                    op,
                    "TW1342",
                    "abstract and native instructions stand in one function",
                    "lower all launches with the same manifest",
                )
            lines.append(line)
    return "\n".join(lines) + "\n"


def _line(op: Operation) -> str | None:
    """An instruction's text; None for what only describes data."""
    if isinstance(op, (NativeInstOp, Instruction)):
        return op.text()
    if isinstance(op, _DATA):
        return None
    raise error_at(
        op,
        "TW1340",
        "is no instruction",
        "run convert-npu-schedule-to-isa first; canonicalize folds loops of one iteration",
    )


def assembly(module: ModuleOp, name: str | None = None) -> str:
    """The program as assembly, with the bytes that its constants have before it runs."""
    program = parse_text_isa(text_program(module, name))
    for function in _functions(module, name):
        for op in function.body.block.ops:
            data = _buffer_json(op).get("data") if isinstance(op, BufferOp) else None
            if isinstance(op, BufferOp) and data is not None:
                program.data.append(Data("dram", op.address.value.data, bytes.fromhex(str(data))))
    return disassemble(program)


def memory_map_json(module: ModuleOp, name: str | None = None) -> str:
    """The buffers of each function, in order of address."""
    result = {}
    for function in _functions(module, name):
        buffers = [op for op in function.body.block.ops if isinstance(op, BufferOp)]
        result[function.sym_name.data] = [_buffer_json(op) for op in buffers]
    return json.dumps(result, indent=2) + "\n"


def _buffer_json(op: BufferOp) -> dict[str, object]:
    texts = {k: v.data for k, v in op.attributes.items() if isinstance(v, StringAttr)}
    value = op.attributes.get("value")
    if isinstance(value, DenseIntOrFPElementsAttr):  # bytes that have to be there before the run
        texts["data"] = bytes(int(n) & 0xFF for n in value.get_values()).hex()
    return {
        "name": op.buffer.data,
        "address": op.address.value.data,
        "size": op.size.value.data,
        "type": str(op.result.type),
        **texts,
    }
