"""The code of a compiled model as assembly text."""

from __future__ import annotations

import re

from tilewright.runtime.compiled_model import CompiledModel
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.program import Program


def listing(model: CompiledModel) -> str:
    """All segments, one behind the other; a label such as `step_3_mlp_gate` begins each step."""
    texts = []
    for number, program in enumerate(model.segments):
        texts.append(f"# segment {number} of {model.name}: {len(program)} instructions\n")
        texts.append(segment_listing(model, number))
    return "".join(texts)


def segment_listing(model: CompiledModel, segment: int) -> str:
    """One segment; it assembles to the same code."""
    program = model.segments[segment]
    labels = dict(program.labels)
    for number, step in enumerate(model.steps):
        if step.segment == segment:
            labels[step_label(number, step.name)] = step.first_word
    marked = Program(
        program.opcodes, program.operands, program.lines, program.source, labels, program.data
    )
    return disassemble(marked)


def step_label(number: int, name: str) -> str:
    """`step_3_mlp_gate` for step 3, mlp.gate."""
    return f"step_{number}_" + re.sub(r"[^A-Za-z0-9]+", "_", name)[:60].strip("_")
