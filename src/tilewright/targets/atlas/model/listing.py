"""The code of a model as assembly text."""

from __future__ import annotations

import re

from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact, Step
from tilewright.targets.atlas.disassembler import disassemble
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.text import WORD, instruction_text, label_names


def listing(model: AtlasArtifact) -> str:
    """All segments, one behind the other; a label such as `step_3_mlp_gate` begins each step."""
    texts = []
    for number, program in enumerate(model.segments):
        texts.append(f"# segment {number}: {len(program)} instructions\n")
        texts.append(segment_listing(model, number))
    return "".join(texts)


def segment_listing(model: AtlasArtifact, segment: int) -> str:
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


def excerpt(model: AtlasArtifact, step: Step, most: int) -> tuple[list[str], int]:
    """The first instructions of a step, each with its byte address and the label before it."""
    program = model.segments[step.segment]
    labels = label_names(program)
    lines: list[str] = []
    for index in range(step.first_word, min(step.end_word, step.first_word + most)):
        if index in labels:
            lines.append(f"{labels[index]}:")
        lines.append(f"{index * WORD:#07x}  {instruction_text(program, index, labels)}")
    return lines, step.end_word - step.first_word
