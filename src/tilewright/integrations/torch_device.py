"""Graphs of torch.compile on the simulated device.

    compiled = torch.compile(model, backend="tilewright", options={"device": True})
    compiled = torch.compile(model, backend="tilewright", options={"target": "my.toml", "fuse": False})
    y = compiled(x)

A graph is compiled when it is first called, with ranges of values from those inputs. Parameters are
part of the program: fp8 and in the order of tiles. Programs have fixed sizes: one is made for every
size a graph is called with, whether torch gives each a graph of its own or one with symbols
(dynamic=True, or after the first change). `programs()` gives what was compiled, to look at cycles
and reports. Sizes that depend on the data have no program: that is an error of the export.

Error code: TW6123 options that the backend does not have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.errors import TilewrightError

OPTIONS = ("device", "target", "calibrate", "fuse", "host", "no_host")
KEPT = 64  # programs of one graph, for as many sizes
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

    def make(inputs: tuple[Any, ...]) -> Any:
        given = [x for k, x in enumerate(inputs) if k not in fixed]
        own = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in given)
        program = compile(bound, own, **options)
        _programs.append(program)

        def run(*inputs: Any) -> list[Any]:
            given = [x for k, x in enumerate(inputs) if k not in fixed]
            results = program(*[x for x in given if isinstance(x, torch.Tensor)])
            return list(results) if isinstance(results, tuple) else [results]

        return run

    return PerSizes(torch, graph_module, make)


class PerSizes:
    """A graph to call with inputs of any size: what `make` gives for inputs of one, kept for the
    next call with them."""

    def __init__(
        self,
        torch: Any,
        graph_module: Any,
        make: Callable[[tuple[Any, ...]], Callable[..., list[Any]]],
        examples: Sequence[Any] = (),
    ) -> None:
        self.torch, self.make = torch, make
        (returned,) = next(n for n in graph_module.graph.nodes if n.op == "output").args
        self.returned = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        self.kept: OrderedDict[Any, Callable[..., list[Any]]] = OrderedDict()
        if examples and all(self._is_fixed(x) for x in examples):
            self._get(tuple(examples))  # errors come from torch.compile's first call, at once

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        results = iter(self._get(inputs)(*inputs))
        return tuple(self._result(node, results) for node in self.returned)

    def _get(self, inputs: tuple[Any, ...]) -> Callable[..., list[Any]]:
        key = tuple(self._size(x) for x in inputs)
        if key not in self.kept:
            self.kept[key] = self.make(inputs)
            if len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(key)
        return self.kept[key]

    def _size(self, value: Any) -> Any:
        """All that a program depends on: shape and type of a tensor, a number itself."""
        if isinstance(value, self.torch.Tensor):
            return tuple(value.shape), value.dtype
        return value

    def _is_fixed(self, value: Any) -> bool:
        """Whether nothing of an example is a symbol that stands for several sizes."""
        if isinstance(value, self.torch.Tensor):
            return all(type(size) is int for size in value.shape)
        return isinstance(value, int | float)

    def _result(self, node: Any, results: Iterator[Any]) -> Any:
        """What the graph returns for an output: a tensor, a size as a number, or nothing."""
        if node is None:
            return None
        result = next(results)
        known = getattr(node, "meta", {})
        example = known.get("example_value", known.get("val", node))
        return result if isinstance(example, self.torch.Tensor) else result.item()


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
