"""Lint: find hazards in an Atlas program without running it, and insert the waiting it lacks."""

from tilewright.targets.atlas.lint.analysis import STEP_LIMIT, lint
from tilewright.targets.atlas.lint.findings import CODES, Finding, Report

__all__ = ["CODES", "STEP_LIMIT", "Finding", "Report", "lint"]
