"""Run Python with native modules that check themselves: addresses and undefined behaviour.

    python benchmarks/sanitized.py benchmarks/fuzz.py --count 2000
    python benchmarks/sanitized.py -m pytest -n 0 tests/targets/atlas/test_conformance.py

The modules are built once in build/sanitize (CMake option TILEWRIGHT_SANITIZE) and take the place of
the installed ones. The first wrong access ends the process with a report; leaks of the interpreter
are not looked for.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"
MODULES = {
    "tilewright._native": "atlas",
    "tilewright.planning._planning": "planning",
    "tilewright.targets.atlas.codegen._codegen": "atlas_codegen",
    "tilewright.targets.coral._coral": "coral",
    "tilewright.targets.vpu._vpu": "vpu",
}
INSIDE = "TILEWRIGHT_SANITIZED"


class _Finder:
    """Finds the native modules in the folder they were built in."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None):
        if name not in MODULES:
            return None
        folder = BUILD / "native" / MODULES[name]
        found = next(folder.glob(f"{name.rpartition('.')[2]}.*.so"))
        loader = importlib.machinery.ExtensionFileLoader(name, str(found))
        return importlib.util.spec_from_file_location(name, found, loader=loader)


def build() -> None:
    """Build the modules, or what has changed of them."""
    define = [f"-DPython_EXECUTABLE={sys.executable}", "-DTILEWRIGHT_SANITIZE=ON"]
    subprocess.run(
        ["cmake", "-S", str(ROOT), "-B", str(BUILD), *define],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    subprocess.run(
        ["cmake", "--build", str(BUILD), "--parallel", "2"], check=True, stdout=subprocess.DEVNULL
    )


def library(name: str) -> str:
    """The path of one of the compiler's own libraries."""
    asked = ["g++", f"-print-file-name={name}"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    arguments = sys.argv[1:]
    if INSIDE not in os.environ:
        build()
        os.environ |= {
            INSIDE: "1",
            # libstdc++ too: exceptions of native code have to find the sanitizer's handlers.
            "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=8192",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONMALLOC": "malloc",
        }
        os.execv(sys.executable, [sys.executable, __file__, *arguments])
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    if not arguments:
        sys.exit("name a script, or -m and a module")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
