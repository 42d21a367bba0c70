"""The same kernels on machines with other numbers: everything downstream follows the profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.profile import Profile, load_profile

MACHINES = {
    "short transfers": "[dma]\nmax_bytes = 512\n",
    "fast link": "[dma]\nlink_bytes = 32\nvmem_bytes = 32\n",
    "pipelined matrix units": '[timing]\nmatmul_mxu0 = ["MXU", 96, 32]\nmatmul_mxu1 = ["MXU", 35, 32]\n',
    "slow vectors": '[timing]\nvector = ["VPU", 200]\n',
    "stalling": '[hazards]\nbusy_unit = "stall"\nconflict = "stall"\n',
    "little memory": "[memory]\nvmem_bytes = 131_072\n",
}


def derived(folder: Path, name: str, base: str) -> Profile:
    file = folder / "machine.toml"
    file.write_text(f'base = "{base}"\n{MACHINES[name]}')
    return load_profile(str(file))


@pytest.mark.parametrize("base", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("name", MACHINES)
def test_kernels_run_clean_and_right(name: str, base: str, tmp_path: Path) -> None:
    profile = derived(tmp_path, name, base)
    random = np.random.default_rng(0)
    a, b = random.normal(size=(70, 96)), random.normal(size=(96, 100))
    for kernel, arrays in ((entry("gemm").kernel, (a, b)), (entry("softmax").kernel, (a,))):
        compiled = kernel.compile(*arrays, target=profile)
        got = compiled.run(*arrays).view(np.uint16)
        assert np.array_equal(got, kernel.eager(*arrays, profile=profile).view(np.uint16))
        findings = lint(compiled.program, profile).findings
        assert not [f for f in findings if f.severity == "error"], findings[:3]
