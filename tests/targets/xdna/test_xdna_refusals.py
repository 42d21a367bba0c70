"""What is refused, and whether the choice a refusal names is legal: by following it."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.device import load_device
from tilewright.targets.xdna.gemm import gemm_behind, plan_gemm
from tilewright.targets.xdna.report import report_gemm
from tilewright.targets.xdna.request import gemm_of


class Asked:
    """A request that is changed as its refusals say."""

    def __init__(self, rng: random.Random) -> None:
        def size() -> int:
            return rng.choice((rng.randint(1, 5000), rng.randint(-3, 300), 10**7, 200_000))

        def side() -> int:
            return rng.choice((rng.randint(-2, 200), 16 * rng.randint(1, 20)))

        self.device = load_device(rng.choice(("npu2", "npu1", "npu2_5col")))
        self.policy = rng.choice(("stock", "wide_k", "resident_a", "resident_b"))
        self.shape = {"M": size(), "K": size(), "N": size()}
        self.tile = {"m": side(), "k": side(), "n": side()}
        self.options: dict[str, Any] = {
            "dtype": rng.choice(("i8", "ternary", "int4", "bf16")),
            "out": rng.choice(("i32", "i16", "i8", "bf16", None)),
            "columns": rng.choice((None, rng.randint(0, 10))),
            "k_mt": rng.choice((None, rng.randint(0, 900))),
            "shift": rng.choice((0, rng.randint(-2, 40))),
            "c_depth": rng.choice((None, rng.randint(0, 3))),
        }

    def ask(self) -> None:
        (M, K, N), (m, k, n) = self.shape.values(), self.tile.values()
        gemm_of(M, K, N, (m, k, n), self.policy, self.device, **self.options)

    def follow(self, error: TilewrightError) -> None:
        hint = error.hint or ""
        if found := re.search(r"legal tile: (\d+)x(\d+)x(\d+)", hint):
            self.tile = dict(zip("mkn", map(int, found.groups()), strict=True))
        elif found := re.search(r"legal shape: (\d+)x(\d+)x(\d+)", hint):
            self.shape = dict(zip("MKN", map(int, found.groups()), strict=True))
        elif found := re.search(r"legal shift: (\d+)", hint):
            self.options["shift"] = int(found[1])
        elif found := re.search(r"or ([mn]) (?:up to|of at least) (\d+)", hint):
            self.tile[found[1]] = int(found[2])
        elif found := re.search(r"K up to (\d+)", hint):
            self.shape["K"] = int(found[1])
        elif found := re.search(r"k_mt is (\d+)", hint):
            self.options["k_mt"] = int(found[1])
        elif found := re.search(r"nearest legal: (\d+)", hint):
            name = error.message[0] if error.message[0] in "MKN" else None
            if name is not None:
                self.shape[name] = int(found[1])
            else:
                name = "k_mt" if "k_mt" in error.message else "columns"
                self.options[name] = int(found[1])
        elif found := re.search(r"outputs for \w+: (\w+)|use (i32)", hint):
            self.options["out"] = found[1] or found[2]
        elif hint == "1 or 2":
            self.options["c_depth"] = 1
        elif found := re.search(r"(wide_k|resident_b)", hint):
            self.policy = found[1]
        else:
            raise AssertionError(f"no choice is named: {error.message} ({hint})")


@pytest.mark.parametrize("seed", range(4))
def test_the_choices_that_refusals_name_lead_to_a_legal_request(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        asked = Asked(rng)
        for _ in range(15):
            try:
                asked.ask()
                break
            except TilewrightError as error:
                assert error.code == "TW8030"
                asked.follow(error)
        else:
            raise AssertionError(f"refused again and again: {vars(asked)}")


@pytest.mark.parametrize(
    "shape, options, broken",
    [
        ((1024, 4608, 1536), {"tile": (64, 64, 96), "policy": "resident_b"}, "buffer_placement"),
        ((512, 4096, 512), {"tile": (64, 64, 64), "policy": "wide_k", "k_mt": 4096},
         "l2_bytes_per_tile"),
        ((512, 20480, 1024), {"tile": (64, 64, 64), "policy": "resident_b"}, "descriptor_fields"),
    ],
)  # fmt: skip
def test_a_design_that_does_not_fit_has_a_legal_neighbour(shape, options, broken: str) -> None:
    report = report_gemm(plan_gemm(*shape, **options))
    assert not report.ok and broken in {check.name for check in report.checks if not check.ok}
    (note,) = report.to_json()["notes"]
    found = re.fullmatch(r"nearest legal: (?:k_mt (\d+)|policy (\w+))", note)
    assert found is not None, note
    changed = {"k_mt": int(found[1])} if found[1] else {"policy": found[2]}
    again = plan_gemm(*shape, **{**options, **changed})
    assert all(check.ok for check in check_design(again, deadlock=False))


def test_padding_adds_nothing_to_the_accumulators() -> None:
    design = plan_gemm(16, 131071, 16, tile=(16, 64, 16), policy="stock", columns=1)
    assert gemm_behind(design).padded[1] == 131072
    with pytest.raises(TilewrightError, match="K = 131072 can overflow") as caught:
        plan_gemm(16, 131072, 16, tile=(16, 64, 16), policy="stock", columns=1)
    assert "131071" in (caught.value.hint or "")


def test_operands_that_are_too_large_are_refused_at_once() -> None:
    with pytest.raises(TilewrightError, match=r"1048576x131071x1048576 has \d+ elements") as caught:
        plan_gemm(1 << 20, 131071, 1 << 20)
    assert "nearest legal shape" in (caught.value.hint or "")
