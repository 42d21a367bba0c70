"""Processor time of the tests, by file and by test.

    python benchmarks/test_times.py tests/graph -k images    arguments are those of pytest
    python benchmarks/test_times.py --every 6                each sixth test, to estimate all

Time by the clock says little on a machine that does other things as well. This counts what a test
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

import pytest

FILES, TESTS = 60, 60  # how many of each are printed


def processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class ProcessorTimes:
    """What every test took, written down as tests end: a run that is stopped keeps what it has."""

    def __init__(self, log: Path, every: int) -> None:
        self.every = every
        self.log = log.open("a")
        self.tests: dict[str, float] = defaultdict(float)
        self.started = processor_time()
        self.collected = 0.0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = items[:: self.every]

    def pytest_collection_finish(self) -> None:
        self.collected = processor_time() - self.started

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = processor_time()
        done = yield
        self.tests[item.nodeid] = taken = processor_time() - before
        print(json.dumps([item.nodeid, round(taken, 4)]), file=self.log, flush=True)
        return done

    def table(self) -> Iterator[str]:
        files: dict[str, list[float]] = defaultdict(list)
        for name, taken in self.tests.items():
            files[name.split("::")[0]].append(taken)
        tests = sum(self.tests.values())
        yield f"collection {self.collected:.1f} s, {len(self.tests):,} tests {tests:.1f} s"
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
    given, rest = parser.parse_known_args()
    log = Path(os.environ.get("TILEWRIGHT_TEST_TIMES", "out/test_times.jsonl"))
    log.parent.mkdir(parents=True, exist_ok=True)
    times = ProcessorTimes(log, given.every)
    # Workers of xdist would take their times with them.
    code = pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *rest], plugins=[times])
    print("\n".join(times.table()))
    sys.exit(code)


if __name__ == "__main__":
    main()
