"""What a PyTorch module returns, as nested tables of tensors.

torch.export takes apart lists, tables and the classes that were registered with it. Models return
other objects too: the caches of language models, for one. Their tensors are outputs like any other.

before: Output(logits=t0, past_key_values=Cache(layers=[Layer(keys=t1, values=t2)]))
after:  Output(logits=t0, past_key_values={"layers": {"0": {"keys": t1, "values": t2}}})

What it leaves behind in its own parameters is an output too, which nobody returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def plain(torch: Any, output: Any) -> Any:
    """The output with every object that torch cannot take apart as a table of its tensors."""
    tree = torch.utils._pytree

    def leaf(value: Any) -> Any:
        known = value is None or isinstance(value, (torch.Tensor, str, bool, int, float, complex))
        return value if known else table(torch, value, set())

    return tree.tree_map(leaf, output)


def table(torch: Any, value: Any, seen: set[int]) -> Any:
    """The tensors of an object under the names of its attributes; None if it has none."""
    if isinstance(value, torch.Tensor):
        return value
    if id(value) in seen or isinstance(value, (type, str, bytes, torch.nn.Module)):
        return None
    seen.add(id(value))
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        parts = getattr(value, "__dict__", {}).items()
    found = {str(name): table(torch, part, seen) for name, part in parts}
    found = {name: part for name, part in found.items() if part is not None}
    return found or None


@contextmanager
def plain_outputs(torch: Any, module: Any) -> Iterator[None]:
    """While this holds, the module returns what torch.export can take apart."""
    hook = module.register_forward_hook(lambda _, __, output: plain(torch, output))
    try:
        yield
    finally:
        hook.remove()


def writes_parameters(program: Any) -> bool:
    """Whether a program changes parameters of its module."""
    parameters = program.graph_signature.inputs_to_parameters
    for node in program.graph.nodes:
        if not getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            continue
        while getattr(node, "op", "") == "call_function" and node.args:  # what it is a view of
            node = node.args[0]
        if getattr(node, "name", None) in parameters:
            specs = program.run_decompositions({}).graph_signature.output_specs
            return any(spec.kind.name == "PARAMETER_MUTATION" for spec in specs)
    return False
