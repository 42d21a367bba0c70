"""Random programs on the Coral simulator and on QEMU: every register and byte has to be equal.

    python benchmarks/coral_fuzz.py --programs 100000
    python benchmarks/coral_fuzz.py --record tests/targets/coral/oracle_results.json

`--record` keeps what QEMU computed, for machines without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/targets/coral"))

from oracle_programs import (
    MOST_PROGRAMS,
    differing,
    make_batch,
    run_here,
    run_there,
)

from tilewright.targets.coral.qemu import Qemu, qemu_missing


def main() -> int:
    parser = argparse.ArgumentParser(description="random programs on the simulator and on QEMU")
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=16, help="random instructions per program")
    parser.add_argument("--record", type=Path, help="write digests of the oracle's results")
    chosen = parser.parse_args()
    missing = qemu_missing()
    if missing:
        print(missing, file=sys.stderr)
        return 2
    if chosen.record:
        return record(chosen.record, chosen.length)
    done = wrong = 0
    seed = chosen.seed
    began = time.monotonic()
    with Qemu(zba=True) as qemu:
        while done < chosen.programs:
            batch = make_batch(seed, min(MOST_PROGRAMS, chosen.programs - done), chosen.length)
            here, there = run_here(batch), run_there(batch, qemu)
            programs = differing(batch, here[0], there[0])
            wrong += len(programs)
            if programs:
                print(f"seed {seed}: the states of programs {programs[:8]} differ")
            if here[1] != there[1]:
                print(f"seed {seed}: memory differs")
                wrong += 1
            done += len(batch.starts)
            seed += 1
            if seed % 20 == 0:
                seconds = time.monotonic() - began
                print(f"{done} programs, {wrong} differences, {seconds:.0f} s", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{done} programs of {chosen.length} random instructions, {wrong} differences, "
        f"{seconds:.0f} s"
    )
    return 1 if wrong else 0


def record(path: Path, length: int) -> int:
    digests = {}
    with Qemu(zba=True) as qemu:
        for seed in range(9000, 9012):
            results, scratch = run_there(make_batch(seed, 100, length), qemu)
            digests[str(seed)] = hashlib.sha256(results + scratch).hexdigest()
    path.write_text(json.dumps({"programs": 100, "length": length, "digests": digests}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
