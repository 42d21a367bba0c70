"""Digests of every program the compiler makes, to show that a change of the code changed none.

python benchmarks/identity.py --save FILE             write digests and cycles of the current code
python benchmarks/identity.py --compare FILE          print what differs; exit 1 if anything is slower
python benchmarks/identity.py --only kernels          kernels, models or small programs alone
python benchmarks/identity.py --only small --random 40   with so many random models (ONNX) among them

Small programs are those of the tests, with options: their digests cover all that a bundle holds. A digest covers the encoded instructions and the data they bring along. Cycles are those of a
simulated run, so that programs that differ can be told faster from slower.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "tests"))
sys.path.insert(0, str(HERE.parent / "tests" / "graph"))

import tilewright as tw  # noqa: E402
from examples import networks  # noqa: E402
from tilewright import compiling  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.model.options import CompileOptions  # noqa: E402
from tilewright.targets.atlas.encoding import encode  # noqa: E402
from tilewright.targets.atlas.kernels.cases import CASES  # noqa: E402
from tilewright.targets.atlas.kernels.measure import PROFILES, execute  # noqa: E402
from tilewright.targets.atlas.kernels.registry import ENTRIES, entry  # noqa: E402
from tilewright.targets.compiled_model import CompiledModel  # noqa: E402


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


SMALL: list[tuple[str, dict[str, Any]]] = [  # models of tests/graph, with options
    *(
        (name, {})
        for name in ("mlp", "tiny_mlp", "encoder", "decoder", "cross", "prefix", "decode")
    ),
    ("tiny_mlp", {"target": "atlas-v0"}),
    ("mlp", {"fuse": False}),
    ("encoder", {"fuse": False}),
    ("encoder", {"layer_loops": False}),
    ("encoder", {"scales": "tensor"}),
    ("decoder_2", {"instruction_memory": 2500}),
    ("decoder_2", {"fuse": False, "layer_loops": False}),
    ("classifier", {"accuracy": True}),
    ("ragged", {}),
    ("flattened", {}),
    ("residual", {"accuracy": True}),
    ("residual", {"fuse": False}),
    ("edges", {}),
    ("decoder_2", {"accuracy": True}),
    ("mlp", {"keep": ("up",), "accuracy": True}),
]


def small(count: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Programs of the tests and random ones: everything a bundle holds is part of the digest."""
    import image_models
    import random_sources
    import small_models
    from random_drawing import draw_program

    for name, chosen in SMALL:
        images = name in image_models.MODELS
        model = image_models.imported(name) if images else small_models.imported(name)
        target = str(chosen.get("target", "atlas-v1"))
        options = CompileOptions(**{k: v for k, v in chosen.items() if k != "target"})
        row = f"small {name} {json.dumps(chosen)}"
        yield (
            row,
            _whole(lambda m=model, t=target, o=options: compiling.compile_imported(m, t, o)),
        )
    for seed in range(31000, 31000 + count):
        drawn = draw_program(seed)
        yield (
            f"random {seed}",
            _whole(lambda drawn=drawn: random_sources.compiled(drawn, "onnx", "atlas-v1").model),
        )


def _whole(compiled: Callable[[], CompiledModel[Any]]) -> dict[str, object]:
    """The digest of a program and all that comes with it; of an error, its code."""
    try:
        found = compiled()
    except TilewrightError as error:
        return {"digest": error.code, "cycles": 0}
    digest = hashlib.sha256()
    for member in found.artifact.members():
        for piece in (member.name.encode(), *member.pieces):
            digest.update(bytes(piece))
    notes = [found.parts, found.ports, found.host_module, found.host_graph, found.quantisation]
    digest.update(repr(notes).encode())
    for name in sorted(found.host_weights):
        digest.update(name.encode())
        digest.update(found.host_weights[name].tobytes())
    return {"digest": digest.hexdigest()[:24], "cycles": 0}


def main() -> int:
    os.environ.setdefault("TILEWRIGHT_CACHE", "off")  # what is measured is generated now
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", choices=["kernels", "models", "small"])
    parser.add_argument("--random", type=int, default=0, help="random models among the small ones")
    options = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    every: dict[str, Callable[[], Iterator[tuple[str, dict[str, object]]]]] = {
        "kernels": kernels,
        "models": models,
        "small": lambda: small(options.random),
    }
    sources = [source for name, source in every.items() if options.only in (None, name)]
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
