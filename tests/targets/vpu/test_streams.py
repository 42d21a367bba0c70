"""Groups of rows side by side: the list is right, its values are, and stages really meet."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from vpu_decoder import Llama, llama
from vpu_networks import run_list

from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.dependences import analyse
from tilewright.targets.vpu.lowering.lower import LoweringOptions, lower
from tilewright.targets.vpu.machine import preset
from tilewright.targets.vpu.reference.executor import run_network
from tilewright.targets.vpu.scheduling.schedule import portfolio
from tilewright.targets.vpu.scheduling.streams import interleaved

SHAPE = Llama(layers=2, sequence=208, hidden=128, heads=4, groups=2, width=32, intermediate=352)


def test_a_decoder_in_two_streams() -> None:
    """Every bit is the reference's, at the modelled timing and at another."""
    network = llama(SHAPE)
    lowered = lower(network, preset("vpu40"), LoweringOptions(groups=2))
    graph = lowered.chip.graph()
    assert {0, 1} <= set(graph.streams)
    made = portfolio(graph, budget=0)
    assert verify(made.tasks, graph, strict=True) == []
    x = np.random.default_rng(3).standard_normal((SHAPE.sequence, SHAPE.hidden))
    inputs = {"x": x.astype(np.float16)}
    wanted = run_network(lowered.network, inputs)
    for seed in (0, 5):
        found = run_list(made, lowered, inputs, seed)
        for name in network.outputs:
            assert found[name].tobytes() == wanted[name].tobytes()


def test_the_second_stream_begins_before_the_first_ends() -> None:
    graph = lower(llama(SHAPE), preset("vpu40"), LoweringOptions(groups=2)).chip.graph()
    problem = analyse(graph)
    order = interleaved(problem)
    assert sorted(order) == list(range(len(graph.tasks)))
    place = {task: number for number, task in enumerate(order)}
    for task, before in enumerate(problem.predecessors):
        assert all(place[other] < place[task] for other in before)
    streams = [graph.streams[task] for task in order if graph.streams[task] >= 0]
    assert streams.index(1) < len(streams) - 1 - streams[::-1].index(0)
    changes = sum(a != b for a, b in pairwise(streams))
    assert changes > len(streams) // 10
