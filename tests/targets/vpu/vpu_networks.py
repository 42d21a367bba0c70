"""Networks through the whole way: lowered, scheduled, verified, run, compared bit by bit."""

from __future__ import annotations

import numpy as np

from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.lower import Lowered, LoweringOptions, lower
from tilewright.targets.vpu.lowering.network import Network
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.reference.executor import run_network
from tilewright.targets.vpu.scheduling.schedule import Schedule, portfolio
from tilewright.targets.vpu.simulator import Options, jittered
from tilewright.targets.vpu.values import run_values


def random_value(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "i8":
        return rng.integers(-128, 128, shape, dtype=np.int8)
    values = rng.standard_normal(shape) * np.exp(rng.uniform(-2, 2, shape))
    return values.astype(DTYPES[dtype])


def run_list(
    made: Schedule, lowered: Lowered, inputs: dict[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The outputs of a task list under some timing."""
    ddr = np.zeros(max(place + size for place, size in made.tasks.ddr.values()), np.uint8)
    held = {name: constant.build() for name, constant in lowered.chip.constants.items()}
    for name, array in (held | inputs).items():
        place, size = made.tasks.ddr[name]
        ddr[place : place + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    timing = Options(durations=jittered(made.tasks, seed)) if seed else Options()
    outcome = run_values(made.tasks, timing, lowered.chip.operations(), kernels(), ddr, seed)
    assert not outcome.torn and not outcome.run.stuck
    found = {}
    for name in lowered.network.outputs:
        value, home = lowered.network.values[name], lowered.chip.homes[name]
        place, size = made.tasks.ddr[home.tensor]
        whole = outcome.ddr[place : place + size].view(DTYPES[value.dtype])[home.offset :]
        rows = np.lib.stride_tricks.as_strided(
            whole, (value.rows, value.width), (home.pitch * value.size, value.size)
        )
        found[name] = rows.reshape(value.shape)
    return found


def check(
    network: Network,
    machine: Machine,
    seed: int = 0,
    options: LoweringOptions | None = None,
    inputs: dict[str, np.ndarray] | None = None,
) -> Schedule:
    """The list computes what the reference does, is verified, and does not depend on timing."""
    rng = np.random.default_rng(seed)
    if inputs is None:
        inputs = {
            name: random_value(rng, network.values[name].shape, network.values[name].dtype)
            for name in network.inputs
        }
    lowered = lower(network, machine, options)
    graph = lowered.chip.graph()
    made = portfolio(graph)
    assert verify(made.tasks, graph, strict=True) == []
    wanted = run_network(lowered.network, inputs)
    for timing in (0, 1 + seed):
        found = run_list(made, lowered, inputs, timing)
        for name, array in found.items():
            want = wanted[name]
            same = np.ascontiguousarray(array).tobytes() == want.tobytes()
            assert same, f"{name}: {np.sum(array != want)} of {want.size} differ"
    return made
