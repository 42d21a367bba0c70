"""The verifier: what each property catches, and that it is a second opinion."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from vpu_graphs import dpu, load, machine, random_graph, shave, spilling, store

import tilewright.targets.vpu.checker as checker
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.list_file import list_from
from tilewright.targets.vpu.scheduling.schedule import portfolio, schedule
from tilewright.targets.vpu.simulator import Options, jittered, simulate
from tilewright.targets.vpu.task_list import Barrier, Range, TaskList
from tilewright.targets.vpu.tile_graph import Buffer, TileGraph
from tilewright.targets.vpu.values import run_values

GRAPH = spilling()
GOOD = portfolio(GRAPH).tasks


def changed(name: str, **values: object) -> TaskList:
    return replace(GOOD, tasks={**GOOD.tasks, name: replace(GOOD.tasks[name], **values)})


def moved(name: str, side: str, place: int, step: int) -> TaskList:
    ranges = list(getattr(GOOD.tasks[name], side))
    ranges[place] = replace(ranges[place], address=ranges[place].address + step)
    return changed(name, **{side: tuple(ranges)})


def entry(task: str) -> str:
    return next(n for n, t in GOOD.tasks.items() if task in (t.task, f"reload {t.buffer}"))


DAMAGES: dict[str, tuple[str, Callable[[], TaskList]]] = {
    "outside memory": ("V1", lambda: moved(entry("S b3"), "reads", 0, 64 * 16000)),
    "not aligned": ("V1", lambda: moved(entry("MP"), "writes", 0, 16)),
    "reads the wrong buffer": ("V4", lambda: moved(entry("ADD2"), "reads", 0, 589824)),
    "overwrites live data": ("V4", lambda: moved(entry("MP"), "writes", 0, -589824)),
    "reloads from the wrong place": ("V4", lambda: moved(entry("reload in"), "reads", 0, 64)),
    "count of producers": ("V5", lambda: with_barrier(0, producers=2)),
    "count of consumers": ("V5", lambda: with_barrier(1, consumers=0)),
    "id outside the pool": ("V5", lambda: with_barrier(2, physical=64)),
    "swapped neighbours": ("V6", lambda: with_queue("dpu0", [1, 0, 2])),
    "a task in no queue": ("V6", lambda: with_queue("dma0", [0, 1])),
    "stored twice": ("V7", lambda: twice("S b3")),
    "not stored": ("V7", lambda: without("S b3")),
    "of another task": ("V7", lambda: changed(entry("MP"), task="ADD9")),
    "without a name": ("V7", lambda: changed(entry("MP"), task=None)),
}


def with_barrier(number: int, **values: int) -> TaskList:
    barriers = list(GOOD.barriers)
    barriers[number] = replace(barriers[number], **values)
    return replace(GOOD, barriers=barriers)


def with_queue(queue: str, order: list[int]) -> TaskList:
    names = GOOD.queues[queue]
    return replace(GOOD, queues={**GOOD.queues, queue: [names[n] for n in order]})


def twice(task: str) -> TaskList:
    item = replace(GOOD.tasks[entry(task)], waits=(), posts=())
    queues = {**GOOD.queues, "dma0": [*GOOD.queues["dma0"], "again"]}
    return replace(GOOD, tasks={**GOOD.tasks, "again": item}, queues=queues)


def without(task: str) -> TaskList:
    name = entry(task)
    tasks = {n: t for n, t in GOOD.tasks.items() if n != name}
    queues = {q: [n for n in names if n != name] for q, names in GOOD.queues.items()}
    return replace(GOOD, tasks=tasks, queues=queues)


@pytest.mark.parametrize("what", DAMAGES)
def test_each_property_catches_its_damage(what: str) -> None:
    name, damage = DAMAGES[what]
    assert name in {finding.property for finding in verify(damage(), GRAPH)}


def test_the_good_list_is_good_and_works_under_any_timing() -> None:
    assert verify(GOOD, GRAPH, jitter=5, strict=True) == []
    good = run_values(GOOD).stored
    for seed in range(8):
        outcome = run_values(GOOD, Options(durations=jittered(GOOD, seed)), seed=seed)
        assert outcome.stored == good and not outcome.torn


def test_a_deleted_edge_is_a_race_with_and_without_the_graph() -> None:
    for name, item in GOOD.tasks.items():
        for barrier in item.waits:
            damaged = changed(name, waits=tuple(b for b in item.waits if b != barrier))
            damaged.barriers = list(GOOD.barriers)
            left = damaged.barriers[barrier].consumers - item.slots
            damaged.barriers[barrier] = replace(damaged.barriers[barrier], consumers=left)
            for graph in (GRAPH, None):
                assert {"V3"} <= {f.property for f in verify(damaged, graph)}


def test_two_shave_engines_order_only_starts() -> None:
    """Behind two engines the second task may overtake the first: a queue is no edge."""
    tasks = {
        "a": {"engine": "shave", "writes": [["cmx", 0, 64]]},
        "b": {"engine": "shave", "reads": [["cmx", 0, 64]]},
    }
    base = {"format": "tilewright-vpu-list", "version": 1, "queues": {"shave0": ["a", "b"]}}
    one = list_from({**base, "target": {"preset": "tiny"}, "tasks": tasks})
    two = list_from({**base, "target": {"preset": "tiny", "shaves": 2}, "tasks": tasks})
    assert verify(one) == []
    assert [f.property for f in verify(two)] == ["V3"]
    run = simulate(two)
    assert run.start == [0, 0]


def test_agents_of_one_port_are_not_ordered() -> None:
    tasks = {
        "l": {"reads": [["ddr", 0, 64]], "writes": [["cmx", 0, 64]], "cycles": 5},
        "s": {"reads": [["cmx", 0, 64]], "writes": [["ddr", 64, 64]], "cycles": 5},
    }
    target = {"preset": "tiny", "dma_agents": 2}
    apart = list_from({"format": "tilewright-vpu-list", "version": 1, "target": target,
                       "queues": {"dma0": ["l"], "dma0.cmx": ["s"]}, "tasks": tasks})  # fmt: skip
    assert {f.property for f in verify(apart)} >= {"V3"}
    run = simulate(apart)
    assert run.start == [0, 5]  # one engine; the DDR agent wins the tie


def test_a_task_on_all_ports_starts_when_it_heads_all_queues() -> None:
    graph = TileGraph(
        machine(cmx_bytes=8192),
        [Buffer("a", 64), Buffer("b", 64), Buffer("c", 64)],
        [load("a", 7), load("b", 10, ports=2), load("c", 3), dpu("D", "a b c", "", 2)],
    )
    made = schedule(graph)
    assert verify(made.tasks, graph, strict=True) == []
    assert made.makespan == 7 + 10 + 2 and made.proven
    wide = next(n for n, t in made.tasks.tasks.items() if t.task == "L b")
    assert sum(wide in names for names in made.tasks.queues.values()) == 2


def test_a_deadlock_names_its_cycle() -> None:
    tasks = {
        "a": {"engine": "dma", "waits": [1], "posts": [0]},
        "b": {"engine": "dpu", "waits": [0], "posts": [1]},
    }
    found = verify(list_from({"format": "tilewright-vpu-list", "version": 1, "tasks": tasks,
                              "queues": {"dma0": ["a"], "dpu0": ["b"]}}))  # fmt: skip
    cycle = next(f for f in found if "deadlock" in f.message)
    assert cycle.property == "V6" and set(cycle.tasks) == {"a", "b"}


def test_mapping_order_can_deadlock() -> None:
    """Barrier 1 takes the id of barrier 0, but the producer of 1 comes before a consumer of 0."""
    tasks = {
        "a": {"engine": "dma", "posts": [0]},
        "b": {"engine": "dpu", "posts": [1]},
        "c": {"engine": "dpu", "waits": [0]},
        "d": {"engine": "dma", "waits": [1]},
    }
    barriers = [{"id": n, "physical": 0, "producers": 1, "consumers": 1} for n in (0, 1)]
    damaged = list_from({"format": "tilewright-vpu-list", "version": 1, "tasks": tasks,
                         "queues": {"dma0": ["a", "d"], "dpu0": ["b", "c"]},
                         "barriers": barriers})  # fmt: skip
    assert {f.property for f in verify(damaged)} == {"V5", "V6"}
    stuck = simulate(damaged).stuck
    assert {s.task for s in stuck} == {"b", "d"} and "not mapped" in stuck[0].reason + stuck[
        1
    ].reason


def test_slots_of_dpu_variants_count() -> None:
    graph = TileGraph(
        machine(cmx_bytes=8192, slots=16),
        [Buffer("a", 64), Buffer("b", 64), Buffer("c", 64)],
        [load("a"), dpu("D", "a", "b", 9, slots=8), shave("H", "b", "c", 3), store("c")],
    )
    made = schedule(graph)
    assert verify(made.tasks, graph, strict=True) == []
    assert Barrier(1, 8, 1) in made.tasks.barriers or Barrier(0, 8, 1) in made.tasks.barriers


def test_a_result_written_over_its_input_needs_permission() -> None:
    graph = spilling(in_place=True)
    tasks = portfolio(graph).tasks
    assert verify(tasks, graph) == []
    assert "V2" in {f.property for f in verify(tasks, spilling())}


def test_undefined_bytes_are_reported() -> None:
    tasks = {"r": {"engine": "dpu", "reads": [["cmx", 0, 64]]}}
    found = verify(list_from({"format": "tilewright-vpu-list", "version": 1, "tasks": tasks,
                              "queues": {"dpu0": ["r"]}}))  # fmt: skip
    assert [f.property for f in found] == ["V7"]


def test_the_verifier_shares_no_code_with_the_scheduler() -> None:
    allowed = {"checker", "task_list", "tile_graph", "machine", "simulator"}
    for path in Path(next(iter(checker.__path__))).glob("*.py"):
        for module in re.findall(r"from tilewright\.targets\.vpu\.(\w+)", path.read_text()):
            assert module in allowed, f"{path.name} imports {module}"


@pytest.mark.usefixtures("little_search")
def test_damaged_random_lists_are_found() -> None:
    """Moving any CMX range of a random list somewhere else is noticed, or changes nothing."""
    graph = random_graph(11, 20, capacity=1.3)
    tasks = portfolio(graph).tasks
    good = run_values(tasks).stored
    for name, item in tasks.tasks.items():
        for side in ("reads", "writes"):
            for place, found in enumerate(getattr(item, side)):
                if not isinstance(found, Range) or found.space == "ddr":
                    continue
                ranges = list(getattr(item, side))
                ranges[place] = replace(found, address=found.address + 64)
                damaged = replace(item, **{side: tuple(ranges)})
                mutant = replace(tasks, tasks={**tasks.tasks, name: damaged})
                assert verify(mutant, graph) or _harmless(mutant, good)


def _harmless(mutant: TaskList, good: dict[str, bytes]) -> bool:
    outcomes = [
        run_values(mutant, Options(durations=jittered(mutant, n)), seed=n) for n in range(6)
    ]
    return all(outcome.stored == good and not outcome.torn for outcome in outcomes)
