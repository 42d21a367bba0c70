"""Tilewright compiles neural networks to NPUs and runs the result on exact simulators."""

from tilewright.errors import Location, TilewrightError

__version__ = "0.1.0"
__all__ = ["Location", "TilewrightError", "__version__"]
