"""Models that a function of the user's makes: `package.module:factory`.

A factory returns (torch module, example inputs), or (JAX function, example inputs) with the weights as
a third member when the function takes them as its first argument, or a model of the builder's. A
function of `tw.model` may stand in the place of a factory.

Error code: TW6122 a factory that cannot be used.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.frontend.model_language import Model

FORMS = (
    "return (torch module, example_inputs), (jax function, example_inputs), "
    "(jax function, example_inputs, weights) or what ModelBuilder.build() gives; the inputs are a "
    "tuple, or a dict by name"
)


def import_factory(reference: str) -> Imported:
    """The model that `package.module:factory` returns, whichever framework it is of."""
    made = call_factory(reference)
    if isinstance(made, Model):
        made = made.imported()
    if isinstance(made, Imported):
        return replace(made, source=reference)
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        raise TilewrightError(
            "TW6122",
            f"{reference} returns {type(made).__name__}, a pair is needed",
            hint=FORMS,
        )
    model, inputs = made[0], made[1]
    args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (_positional(inputs), {})
    if hasattr(model, "forward"):
        from tilewright.frontend.torch import import_module

        if len(made) == 3:
            raise TilewrightError(
                "TW6122", f"{reference} returns weights beside a torch module", hint=FORMS
            )
        return import_module(model, args, kwargs or None, reference)
    from tilewright.frontend.jax import import_jax

    weights = made[2] if len(made) == 3 else None
    return import_jax(model, *args, weights=weights, source=reference, **kwargs)


def _positional(inputs: Any) -> tuple[Any, ...]:
    """Inputs as arguments; a single array may stand without a tuple."""
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def call_factory(reference: str) -> Any:
    """What a function of the user's returns; what it raises becomes an error at its line."""
    name, _, path = reference.partition(":")
    if os.getcwd() not in sys.path:  # as `python -m` would have it
        sys.path.insert(0, os.getcwd())
    try:
        factory: Any = importlib.import_module(name)
        for attribute in path.split("."):
            factory = getattr(factory, attribute)
    except ModuleNotFoundError as error:
        hint = "give package.module:function, found from this folder or PYTHONPATH"
        near = difflib.get_close_matches(name, _modules_here(), 3)
        if near:
            hint = f"did you mean {' or '.join(f'{n}:{path}' for n in near)}?"
        if error.name in ("torch", "jax"):
            hint = f'pip install "tilewright[{error.name}]"'
        raise TilewrightError(
            "TW6122", f"{reference} cannot be found: {error}", hint=hint
        ) from None
    except AttributeError as error:
        if isinstance(error.obj, ModuleType) and error.name is not None:
            raise _no_factory(reference, error.obj, error.name) from None
        raise _factory_error(reference, error) from error
    except Exception as error:
        raise _factory_error(reference, error) from error
    if isinstance(factory, Model):
        return factory
    try:
        return factory()
    except Exception as error:
        raise _factory_error(reference, error) from error


def _no_factory(reference: str, module: ModuleType, name: str) -> TilewrightError:
    """A module that has no such function: what it has."""
    own = [
        n
        for n, value in vars(module).items()
        if callable(value) and not n.startswith("_") and _is_of(value, module)
    ]
    near = difflib.get_close_matches(name, own, 3) or sorted(own)[:5]
    hint = f"did you mean {' or '.join(near)}?" if near else "it has no functions"
    message = f"{reference} cannot be found: {module.__name__} has no function {name!r}"
    return TilewrightError("TW6122", message, Location(module.__file__ or ""), hint)


def _is_of(value: Any, module: ModuleType) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def _modules_here() -> list[str]:
    """Modules in this folder and the folders in it, by the names to import them."""
    here = Path.cwd()
    found = [*here.glob("*.py"), *here.glob("*/*.py")]
    return [".".join(path.relative_to(here).with_suffix("").parts) for path in found[:500]]


def _factory_error(reference: str, error: Exception) -> TilewrightError:
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return TilewrightError("TW6122", f"{reference} failed: {what}", users_place(error, __file__))


def users_place(error: Exception, *skipped: str) -> Location | None:
    """The innermost line of the user's own code that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    jax = sys.modules.get("jax")
    library = os.path.dirname(jax.__file__ or "<>") if jax is not None else "<>"
    own = [
        Location(frame.filename, frame.lineno or 0)
        for frame in frames
        if frame.filename not in skipped
        and not frame.filename.startswith("<")
        and not frame.filename.startswith(library)
    ]
    return own[-1] if own else None
