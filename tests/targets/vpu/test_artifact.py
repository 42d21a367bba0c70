"""Compiled programs as files: exact round trips, damage found, other machines refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.artifact import (
    VpuProgram,
    enqueue_after,
    next_uses,
    program_binary,
    program_from_binary,
    program_json,
)
from tilewright.targets.vpu.lowering.lower import lower
from tilewright.targets.vpu.lowering.network import Network
from tilewright.targets.vpu.machine import preset
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.scheduling.schedule import portfolio
from tilewright.targets.vpu.values import run_values

pytestmark = pytest.mark.usefixtures("little_search")


@pytest.fixture(scope="module")
def program() -> VpuProgram:
    network = Network()
    a = network.input("a", (20, 32), "f16")
    weights = np.random.default_rng(1).standard_normal((48, 32)).astype(np.float16)
    w = network.constant("w", weights)
    y = network.value("y", (20, 48), "f16")
    network.outputs = [
        network.call("linear", y, {"x": a, "weight": w}, relu=True, clamp=(0.0, 6.0))
    ]
    chip = lower(network, replace(preset("tiny"), cmx_bytes=8192)).chip
    made = portfolio(chip.graph())
    constants = {name: entry.build().tobytes() for name, entry in chip.constants.items()}
    return VpuProgram(made.tasks, chip.operations(), constants)


def test_round_trip(program: VpuProgram) -> None:
    content = program_binary(program)
    again = program_from_binary(content)
    assert program_binary(again) == content
    assert program_json(again) == program_json(program)
    assert again.constants == program.constants
    results = [run_values(p.tasks, None, p.operations, kernels()).stored for p in (program, again)]
    assert results[0] == results[1]


def test_damage_is_found(program: VpuProgram) -> None:
    content = program_binary(program)
    for place in range(0, len(content), 61):
        damaged = bytearray(content)
        damaged[place] ^= 0x21
        with pytest.raises(TilewrightError, match="damaged"):
            program_from_binary(bytes(damaged))
    for length in (0, 7, 47, len(content) - 1):
        with pytest.raises(TilewrightError, match="damaged"):
            program_from_binary(content[:length])


def test_another_machine_is_refused(program: VpuProgram) -> None:
    content = program_binary(program)
    assert program_from_binary(content, program.tasks.machine).operations
    with pytest.raises(TilewrightError, match="not for vpu40"):
        program_from_binary(content, preset("vpu40"))


def test_chains_and_queueing(program: VpuProgram) -> None:
    tasks = program.tasks
    for barrier, following in enumerate(next_uses(tasks)):
        if following is not None:
            assert following > barrier
            assert tasks.barriers[following].physical == tasks.barriers[barrier].physical
    after = enqueue_after(tasks)
    for names in tasks.queues.values():
        ids = [number if (number := after[name]) is not None else -1 for name in names]
        assert ids == sorted(ids)
        for name in names:
            item = tasks.tasks[name]
            assert all((after[name] or 0) >= b for b in (*item.waits, *item.posts))
