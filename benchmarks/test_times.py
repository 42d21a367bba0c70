"""Processor time of the tests, by file and by test.

    python benchmarks/test_times.py tests/graph -k images    arguments are those of pytest
    python benchmarks/test_times.py --every 6                each sixth test, to estimate all
    python benchmarks/test_times.py --every 6 --first 3      another sixth

What tests share (fixtures of a module or of the session) is counted apart: of each sixth test it takes
what it takes of all. Time by the clock says little on a machine that does other things as well. This counts what a test
and the processes it waited for took from the processors, preparation and fixtures included.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FILES, TESTS = 60, 60  # how many of each are printed


def processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class ProcessorTimes:
    """What every test took, written down as tests end: a run that is stopped keeps what it has."""

    def __init__(self, log: Path, every: int, first: int) -> None:
        self.every, self.first = every, first
        self.log = log.open("a")
        self.tests: dict[str, float] = defaultdict(float)
        self.shared = 0.0  # fixtures of more than one test
        self.preparing = False
        self.started = processor_time()
        self.collected = 0.0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = items[self.first :: self.every]

    def pytest_collection_finish(self) -> None:
        self.collected = processor_time() - self.started

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before, shared = processor_time(), self.shared
        done = yield
        taken = processor_time() - before - (self.shared - shared)
        self.tests[item.nodeid] = taken
        print(json.dumps([item.nodeid, round(taken, 4)]), file=self.log, flush=True)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function" or self.preparing:
            return (yield)
        self.preparing, before = True, processor_time()
        try:
            return (yield)
        finally:
            self.preparing = False
            self.shared += processor_time() - before

    def table(self) -> Iterator[str]:
        files: dict[str, list[float]] = defaultdict(list)
        for name, taken in self.tests.items():
            files[name.split("::")[0]].append(taken)
        tests = sum(self.tests.values())
        yield (
            f"collection {self.collected:.1f} s, {len(self.tests):,} tests {tests:.1f} s, "
            f"what they share {self.shared:.1f} s"
        )
        if self.every > 1:
            whole = tests * self.every + self.shared + self.collected
            yield f"all tests would take about {whole:.0f} s"
        for name, times in sorted(files.items(), key=lambda each: -sum(each[1]))[:FILES]:
            yield f"{sum(times):8.2f} s {len(times):5} tests  {name}"
        yield ""
        for name, taken in sorted(self.tests.items(), key=lambda each: -each[1])[:TESTS]:
            yield f"{taken:8.2f} s  {name}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="run each N-th test only")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given, rest = parser.parse_known_args()
    log = Path(os.environ.get("TILEWRIGHT_TEST_TIMES", "out/test_times.jsonl"))
    log.parent.mkdir(parents=True, exist_ok=True)
    times = ProcessorTimes(log, given.every, given.first)
    # Workers of xdist would take their times with them.
    code = pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *rest], plugins=[times])
    print("\n".join(times.table()))
    sys.exit(code)


if __name__ == "__main__":
    main()
