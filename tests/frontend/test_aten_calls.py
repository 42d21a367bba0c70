"""Single ATen calls against torch: live, and saved without anything torch would decompose.

Every group is one module with an output per call, so that one export serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from frontend.aten_checks import Calls, Many, check
from tilewright.errors import TilewrightError
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import import_module, to_numpy
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own deprecations


def numbers(*shape: int, seed: int = 0) -> Any:
    """Positive, negative, large, small, equal and zero."""
    random = np.random.default_rng(seed)
    array = random.standard_normal(shape) * 10.0 ** random.integers(-2, 3, shape)
    array.flat[:: max(1, array.size // 3)] = 0.0
    array.flat[1 :: max(1, array.size // 4)] = -2.5
    return torch.from_numpy(array.astype(np.float32))


def whole(low: int, high: int, *shape: int, seed: int = 1) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).integers(low, high, shape))


def test_lookups(tmp_path: Path) -> None:
    calls: Calls = {
        "gather": lambda x, i, m: torch.gather(x, 1, i),
        "gather last": lambda x, i, m: torch.gather(x[:, :, :2], -1, i % 2),
        "take_along_dim": lambda x, i, m: torch.take_along_dim(x, i[:1, :, :1], 1),
        "take": lambda x, i, m: torch.take(x, i - 3),
        "index apart": lambda x, i, m: x[i[0, :, 0] - 5, :, i[0, :, 1]],
        "index broadcast": lambda x, i, m: x[i[0, :, :1] % 3, i[0, :, 1] % 5],
        "index last": lambda x, i, m: x[..., i[0, :, 1]],
        "flip": lambda x, i, m: x.flip([0, 2]),
        "roll": lambda x, i, m: x.roll((2, -1), (1, 2)),
        "unfold": lambda x, i, m: x.unfold(1, 3, 2),
        "unfold apart": lambda x, i, m: x.unfold(2, 2, 2),
        "diagonal": lambda x, i, m: x.diagonal(1, 1, 2),
        "diff": lambda x, i, m: x.diff(n=2, dim=1, prepend=x[:, :1]),
        "diff of truths": lambda x, i, m: m.diff(),
        "meshgrid": lambda x, i, m: torch.meshgrid(x[0, :, 0], x[:, 0, 0], indexing="xy"),
        "searchsorted": lambda x, i, m: torch.searchsorted(torch.tensor([-2.5, 0.0, 0.0, 3.0]), x),
        "searchsorted right": lambda x, i, m: torch.searchsorted(
            torch.nan_to_num(x).sort(-1)[0], x, right=True, out_int32=True
        ),
        "bucketize": lambda x, i, m: torch.bucketize(x, torch.tensor([-2.5, 0.0, 1.0])),
    }
    x = numbers(6, 5, 7)
    x[0, 1, 2], x[1, 1, 1], x[2, 0, 3] = math.nan, math.inf, -math.inf
    check(calls, (x, whole(0, 5, 6, 4, 7), whole(0, 2, 6, 5).bool()), tmp_path)


def test_orders_and_counts(tmp_path: Path) -> None:
    calls: Calls = {
        "sort": lambda x, i: tuple(torch.sort(x, dim=1, stable=True)),
        "sort down": lambda x, i: torch.sort(x, 0, descending=True)[0],
        "argsort": lambda x, i: torch.argsort(x, dim=-1, descending=True, stable=True),
        "topk": lambda x, i: torch.topk(x, 3)[0],
        "least": lambda x, i: torch.topk(x, 2, dim=0, largest=False)[0],
        "kthvalue": lambda x, i: torch.kthvalue(x, 2, -1, keepdim=True)[0],
        "median": lambda x, i: torch.median(x, 1)[0],
        "one_hot": lambda x, i: F.one_hot(i, 9),
        "histc": lambda x, i: torch.histc(x, 5, -3, 4),
        "cumprod": lambda x, i: x.cumprod(1),
        "cummax": lambda x, i: x.cummax(1)[0],
        "cummin": lambda x, i: x.cummin(0)[0],
        "logsumexp": lambda x, i: x.logsumexp((0, 1)),
        "tril_indices": lambda x, i: torch.tril_indices(3, 4, 1) + i[0, 0],
    }
    check(calls, (numbers(6, 8, seed=3), whole(0, 9, 4, 3)), tmp_path)


def test_orders_of_what_is_no_number(tmp_path: Path) -> None:
    calls: Calls = {
        "sort": lambda x: torch.sort(x, 1)[0],
        "topk": lambda x: torch.topk(x, 3)[0],
        "median": lambda x: torch.median(x, 1)[0],
        "cummax": lambda x: x.cummax(1)[0],
        "logsumexp": lambda x: x.logsumexp(1),
        "isfinite": torch.isfinite,
        "isinf": torch.isinf,
        "nan_to_num": lambda x: torch.nan_to_num(x, 1.5),
        "sign": torch.sign,
        "amax": lambda x: x.amax(1),
    }
    x = torch.tensor([[1.0, math.nan, -1.0, 2.0], [math.inf, 0.0, -math.inf, 3.0], [-math.inf] * 4])
    check(calls, (x,), tmp_path)


def test_writes(tmp_path: Path) -> None:
    def mask_write(x: Any, i: Any, y: Any) -> Any:
        x = x.clone()
        x[x > 0] = -1.0
        x[i[:, 0] > 2] = y[0, 0]
        return x

    def rows_write(x: Any, i: Any, y: Any) -> Any:
        x = x.clone()
        x[i[:, 0], :, i[:, 1] % 3] = y[:, :, 0]
        return x

    calls: Calls = {
        "scatter": lambda x, i, y: x.scatter(1, i[:, 1:, None].expand(-1, -1, 3), y[:, :2]),
        "scatter number": lambda x, i, y: x.scatter(2, (i % 3)[:, :, None][:, :2], 7.5),
        "scatter_add": lambda x, i, y: x.scatter_add(0, i[:, :, None].expand(-1, -1, 3), y[:, :3]),
        "scatter_reduce": lambda x, i, y: x.scatter_reduce(
            0, i[:, :, None].expand(-1, -1, 3), y[:, :3], "amax", include_self=False
        ),
        "scatter mean": lambda x, i, y: x.scatter_reduce(
            0, i[:, :, None].expand(-1, -1, 3), y[:, :3], "mean"
        ),
        "index_put": lambda x, i, y: x.index_put((i[:, 0],), y[0], accumulate=True),
        "index_put apart": rows_write,
        "index_put mask": mask_write,
        "index_add": lambda x, i, y: x.index_add(1, i[0] % 5, y[:, :3], alpha=2),
        "index_fill": lambda x, i, y: x.index_fill(2, i[0, :1] % 3, -3.0),
        "index_copy": lambda x, i, y: x.index_copy(0, torch.arange(6).flip(0), y),
        "masked_scatter": lambda x, i, y: x.masked_scatter(x > 0, y),
        "slice": lambda x, i, y: x.slice_scatter(y[:, :2], 1, 0, 4, 2),
    }
    index = torch.tensor([[0, 1, 2], [1, 3, 4], [2, 0, 1], [3, 4, 0], [4, 2, 3], [5, 0, 1]])
    check(calls, (numbers(6, 5, 3, seed=5), index, numbers(6, 5, 3, seed=6)), tmp_path)


def test_windows(tmp_path: Path) -> None:
    w = numbers(6, 2, 3, 2, seed=8) / 10
    calls: Calls = {
        "transposed": lambda x, s, v: F.conv_transpose2d(x, w[:4], w[0, :, 0, 0].repeat(2), (2, 3), (1, 0), (1, 2), 2),
        "transposed deep padding": lambda x, s, v: F.conv_transpose2d(x, w[:4], None, 1, (2, 3)),
        "transposed 1d": lambda x, s, v: F.conv_transpose1d(s, w[:4, :, :, 0], stride=2, dilation=2),
        "transposed 3d": lambda x, s, v: F.conv_transpose3d(v, w[:2, :, :, :, None], stride=(1, 2, 1)),
        "conv1d": lambda x, s, v: F.conv1d(s, w[:4, :1, :, 0], padding="same", groups=4),
        "conv3d": lambda x, s, v: F.conv3d(v, w[:, :, :, :, None], w[:, 0, 0, 0], (1, 2, 1), (1, 0, 2)),
        "conv3d groups": lambda x, s, v: F.conv3d(v, w[:, :1, :, :, None], None, 1, 1, (2, 1, 1), 2),
        "max 1d": lambda x, s, v: F.max_pool1d(s, 3, 2, 1, ceil_mode=True),
        "max 3d": lambda x, s, v: F.max_pool3d(v, (2, 3, 2), 2, (1, 1, 0)),
        "max 2d places": lambda x, s, v: F.max_pool2d(x, (3, 2), 2, 1, 1, True, True)[1],
        "max places of nothing": lambda x, s, v: F.max_pool1d(s - torch.inf, 3, 2, 1, 1, False, True)[1],
        "avg 1d": lambda x, s, v: F.avg_pool1d(s, 3, 2, 1),
        "avg 2d ceiling": lambda x, s, v: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        "avg 2d divisor": lambda x, s, v: F.avg_pool2d(x, 2, divisor_override=3),
        "avg 3d": lambda x, s, v: F.avg_pool3d(v, 2, 1, 1, count_include_pad=False),
        "adaptive 1d": lambda x, s, v: F.adaptive_avg_pool1d(s, 4),
        "adaptive 2d": lambda x, s, v: F.adaptive_avg_pool2d(x, (4, 3)),
        "adaptive max": lambda x, s, v: F.adaptive_max_pool2d(x, (3, 5)),
        "adaptive 3d": lambda x, s, v: F.adaptive_avg_pool3d(v, (2, 1, 3)),
        "lp": lambda x, s, v: F.lp_pool2d(x.abs(), 2, 2),
        "patches": lambda x, s, v: F.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)),
        "whole patches": lambda x, s, v: F.unfold(x, (5, 1), stride=(5, 1)),
        "folded": lambda x, s, v: F.fold(F.unfold(x, 3, 1, 1, 2), (10, 7), 3, 1, 1, 2),
    }  # fmt: skip
    check(calls, (numbers(1, 4, 10, 7), numbers(2, 4, 11), numbers(1, 2, 4, 6, 5)), tmp_path)


def test_borders_and_resizing(tmp_path: Path) -> None:
    def resized(mode: str, **options: Any) -> Callable[..., Any]:
        return lambda x, s, v: F.interpolate(x, mode=mode, **options)

    calls: Calls = {
        "reflect": lambda x, s, v: F.pad(x, (2, 1, 0, 3), mode="reflect"),
        "replicate": lambda x, s, v: F.pad(x, (1, 2, 3, 0), mode="replicate"),
        "circular": lambda x, s, v: F.pad(x, (1, 2, 0, 1), mode="circular"),
        "reflect 1d": lambda x, s, v: F.pad(s, (3, 2), mode="reflect"),
        "replicate 3d": lambda x, s, v: F.pad(v, (1, 0, 1, 1, 0, 2), mode="replicate"),
        "cut": lambda x, s, v: F.pad(x, (-1, 2), value=1.5),
        "nearest": resized("nearest", size=(7, 9)),
        "nearest factor": resized("nearest", scale_factor=(1.7, 0.6)),
        "nearest whole": resized("nearest", scale_factor=3),
        "exact": resized("nearest-exact", size=(4, 11)),
        "bilinear": resized("bilinear", size=(9, 4)),
        "bilinear corners": resized("bilinear", size=(9, 4), align_corners=True),
        "bilinear factor": resized("bilinear", scale_factor=(1.3, 2.1)),
        "bilinear smooth": resized("bilinear", size=(3, 4), antialias=True),
        "bicubic": resized("bicubic", size=(11, 3)),
        "bicubic corners": resized("bicubic", size=(8, 8), align_corners=True),
        "bicubic smooth": resized("bicubic", size=(3, 3), antialias=True),
        "area": resized("area", size=(4, 3)),
        "linear": lambda x, s, v: F.interpolate(s, size=13, mode="linear"),
        "trilinear": lambda x, s, v: F.interpolate(v, scale_factor=2, mode="trilinear"),
        "shuffle": lambda x, s, v: F.pixel_unshuffle(x.repeat(1, 1, 2, 2), 2),
    }
    inputs = (numbers(1, 2, 6, 5), numbers(1, 3, 8), numbers(1, 2, 3, 4, 3))
    check(calls, inputs, tmp_path, 1e-5)


def test_activations(tmp_path: Path) -> None:
    slopes = torch.tensor([0.1, -0.5, 2.0])
    calls: Calls = {
        "glu": lambda x: F.glu(x, 2),
        "prelu": lambda x: F.prelu(x, slopes),
        "prelu of one": lambda x: F.prelu(x, slopes[:1]),
        "rrelu": F.rrelu,
        "mish": F.mish,
        "logsigmoid": F.logsigmoid,
        "selu": F.selu,
        "celu": lambda x: F.celu(x, 1.5),
        "hardshrink": F.hardshrink,
        "softshrink": lambda x: F.softshrink(x, 0.3),
        "threshold": lambda x: F.threshold(x, 0.2, -4.0),
        "softsign": F.softsign,
        "tanhshrink": F.tanhshrink,
        "logit": lambda x: torch.logit(x.sigmoid(), 1e-3),
        "logaddexp": lambda x: torch.logaddexp(x, x.flip(0)),
        "trunc": torch.trunc,
        "frac": torch.frac,
        "fmod": lambda x: torch.fmod(x.round(), 3.0),
        "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
        "tan": lambda x: torch.tan(x.tanh()),
        "sinh": lambda x: torch.sinh(x.tanh()),
        "erfc": torch.erfc,
        "heaviside": lambda x: torch.heaviside(x, x.new_full((1,), 0.5)),
        "instance norm": lambda x: F.instance_norm(x, weight=slopes, bias=slopes),
        "group norm": lambda x: F.group_norm(x, 3, slopes),
        "normalize": lambda x: F.normalize(x, dim=1),
        "shift": lambda x: ((x * 10).int() << 2) >> 1,
        "squared distance": lambda x: torch.cdist(x[0], x[1]),
        "std": lambda x: torch.std(x, (0, 2)),
    }
    check(calls, (numbers(2, 3, 6, seed=11),), tmp_path, 1e-5)


def test_products(tmp_path: Path) -> None:
    calls: Calls = {
        "einsum": lambda a, b: torch.einsum("bik,bjk->bij", a, b),
        "einsum dots": lambda a, b: torch.einsum("...ik,...jk->j...i", a, b),
        "einsum outer": lambda a, b: torch.einsum("bik,bjl->iljb", a, b[:, :, :2]),
        "einsum sum": lambda a, b: torch.einsum("bik,bjk->b", a, b),
        "einsum implicit": lambda a, b: torch.einsum("ij,jk", a[0], b[0, :4].mT[:4]),
        "einsum three": lambda a, b: torch.einsum("bik,bjk,bi->bj", a, b, a[..., 0]),
        "outer": lambda a, b: torch.outer(a[0, 0], b[0, 0]),
        "tensordot": lambda a, b: torch.tensordot(a, b, ([0, 2], [0, 2])),
        "bilinear": lambda a, b: F.bilinear(a[0], b[0, :3], a.new_ones(2, 4, 4), a[0, 0, :2]),
        "addmv": lambda a, b: torch.addmv(a[0, :, 0], a[0], b[0, 0]),
        "baddbmm": lambda a, b: torch.baddbmm(a[:, :, :1], a, b.mT, beta=0.5, alpha=2),
    }
    check(calls, (numbers(2, 3, 4, seed=20) / 10, numbers(2, 5, 4, seed=21) / 10), tmp_path, 1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(4)
    options = {"proj_size": 3} if kind == "LSTM" else {}
    two = getattr(torch.nn, kind)(5, 4, 2, bidirectional=True, batch_first=True, **options)
    one = getattr(torch.nn, kind)(5, 4, bias=False)
    module = torch.nn.ModuleList([two, one]).eval()

    def run_both(x: Any) -> Any:
        first, last = two(x)
        second, _ = one(x[0])
        return (first, *(last if kind == "LSTM" else (last,)), second)

    calls: Calls = {"both": run_both}
    holder = Many(calls)
    holder.layers = module
    x = numbers(2, 6, 5, seed=9) / 10
    with torch.no_grad():
        expected = [to_numpy(v) for v in holder(x)["both"]]
    program = torch.export.export(holder, (x,)).run_decompositions({})
    torch.export.save(program, tmp_path / "saved.pt2")
    for imported in (read_pt2(tmp_path / "saved.pt2"), import_module(holder, (x,))):
        found = run(imported.module, [to_numpy(x)], weights=imported.weights)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, 0, 2e-6)


def test_rows_in_groups(tmp_path: Path) -> None:
    """Rows that belong to no group are zero; empty groups take none."""
    pytest.importorskip("transformers.integrations.moe", exc_type=ImportError)
    grouped = torch.ops.transformers.grouped_mm_fallback
    w = numbers(4, 3, 5, seed=30) / 10
    ends = torch.tensor([2, 2, 5, 6], dtype=torch.int32)
    calls: Calls = {"grouped": lambda x, e: grouped(x, w, e)}
    check(calls, (numbers(8, 3, seed=31), ends), tmp_path, 1e-5)


def test_signs_and_numbers_that_are_none(tmp_path: Path) -> None:
    edges = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 3e38, 1e-40]
    a = torch.tensor(edges).repeat(len(edges), 1)
    calls: Calls = {
        "fmax": torch.fmax,
        "fmin": torch.fmin,
        "signbit": lambda x, y: torch.signbit(x),
        "copysign": torch.copysign,
        "copysign number": lambda x, y: torch.copysign(x, -2.0),
        "whole fmax": lambda x, y: torch.fmax((x > 0).int(), (y > 1).int()),
    }
    check(calls, (a, a.T.contiguous()), tmp_path)
    b = torch.tensor([0.0, -3.0, 4.0, 2e38, -1e30, 1e-30, -math.inf]).repeat(7, 1)
    check({"hypot": torch.hypot}, (b, b.T.contiguous()), tmp_path)


def test_remainders(tmp_path: Path) -> None:
    """Quotients that would be rounded up to a whole number, either sign, divisors of zero."""
    calls: Calls = {
        "fmod": lambda x, y, i: torch.fmod(x, y),
        "fmod number": lambda x, y, i: torch.fmod(x, 0.1),
        "remainder": lambda x, y, i: torch.remainder(x, y),
        "remainder number": lambda x, y, i: torch.remainder(x, -0.1),
        "remainder of a number": lambda x, y, i: torch.remainder(7.0, y),
        "one": lambda x, y, i: x % 1.0,
        "floor": lambda x, y, i: x // y,
        "floor number": lambda x, y, i: x // 0.1,
        "floor of negative": lambda x, y, i: x // -0.3,
        "floor of a half": lambda x, y, i: x // 0.5,
        "whole": lambda x, y, i: (i % 3, i % -3, torch.fmod(i, 3), i // 3),
    }
    x = torch.arange(-12, 12, 0.1).reshape(4, 60)
    y = numbers(4, 60, seed=3)
    check(calls, (x, y, whole(-40, 40, 4, 60)), tmp_path)


def test_rounding_to_places(tmp_path: Path) -> None:
    """Without a mapping of its own it was broken up to calls below ATen, which nothing takes."""
    calls: Calls = {
        "behind the point": lambda x: x.round(decimals=2),
        "before it": lambda x: x.round(decimals=-1),
        "none": lambda x: x.round(decimals=0),
    }
    check(calls, (numbers(6, 5),), tmp_path)


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


UNMAPPED = {
    "linalg_inv.default": (torch.linalg.inv, lambda a: a),
    "linalg_det.default": (torch.linalg.det, lambda a: a.sum()),
    "linalg_solve.default": (lambda x: torch.linalg.solve(x, x), lambda a, b, left=True: a + b),
    "linalg_svd.default": (
        lambda x: torch.linalg.svd(x)[1],
        lambda a, full_matrices=True, driver=None: (a, a[0], a),
    ),
    "linalg_cholesky.default": (torch.linalg.cholesky, lambda a, upper=False: a),
    "lgamma.default": (torch.lgamma, torch.abs),
    "digamma.default": (torch.digamma, torch.abs),
    "erfinv.default": (torch.erfinv, torch.abs),
    "i0.default": (torch.i0, torch.abs),
    "special_bessel_j0.default": (torch.special.bessel_j0, torch.abs),
}


@pytest.mark.parametrize("name", UNMAPPED)
def test_hints_name_the_call_that_can_be_replaced(name: str, tmp_path) -> None:
    """What the model calls, not what torch makes of it; and what the hint says to do helps."""
    called, instead = UNMAPPED[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    program = torch.export.export(Called(called).eval(), (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    for source in ((program,), (str(tmp_path / "model.pt2"),), (Called(called).eval(), x)):
        with pytest.raises(TilewrightError) as caught:
            tw.compile(*source)
        assert caught.value.code == "TW6101" and f"aten.{name} has no" in caught.value.message
        assert f"{{torch.ops.aten.{name}: function}}" in (caught.value.hint or "")
    operation, _, overload = name.partition(".")
    table = {getattr(getattr(torch.ops.aten, operation), overload): instead}
    assert tw.compile(program.run_decompositions(table)).model.ports


@pytest.mark.parametrize("name", ["median", "nanmedian", "logcumsumexp", "trapz", "renorm"])
def test_hints_that_send_to_torch_are_true(name: str, tmp_path) -> None:
    more = {"logcumsumexp": (1,), "renorm": (2, 0, 1.0)}.get(name, ())
    model = Called(lambda x: getattr(torch, name)(x, *more)).eval()
    for spoiled in (False, True):
        x = torch.randn(5, 7, generator=torch.Generator().manual_seed(2)) * 3
        if spoiled and name not in ("renorm", "trapz"):  # these stay on the device
            x[2, 3] = float("nan")
        program = torch.export.export(model, (x,))
        torch.export.save(program, tmp_path / "model.pt2")
        with pytest.raises(TilewrightError) as caught:
            tw.compile(str(tmp_path / "model.pt2"))
        assert "torch.export.load" in (caught.value.hint or "")
        found = tw.compile(torch.export.load(tmp_path / "model.pt2"))(x.numpy())
        assert np.allclose(np.asarray(found), model(x).numpy(), 1e-2, 1e-2, equal_nan=True)
