"""Every library kernel against its references, and against the published programs."""

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.cases import CASES
from tilewright.targets.atlas.kernels.check import EDGES, canonical, check, check_one
from tilewright.targets.atlas.kernels.measure import execute, measure
from tilewright.targets.atlas.kernels.registry import ENTRIES, entry
from tilewright.targets.atlas.profile import load_profile

PROFILES = ("atlas-v0", "atlas-v1")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ENTRIES)
def test_goldens(name, profile, golden_cycles):
    """Fixed, several and ragged sizes; zeros, ±448, NaN, infinities and subnormals."""
    rows = list(check(ENTRIES[name], profile))
    assert [row.problem for row in rows if not row.ok] == []
    golden_cycles.check({f"{profile} {name} {row.what}": row.cycles for row in rows})


@given(
    st.sampled_from(
        [n for n, e in ENTRIES.items() if e.sizes and not e.related and "acc" not in n]
    ),
    st.sampled_from(PROFILES),
    st.integers(0, 1 << 30),
)
@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_random_shapes(name, profile, seed):
    which = ENTRIES[name]
    random = np.random.default_rng(seed)
    sizes = {}
    for size in which.sizes:
        step = which.multiples.get(size, 1)
        most = 3 if size in ("B", "G", "R") else 100 // step
        sizes[size] = int(random.integers(1, most + 1)) * step
    assert check_one(which, profile, "random", sizes, seed).problem is None


@pytest.mark.parametrize("profile", PROFILES)
def test_published_cases(profile):
    """Faster than every published program, and close to the bound, which no program that moves its
    tiles in whole registers can reach: with pieces of any size less would be waited for."""
    rows = [measure(entry(c.kernel), c.profile, c.sizes, c) for c in CASES if c.profile == profile]
    slower = [row.case for row in rows if row.cycles >= (row.reference_cycles or 0)]
    assert slower == []
    mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
    assert mean <= (1.07 if profile == "atlas-v1" else 1.11)
    assert max(row.ratio for row in rows) <= (1.3 if profile == "atlas-v1" else 1.25)
    assert min(row.ratio for row in rows) >= 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.profile} {case.name}")
def test_published_tolerances(case):
    """Within the published tolerance of the formula the published check uses."""
    which = entry(case.kernel)
    if which.reference.ideal is None:
        pytest.skip("a step of a chain has no result of its own")
    inputs = which.sample(case.sizes, seed=7)
    run = execute(which, which.build(case.profile, case.sizes), inputs)
    value = _published(which, case.profile, inputs)
    allowed = case.atol + case.rtol * np.abs(value)
    assert np.all(np.abs(_float(run.results()[0]) - value) <= allowed)


def _published(which, profile, inputs):
    """float64, but rounded where the published formulas say so."""
    wide = [_float(codes) for codes in inputs]
    if "matmul" in which.name or which.name in ("mini_block", "vector_arithmetic"):
        return _float(which.reference.exact(load_profile(profile), *inputs))
    if which.name.startswith(("flash_attention_bf16", "attention_acc")):
        wide[:3] = [_float(arith.pack(codes, 1)) for codes in inputs[:3]]
    value, _ = which.reference.ideal(*wide)
    if which.name in ("requant", "bias_add_cast"):
        value = _float(arith.bf16_to_fp8(arith.f64_to_bf16(value)))
    return value


def _float(codes):
    wide = arith.bf16_to_f32(codes) if codes.dtype == np.uint16 else arith.fp8_to_f32(codes)
    return wide.astype(np.float64)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("steps", [2, 3, 4, 8, 64])
def test_chains_over_k(steps, profile):
    row = check_one(entry("matmul"), profile, "fixed", {"K": 32 * steps}, steps)
    assert row.problem is None


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_chains_over_keys(steps, profile):
    which = entry("flash_attention_bf16")
    assert check_one(which, profile, "fixed", {"S": 32 * steps}, steps).problem is None


@pytest.mark.parametrize(
    ("name", "profile", "sizes"),
    [
        ("softmax", "atlas-v0", {"N": 2100}),
        ("rms_norm_weight", "atlas-v0", {"N": 1500}),
        ("layer_norm", "atlas-v0", {"N": 1433}),
        ("layer_norm", "atlas-v1", {"N": 5003}),
        ("reduction_mean", "atlas-v0", {"N": 3001}),
        ("reduction_max", "atlas-v0", {"N": 3001}),
        ("flash_attention_bf16", "atlas-v0", {"D": 32, "S": 2112}),
        ("attention_flash", "atlas-v1", {"M": 33, "N": 2200, "D": 32, "E": 40}),
        ("attention_flash_causal", "atlas-v0", {"M": 50, "N": 300, "D": 32, "E": 32}),
    ],
)
def test_more_than_fits_on_chip(name, profile, sizes):
    """Long rows and many keys: several passes, or loops of the program, with the same bits."""
    assert check_one(entry(name), profile, "fixed", sizes, 3).problem is None


@pytest.mark.parametrize("profile", PROFILES)
def test_chain_calls_one_after_the_other(profile):
    """first, mid, last with the accumulator carried between programs equal one matmul."""
    random = np.random.default_rng(3)
    machine = load_profile(profile)
    a, b = (random.integers(0, 0x50, (3, 32, 32)).astype(np.uint8) for _ in range(2))
    total: list[np.ndarray] = []
    for call, x, y in zip(("first", "mid", "last"), a, b, strict=True):
        which = entry(f"matmul_acc_{call}")
        run = execute(which, which.build(profile), [x, y, *total])
        total = run.results()
    whole = entry("matmul").reference.exact(
        machine, np.concatenate(list(a), axis=1), np.concatenate(list(b), axis=0)
    )
    assert np.array_equal(total[0], whole)


@pytest.mark.parametrize("profile", PROFILES)
def test_attention_calls_one_after_the_other(profile):
    """The state through DRAM gives the same bits as the state on chip."""
    q, kt, v = entry("flash_attention_bf16").sample({"S": 96})
    state: list[np.ndarray] = []
    for call, start in (("first", 0), ("mid", 32), ("last", 64)):
        which = entry(f"attention_acc_{call}")
        keys = slice(start, start + 32)
        inputs = [q, np.ascontiguousarray(kt[:, keys]), v[keys], *state]
        state = execute(which, which.build(profile), inputs).results()
    whole = entry("flash_attention_bf16").reference.exact(load_profile(profile), q, kt, v)
    assert np.array_equal(state[0], whole)


def test_a_wrong_kernel_is_found():
    """The comparison itself: one bit in one element."""
    which = entry("silu")
    inputs = which.sample()
    run = execute(which, which.build("atlas-v1"), inputs)
    expected = which.reference.exact(load_profile("atlas-v1"), *inputs)
    assert np.array_equal(canonical(run.results()[0]), canonical(expected))
    expected[3, 5] ^= 1
    assert not np.array_equal(canonical(run.results()[0]), canonical(expected))


def test_nan_compares_equal_to_nan():
    nan = np.array([0x7FC0, 0xFFC1, 0x7F81], np.uint16)
    assert set(canonical(nan).tolist()) == {0x7FC0}
    assert canonical(np.array(EDGES["bf16"], np.uint16)).tolist() == EDGES["bf16"]


@pytest.mark.parametrize(
    ("name", "sizes", "code"),
    [
        ("softmax", {"Q": 3}, "TW0052"),
        ("softmax", {"M": 0}, "TW0053"),
        ("rope", {"D": 96}, "TW0053"),
    ],
)
def test_bad_sizes(name, sizes, code):
    with pytest.raises(TilewrightError) as caught:
        entry(name).build("atlas-v1", sizes)
    assert caught.value.code == code


def test_unknown_kernel_suggests_a_name():
    with pytest.raises(TilewrightError, match="there is no kernel sofmax") as caught:
        entry("sofmax")
    assert caught.value.hint == "did you mean softmax?"


def test_programs_are_the_same_every_time():
    first, again = (entry("softmax").build("atlas-v1", {"M": 96}).program for _ in range(2))
    assert first.same_code(again)
