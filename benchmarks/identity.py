"""Digests of every program the compiler makes, to show that a change of the code changed none.

python benchmarks/identity.py --save FILE             write digests and cycles of the current code
python benchmarks/identity.py --compare FILE          print what differs; exit 1 if anything is slower
python benchmarks/identity.py --only kernels          kernels or models alone

A digest covers the encoded instructions and the data they bring along. Cycles are those of a
simulated run, so that programs that differ can be told faster from slower.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tilewright as tw  # noqa: E402
from examples import networks  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.targets.atlas.encoding import encode  # noqa: E402
from tilewright.targets.atlas.kernels.cases import CASES  # noqa: E402
from tilewright.targets.atlas.kernels.measure import PROFILES, execute  # noqa: E402
from tilewright.targets.atlas.kernels.registry import ENTRIES, entry  # noqa: E402


def kernels() -> Iterator[tuple[str, dict[str, object]]]:
    """The published cases, and every kernel at its default sizes on both profiles."""
    wanted = [(f"{c.profile} {c.name}", c.kernel, c.profile, c.sizes) for c in CASES]
    wanted += [(f"{p} {n} by default", n, p, {}) for n in ENTRIES for p in PROFILES]
    for name, kernel, profile, sizes in wanted:
        which = entry(kernel)
        try:
            compiled = which.build(profile, sizes)
        except TilewrightError as error:
            yield f"kernel {name}", {"digest": error.code, "cycles": 0}
            continue
        run = execute(which, compiled, which.sample(sizes))
        digest = hashlib.sha256(encode(compiled.program, compiled.profile).tobytes())
        for address, content in compiled.data:
            digest.update(f"{address}".encode())
            digest.update(content)
        yield f"kernel {name}", {"digest": digest.hexdigest()[:24], "cycles": run.cycles}


def models() -> Iterator[tuple[str, dict[str, object]]]:
    for name, make in networks.MODELS.items():
        program = tw.compile(make())
        model = program.model
        digest = hashlib.sha256()
        for segment in model.artifact.segments:
            digest.update(encode(segment, model.artifact.profile).tobytes())
        for region in sorted(model.artifact.weights):
            digest.update(region.encode())
            digest.update(model.artifact.weights[region].tobytes())
        yield f"model {name}", {"digest": digest.hexdigest()[:24], "cycles": program.cycles}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", choices=["kernels", "models"])
    options = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    sources = [
        f for n, f in (("kernels", kernels), ("models", models)) if options.only in (None, n)
    ]
    for source in sources:
        for name, row in source():
            found[name] = row
            print(f"{name}: {row['digest']} {row['cycles']:,}", flush=True)
    if options.save:
        options.save.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if not options.compare:
        return 0
    before = json.loads(options.compare.read_text())
    slower = 0
    changed = [n for n in found if n in before and found[n]["digest"] != before[n]["digest"]]
    for name in changed:
        old, new = before[name]["cycles"], int(str(found[name]["cycles"]))
        slower += new > old
        print(f"changed: {name}: {old:,} -> {new:,} cycles")
    same = len([n for n in found if n in before]) - len(changed)
    print(
        f"{same} identical, {len(changed)} changed, {slower} slower, {len(found) - same - len(changed)} new"
    )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
