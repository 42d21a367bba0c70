"""Sizes that torch does not know at export though the model decides them: constant masks and counts."""

from __future__ import annotations

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

KEPT = torch.tensor([True, False, True, True, False])


class Masked(torch.nn.Module):
    """A mask that is part of the state dictionary, and sizes that follow from it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", KEPT.clone())
        self.layer = torch.nn.Linear(11, 4)

    def forward(self, x: Any) -> Any:
        y = self.layer(x)[:, self.mask]
        flat = y.reshape(y.shape[0] * y.shape[1], -1)
        return flat, torch.cat([y, y], 1).mean(1), y.sum(1) / y.shape[1], y.transpose(1, 2)


def both_ways(module: Any, inputs: tuple[Any, ...], path: Path) -> list[Any]:
    torch.export.save(torch.export.export(module, inputs), path)
    return [import_module(module, inputs), read_pt2(path)]


def test_a_mask_of_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Masked().eval(), torch.randn(3, 5, 11)
    wanted = [y.detach().numpy() for y in module(x)]
    for imported in both_ways(module, (x,), tmp_path / "masked.pt2"):
        found = run(imported.module, [x.numpy()], weights=imported.weights)
        for have, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(have, want, rtol=0, atol=2e-6)
    program = tw.compile(str(tmp_path / "masked.pt2"))
    assert program.verify(seed=1).ok
    (found, *_) = program(x.numpy())
    assert np.linalg.norm(found - wanted[0]) < 0.1 * np.linalg.norm(wanted[0])


def test_masks_and_counts_that_are_constants(tmp_path: Path) -> None:
    x = torch.randn(3, 5, 7)
    calls = {
        "index": lambda x: x[:, KEPT],
        "index and more": lambda x: x[:, KEPT].flatten(1).unsqueeze(0),
        "masked select": lambda x: torch.masked_select(x, KEPT[:, None]),
        "triangle": lambda x: x[:, torch.triu(torch.ones(5, 7), 1).bool()],
        "places": lambda x: x[:, torch.where(KEPT)[0]] + torch.nonzero(KEPT),
        "counts": lambda x: torch.bincount(torch.tensor([3, 0, 3, 1])) * x[..., :4],
        "at least": lambda x: torch.bincount(torch.tensor([1, 1]), minlength=7) * x,
        "weighed": lambda x: torch.bincount(torch.tensor([1, 1]), torch.tensor([0.5, 2])) + x[:, :2, :2],
        "twice": lambda x: x[:, KEPT] + x[:, KEPT].flip(1),
        "write": lambda x: x.index_put((torch.tensor([True, False, True]),), x[:2]),
    }  # fmt: skip
    for name, call in calls.items():
        module = torch.nn.Module()
        module.forward = call
        for imported in both_ways(module, (x,), tmp_path / "call.pt2"):
            (found,) = run(imported.module, [x.numpy()], weights=imported.weights)
            np.testing.assert_allclose(found, call(x).numpy(), 0, 2e-6, err_msg=name)


def test_numbers_taken_out_of_tensors(tmp_path: Path) -> None:
    def forward(x: Any) -> Any:
        return x * x.sum().item() - x[0, 0].item()

    module = torch.nn.Module()
    module.forward = forward
    x = torch.randn(3, 5)
    for imported in both_ways(module, (x,), tmp_path / "item.pt2"):
        (found,) = run(imported.module, [to_numpy(x)], weights=imported.weights)
        np.testing.assert_allclose(found, forward(x).numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "call, hint",
    [
        (lambda x: torch.bincount(x, minlength=9), "one_hot(x, 9).sum(0)"),
        (lambda x: x[x > 4], "torch.where"),
        (lambda x: x.nonzero(), "torch.where"),
        (lambda x: torch.masked_select(x, x > 4), "torch.where"),
        (lambda x: torch.arange(9)[: x[0].item()], "the tensor itself"),
    ],
)
def test_sizes_that_inputs_decide(call: Any, hint: str, tmp_path: Path) -> None:
    module = torch.nn.Module()
    module.forward = call
    x = torch.tensor([1, 5, 8, 1])
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "data.pt2")
    for attempt in (
        lambda: import_module(module, (x,)),
        lambda: read_pt2(tmp_path / "data.pt2"),
    ):
        with pytest.raises(TilewrightError) as found:
            attempt()
        assert found.value.code == "TW6102" and hint in (found.value.hint or "")
        assert found.value.location is not None
    counted = torch.nn.functional.one_hot(x, 9).sum(0)  # what the first hint says
    assert torch.equal(counted, torch.bincount(x, minlength=9))
