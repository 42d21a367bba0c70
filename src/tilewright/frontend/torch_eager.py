"""PyTorch as it runs without export: functions as modules, and whether a module runs on inputs at all.

Error code: TW6121 a module that does not run.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.frontend.aten_graph import own_place


def as_module(torch: Any, function: Callable[..., Any]) -> Any:
    """A function of tensors as a module: its arguments keep their names, and modules that it knows
    by name are parts, so that their parameters are weights."""
    name = getattr(function, "__name__", "function")
    name = "function" if name == "<lambda>" else name

    if not inspect.isfunction(function):  # torch's own have no names that can be read

        def forward(self: Any, *inputs: Any, **named: Any) -> Any:
            return function(*inputs, **named)

        return type(name, (torch.nn.Module,), {"forward": forward})()
    module = type(name, (torch.nn.Module,), {"forward": staticmethod(function)})()
    known = inspect.getclosurevars(function)
    for key, value in {**known.globals, **known.nonlocals}.items():
        if isinstance(value, torch.nn.Module):
            module.add_module(key, value)
    return module


def check_runs(
    torch: Any, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], source: str
) -> None:
    """Say what torch says where the module does not run on the inputs at all."""
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    if any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in leaves):
        return
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        place = own_place("".join(traceback.format_tb(error.__traceback__))) or Location(source)
        raise TilewrightError(
            "TW6121",
            f"the model does not run on these inputs: {said or type(error).__name__}",
            place,
            "example inputs are what the module is called with: tensors of its shapes and types",
        ) from error
