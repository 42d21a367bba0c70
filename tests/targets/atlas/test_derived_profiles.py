"""Networks on machines derived from the built-in ones: right, and never faster than their bound."""

from __future__ import annotations

from pathlib import Path

import pytest

import networks
import tilewright as tw
from tilewright.errors import TilewrightError

PROFILES = {
    "loads in a pipeline": '[timing]\ntensor_load = ["LSU", 64, 55]',
    "loads far apart and early": '[timing]\ntensor_load = ["LSU", 300, 2]\nsum_rows = ["VPU", 17]',
    "vectors in a pipeline": '[timing]\nvector = ["VPU", 130, 7]\npush = ["MXU", 64, 3]',
    "little memory": "[memory]\nvmem_bytes = 65_536\nimem_bytes = 8_192",
    "short transfers": "[dma]\nmax_bytes = 512\nminimum = 50\nconfig = 30",
    "hazards wait": '[hazards]\nconflict = "stall"\nbusy_unit = "stall"',
    "other sums": '[numbers]\nrow_sum = "two_lanes"\ncolumn_sum = "four_strides"\npop_fp8 = "cast"',
    "many delay slots": "[pipeline]\ndelay_slots = 8",
}


@pytest.mark.parametrize("name", PROFILES)
def test_networks_on_derived_machines(name: str, tmp_path: Path) -> None:
    path = tmp_path / "derived.toml"
    path.write_text(f'base = "atlas-v1"\n{PROFILES[name]}\n')
    for model in (networks.cnn(12, 8), networks.siglip(33, 96, 3, 130)):
        program = tw.compile(model, target=str(path))
        verified = program.verify()
        assert verified.ok, str(verified)
        assert verified.cycles >= program.report().bound


def test_scales_mean_themselves(tmp_path: Path) -> None:
    path = tmp_path / "derived.toml"
    path.write_text('base = "atlas-v1"\n[numbers]\nunit_scale = 7\n')
    with pytest.raises(TilewrightError, match=r"numbers\.unit_scale.* 1"):
        tw.compile(networks.mlp(5, 40, 40), target=str(path))
