"""Random models through ONNX, with fresh seeds; `benchmarks/random_models.py` runs many.

Those through torch and JAX are in tests/frontend/test_random_models.py.
"""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_checks import check, confirm
from random_drawing import draw_program
from random_formats import FORMATS, as_given, drawn_format, fitting, formats, in_format
from random_layers import OPERATIONS
from random_noise import limits_of
from random_programs import Node, RandomProgram, Spec, describe
from random_shrinking import shrink
from random_sources import reproducer

from fresh_seeds import fresh_seed, repeatable_seed

FRESH = 10
IN_FORMATS = 6


def test_fresh_models():
    """Seeds nobody has tried; a failure prints its own."""
    first = fresh_seed()
    for seed in range(first, first + FRESH):
        _checked(seed, "float32")


def test_models_in_narrow_formats():
    first = repeatable_seed()
    for seed in range(first, first + IN_FORMATS):
        _checked(seed, drawn_format(seed))


def _checked(seed: int, form: str) -> None:
    program = draw_program(seed)
    form = fitting(form, "onnx", program)
    program = in_format(program, form)
    print(f"seed {seed}: {len(program.nodes)} operations, {form}")
    confirm(program, "onnx", 1)
    target = "atlas-v1" if seed % 3 else "atlas-v0"
    outcome = check(program, "onnx", target)
    if target == "atlas-v0" and outcome.key == "TW1705":
        return  # it has 1 MiB of DRAM
    assert outcome.state == "ok", f"{target} {seed}: {outcome.detail}\n{describe(program)}"


def test_the_same_seed_is_the_same_model():
    assert describe(draw_program(5)) == describe(draw_program(5))
    first, second = (draw_program(5).run(0) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_every_operation_is_drawn():
    drawn = {node.operation for seed in range(400) for node in draw_program(seed).nodes}
    assert drawn == set(OPERATIONS)


@pytest.mark.parametrize("seed", [11, 12])
def test_limits_notice_small_mistakes(seed: int):
    """A row in another's place, a scale that is off by a half, a value that is missing."""
    program = draw_program(seed)
    for limit in limits_of(program, 0).values():
        if limit.exact.size < 4 or np.ptp(limit.exact) == 0:
            continue
        assert limit.holds(limit.exact)
        assert not limit.holds(limit.exact * 1.5)
        assert not limit.holds(np.roll(limit.exact, 1))
        missing = limit.exact.copy()
        missing.flat[int(np.abs(missing).argmax())] = 0.0
        assert not limit.holds(missing)


def test_failures_shrink_to_their_cause():
    """Whatever is wrong with a tanh is shown by a program that is little more than one."""
    seed = next(
        s for s in range(999) if _has(draw_program(s), "tanh") and len(draw_program(s).nodes) > 5
    )
    small = shrink(draw_program(seed), lambda program: _has(program, "tanh"))
    assert [node.operation for node in small.nodes] == ["tanh"]
    assert max(np.prod(spec.shape) for spec in small.inputs.values()) == 1


def _has(program: RandomProgram, operation: str) -> bool:
    return any(node.operation == operation for node in program.nodes)


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
def test_narrow_numbers_are_what_their_formats_hold(form: str):
    spec = Spec((40, 50), gain=30.0, format=form)
    array = spec.draw(8, "x0")
    wide = replace(spec, format="float32").draw(8, "x0")
    narrow = as_given(wide, spec)
    assert narrow.dtype.itemsize == 2 and np.array_equal(narrow.astype(np.float32), array)


@pytest.mark.parametrize("form", FORMATS)
def test_models_of_every_format(form: str):
    """What is compiled has the numbers of the format at its ports, and computes what it should."""
    program = in_format(draw_program(12), form)
    wanted = {"float32": {"float32"}, "mixed": {"float32", "bfloat16", "float16"}}
    assert formats(program) <= wanted.get(form, {form})
    if form != "bfloat16":  # the evaluator has few operators in it
        confirm(program, "onnx", 1)
    assert check(program, "onnx").state == "ok"


@pytest.mark.parametrize("form", ["float32", "bfloat16"])
def test_a_reproducer_runs_on_its_own(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    program = RandomProgram(
        3,
        {"x0": Spec((5, 7), format=form)},
        {"w0": Spec((4, 7), gain=0.3, format=form)},
        (Node("linear", ("x0", "w0"), "v0", {"rank": 2}), Node("relu", ("v0",), "v1")),
        ("v1",),
    )
    text = reproducer(program, "onnx", "atlas-v1", "an example", {"v1": (0.1, 0.2)})
    (tmp_path / "shown.py").write_text(text)
    runpy.run_path(str(tmp_path / "shown.py"))
    assert "v1 error 0.0" in capsys.readouterr().out


def test_wrong_values_are_found(monkeypatch: pytest.MonkeyPatch):
    """A compiler that leaves out an activation is caught, whatever verify says."""
    import random_checks

    program = RandomProgram(
        4,
        {"x0": Spec((6, 9))},
        {},
        (Node("relu", ("x0",), "v0"), Node("tanh", ("v0",), "v1")),
        ("v1",),
    )
    other = replace(program, nodes=(Node("absolute", ("x0",), "v0"), program.nodes[1]))
    honest = random_checks.compiled
    monkeypatch.setattr(
        random_checks, "compiled", lambda _, source, target: honest(other, source, target)
    )
    assert check(program, "onnx").state == "wrong"


def test_an_image_before_a_product_is_not_staged():
    """A tensor of more dimensions than the copy kernel takes was to be copied to VMEM."""
    assert check(draw_program(31000122), "onnx").state == "ok"
