"""Settings of the whole test suite."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
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
    gc.set_threshold(*RARE)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same for all its workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def golden_cycles(request: pytest.FixtureRequest) -> GoldenCycles:
    """What kernels and models are known to take."""
    return GoldenCycles.read(bool(request.config.getoption("--write-goldens")))
