"""Writes in place: saved programs without torch give what the model gives, as live ones do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import import_module, to_numpy
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
nn = torch.nn


def function(call: Callable[..., Any]) -> Any:
    module = nn.Module()
    module.forward = call
    return module


def saved(module: Any, inputs: tuple[Any, ...], path: Path) -> Path:
    """As `torch.export` gives it, with all writes."""
    torch.export.save(torch.export.export(module, inputs), path)
    return path


def slices(x: Any) -> Any:
    y = torch.zeros(3, 6, 5)
    y[:, 1:4] = x[:, :3]
    y[:, 0] = 1.0
    y[..., 2] *= 2
    y[:, -1, 1::2] -= x[:, 0, 1::2]
    return y


def views_of_views(x: Any) -> Any:
    y = x.clone()
    flat = y.view(6, 10)
    rows, turned = flat[1:3], y.transpose(0, 1)
    rows.mul_(3)
    before = turned + 0
    flat.t().add_(1)
    first, second, _ = y.split(1, 0)
    second.zero_()
    return y, flat, rows, turned, before, first, second


def parts(x: Any) -> Any:
    y = x * 2
    a, b, c = y.unbind(0)
    b.copy_(a)
    c[1:] += a[1:]
    strip = y.permute(2, 0, 1).select(0, 1).narrow(1, 1, 2)
    strip.clamp_(-0.2, 0.2)
    y.masked_fill_(y > 1.5, 7.0)
    return y, b, c, strip


def steps(x: Any) -> Any:
    out = torch.empty(3, 4, 20)
    for t in range(4):
        out[:, t] = x.flatten(1) * t
        out[:, t, 1:] -= 1
    return out


def arithmetic(x: Any) -> Any:
    y = torch.softmax(x, -1)
    y /= y.sum(-1, keepdim=True)
    y -= 0.5
    y **= 2
    y *= torch.tensor([1, 0, 1, 1, 0])
    y *= x > 0
    return nn.functional.dropout(y, 0.5, False).sqrt_()


def places(x: Any) -> Any:
    y = x.clone()
    y[:, torch.tensor([2, 0])] = 0.5
    y[y < -1] = 0
    y.scatter_(1, torch.zeros(3, 1, 5, dtype=torch.int64), x[:, 3:])
    return y.index_add_(0, torch.tensor([1, 1]), x[:2])


def reshaped(x: Any) -> Any:
    y = (x + 1).reshape(3, -1)
    y.relu_()
    y.add_(y.view(3, 4, 5).flatten(1))
    return y


CALLS = [slices, views_of_views, parts, steps, arithmetic, places, reshaped]


@pytest.mark.parametrize("call", CALLS)
def test_what_is_written_is_read(call: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(1)
    module, x = function(call), torch.randn(3, 4, 5)
    wanted = call(x.clone())
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    path = saved(module, (x,), tmp_path / "writes.pt2")
    for imported in (read_pt2(path), import_module(module, (x,))):
        found = run(imported.module, [to_numpy(x)], weights=imported.weights)
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=0, atol=1e-5)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.relu(self.norm(self.conv(x)))
        y += x
        return self.relu(y)


def test_a_network_with_writes_on_the_device(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tail = nn.Flatten(), nn.Dropout(), nn.Linear(8 * 35, 7)
    module = nn.Sequential(nn.Conv2d(3, 8, 1), Residual(), nn.Hardswish(True), *tail).eval()
    x = torch.randn(2, 3, 7, 5)
    program = tw.compile(str(saved(module, (x,), tmp_path / "network.pt2")))
    assert program.verify(seed=1).ok
    wanted = module(x).detach().numpy()
    assert np.linalg.norm(program(x.numpy()) - wanted) < 0.1 * np.linalg.norm(wanted)


def other_type(x: Any) -> Any:
    y = x.half()
    y += x
    return y


def by_strides(x: Any) -> Any:
    y = x + 1
    z = y.reshape(12, 5)
    z.relu_()
    return y, z


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: x.relu_() + 1, "an input of the model"),
        (lambda x: x[0].relu_() + 1, "an input of the model"),
        (lambda x: (x * 2).squeeze_(0), "squeeze_"),
        (other_type, "another type"),
        (by_strides, "strides decide"),
    ],
)
def test_writes_that_are_refused(call: Callable[..., Any], words: str, tmp_path: Path) -> None:
    path = saved(function(call), (torch.randn(3, 4, 5),), tmp_path / "refused.pt2")
    with pytest.raises(TilewrightError) as found:
        read_pt2(path)
    error = found.value
    assert error.code == "TW6106" and words in error.message and error.hint
    assert error.location is not None


class Counting(nn.Module):
    """Memory of its own that does not begin with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.arange(1, 6) * 1.0)
        self.register_buffer("count", torch.tensor([3, 4]))
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Any) -> Any:
        self.mean.mul_(0.5).add_(x[0])
        self.count.add_(1)
        return self.layer(x) + self.mean, self.count + 0


@pytest.mark.parametrize("target", ["atlas-v1", "vpu40", "xdna2"])
def test_memory_begins_as_the_model_has_it(target: str, tmp_path: Path) -> None:
    """Both sides of `verify` read the first value from the program: only torch tells it is right."""
    torch.manual_seed(0)
    module, x = Counting().eval(), torch.randn(3, 5)
    path = saved(module, (x,), tmp_path / "counting.pt2")
    program = tw.compile(module, (x,), target=target)
    program.save(tmp_path / "counting.twb")
    programs = program, tw.load(tmp_path / "counting.twb"), tw.compile(str(path), target=target)
    for _ in range(3):
        wanted, count = (y.detach().numpy() for y in module(x))  # changes what the module holds
        for each in programs:
            found = [np.asarray(y) for y in each(x.numpy())]
            assert np.linalg.norm(found[0] - wanted) < 0.05 * np.linalg.norm(wanted)
            assert np.array_equal(found[1], count)
    assert all(each.verify(seed=1).ok for each in programs)
