"""Programs that are taken as torch exports them: the same module as after torch made them functional."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.dialects.printing import print_module
from tilewright.frontend import torch as live
from tilewright.frontend.imported import Imported
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import import_module, import_program, to_numpy
from tilewright.frontend.torch_plain import is_plain
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def seeded(make: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    return make().eval()


def function(call: Callable[..., Any]) -> Any:
    module = nn.Module()
    module.forward = call
    return module


def layers() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Conv2d(8, 8, 1), nn.Hardswish(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5), nn.LayerNorm(5), nn.SiLU(inplace=True),
    )  # fmt: skip


def encoder() -> Any:
    return nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True)


def sums_in_place(x: Any) -> Any:
    y = x * 2
    y += x  # what is written is new, and only the write reads it
    y = y.clamp_(-1, 1)
    return functional.relu_(y - 0.5) + x


PLAIN: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "layers": (layers, (2, 3, 6, 6)),
    "encoder": (encoder, (2, 7, 32)),
    "sums": (lambda: function(sums_in_place), (4, 5)),
    "views": (
        lambda: function(lambda x: x.view(5, 4).t().softmax(-1).unsqueeze(0).expand(3, 4, 5)),
        (4, 5),
    ),
    "detached": (
        lambda: function(lambda x: x * torch.tensor([1.0, 2, 3, 4, 5]) + torch.tensor(0.5)),
        (4, 5),
    ),
    "parts": (lambda: function(lambda x: x.split(2, 0)[1] @ x.chunk(2, 0)[0].mT), (4, 5)),
}


def both(
    module: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> tuple[Imported, Imported, np.ndarray, Any]:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        program = torch.export.export(module, (x,))
        wanted = to_numpy(module(x.clone()))
    mine = import_program(program, "x")
    with monkeypatch.context() as patch:
        patch.setattr(live, "is_plain", lambda *_: False)
        other = import_program(program, "x")
    assert np.allclose(run(mine.module, [to_numpy(x)], weights=mine.weights)[0], wanted, atol=1e-5)
    return mine, other, to_numpy(x), program


@pytest.mark.parametrize("name", PLAIN)
def test_the_same_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape = PLAIN[name]
    mine, other, _, program = both(seeded(make), shape, monkeypatch)
    assert is_plain(torch, program)
    assert print_module(mine.module) == print_module(other.module)
    assert mine.weights.keys() == other.weights.keys()
    for key, array in mine.weights.items():
        assert np.array_equal(array, other.weights[key])


def test_nothing_is_traced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("traced anew")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", fail)
    make, shape = PLAIN["layers"]
    import_module(seeded(make), (torch.zeros(shape),))


def read_later(x: Any) -> Any:
    y = x * 2
    z = y + 1
    y.relu_()
    return z * y + y


def through_a_view(x: Any) -> Any:
    y = x * 2
    y.view(-1).relu_()
    return y


def under_a_view(x: Any) -> Any:
    y = x * 2
    before = y[1:]
    y.relu_()
    return before


def twice(x: Any) -> Any:
    y = x * 2
    y.relu_()
    y.mul_(3)
    return y


class Without(nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.enable_grad():
            return x * 2


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 5))

    def forward(self, x: Any) -> Any:
        self.seen += x
        return self.seen * 1


NOT_PLAIN: dict[str, Callable[[], Any]] = {
    **{
        call.__name__: (lambda call=call: function(call))
        for call in (read_later, through_a_view, under_a_view)
    },
    "complex": lambda: function(lambda x: torch.view_as_real(torch.fft.fft(x, dim=-1))),
    "unmapped": lambda: function(lambda x: torch.sinc(x).deg2rad()),
    "other gradients": Without,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_others_see_is_left_to_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And gives what the model gives."""
    *_, program = both(seeded(NOT_PLAIN[name]), (4, 5), monkeypatch)
    assert not is_plain(torch, program)


def test_dropout_gives_what_it_gets() -> None:
    def through(x: Any) -> Any:
        y = x * 2
        functional.dropout(y, 0.5, False).relu_()
        return y

    with torch.no_grad():
        assert not is_plain(torch, torch.export.export(function(through), (torch.ones(4, 5),)))


def test_writes_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is the only one that reads what it writes, or torch is asked; both are right."""
    mine, other, x, _ = both(function(twice), (4, 5), monkeypatch)
    for one in (mine, other):
        assert np.array_equal(
            run(one.module, [x], weights=one.weights)[0], np.maximum(x * 2, 0) * 3
        )


def test_memory_that_a_model_changes_is_left_to_torch() -> None:
    with torch.no_grad():
        program = torch.export.export(Counts().eval(), (torch.ones(4, 5),))
    assert not is_plain(torch, program)
    inputs = torch.ones(4, 5)
    with torch.no_grad():
        written = torch.export.export(function(lambda x: x.mul_(2) + 1), (inputs,))
    assert not is_plain(torch, written)


def test_sizes_that_may_change_are_left_to_torch() -> None:
    dynamic = {"x": {0: torch.export.Dim("n", min=2, max=9)}}

    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    program = torch.export.export(Twice(), (torch.ones(4, 5),), dynamic_shapes=dynamic)
    assert not is_plain(torch, program)


class Dropped(torch.nn.Module):
    """Writes to what a dropout that does nothing gave: to the tensor itself."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.linear = way, torch.nn.Linear(6, 6)
        self.dropout, self.relu = torch.nn.Dropout(0.1), torch.nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        z = self.dropout(y)
        if self.way == "result":
            y.relu_()
            return z
        self.relu(z[1:] if self.way == "part" else z)
        return y if self.way == "source" else y + z


@pytest.mark.parametrize("way", ["result", "source", "both", "part"])
def test_dropouts_that_do_nothing_give_the_tensor_itself(way: str, tmp_path: Path) -> None:
    model, x = Dropped(way).eval(), torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    wanted = model(x.clone()).detach().numpy()
    program = torch.export.export(model, (x,))
    before = [str(node.target) for node in program.graph.nodes]
    (live,) = run(
        import_program(program).module, [x.numpy()], weights=import_program(program).weights
    )
    assert np.allclose(live, wanted, 1e-5, 1e-5) and np.abs(wanted).max() > 0.1
    assert [str(node.target) for node in program.graph.nodes] == before
    torch.export.save(program, tmp_path / "model.pt2")
    saved = read_pt2(tmp_path / "model.pt2")
    (found,) = run(saved.module, [x.numpy()], weights=saved.weights)
    assert np.allclose(found, wanted, 1e-5, 1e-5)
