"""Exported programs that need not be made functional: torch traces them anew for that, which takes
longer than exporting them.

    %a = aten.conv2d(%x, %w);  %b = aten.relu_(%a)        nobody else sees %a: relu(%a) is the same
    %a = aten.view(%x, [2, 3]);  %b = aten.relu_(%a)      %x changes as well: torch is asked
"""

from __future__ import annotations

import copy
from typing import Any

from tilewright.frontend.aten import IGNORED, is_mapped

ExportedProgram = Any

# Calls whose results are new memory, whatever they are given.
FRESH = frozenset(
    [
        "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "linear", "matmul",
        "addmm", "batch_norm", "group_norm", "layer_norm", "add", "sub", "mul", "div", "cat",
    ]
)  # fmt: skip
# Calls that write to their first argument what the call without the bar would give.
WRITES = frozenset(
    [
        "relu_", "relu6_", "hardtanh_", "hardswish_", "hardsigmoid_", "silu_", "leaky_relu_", "elu_",
        "sigmoid_", "tanh_", "add_", "sub_", "mul_", "div_", "clamp_",
    ]
)  # fmt: skip
HARMLESS = frozenset(["detach_"])  # changes what is said of a tensor, none of its numbers


def is_getitem(node: Any) -> bool:
    return getattr(node.target, "__name__", "") == "getitem" and not hasattr(node.target, "_schema")


def has_complex(torch: Any, node: Any) -> bool:
    """Whether complex numbers go into a call or come out of it."""
    found = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    leaves = torch.utils._pytree.tree_leaves(found)
    return any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in leaves)


def is_plain(torch: Any, program: ExportedProgram) -> bool:
    """Whether a program has nothing but calls with a mapping, none of which writes what others see,
    on tensors of fixed sizes, and results that are outputs."""
    results = torch.export.graph_signature.OutputKind.USER_OUTPUT
    if program.range_constraints or any(
        spec.kind != results for spec in program.graph_signature.output_specs
    ):
        return False
    fresh: set[Any] = set()  # nodes whose results nobody else has
    for node in program.graph.nodes:
        if node.op == "get_attr":  # a part of the program with a graph of its own
            return False
        if node.op != "call_function" or is_getitem(node):
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None or has_complex(torch, node):
            return False
        _, name, overload = str(node.target).split(".")
        if name in FRESH:
            fresh.add(node)
        if schema.is_mutable and name not in HARMLESS:
            written: Any = node.args[0] if node.args else None
            if name not in WRITES or written not in fresh or set(written.users) != {node}:
                return False
            fresh.add(node)
            name = name.removesuffix("_")
        if str(node.target) not in IGNORED and not is_mapped(f"aten.{name}.{overload}"):
            return False
    return True


def without_dropout(torch: Any, program: ExportedProgram) -> ExportedProgram:
    """The program with tensors in place of dropouts that do nothing, if any call writes in place.

    Such a dropout gives the tensor itself, and who writes to the one writes to the other; torch makes
    a program functional as if it were a copy.
    """
    calls = [node for node in program.graph.nodes if hasattr(node.target, "_schema")]
    if not any(node.target._schema.is_mutable for node in calls):
        return program
    if not any(_does_nothing(node) for node in calls):
        return program
    module = copy.deepcopy(program.graph_module)
    for node in list(module.graph.nodes):
        if _does_nothing(node):
            node.replace_all_uses_with(
                node.args[0], delete_user_cb=lambda user: user.op != "output"
            )
            if node.users:  # the result of the model, as it is at the end
                next(iter(node.users)).prepend(node)
            else:
                module.graph.erase_node(node)
    changed = copy.copy(program)
    changed._graph_module = module
    return changed


DROPOUTS = ("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")


def _does_nothing(node: Any) -> bool:
    """Whether a node is a dropout of a model that is not trained."""
    if str(node.target) not in DROPOUTS:
        return False
    train = node.args[2] if len(node.args) > 2 else node.kwargs.get("train")
    return train is False
