"""Models of PyTorch, JAX and ONNX on the array: linear layers there, the rest on the host."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.runtime.bundle import load
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DevicePart

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own deprecations


class Block(torch.nn.Module):
    """A decoder block in small: norms, attention with a mask, gated feed-forward."""

    def __init__(self, ternary: bool = False) -> None:
        super().__init__()
        sizes = {"q": (40, 40), "k": (40, 20), "v": (40, 20), "o": (40, 40),
                 "gate": (40, 104), "up": (40, 104), "down": (104, 40)}  # fmt: skip
        for name, (inner, across) in sizes.items():
            layer = torch.nn.Linear(inner, across, bias=name == "o")
            if ternary:
                with torch.no_grad():
                    layer.weight.copy_(torch.randint(-1, 2, layer.weight.shape) * 0.125)
            self.add_module(name, layer)
        self.first, self.second = torch.nn.RMSNorm(40), torch.nn.RMSNorm(40)

    def heads(self, x):
        return x.unflatten(-1, (-1, 20)).transpose(1, 2)

    def forward(self, x):
        n = self.first(x)
        q, k, v = self.heads(self.q(n)), self.heads(self.k(n)), self.heads(self.v(n))
        a = torch.nn.functional.scaled_dot_product_attention(
            q, k.expand_as(q), v.expand_as(q), is_causal=True
        )
        x = x + self.o(a.transpose(1, 2).flatten(-2))
        n = self.second(x)
        return x + self.down(torch.nn.functional.silu(self.gate(n)) * self.up(n))


@pytest.mark.parametrize("target", ["xdna1", "xdna1-ternary"])
def test_a_decoder_block(target: str, tmp_path) -> None:
    torch.manual_seed(0)
    block = Block(ternary=target.endswith("ternary")).eval()
    x = torch.randn(1, 9, 40)
    program = tw.compile(block, (x,), target=target)
    path = tmp_path / "block.twb"
    program.save(path)
    model = load(path)
    layers = [step.name for step in model.artifact.steps]
    assert sorted(layers) == ["down", "gate", "k", "o", "q", "up", "v"]
    assert sum(isinstance(part, DevicePart) for part in model.parts) == 4
    found = verify(model, {model.inputs[0]: x.numpy()}, original=program.original)
    assert found.ok, found.text()
    wanted = block(x).detach().numpy()
    got = np.asarray(program(x.numpy()))
    assert np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()


def test_a_jax_function() -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((30, 70)).astype(np.float32)
    second = rng.standard_normal((70, 11)).astype(np.float32)
    x = rng.standard_normal((1, 30)).astype(np.float32)

    def network(x):
        return jax.nn.softmax(jax.numpy.tanh(x @ first) @ second * 0.1)

    program = tw.compile(network, (x,), target="npu1")
    assert len(program.model.artifact.steps) == 2
    assert np.abs(np.asarray(program(x)) - np.asarray(network(x))).max() < 0.05
