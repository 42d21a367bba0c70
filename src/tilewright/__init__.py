"""Tilewright compiles neural networks to NPUs and runs the result on exact simulators.

`import tilewright as tw` gives `tw.compile`, which turns a model into a program to call, `tw.load`,
which opens a saved one, the model language (`tw.model`, `tw.Tensor`, `tw.constant`) and the tile
language (`tw.kernel`, `tw.grid`, `tw.exp`, …). All of it is loaded when first used.
"""

import time
from typing import TYPE_CHECKING, Any

from tilewright.errors import Location, TilewrightError
from tilewright.targets import registry as _registry

if TYPE_CHECKING:
    from tilewright.compiling import compile
    from tilewright.entry_points import EntryPoints, load
    from tilewright.frontend.model_language import Tensor, constant, model
    from tilewright.program import Program
    from tilewright.tile import *  # noqa: F403

__version__ = "0.1.0"
LOADED_AT = time.time_ns()  # a file of the package that is newer may not be what runs
__all__ = [
    "EntryPoints",
    "Location",
    "Program",
    "Tensor",
    "TilewrightError",
    "__version__",
    "compile",
    "constant",
    "load",
    "model",
]
_registry.connect()
_LAZY = {  # name -> its module
    "Tensor": "tilewright.frontend.model_language",
    "compile": "tilewright.compiling",
    "constant": "tilewright.frontend.model_language",
    "model": "tilewright.frontend.model_language",
    "EntryPoints": "tilewright.entry_points",
    "Program": "tilewright.program",
    "load": "tilewright.entry_points",
}


def __getattr__(name: str) -> Any:
    """Names that are loaded when first used: entry points, and those of the tile language."""
    if not name.startswith("_"):
        from importlib import import_module

        if name in _LAZY:
            return getattr(import_module(_LAZY[name]), name)
        language = import_module("tilewright.tile")
        if name in language.__all__:
            return getattr(language, name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")


def __dir__() -> list[str]:
    from tilewright.tile import __all__ as language

    return sorted([*__all__, *language])
