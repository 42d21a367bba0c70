"""`tilewright vpu`: the commands of the VPU target."""

from __future__ import annotations

from tilewright.targets.vpu.cli import command

__all__ = ["command"]
