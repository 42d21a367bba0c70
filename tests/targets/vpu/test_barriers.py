"""Physical barriers: the ring, reuse as mapped and strict, legalisation, and clean rejections."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from vpu_graphs import machine, random_graph

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.barriers.given import GivenList, strict_cover
from tilewright.targets.vpu.barriers.study import study
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.list_file import list_from
from tilewright.targets.vpu.scheduling.schedule import portfolio, realise
from tilewright.targets.vpu.simulator import simulate
from tilewright.targets.vpu.task_list import TaskList

TEN = {
    "dma0": "( | ) ( | ) ( |0) (0|1) ( |3) (2|4) ( |6) (5|4) ( |8) (7|4) (9|4) (4| )",
    "dpu0": "(1|2) (3|5) (6|7) (8|9)",
}


def list_of(queues: dict[str, str], **target: int) -> TaskList:
    """A list without addresses from (waits|posts) entries."""
    tasks, names = {}, {}
    for queue, text in queues.items():
        names[queue] = []
        for waits, posts in re.findall(r"\(([^|]*)\|([^)]*)\)", text):
            name = f"t{len(tasks)}"
            names[queue].append(name)
            tasks[name] = {
                "engine": re.match("[a-z]+", queue)[0],  # type: ignore[index]
                "waits": [int(n) for n in waits.split()],
                "posts": [int(n) for n in posts.split()],
            }
    return list_from(
        {"format": "tilewright-vpu-list", "version": 1, "target": {"preset": "tiny", **target},
         "queues": names, "tasks": tasks}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pool", "physical"),
    [(3, [0, 1, 2, 0, 1, 2, 0, 2, 0, 2]), (4, [0, 1, 2, 3, 0, 1, 2, 3, 1, 2]),
     (5, [0, 1, 2, 3, 4, 0, 1, 2, 3, 0])],
)  # fmt: skip
def test_the_ring(pool: int, physical: list[int]) -> None:
    answer = study(list_of(TEN), pool, as_given=True)
    assert answer.feasible and answer.physical == physical and answer.minimum_pool == 3
    assert answer.tasks is not None and verify(answer.tasks) == []


def test_mapped_needs_three_and_strict_four() -> None:
    assert study(list_of(TEN), 4, as_given=True, strict=True).feasible
    rejected = study(list_of(TEN), 3, as_given=True, strict=True)
    assert not rejected.feasible and rejected.minimum_pool == 4
    mapped = study(list_of(TEN), 3, as_given=True).tasks
    assert mapped is not None
    assert verify(mapped) == []
    assert any(f.property == "V5" for f in verify(mapped, strict=True))


@pytest.mark.parametrize("pool", [1, 2])
def test_too_small_as_given_is_rejected(pool: int) -> None:
    answer = study(list_of(TEN), pool, as_given=True)
    assert not answer.feasible and answer.physical == [] and answer.minimum_pool == 3


def test_two_suffice_with_changes_and_one_never() -> None:
    answer = study(list_of(TEN), 2)
    assert answer.feasible and answer.minimum_pool == 2 and answer.changes
    assert answer.tasks is not None
    assert verify(answer.tasks, strict=True) == []
    assert not study(list_of(TEN), 1).feasible


def test_one_is_enough_when_nobody_waits_and_posts() -> None:
    tasks = list_of({"dma0": "( |0) ( |1)", "dpu0": "(0| ) (1| )"})
    answer = study(tasks, 1)
    assert answer.feasible and answer.tasks is not None
    assert verify(answer.tasks) == []


def test_a_barrier_over_its_slots_is_split() -> None:
    producers = {f"dma{n}": "( |0)" for n in range(5)}
    tasks = list_of({**producers, "dpu0": "(0| )"}, dma_ports=5, slots=4)
    assert not study(tasks, 8, as_given=True).feasible
    answer = study(tasks, 8)
    assert answer.feasible and answer.tasks is not None and len(answer.tasks.barriers) == 3
    assert verify(answer.tasks, strict=True) == []


def test_a_circle_is_rejected_whatever_the_pool() -> None:
    answer = study(list_of({"dma0": "(1|0)", "dpu0": "(0|1)"}), 8)
    assert not answer.feasible and "circle" in answer.reason


def test_counts_that_do_not_match_are_bad_input() -> None:
    tasks = list_of(TEN)
    tasks.barriers[4] = replace(tasks.barriers[4], producers=3)
    with pytest.raises(TilewrightError, match="barrier 4 says 3 producers"):
        study(tasks, 4)


def random_list(seed: int) -> TaskList:
    """Tasks in random queues; each waits for some earlier ones through barriers of their own."""
    rng = random.Random(seed)
    queues = {"dma0": [], "dma1": [], "dpu0": [], "shave0": []}
    entries: dict[str, tuple[list[int], list[int]]] = {}
    for n in range(rng.randint(4, 12)):
        entries[f"t{n}"] = ([], [])
        queues[rng.choice(list(queues))].append(f"t{n}")
    for barrier in range(rng.randint(2, 8)):
        cut = rng.randrange(1, len(entries))
        before = rng.sample(range(cut), min(cut, rng.randint(1, 2)))
        after = rng.sample(range(cut, len(entries)), min(len(entries) - cut, rng.randint(1, 2)))
        for n in before:
            entries[f"t{n}"][1].append(barrier)
        for n in after:
            entries[f"t{n}"][0].append(barrier)
    return list_from(
        {"format": "tilewright-vpu-list", "version": 1, "target": {"preset": "tiny", "shaves": 2},
         "queues": queues, "tasks": {n: {"waits": w, "posts": p} for n, (w, p) in entries.items()}}
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_lists_are_assigned_legalised_or_rejected(seed: int) -> None:
    tasks = random_list(seed)
    for pool in (1, 2, 3, 8):
        for strict in (False, True):
            given = study(tasks, pool, as_given=True, strict=strict)
            if given.feasible:
                assert given.tasks is not None and max(given.physical, default=0) < pool
                assert verify(given.tasks, strict=strict) == []
                assert given.minimum_pool is not None and given.minimum_pool <= pool
            else:
                assert given.minimum_pool is not None and given.minimum_pool > pool
        free = study(tasks, pool)
        assert free.feasible or pool == 1
        if free.feasible:
            assert free.tasks is not None
            assert verify(free.tasks) == []
            assert max(free.physical, default=0) < pool


def test_the_strict_minimum_is_a_largest_antichain() -> None:
    """Brute force over sets of barriers of which none can follow another."""
    for seed in range(12):
        tasks = random_list(seed)
        given = GivenList(tasks)
        count = len(given.signals)
        order = given.order()
        assert order is not None
        pairs = set()
        for old in range(count):
            for new in range(old + 1, count):
                trial = [n for n in range(count)]
                trial[new] = trial[old]
                barriers = [
                    replace(b, physical=p) for b, p in zip(tasks.barriers, trial, strict=True)
                ]
                wide = replace(tasks.machine, barriers=64)
                found = verify(replace(tasks, barriers=barriers, machine=wide), strict=True)
                if not found:
                    pairs.add((old, new))
        largest = max(
            bin(mask).count("1")
            for mask in range(1, 1 << count)
            if not any(mask >> a & 1 and mask >> b & 1 for a, b in pairs)
        )
        cover = strict_cover(given)
        assert cover is not None and max(cover) + 1 == largest


@pytest.mark.usefixtures("little_search")
@pytest.mark.parametrize("barriers", [2, 3, 4, 6, 8, 16])
def test_schedules_stay_within_small_pools(barriers: int) -> None:
    for seed in range(3):
        graph = random_graph(seed, 24, barriers=barriers, capacity=1.5)
        made = portfolio(graph)
        assert max(made.assignment.physical, default=0) < barriers
        assert verify(made.tasks, graph, strict=True) == []


def test_descriptor_storage_limits_posts_in_a_row() -> None:
    tasks = list_of({"dma0": "( |0) ( |0) ( |0) ( |0)", "dpu0": "(0| )"}, storage=4)
    assert any("storage" in f.message for f in verify(tasks))
    answer = study(tasks, 4)
    assert answer.tasks is not None and verify(answer.tasks) == []


def test_one_barrier_is_enough_or_a_clear_error() -> None:
    from vpu_graphs import spilling, three_engines

    with pytest.raises(TilewrightError, match="needs 2"):
        portfolio(three_engines(barriers=1))
    made = portfolio(spilling(barriers=2))
    assert not simulate(made.tasks).stuck
    assert realise(made.problem, _plan_of(made), made.bounds).makespan <= 8
    assert machine(barriers=2).side_slots == 128


def _plan_of(made):
    from tilewright.targets.vpu.scheduling.plan import Plan

    steps = [made.draft.steps[n] for n in made.draft.decided]
    return Plan(steps, max(step.end for step in steps))
