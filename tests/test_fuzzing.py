"""A small sample of `benchmarks/fuzz.py`; its seed is printed."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from fresh_seeds import repeatable_seed
from fuzzing.running import run_cases
from fuzzing.subjects import SUBJECTS, shares

SLOW = {"artifact", "bundle", "cli", "snapshot"}  # seconds to prepare, or processes of their own
COUNT = 150


def test_spoiled_input_is_accepted_or_refused(tmp_path: Path) -> None:
    first = repeatable_seed()
    chosen = [s for s in SUBJECTS if s.name not in SLOW]
    if importlib.util.find_spec("onnx") is None:
        chosen = [s for s in chosen if s.name != "onnx"]
    per = shares(COUNT)
    cases = [(n, first + k) for n, s in enumerate(chosen) for k in range(per[s.name])]
    print(f"python benchmarks/fuzz.py --count {COUNT} --seed {first}")
    tallies = run_cases(chosen, cases, str(tmp_path))
    assert sum(tally.cases for tally in tallies.values()) == len(cases)
    for tally in tallies.values():
        for finding in tally.findings:
            pytest.fail(
                f"python benchmarks/fuzz.py --subject {finding.subject} --seed {finding.seed} --count 1\n"
                f"{finding.kind} in {finding.place}\n{finding.text}"
            )


def test_findings_are_found(tmp_path: Path) -> None:
    """Every way in which a case may not end is noticed: this is what the sample relies on."""
    import os
    import time

    from fuzzing import running
    from fuzzing.running import Keep, Subject
    from tilewright.errors import TilewrightError

    def broken(seeds: object, choose: random.Random, keep: Keep) -> None:
        kind = choose.randrange(6)
        keep.text(str(kind))
        if kind == 0:
            raise KeyError("a traceback")
        if kind == 1:
            os.kill(os.getpid(), 9)
        if kind == 2:
            while True:
                time.monotonic()
        if kind == 3:
            bytearray(running.MEMORY + (1 << 30))
        if kind == 4:
            raise TilewrightError("E1", "no code of ours")
        raise TilewrightError("TW0001", "refused")

    subject = Subject("broken", lambda: None, broken)
    kinds = [random.Random(f"broken {seed}").randrange(6) for seed in range(40)]
    seeds = [kinds.index(kind) for kind in range(6)]
    before, running.SECONDS = running.SECONDS, 0.3
    try:
        tally = run_cases([subject], [(0, seed) for seed in seeds], str(tmp_path))["broken"]
    finally:
        running.SECONDS = before
    found = {finding.seed: finding.kind for finding in tally.findings}
    wanted = ("KeyError", "crash", "hang", "MemoryError", "BadError")
    assert found == dict(zip(seeds, wanted, strict=False))
    assert tally.refused == 1
