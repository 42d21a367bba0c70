"""Random programs as source text: a torch module, an ONNX file, a JAX function.

The text is what a person would write, and what is run is the text: a reproducer holds the same.
Every text defines `build(weights)`; `compiled` hands the result to `tw.compile`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import random_programs
from random_layers import OPERATIONS
from random_operations import Array
from random_programs import Node, RandomProgram, Spec

import tilewright as tw

SOURCES = ("torch", "onnx", "jax")

TORCH = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
JAX = "import jax\nfrom jax import numpy as jnp\n"
ONNX = """import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes, constants = [], []


def node(kind, operands, result, **attributes):
    nodes.append(helper.make_node(kind, operands, [result], **attributes))
    return result


def constant(array):
    name = f"constant{len(constants)}"
    constants.append(numpy_helper.from_array(array, name))
    return name


def ints(values):
    return constant(np.array(values, np.int64))


def floats(values):
    return constant(np.array(values, np.float32))


scalar = floats


def causal(rows, columns):
    return constant(np.tri(rows, columns, dtype=bool))
"""


def source_text(program: RandomProgram, source: str) -> str:
    """The program as a script that defines `build(weights)`."""
    return {"torch": _torch, "onnx": _onnx, "jax": _jax}[source](program)


# --- torch ------------------------------------------------------------------------------


def _torch(program: RandomProgram) -> str:
    setup, body = [], []
    for name, spec in program.weights.items():
        setup.append(f"{name} = {_torch_weight(name, spec)}")
    used: set[str] = set()
    for node in program.nodes:
        made = _torch_module(program, node)
        if made is None:
            operands = [f"self.{x}" if x in program.weights else x for x in node.operands]
            used.update(x for x in node.operands if x in program.weights)
            expression = OPERATIONS[node.operation].torch(operands, node.options)
        else:
            lines, expression = made
            setup += lines
        body.append(f"{node.result} = {expression}")
    kept = [f"self.{name} = {name}" for name in program.weights if name in used]
    for number, line in enumerate(kept):
        name = line.split(" = ")[1]
        if program.weights[name].kind in ("mask", "causal"):
            kept[number] = f'self.register_buffer("{name}", {name})'
    lines = [TORCH, "", "class Model(nn.Module):", "    def __init__(self, weights):"]
    lines += [f"        {line}" for line in ["super().__init__()", *setup, *kept]]
    lines += ["", f"    def forward(self, {', '.join(program.inputs)}):"]
    lines += [f"        {line}" for line in body]
    lines += [f"        return {', '.join(program.outputs)}", "", ""]
    lines += ["def build(weights):", "    return Model(weights).eval()"]
    return "\n".join(lines) + "\n"


def _torch_weight(name: str, spec: Spec) -> str:
    tensor = f'torch.tensor(weights["{name}"])'
    if spec.kind in ("mask", "causal"):
        return tensor
    return f"nn.Parameter({tensor})"


def _torch_module(program: RandomProgram, node: Node) -> tuple[list[str], str] | None:
    """A layer as a module of torch.nn, where the program is written with modules."""
    own = all(name in program.weights for name in node.operands[1:])
    if program.style == "functions" or not own:
        return None
    number = node.result[1:]
    shapes = [program.weights[name].shape for name in node.operands[1:]]
    biased = len(shapes) == 2
    if node.operation == "linear":
        made = f"nn.Linear({shapes[0][1]}, {shapes[0][0]}, bias={biased})"
    elif node.operation == "layer_norm":
        made = f"nn.LayerNorm({shapes[0][0]})"
    elif node.operation == "conv":
        o = node.options
        made = (
            f"nn.Conv2d({shapes[0][1] * o['groups']}, {shapes[0][0]}, {shapes[0][2]}, {o['stride']}, "
            f"{o['padding']}, groups={o['groups']}, bias={biased})"
        )
    else:
        return None
    if program.style == "digits":
        lines, place = [f'self.add_module("{number}", {made})'], f'getattr(self, "{number}")'
    else:
        lines, place = [f"self.layer{number} = {made}"], f"self.layer{number}"
    for part, name in zip(("weight", "bias"), node.operands[1:], strict=False):
        lines.append(f"{place}.{part} = {name}")
    return lines, f"{place}({node.operands[0]})"


# --- jax --------------------------------------------------------------------------------


def _jax(program: RandomProgram) -> str:
    def operand(name: str) -> str:
        return f'w["{name}"]' if name in program.weights else name

    body = [
        f"{node.result} = {OPERATIONS[node.operation].jax([operand(x) for x in node.operands], node.options)}"
        for node in program.nodes
    ]
    lines = [JAX, "", f"def model(w, {', '.join(program.inputs)}):"]
    lines += [f"    {line}" for line in body]
    lines += [f"    return {', '.join(program.outputs)}", "", "", "def build(weights):"]
    if program.style == "functions" and program.weights:
        lines.append("    return model")
    else:  # weights are constants of the function
        arguments = ", ".join(program.inputs)
        lines += ["    w = {name: jnp.asarray(array) for name, array in weights.items()}"]
        lines += [f"    return lambda {arguments}: model(w, {arguments})"]
    return "\n".join(lines) + "\n"


# --- onnx -------------------------------------------------------------------------------

ONNX_TYPES = {"f": "FLOAT", "i": "INT64", "b": "BOOL"}


def _onnx(program: RandomProgram) -> str:
    values = program.run(0)
    lines = [ONNX, "", "def build(weights):", "    nodes.clear()", "    constants.clear()"]
    for node in program.nodes:
        operands = [f'"{name}"' for name in node.operands]
        text = OPERATIONS[node.operation].onnx(operands, node.options, node.result)
        lines.append(f"    {text}")
    made = {node.result for node in program.nodes}
    outputs = []
    for name in program.outputs:  # the outputs of a graph are results of nodes
        outputs.append(name if name in made else f"{name}_out")
        if name not in made:
            lines.append(f'    node("Identity", ["{name}"], "{name}_out")')

    def value(name: str, array: Array) -> str:
        kind = f"TensorProto.{ONNX_TYPES[array.dtype.kind]}"
        return f'        helper.make_tensor_value_info("{name}", {kind}, {list(array.shape)}),'

    lines += ["    inputs = [", *(value(name, values[name]) for name in program.inputs), "    ]"]
    pairs = zip(outputs, program.outputs, strict=True)
    lines += ["    outputs = [", *(value(out, values[name]) for out, name in pairs), "    ]"]
    lines += [
        "    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]",
        '    graph = helper.make_graph(nodes, "random", inputs, outputs, stored + constants)',
        '    opsets = [helper.make_opsetid("", 21)]',
        "    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)",
        "    onnx.checker.check_model(model)",
        "    return model",
    ]
    return "\n".join(lines) + "\n"


# --- running the text -------------------------------------------------------------------


def built(program: RandomProgram, source: str) -> Any:
    """The model of a framework."""
    scope: dict[str, Any] = {"__name__": "random_model"}
    exec(compile(source_text(program, source), f"<{source} model {program.seed}>", "exec"), scope)
    return scope["build"](program.parameters())


def given_inputs(program: RandomProgram, source: str, sample: int) -> Any:
    """Inputs in the form in which the framework's users give them."""
    arrays = program.arrays(sample)
    if source == "jax":
        return tuple(narrow(array) for array in arrays.values())
    if source == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        return tuple(torch.tensor(array) for array in arrays.values())
    return arrays


def narrow(array: Array) -> Array:
    """JAX has integers of 32 bits."""
    return array.astype("int32") if array.dtype.kind == "i" else array


def compiled(program: RandomProgram, source: str, target: str) -> tw.Program:
    """The program of a model, calibrated on two samples."""
    model = built(program, source)
    samples = [given_inputs(program, source, sample) for sample in (0, 1)]
    if source == "onnx":
        return tw.compile(model, target=target, calibrate=samples)
    weights = program.parameters() if source == "jax" and program.style == "functions" else None
    return tw.compile(model, samples[0], target=target, calibrate=samples, weights=weights or None)


def framework_run(program: RandomProgram, source: str, sample: int) -> list[Array]:
    """What the framework itself computes."""
    model, inputs = built(program, source), given_inputs(program, source, sample)
    if source == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        with torch.no_grad():
            found = model(*inputs)
        return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]
    if source == "onnx":
        from onnx.reference import ReferenceEvaluator

        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, inputs)]
    arguments = (program.parameters(), *inputs) if program.style == "functions" else inputs
    found = model(*(arguments if program.weights else inputs))
    return [*found] if isinstance(found, tuple) else [found]


# --- reproducers --------------------------------------------------------------------------

MAIN = """

def main():
    weights = {name: spec.draw(SEED, name) for name, spec in WEIGHTS.items()}
    model = build(weights)
    samples = [{n: s.draw(SEED, n, k) for n, s in INPUTS.items()} for k in (0, 1)]
"""
RUNS: Mapping[str, str] = {
    "torch": """    rows = [tuple(torch.tensor(a) for a in sample.values()) for sample in samples]
    with torch.no_grad():
        program = tw.compile(model, rows[0], target=TARGET, calibrate=rows)
        expected = model(*rows[1])
    results = program(*rows[1])
""",
    "onnx": """    from onnx.reference import ReferenceEvaluator

    program = tw.compile(model, target=TARGET, calibrate=samples)
    expected = tuple(ReferenceEvaluator(model).run(None, samples[1]))
    results = program(*samples[1].values())
""",
    "jax": """    rows = [
        tuple(a.astype(np.int32) if a.dtype.kind == "i" else a for a in sample.values())
        for sample in samples
    ]
    first = (weights,) if build(weights) is globals()["model"] else ()
    program = tw.compile(
        model, rows[0], target=TARGET, calibrate=rows, weights=weights if first else None
    )
    expected = model(*first, *rows[1])
    results = program(*rows[1])
""",
}
TAIL = """    expected = expected if isinstance(expected, tuple) else (expected,)
    results = results if isinstance(results, tuple) else (results,)
    for name, want, got in zip(OUTPUTS, expected, results, strict=True):
        want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
        error = np.sqrt(np.mean((want - got) ** 2))
        print(name, "error", error, "size", np.sqrt(np.mean(want**2)), "limits", LIMITS[name])
    print(program.verify())


main()
"""


def reproducer(
    program: RandomProgram, source: str, target: str, finding: str, limits: Mapping[str, Any]
) -> str:
    """A script of its own that shows a finding."""
    seen = "\n".join(finding.splitlines()[:40]).replace('"""', "'''")
    head = f'"""{seen}"""\n\nimport zlib\nfrom dataclasses import dataclass\n\nimport numpy as np\n'
    head += f"import tilewright as tw\n\nSEED, TARGET = {program.seed}, {target!r}\n"
    head += f"OUTPUTS, LIMITS = {list(program.outputs)}, {dict(limits)}\nArray = np.ndarray\n\n\n"
    head += inspect.getsource(random_programs.Spec)
    for name, table in (("INPUTS", program.inputs), ("WEIGHTS", program.weights)):
        rows = "".join(f"    {key!r}: {spec!r},\n" for key, spec in table.items())
        head += f"\n{name} = {{\n{rows}}}\n"
    return head + "\n" + source_text(program, source) + MAIN + RUNS[source] + TAIL
