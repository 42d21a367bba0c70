"""Random programs: equal to what QEMU computed, to QEMU itself where it is installed, and between our modes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from oracle_programs import (
    MOST_PROGRAMS,
    differing,
    make_batch,
    run_here,
    run_there,
)

from tilewright.targets.coral.qemu import Qemu, qemu_missing

RECORDED = json.loads((Path(__file__).parent / "oracle_results.json").read_text())


@pytest.mark.parametrize("seed", list(RECORDED["digests"])[:6])
def test_recorded_results(seed):
    batch = make_batch(int(seed), RECORDED["programs"], RECORDED["length"])
    results, scratch = run_here(batch)
    assert hashlib.sha256(results + scratch).hexdigest() == RECORDED["digests"][seed]


def test_a_wrong_result_would_be_seen():
    batch = make_batch(9000, RECORDED["programs"], RECORDED["length"])
    results, scratch = run_here(batch)
    changed = bytes([results[5000] ^ 1])
    results = results[:5000] + changed + results[5001:]
    assert hashlib.sha256(results + scratch).hexdigest() != RECORDED["digests"]["9000"]


@pytest.mark.skipif(qemu_missing() is not None, reason=str(qemu_missing()))
def test_a_sample_on_the_oracle():
    with Qemu(zba=True) as qemu:
        for seed in (77, 78):
            batch = make_batch(seed, 150)
            here, there = run_here(batch), run_there(batch, qemu)
            assert differing(batch, here[0], there[0]) == []
            assert here[1] == there[1]


def test_the_cycle_model_changes_no_result():
    batch = make_batch(5, 60)
    assert run_here(batch) == run_here(batch, timing=True)


@pytest.mark.skipif(qemu_missing() is not None, reason=str(qemu_missing()))
def test_the_oracle_forgets_the_program_before():
    """Batch 5000172 reads a register that the batch before it left in the oracle."""
    first, second = (make_batch(seed, MOST_PROGRAMS) for seed in (5000171, 5000172))
    with Qemu(zba=True) as qemu:
        run_there(first, qemu)
        there = run_there(second, qemu)
    assert differing(second, run_here(second)[0], there[0]) == []
