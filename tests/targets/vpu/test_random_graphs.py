"""Random graphs: every list is right, under every timing, and never slower than one task at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vpu_graphs import random_graph, streaming_layers

from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.graph_file import graph_from, graph_json
from tilewright.targets.vpu.list_file import (
    list_binary,
    list_from,
    list_from_binary,
    list_json,
    list_text,
)
from tilewright.targets.vpu.scheduling.schedule import portfolio, serial_schedule
from tilewright.targets.vpu.simulator import Options, jittered, simulate
from tilewright.targets.vpu.values import run_values

pytestmark = pytest.mark.usefixtures("little_search")


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 10**9), st.sampled_from([5, 8, 15, 40, 90]))
def test_every_list_is_right(seed: int, tasks: int) -> None:
    graph = random_graph(seed, tasks)
    made, again = portfolio(graph), portfolio(graph)
    assert verify(made.tasks, graph, strict=True) == []
    assert verify(made.tasks, strict=True) == []
    serial = serial_schedule(graph)
    assert verify(serial.tasks, graph, strict=True) == []
    assert made.makespan <= serial.makespan
    if not graph.machine.issue_latency and not graph.machine.barrier_latency:
        assert made.makespan <= sum(step.end - step.start for step in serial.draft.steps)
    assert made.makespan >= made.bounds.best
    good = run_values(made.tasks).stored
    assert run_values(serial.tasks).stored == good
    for timing in (1, 2, 3):
        options = Options(durations=jittered(made.tasks, timing), shuffle_ties=timing)
        outcome = run_values(made.tasks, options, seed=timing)
        assert outcome.stored == good and not outcome.torn
    text = list_text(made.tasks)
    assert list_text(again.tasks) == text  # deterministic
    assert list_text(list_from(json.loads(text))) == text  # idempotent
    assert list_binary(list_from_binary(list_binary(made.tasks))) == list_binary(made.tasks)
    assert list_json(list_from_binary(list_binary(made.tasks))) == json.loads(text)
    parsed = graph_from(json.loads(json.dumps(graph_json(graph))))
    assert graph_json(parsed) == graph_json(graph)


def test_never_worse_than_one_task_after_the_other() -> None:
    """All orders that were tried lost four cycles to it here."""
    graph = random_graph(113990135, 5)
    assert portfolio(graph).makespan <= serial_schedule(graph).makespan


def test_shared_bandwidth_only_delays() -> None:
    for seed in range(4):
        graph = random_graph(seed, 30, ports=2, barriers=64)
        tasks = portfolio(graph).tasks
        alone, shared = simulate(tasks), simulate(tasks, Options(shared_dram=True))
        assert not shared.stuck
        assert shared.makespan >= alone.makespan


def test_layers_on_six_tiles_come_close_to_the_bound() -> None:
    graph = streaming_layers(300)
    made = portfolio(graph)
    assert made.bounds.strong / made.makespan >= 0.9
    assert not [step for step in made.draft.steps if step.kind != "task"]
    assert verify(made.tasks, graph, strict=True) == []


def test_results_depend_on_every_edge() -> None:
    """The value machine would notice: without any barrier some timing gives other bytes."""
    graph = random_graph(5, 25, capacity=1.2)
    tasks = portfolio(graph).tasks
    good = run_values(tasks).stored
    bare = replace(
        tasks,
        tasks={n: replace(t, waits=(), posts=()) for n, t in tasks.tasks.items()},
        barriers=[],
    )
    outcomes = [run_values(bare, Options(durations=jittered(bare, n)), seed=n) for n in range(5)]
    assert any(o.stored != good or o.torn for o in outcomes)
