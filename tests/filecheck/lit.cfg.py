# pyright: reportUndefinedVariable=false
# lit: run every .mlir file below this folder through the commands on its RUN lines.
import os
import sys
from pathlib import Path

import lit.formats

config.name = "tilewright"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = str(Path(__file__).parents[2] / "build" / "lit")  # noqa: F821
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # noqa: F821
scripts = Path(sys.executable).parent
config.substitutions += [  # noqa: F821
    ("filecheck", str(scripts / "filecheck")),
    ("tilewright", f"{sys.executable} -m tilewright"),
]
