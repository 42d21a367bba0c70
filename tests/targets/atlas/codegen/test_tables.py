"""Tables made on chip are the bytes they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tables import make_tables, table_of
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile


def raw_table(seed: int, rows: int) -> bytes:
    """Rows of one number, triangles, and a few odd ones."""
    random = np.random.default_rng(seed)
    codes = np.repeat(random.choice([0, 0xFF80, 0x3F80], (rows, 1)), 16, axis=1)
    codes = np.repeat(codes[:: int(random.integers(1, 9))], 9, axis=0)[:rows]
    codes = np.resize(codes, (rows, 16))
    triangle = np.where(np.arange(16)[None, :] > np.arange(rows)[:, None] % 16, 0xFF80, 0)
    codes = np.where(random.random((rows, 1)) < 0.3, triangle, codes)
    odd = random.random((rows, 16)) < 0.02
    codes = np.where(odd, random.integers(0, 1 << 16, (rows, 16)), codes)
    return codes.astype("<u2").tobytes()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([32, 64, 96]))
def test_a_program_makes_the_table(seed: int, rows: int) -> None:
    profile = load_profile("atlas-v1")
    raw = raw_table(seed, rows)
    routine = Routine(profile)
    code = routine.code()
    make_tables(code, {4096: table_of(raw)})
    routine.items.append(code)
    program = routine.compile()
    assert not [f for f in lint(program, profile).findings if f.severity == "error"]
    machine = make_machine(profile, Policy(initial="poison"))
    machine.load(program)
    assert machine.run().fault is None
    assert machine.read("vmem", 4096, len(raw)) == raw


@pytest.mark.parametrize("shape", [(32, 64), (70, 70), (200, 40), (5, 3)])
def test_masks_of_kernels(shape: tuple[int, int]) -> None:
    """Sums of columns of ragged tiles, which mask the rows beyond the edge."""

    @tw.kernel
    def columns(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        out[:, :] = tw.exp(x[:, :]) * 0.1 + tw.col_sum(tw.exp(x[:, :])) - tw.col_max(x[:, :])

    x = np.random.default_rng(0).normal(size=shape)
    compiled = columns.compile(x)
    assert compiled.run(x).tobytes() == columns.eager(x).tobytes()
    assert compiled.lint().clean
