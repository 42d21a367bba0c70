"""Calls that torch breaks up for live models and saved programs keep, and what is said where one stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.pt2 import read_pt2
from tilewright.frontend.torch import import_module
from tilewright.reference.executor import run

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional

CALLS: dict[str, Callable[..., Any]] = {
    "pairwise_distance": lambda x: F.pairwise_distance(x, x + 1, p=1, keepdim=True),
    "dist": lambda x: torch.dist(x, x * 2, p=3),
    "matrix_norm": lambda x: torch.linalg.matrix_norm(x, keepdim=True),
    "norm of all": lambda x: torch.linalg.norm(x),
    "norm, 1": lambda x: x.norm(1),
    "norm, 0 and 3": lambda x: x.norm(3, dim=1) + x.norm(0, dim=1),
    "norm, largest": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=0),
    "norm, smallest": lambda x: torch.linalg.vector_norm(x, -float("inf"), dim=(0, 1), keepdim=True),
    "normalize": lambda x: F.normalize(x, p=1, dim=0),
    "weight_norm": lambda x: torch._weight_norm(x, x[:, :1].abs()),
    "vdot": lambda x: torch.vdot(x[0], x[1]) + torch.linalg.vecdot(x, x),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x.T, x]),
    "xlogy": lambda x: torch.xlogy(torch.relu(x), x.abs()) + torch.xlogy(x, 3.0),
    "isclose": lambda x: torch.isclose(x, torch.where(x > 0, x + 1e-9, x + 1)),
    "count_nonzero": lambda x: torch.count_nonzero(torch.relu(x), 1) + torch.relu(x).count_nonzero(),
    "aminmax": lambda x: (*x.aminmax(dim=1, keepdim=True), *x.aminmax()),
    "losses": lambda x: torch.stack([
        F.mse_loss(x, 2 * x), F.l1_loss(x, 2 * x), F.smooth_l1_loss(x, 3 * x, beta=0.5),
        F.huber_loss(x, 3 * x, delta=0.7, reduction="sum"),
    ]),
    "diagonals": lambda x: (torch.diag_embed(x), torch.diag_embed(x, -2), torch.diag(x[0], 1), torch.diag(x)),
    "trace": lambda x: torch.trace(x[:, :3]),
    "logspace": lambda x: x * torch.logspace(-1, 2, 5),
    "bags": lambda x: F.embedding_bag(torch.tensor([[0, 1], [2, 2]]), x, mode="max"),
    "stft": lambda x: torch.view_as_real(torch.stft(
        x, 4, 1, win_length=3, window=torch.hann_window(3), return_complex=True, normalized=True)),
    "stft of one": lambda x: torch.stft(
        x[0], 3, 2, window=torch.ones(3), center=False, return_complex=True, onesided=False).abs(),
    "windows": lambda x: x * torch.hamming_window(5) + torch.blackman_window(5, periodic=False),
    "uneven bags": lambda x: torch.cat([
        F.embedding_bag(torch.tensor([0, 2, 2, 1, 0]), x, torch.tensor([0, 3, 3]), mode=mode, padding_idx=1)
        for mode in ("sum", "mean", "max")]),
    "weighed bags": lambda x: F.embedding_bag(
        torch.tensor([0, 2, 2, 1]), x, torch.tensor([0, 1, 4]), mode="sum",
        include_last_offset=True, per_sample_weights=x[0, :4]),
    "std_mean": lambda x: torch.std_mean(x, 1),
    "swapdims": lambda x: x.unflatten(1, (5, 1)).swapdims(1, 2),
}  # fmt: skip


def function(call: Callable[..., Any]) -> Any:
    module = torch.nn.Module()
    module.forward = call
    return module


@pytest.mark.parametrize("name", CALLS)
def test_both_ways(name: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    module, x = function(CALLS[name]), torch.randn(3, 5)
    wanted = CALLS[name](x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "call.pt2")
    for imported in (read_pt2(tmp_path / "call.pt2"), import_module(module, (x,))):
        found = run(imported.module, [x.numpy()], weights=imported.weights)
        for have, want in zip(found, wanted, strict=True):
            assert have.dtype == want.numpy().dtype and have.shape == want.shape
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-5, atol=1e-5)


def packed(x: Any, lengths: Any) -> Any:
    return torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data


@pytest.mark.parametrize(
    "model, inputs, code, words",
    [
        (lambda x: x + torch.randn(3, 5), (3, 5), "TW6101", "draw them outside"),
        (torch.nn.Embedding(5, 4, max_norm=1.0), None, "TW6113", "max_norm=None"),
        (packed, (3, 5, 4), "TW6102", "padded input"),
    ],
)
def test_hints(model: Any, inputs: Any, code: str, words: str) -> None:
    given: tuple[Any, ...] = (torch.tensor([1]),) if inputs is None else (torch.randn(inputs),)
    given += (torch.tensor([5, 3, 2]),) if model is packed else ()
    with pytest.raises(TilewrightError) as found:
        tw.compile(model, given)
    assert found.value.code == code and words in (found.value.hint or "")


def test_a_dynamic_size_by_its_name(tmp_path: Path) -> None:
    module, batch = torch.nn.Linear(5, 4), torch.export.Dim("batch")
    program = torch.export.export(module, (torch.randn(3, 5),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "dynamic.pt2")
    with pytest.raises(TilewrightError, match=r"the dynamic shape s\d+x5"):
        read_pt2(tmp_path / "dynamic.pt2")


def test_a_constant_that_is_no_number() -> None:
    """A checker that compares options has to take NaN for NaN."""
    x = torch.randn(3, 5)
    program = tw.compile(lambda x: torch.relu(x) * float("nan"), (x,))
    assert program.verify(seed=0).ok and torch.isnan(program(x)).all()
