"""Random models through torch and JAX, with fresh seeds; see tests/graph/test_random_models.py."""

from __future__ import annotations

import pytest
from random_checks import check, confirm
from random_drawing import draw_program
from random_programs import describe

from fresh_seeds import fresh_seed

COUNTS = {"torch": 30, "jax": 20}


@pytest.mark.filterwarnings("default")  # frameworks warn of themselves
@pytest.mark.parametrize("source", COUNTS)
def test_fresh_models(source: str):
    pytest.importorskip(source)
    first = fresh_seed()
    for seed in range(first, first + COUNTS[source]):
        program = draw_program(seed)
        print(f"seed {seed}: {len(program.nodes)} operations")
        if source == "torch" or seed % 10 == 0:  # jax compiles every operation to run it
            confirm(program, source, 1)
        outcome = check(program, source)
        assert outcome.state == "ok", f"seed {seed}: {outcome.detail}\n{describe(program)}"
