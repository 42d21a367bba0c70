"""Random models in narrow floats: computed in bfloat16 or float16, or only given so.

A model in a narrow format has all inputs and weights in it. A mixed one computes in float32 from
inputs and weights of which some are narrow, as files with half the bytes do. Results are judged by
the same limits: no format is coarser than bf16, to which the machine rounds after every operation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from random_programs import RandomProgram, Spec

FORMATS = ("float32", "bfloat16", "float16", "mixed")
CHANCES = (0.55, 0.2, 0.1, 0.15)
NARROW = ("bfloat16", "float16")
LARGE = 150  # squares of what is larger may be no float16
FLOATS = ("normal", "near_one", "positive", "frequencies", "cos", "sin")  # kinds of specs


def drawn_format(seed: int) -> str:
    """The format that a seed's model is tried in, apart from what is drawn of the model."""
    return str(np.random.default_rng([seed, 78]).choice(FORMATS, p=CHANCES))


def fitting(name: str, source: str, program: RandomProgram) -> str:
    """The format, or a mix of them where a model means nothing in it.

    ONNX's own evaluator has few operators in bfloat16, and nothing else would confirm such a
    model; its angles would be float16; and float16 has no squares of large numbers.
    """
    if source == "onnx":
        waves = any(node.operation == "waves" for node in program.nodes)
        if name == "bfloat16" or (name == "float16" and waves):
            return "mixed"
    if name == "float16":
        values = [v for sample in (0, 1) for v in program.run(sample).values()]
        if any(v.dtype.kind == "f" and np.abs(v).max(initial=0.0) > LARGE for v in values):
            return "mixed"
    return name


def in_format(program: RandomProgram, name: str) -> RandomProgram:
    """The same model with numbers of another format."""
    random = np.random.default_rng([program.seed, 79])

    def spec(given: Spec) -> Spec:
        if given.kind not in FLOATS:
            return given
        mixed = str(random.choice((*NARROW, "float32")))
        return replace(given, format=mixed if name == "mixed" else name)

    return replace(
        program,
        inputs={key: spec(given) for key, given in program.inputs.items()},
        weights={key: spec(given) for key, given in program.weights.items()},
        format="float32" if name == "mixed" else name,
    )


def formats(program: RandomProgram) -> set[str]:
    """All formats that a model has anything in."""
    specs = [*program.inputs.values(), *program.weights.values()]
    return {program.format, *(spec.format for spec in specs)}


def as_given(array: np.ndarray, spec: Spec) -> np.ndarray:
    """The array of an input or a weight in its format."""
    if array.dtype.kind != "f" or spec.format == "float32":
        return array
    if spec.format == "float16":
        return array.astype(np.float16)
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16)
