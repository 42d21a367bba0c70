"""Check every pass on many random modules.

    python benchmarks/random_modules.py --count 2000 [--start SEED] [--kernels] [--recipes matmul,rope]
                                        [--save DIR]

Each seed makes a linalg module (with `--kernels`: a kernel call), chooses one of four tilings, and on every
third seed puts zeros, infinities and NaN among the inputs. After every pass of the `atlas` pipeline the
reference executor runs the module and its results are compared with those of the source: bit for bit,
except for attention (one step of the result's type, or 2^-40 of the largest result). Prints a table by
ingredient and every failing seed; with `--save` also writes the source of each failure. The exit code is
1 if any module failed.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections import Counter
from pathlib import Path

# The generator and the check live beside the tests that use them.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "reference"))
checks = importlib.import_module("pass_checks")
modules_of = importlib.import_module("random_modules")
random_module = importlib.import_module("random_recipes").random_module
random_kernel = importlib.import_module("random_kernels").random_kernel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=500, help="how many modules")
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--length", type=int, default=5, help="most recipes in one module")
    parser.add_argument("--kernels", action="store_true", help="kernel calls instead of linalg")
    parser.add_argument("--recipes", help="only these, separated by commas")
    parser.add_argument("--save", type=Path, help="folder for the sources of failures")
    options = parser.parse_args()
    recipes = options.recipes.split(",") if options.recipes else None

    modules, refused, failed = Counter(), Counter(), Counter()
    moved = passes = 0
    started = time.perf_counter()
    for seed in range(options.start, options.start + options.count):
        choices = modules_of.SeededChoices(seed)
        if options.kernels:
            module = random_kernel(choices, recipes)
        else:
            module = random_module(choices, options.length, recipes)
        names = set(module.ingredients)
        modules.update(names)
        pipeline = checks.pipeline_with(checks.TILINGS[seed % len(checks.TILINGS)])
        if options.kernels:
            pipeline = [entry for entry in pipeline if not entry.startswith("convert-linalg")]
        try:
            checked = checks.check_passes(module, pipeline, seed, special=seed % 3 == 2)
        except checks.Refused as reason:
            refused.update(names)
            print(f"seed {seed} refused: {str(reason).splitlines()[0]}")
        except AssertionError as error:
            failed.update(names)
            print(f"seed {seed} FAILED: {str(error).splitlines()[0]}")
            if options.save:
                options.save.mkdir(parents=True, exist_ok=True)
                (options.save / f"{seed}.mlir").write_text(module.text + "\n")
        else:
            passes += len(checked)
            moved += any(not c.equal for p in checked for c in p.comparisons)
    seconds = time.perf_counter() - started

    print(f"\n{'ingredient':28} {'modules':>8} {'refused':>8} {'failed':>8}")
    for name, count in sorted(modules.items()):
        print(f"{name:28} {count:8} {refused[name]:8} {failed[name]:8}")
    print(
        f"\n{options.count} modules, {passes} changes by passes checked, {moved} modules moved within the "
        f"bound, {seconds:.0f} s ({1000 * seconds / max(1, options.count):.0f} ms each), "
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
