# lit: run every .mlir file below this folder through the commands on its RUN lines.
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
os.environ["TILEWRIGHT_CACHE"] = "off"
from forks import ForkingTest  # noqa: E402

config.name = "tilewright"
config.test_format = ForkingTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parents[2] / "build" / "lit")
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
config.environment["TILEWRIGHT_CACHE"] = "off"
scripts = Path(sys.executable).parent
config.substitutions += [
    ("filecheck", str(scripts / "filecheck")),
    ("tilewright", f"{sys.executable} -m tilewright"),
]
