"""The backend of `torch.compile`: graphs of torch on the reference executor or on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.frontend.torch import from_numpy, import_module, load_torch, to_numpy


def compile_backend(
    graph_module: Any,
    examples: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """`torch.compile(model, backend="tilewright")`: the graph on the reference executor.

    Placeholders that are parameters stay inputs, so that later changes to them are seen. With
    options={"device": True} graphs run on the simulated device, see `torch_device`. A graph with
    sizes that change is compiled for every size it is called with.
    """
    from tilewright.integrations.torch_device import PerSizes, device_backend, device_options
    from tilewright.reference.executor import Executor

    torch = load_torch()
    wanted = device_options(options, mode)
    if wanted is not None:
        return device_backend(graph_module, examples, wanted)

    def make(inputs: tuple[Any, ...]) -> Any:
        imported = import_module(graph_module, inputs, source="torch.compile")
        executor = Executor(imported.module, imported.weights)

        def run(*given: Any) -> list[Any]:
            tensors = [to_numpy(x) for x in given if isinstance(x, torch.Tensor)]
            return [from_numpy(result) for result in executor.run(tensors)]

        return run

    return PerSizes(torch, graph_module, make, examples)
