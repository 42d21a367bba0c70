"""Random programs as source text: a torch module, an ONNX file, a JAX function.

The text is what a person would write, and what is run is the text: a reproducer holds the same.
Every text defines `build(weights)`; `compiled` hands the result to `tw.compile`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import random_formats
import random_programs
from random_formats import FLOATS, as_given
from random_layers import OPERATIONS
from random_operations import Array
from random_programs import Node, RandomProgram, Spec

import tilewright as tw

SOURCES = ("torch", "onnx", "jax")
MADE = ("add_steps", "as_numbers", "waves")  # from integers or constants, in float32

TORCH = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
JAX = "import jax\nfrom jax import numpy as jnp\n"
ONNX = """import ml_dtypes
import numpy as np
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
    return constant(np.array(values, NUMBERS))


def factors(values):
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
    for name, spec in program.inputs.items():
        if _cast(program, spec):
            body.append(f"{name} = {name}.to(torch.{program.format})")
    for name, spec in program.weights.items():
        setup.append(f"{name} = {_torch_weight(name, spec)}")
    used: set[str] = set()
    for node in program.nodes:
        made = _torch_module(program, node)
        if made is None:
            operands = [_torch_operand(program, name) for name in node.operands]
            used.update(x for x in node.operands if x in program.weights)
            expression = OPERATIONS[node.operation].torch(operands, node.options)
        else:
            lines, expression = made
            setup += lines
        if node.operation in MADE and program.format != "float32":
            expression = f"({expression}).to(torch.{program.format})"
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


def _cast(program: RandomProgram, spec: Spec) -> bool:
    """Whether the model casts an input or a weight before it computes with it."""
    return spec.kind in FLOATS and spec.format != program.format


def _torch_operand(program: RandomProgram, name: str) -> str:
    if name not in program.weights:
        return name
    cast = _cast(program, program.weights[name])
    return f"self.{name}.to(torch.{program.format})" if cast else f"self.{name}"


def _torch_weight(name: str, spec: Spec) -> str:
    tensor = f'torch.as_tensor(weights["{name}"])'
    if spec.kind in FLOATS and spec.format != "float32":
        tensor += f".to(torch.{spec.format})"
    if spec.kind in ("mask", "causal"):
        return tensor
    return f"nn.Parameter({tensor})"


def _torch_module(program: RandomProgram, node: Node) -> tuple[list[str], str] | None:
    """A layer as a module of torch.nn, where the program is written with modules."""
    own = all(
        name in program.weights and not _cast(program, program.weights[name])
        for name in node.operands[1:]
    )
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
        spec = {**program.weights, **program.inputs}.get(name)
        cast = f".astype(jnp.{program.format})" if spec and _cast(program, spec) else ""
        return f'w["{name}"]{cast}' if name in program.weights else f"{name}{cast}"

    body = []
    for node in program.nodes:
        operands = [operand(name) for name in node.operands]
        expression = OPERATIONS[node.operation].jax(operands, node.options)
        if node.operation in MADE and program.format != "float32":
            expression = f"({expression}).astype(jnp.{program.format})"
        body.append(f"{node.result} = {expression}")
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
ONNX_FLOATS = {"float32": "FLOAT", "bfloat16": "BFLOAT16", "float16": "FLOAT16"}
NUMPY_FLOATS = {"float32": "np.float32", "bfloat16": "ml_dtypes.bfloat16", "float16": "np.float16"}


def _onnx(program: RandomProgram) -> str:
    values = program.run(0)
    number = f"TensorProto.{ONNX_FLOATS[program.format]}"
    lines = [ONNX, "", f"NUMBERS = {NUMPY_FLOATS[program.format]}", "", ""]
    lines += ["def build(weights):", "    nodes.clear()", "    constants.clear()"]
    specs = {**program.weights, **program.inputs}
    cast = [name for name, spec in specs.items() if _cast(program, spec)]
    for name in cast:
        lines.append(f'    node("Cast", ["{name}"], "{name}_cast", to={number})')
    for node in program.nodes:
        operands = [f'"{name}_cast"' if name in cast else f'"{name}"' for name in node.operands]
        text = OPERATIONS[node.operation].onnx(operands, node.options, node.result)
        lines.append(f"    {text.replace('to=1)', f'to={number})')}")
    made = {node.result for node in program.nodes}
    outputs = []
    for name in program.outputs:  # the outputs of a graph are results of nodes
        outputs.append(name if name in made else f"{name}_out")
        if name not in made:
            lines.append(f'    node("Identity", ["{name}"], "{name}_out")')

    def value(name: str, array: Array, form: str) -> str:
        kind = f"TensorProto.{ONNX_TYPES[array.dtype.kind]}"
        if array.dtype.kind == "f":
            kind = f"TensorProto.{ONNX_FLOATS[form]}"
        return f'        helper.make_tensor_value_info("{name}", {kind}, {list(array.shape)}),'

    given = [value(name, values[name], spec.format) for name, spec in program.inputs.items()]
    lines += ["    inputs = [", *given, "    ]", "    outputs = ["]
    for out, name in zip(outputs, program.outputs, strict=True):
        form = program.inputs[name].format if name in program.inputs else program.format
        lines.append(value(out, values[name], form))
    lines.append("    ]")
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
    return scope["build"](given_weights(program, source))


def given_weights(program: RandomProgram, source: str) -> dict[str, Array]:
    """Weights in their formats; torch, which numpy has no bfloat16 for, casts them itself."""
    arrays = program.parameters()
    if source == "torch":
        return arrays
    return {name: as_given(array, program.weights[name]) for name, array in arrays.items()}


def given_inputs(program: RandomProgram, source: str, sample: int) -> Any:
    """Inputs in the form in which the framework's users give them."""
    arrays = program.arrays(sample)
    if source == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        tensors = [torch.tensor(array) for array in arrays.values()]
        given = zip(tensors, program.inputs.values(), strict=True)
        return tuple(
            t.to(getattr(torch, s.format)) if t.is_floating_point() else t for t, s in given
        )
    given = {name: as_given(array, program.inputs[name]) for name, array in arrays.items()}
    return tuple(narrow(array) for array in given.values()) if source == "jax" else given


def narrow(array: Array) -> Array:
    """JAX has integers of 32 bits."""
    return array.astype("int32") if array.dtype.kind == "i" else array


def compiled(program: RandomProgram, source: str, target: str) -> tw.Program:
    """The program of a model, calibrated on two samples."""
    model = built(program, source)
    samples = [given_inputs(program, source, sample) for sample in (0, 1)]
    if source == "onnx":
        return tw.compile(model, target=target, calibrate=samples)
    named = source == "jax" and program.style == "functions"
    weights = given_weights(program, source) if named else None
    return tw.compile(model, samples[0], target=target, calibrate=samples, weights=weights or None)


def framework_run(program: RandomProgram, source: str, sample: int) -> list[Array]:
    """What the framework itself computes."""
    model, inputs = built(program, source), given_inputs(program, source, sample)
    if source == "torch":
        import torch  # pyright: ignore[reportMissingImports]

        # Its library for products takes some processors to have units that they only announce.
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
            found = model(*inputs)
        return [as_array(t) for t in (found if isinstance(found, tuple) else (found,))]
    if source == "onnx":
        from onnx.reference import ReferenceEvaluator

        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, inputs)]
    named = program.style == "functions"
    arguments = (given_weights(program, source), *inputs) if named else inputs
    found = model(*(arguments if program.weights else inputs))
    return [*found] if isinstance(found, tuple) else [found]


def as_array(result: Any) -> Array:
    """A result as numpy has it, which knows no bfloat16 of torch."""
    if hasattr(result, "is_floating_point") and result.is_floating_point():
        result = result.float()
    return np.asarray(result)


# --- reproducers --------------------------------------------------------------------------

MAIN = """

def main():
    weights = {name: given(spec.draw(SEED, name), spec) for name, spec in WEIGHTS.items()}
    model = build(weights)
    samples = [{n: given(s.draw(SEED, n, k), s) for n, s in INPUTS.items()} for k in (0, 1)]
"""
GIVEN = "\n\ngiven = as_given\n"
TORCH_GIVEN = """

def given(array, spec):
    tensor = torch.tensor(array)
    return tensor.to(getattr(torch, spec.format)) if tensor.is_floating_point() else tensor
"""
RUNS: Mapping[str, str] = {
    "torch": """    rows = [tuple(sample.values()) for sample in samples]
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
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
        want, got = (x.double() if hasattr(x, "double") else x for x in (want, got))
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
    head += f"\n\n{inspect.getsource(random_formats.as_given)}"
    head += TORCH_GIVEN if source == "torch" else GIVEN
    for name, table in (("INPUTS", program.inputs), ("WEIGHTS", program.weights)):
        rows = "".join(f"    {key!r}: {spec!r},\n" for key, spec in table.items())
        head += f"\n{name} = {{\n{rows}}}\n"
    return head + "\n" + source_text(program, source) + MAIN + RUNS[source] + TAIL
