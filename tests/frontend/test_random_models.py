"""Random models through torch and JAX, with fresh seeds; see tests/graph/test_random_models.py."""

from __future__ import annotations

import pytest
from random_checks import check, confirm
from random_drawing import draw_program
from random_formats import drawn_format, fitting, in_format
from random_programs import describe

from fresh_seeds import fresh_seed, repeatable_seed

COUNTS = {"torch": 30, "jax": 20}
IN_FORMATS = 8


@pytest.mark.filterwarnings("default")  # frameworks warn of themselves
@pytest.mark.parametrize("source", COUNTS)
def test_fresh_models(source: str):
    pytest.importorskip(source)
    first = fresh_seed()
    for seed in range(first, first + COUNTS[source]):
        _checked(seed, source, "float32")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("source", COUNTS)
def test_models_in_narrow_formats(source: str):
    pytest.importorskip(source)
    first = repeatable_seed()
    for seed in range(first, first + IN_FORMATS):
        _checked(seed, source, drawn_format(seed))


def _checked(seed: int, source: str, form: str) -> None:
    program = draw_program(seed)
    form = fitting(form, source, program)
    program = in_format(program, form)
    print(f"seed {seed}: {len(program.nodes)} operations, {form}")
    if source == "torch" or seed % 10 == 0:  # jax compiles every operation to run it
        confirm(program, source, 1)
    target = "atlas-v1" if seed % 3 else "atlas-v0"
    outcome = check(program, source, target)
    if target == "atlas-v0" and outcome.key == "TW1705":
        return  # it has 1 MiB of DRAM
    assert outcome.state == "ok", f"{target} {seed}: {outcome.detail}\n{describe(program)}"
