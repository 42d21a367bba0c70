"""`tilewright xdna`: designs for the XDNA array."""

from tilewright.targets.xdna.cli import command

__all__ = ["command"]
