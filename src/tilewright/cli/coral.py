"""`tilewright coral`; the commands are the target's."""

from tilewright.targets.coral.cli import command

__all__ = ["command"]
