"""Settings of the whole test suite."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
from forking import client
from golden_cycles import GoldenCycles
from tilewright.garbage import RARE

# Tests change the code generator under the compiler's feet, and never use what somebody compiled at
# home; those of the cache have folders of their own.
os.environ["TILEWRIGHT_CACHE"] = "off"
os.environ["TILEWRIGHT_JOBS"] = "1"  # as many tests run at once as there are cores

# Random examples find new mistakes on people's machines; a run in CI has to be repeatable.
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-goldens", action="store_true", help="write tests/data/golden_cycles.json anew"
    )


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: looking for cycles among them again and again
    took a quarter of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20 * RARE[0], *RARE[1:])


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same for all its workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def tilewright_command() -> Iterator[Path]:
    """A program that is `tilewright`, without what starting Python and importing takes."""
    with tempfile.TemporaryDirectory() as folder:  # names of sockets have to be short
        place = f"{folder}/commands"
        server = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "forking.py"), place],
            stdout=subprocess.PIPE,
        )
        with server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            command = Path(folder) / "tilewright"
            command.write_text(client(place))
            command.chmod(0o755)
            yield command
            server.terminate()


@pytest.fixture(scope="session")
def golden_cycles(request: pytest.FixtureRequest) -> GoldenCycles:
    """What kernels and models are known to take."""
    return GoldenCycles.read(bool(request.config.getoption("--write-goldens")))
