"""Models of PyTorch, channels first, on the Coral core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

import tilewright as tw  # noqa: E402
from tilewright.compiling.sources import as_imported  # noqa: E402
from tilewright.targets.coral.compile import CoralOptions, compile_model  # noqa: E402
from tilewright.targets.coral.toolchain import toolchain_missing  # noqa: E402

pytestmark = [
    pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain"),
    pytest.mark.filterwarnings("ignore"),  # torch's own deprecations
]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = nn.Conv2d(8, 8, 1)
        self.dense = nn.Linear(8, 5)
        assert self.norm.running_mean is not None and self.norm.running_var is not None
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        h = nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        h = h + self.point(nn.functional.relu6(self.depthwise(h)))
        return torch.softmax(self.dense(h.mean((2, 3))), -1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = self.norm(x)
        weights = torch.softmax(self.q(h) @ self.k(h).transpose(-1, -2) / 4, -1)
        x = x + weights @ self.v(h)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Spotter(nn.Module):
    """Keywords: one-dimensional convolutions, a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(10, 16, 5, 2, 2), nn.Conv1d(16, 12, 3, padding=1)
        self.norm, self.dense = nn.BatchNorm1d(16), nn.Linear(12, 6)

    def forward(self, x):
        h = torch.relu(self.second(torch.relu(self.norm(self.first(x)))))
        h = nn.functional.adaptive_avg_pool1d(h, 1).flatten(1)
        return nn.functional.log_softmax(self.dense(h), -1)


class Recurrent(nn.Module):
    """A gated cell, step by step, over embedded symbols."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cell, self.out = nn.Embedding(20, 8), nn.GRUCell(8, 12), nn.Linear(12, 3)

    def forward(self, symbols):
        x, h = self.table(symbols), torch.zeros(1, 12)
        for step in range(symbols.shape[1]):
            h = self.cell(x[:, step], h)
        return self.out(h)


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        hidden = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        return self.attention(x, x, x, need_weights=False, attn_mask=hidden)[0]


def spread() -> Any:
    return nn.Sequential(nn.Linear(9, 20), nn.SiLU(), nn.LayerNorm(20), nn.Linear(20, 4))


@pytest.mark.parametrize(
    ("build", "inputs"),
    [
        (spread, lambda: torch.randn(3, 9)),
        (Spotter, lambda: torch.randn(1, 10, 49)),
        (Recurrent, lambda: torch.randint(0, 20, (1, 4))),
        (Causal, lambda: torch.randn(1, 6, 16)),
    ],
)
def test_first_models(build, inputs):
    """What people try first, by the public path, nothing on the host."""
    torch.manual_seed(1)
    module, x = build().eval(), inputs()
    wanted = module(x).detach().numpy()
    program = tw.compile(module, (x,), target="coral", no_host=True)
    assert program.verify().ok
    assert np.allclose(np.asarray(program(x)), wanted, atol=2e-6)


@pytest.mark.parametrize(("build", "shape"), [(Residual, (2, 3, 8, 8)), (Block, (1, 6, 16))])
def test_modules(build, shape):
    torch.manual_seed(0)
    module = build().eval()
    x = torch.randn(*shape)
    wanted = module(x).detach().numpy()
    imported = as_imported(module, (x,))
    imported = imported[0] if isinstance(imported, tuple) else imported
    made = compile_model(imported)
    assert made.verify(1).ok and np.allclose(made.run([x.numpy()])[0], wanted, atol=2e-6)
    narrow = compile_model(imported, options=CoralOptions("int8"))
    got = narrow.dequantised(narrow.run([x.numpy()]))[0]
    assert narrow.verify(1).ok and np.abs(got - wanted).max() < 0.15


def test_a_model_in_f16() -> None:
    """Norms that are folded into convolutions round in other places than the model written out."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Flatten(2), nn.Linear(38, 48)
    model = nn.Sequential(*layers, nn.Tanh()).half().eval()
    model[1].running_var.uniform_(0.1, 3)
    model[1].running_mean.normal_()
    program = tw.compile(model, (torch.randn(2, 3, 40, 6).half(),), target="coral-highmem")
    result = program.verify(seed=0)
    assert result.ok, result.text()
    assert result.outputs[0].limit_relative < 0.02
