"""Lint of a compiled model: every segment of its code, with what the segments before leave behind.

Rounds that do not fit into one segment keep the distance of their weights in a word of VMEM from
segment to segment. What that word may hold is part of the model, so lint is told.
"""

from __future__ import annotations

from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.codegen.routine import LAYER_WORD
from tilewright.targets.atlas.lint import STEP_LIMIT, Report, lint
from tilewright.targets.atlas.lint.values import Form, Symbol, Value

FOLLOWED = 20_000_000  # instructions that are followed one by one to settle a doubt


def lint_model(model: AtlasArtifact, limit: int = STEP_LIMIT) -> list[Report]:
    """One report per segment."""
    return [lint_segment(model, number, limit) for number in range(len(model.segments))]


def lint_segment(model: AtlasArtifact, number: int, limit: int = STEP_LIMIT) -> Report:
    program = model.segments[number]
    return lint(program, model.profile, limit, words=_words(model, number))


def hazards_of(
    model: AtlasArtifact, instructions: int, limit: int = STEP_LIMIT
) -> tuple[list[str], list[str]]:
    """(hazards, what lint could not decide), for a model that runs so many instructions.

    Long loops are summarised; where that leaves a doubt, the program is followed to its end.
    """
    hazards, doubts = [], []
    for number in range(len(model.segments)):
        report = lint_segment(model, number, limit)
        if report.errors and not report.exact and instructions <= FOLLOWED:
            report = lint_segment(model, number, instructions + 1)
        for finding in report.errors:
            text = f"segment {number}, instruction {finding.index}: {finding.message}"
            (doubts if finding.may and not report.exact else hazards).append(text)
    return hazards, doubts


def _words(model: AtlasArtifact, segment: int) -> dict[int, Value]:
    """What the word of the rounds holds when a segment starts that is run once per round."""
    for entry in model.entries.values():
        if entry.segments.count(segment) > 1:
            inside = [step for step in model.steps if step.segment == segment]
            regions = [model.regions[name] for step in inside for name in step.operands.values()]
            for region in regions:
                if region.count > 1:
                    turns = Symbol(0, region.count - 1)
                    return {LAYER_WORD: Form(0, ((turns, region.stride),))}
    return {}
