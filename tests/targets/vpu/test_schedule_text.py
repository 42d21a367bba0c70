"""Schedules as npu_schedule text: printed, parsed and read back, they say the same."""

from __future__ import annotations

import re

import pytest
from vpu_graphs import random_graph, spilling, three_engines

from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.verification import verify_module
from tilewright.errors import TilewrightError
from tilewright.targets.vpu.schedule_text import read_schedule, schedule_module, tasks_of
from tilewright.targets.vpu.scheduling.schedule import Schedule, portfolio


def text_of(made: Schedule) -> str:
    module = schedule_module(made)
    verify_module(module)
    return print_module(module)


@pytest.mark.parametrize("seed", range(12))
def test_round_trip(seed: int) -> None:
    """Views, in-place outputs, spills and reloads included."""
    graph = random_graph(seed, 8 + 4 * seed)
    made = portfolio(graph, local_search=False)
    module = parse_text(text_of(made))
    verify_module(module)
    assert read_schedule(module, made.draft.machine) == tasks_of(made)
    assert print_module(module) == text_of(made)


def test_a_spill_is_a_free_and_a_second_alloc() -> None:
    text = text_of(portfolio(spilling()))
    assert text.count('id = "in"') == 3  # its copy in DDR, and two residences
    assert text.count('id = "reload in"') == 1


def test_in_place_outputs_share_bytes() -> None:
    made = portfolio(spilling(in_place=True))
    assert read_schedule(parse_text(text_of(made)), made.draft.machine) == tasks_of(made)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("address = 147456 : i64", "address = 147392 : i64", "still alive"),
        ("address = 147456 : i64", "address = 1982400 : i64", "ends at byte"),
    ],
)
def test_damaged_texts_are_refused(before: str, after: str, message: str) -> None:
    made = portfolio(three_engines())
    text = text_of(made)
    place = text.index(before, text.index('"cmx"'))
    damaged = text[:place] + after + text[place + len(before) :]
    with pytest.raises(TilewrightError, match=message):
        read_schedule(parse_text(damaged), made.draft.machine)


@pytest.mark.parametrize("queues", ["", "queues = 3 : i64, ", "queues = [1 : i64], "])
def test_tasks_without_queues_are_refused(queues: str) -> None:
    made = portfolio(three_engines())
    damaged = re.sub(r"queues = \[[^]]*\](, )?", queues, text_of(made), count=1)
    with pytest.raises(TilewrightError, match="needs a list of texts 'queues'"):
        read_schedule(parse_text(damaged), made.draft.machine)
