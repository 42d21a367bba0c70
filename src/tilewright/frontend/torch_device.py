"""Graphs of torch.compile on the simulated device.

    compiled = torch.compile(model, backend="tilewright", options={"device": True})
    compiled = torch.compile(model, backend="tilewright", options={"target": "my.toml", "fuse": False})
    y = compiled(x)

A graph is compiled when it is first called, with ranges of values from those inputs. Parameters are
part of the program: fp8 and in the order of tiles. Torch compiles again when shapes change.
`programs()` gives what was compiled, to look at cycles and reports.

Error code: TW6123 options that the backend does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import TilewrightError

OPTIONS = ("device", "target", "calibrate", "fuse", "host", "no_host")
_programs: list[Any] = []


def programs() -> list[Any]:
    """The programs that torch.compile made in this process, oldest first."""
    return list(_programs)


def device_options(options: Mapping[str, Any] | None, mode: str | None) -> dict[str, Any] | None:
    """Arguments of `tw.compile`, or None if the graph is for the reference executor."""
    given = dict(options or {})
    unknown = next((name for name in given if name not in OPTIONS), None)
    if unknown is not None or mode not in (None, "default"):
        what = f"option {unknown!r}" if unknown is not None else f"mode {mode!r}"
        raise TilewrightError(
            "TW6123",
            f"the backend has no {what}",
            hint=f"options are {', '.join(OPTIONS)}; leave mode out",
        )
    device = given.pop("device", bool(given))
    return given if device else None


def device_backend(graph_module: Any, examples: Sequence[Any], options: dict[str, Any]) -> Any:
    """A function that runs the graph on the simulated device."""
    from tilewright.compiling import compile
    from tilewright.frontend.torch import load_torch

    torch = load_torch()
    fixed = {k: x for k, x in enumerate(examples) if _is_weight(torch, x)}
    names = [n.name for n in graph_module.graph.nodes if n.op == "placeholder"]
    bound = _bound(torch, graph_module, {names[k]: k for k in fixed}, examples)
    found: list[Any] = []

    def run(*inputs: Any) -> tuple[Any, ...]:
        given = [x for k, x in enumerate(inputs) if k not in fixed]
        if not found:
            own = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given)
            found.append(compile(bound, own, **options))
            _programs.append(found[0])
        results = found[0](*[x for x in given if isinstance(x, torch.Tensor)])
        return results if isinstance(results, tuple) else (results,)

    return run


def _is_weight(torch: Any, value: Any) -> bool:
    """Whether torch passes a parameter or buffer of the module as an input."""
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _bound(
    torch: Any, graph_module: Any, positions: Mapping[str, int], examples: Sequence[Any]
) -> Any:
    """The graph as a module of its own, with the inputs at these positions as buffers."""

    class Bound(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph = graph_module
            self.places = dict(positions)
            for name, position in positions.items():
                self.register_buffer(name, examples[position].detach())

        def forward(self, *rest: Any) -> Any:
            others = iter(rest)
            kept = {position: getattr(self, name) for name, position in self.places.items()}
            return self.graph(
                *[kept[k] if k in kept else next(others) for k in range(len(examples))]
            )

    Bound.__qualname__ = "torch.compile"
    return Bound()
