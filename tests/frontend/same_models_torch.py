"""The four models as torch modules."""

# pyright: reportMissingImports=false, reportCallIssue=false
from __future__ import annotations

from typing import Any

import torch
from same_models import EPSILON, HEADS, KV_HEADS, SHAPES, rotary_tables, weights_of
from torch import nn
from torch.nn import functional


def module_of(model: str) -> Any:
    """The module with its weights, for inference."""
    module = MODULES[model]()
    state = {name: torch.from_numpy(array) for name, array in weights_of(model).items()}
    module.load_state_dict(state, strict=False)
    missing = set(state) - set(module.state_dict())
    assert not missing, missing
    return module.eval().requires_grad_(False)


def linear(model: str, name: str) -> nn.Linear:
    rows, columns = SHAPES[model][f"{name}.weight"]
    return nn.Linear(columns, rows, bias=f"{name}.bias" in SHAPES[model])


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = linear("mlp", "fc1"), linear("mlp", "fc2")

    def forward(self, x: Any) -> Any:
        return self.fc2(functional.gelu(self.fc1(x), approximate="tanh"))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6, eps=EPSILON)
        self.conv2 = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.fc = linear("cnn", "fc")

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.bn(self.conv1(x))), 2)
        return self.fc(functional.relu(self.conv2(x)).mean((2, 3)))


def heads(x: Any, count: int) -> Any:
    return x.view(*x.shape[:2], count, x.shape[2] // count).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("q", "k", "v", "o", "fc1", "fc2"):
            setattr(self, name, linear("encoder", name))
        self.norm1, self.norm2 = (nn.LayerNorm(32, eps=EPSILON) for _ in range(2))

    def forward(self, x: Any) -> Any:
        q, k, v = (heads(layer(x), HEADS) for layer in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = self.norm1(x + self.o(mixed.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.fc2(functional.gelu(self.fc1(x))))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("q", "k", "v", "o", "gate", "up", "down"):
            setattr(self, name, linear("llama", name))
        self.norm1, self.norm2 = (nn.RMSNorm(32, eps=EPSILON) for _ in range(2))
        cos, sin = rotary_tables(7, 8)
        self.register_buffer("cos", torch.from_numpy(cos), persistent=False)
        self.register_buffer("sin", torch.from_numpy(sin), persistent=False)

    def turned(self, x: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1)

    def forward(self, x: Any) -> Any:
        h = self.norm1(x)
        q = self.turned(heads(self.q(h), HEADS))
        k = self.turned(heads(self.k(h), KV_HEADS))
        v = heads(self.v(h), KV_HEADS)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


MODULES: dict[str, Any] = {"mlp": Mlp, "cnn": Cnn, "encoder": Encoder, "llama": Llama}
