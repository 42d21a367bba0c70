"""Tiny PyTorch models that together use every ATen call the importer knows. Needs torch.

`MODELS` maps a name to a function that returns (module, example inputs), seeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}


def model(function: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Any:
    def seeded() -> tuple[Any, tuple[Any, ...]]:
        torch.manual_seed(0)
        module, inputs = function()
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape) * max(parameter[0].numel(), 1) ** -0.5
            parameter.data = (noise + ("norm" in name)).to(parameter.dtype)
        return module.eval().requires_grad_(False), inputs

    MODELS[function.__name__] = seeded
    return seeded


class Lambda(nn.Module):
    """A function as a module, so that a call's module path is known."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(12, eps=1e-6)
        self.fc1 = nn.Linear(12, 20)
        self.fc2 = nn.Linear(20, 12, bias=False)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        hidden = F.gelu(self.fc1(self.norm(x)), approximate="tanh")
        return x + self.dropout(self.fc2(F.silu(hidden) * F.gelu(hidden)))


@model
def mlp():
    return Mlp(), (torch.randn(2, 5, 12),)


@model
def mlp_bf16():
    return Mlp().to(torch.bfloat16), (torch.randn(2, 5, 12).to(torch.bfloat16),)


class GroupedAttention(nn.Module):
    """RMS norm, four query heads on two key heads, mask, and a causal call beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_weight = nn.Parameter(torch.ones(16))
        self.q_proj = nn.Linear(16, 32, bias=False)
        self.kv_proj = nn.Linear(16, 32, bias=False)
        self.o_proj = nn.Linear(32, 16)

    def forward(self, x: Any, mask: Any) -> Any:
        b, t, _ = x.shape
        h = F.rms_norm(x, (16,), self.norm_weight, 1e-5)
        q = self.q_proj(h).view(b, t, 4, 8).transpose(1, 2)
        k, v = self.kv_proj(h).view(b, t, 2, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        first = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        second = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
        out = (first + second).transpose(1, 2).reshape(b, t, 32)
        return x + self.o_proj(out)


@model
def grouped_attention():
    mask = torch.rand(1, 1, 7, 7) > 0.3
    mask[..., 2, :] = False  # a row that sees nothing gives 0
    return GroupedAttention(), (torch.randn(1, 7, 16), mask)


@model
def attention_forms():
    def forward(q: Any, k: Any, v: Any, bias: Any) -> Any:
        attend = F.scaled_dot_product_attention
        everything = torch.ones(1, 1, 3, 5, dtype=torch.bool)
        return {
            "bias": attend(q, k, v, bias),
            "row_mask": attend(q, k, v, bias[..., :1, :] > 0),
            "all_true": attend(q, k, v, everything),
            "causal": attend(q, k, v, is_causal=True),
            "shared_keys": attend(q, k[:, :1], v[:, :1]),
        }

    q, k, v = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 6)
    return Lambda(forward), (q, k, v, torch.randn(3, 5))


class RopeBlock(nn.Module):
    """Rotations in three spellings and attention spelled out, as published robot policies do."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(16, 16, bias=False) for _ in range(3))
        positions = torch.arange(6, dtype=torch.float32)[:, None]
        angles = positions / (100.0 ** (torch.arange(4) / 4))
        self.register_buffer("angles", angles[None, :, None], persistent=False)

    def assign(self, x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.split(4, -1)
        out = torch.empty_like(x)
        out[..., :4] = a * cos - b * sin
        out[..., 4:] = b * cos + a * sin
        return out

    def half(self, x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        turned = torch.cat((-b, a), -1) * torch.cat((sin, sin), -1)
        return x * torch.cat((cos, cos), -1) + turned

    def interleaved(self, x: Any, cos: Any, sin: Any) -> Any:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)

    def forward(self, x: Any, mask: Any) -> Any:
        cos, sin = self.angles.cos(), self.angles.sin()
        q = self.assign(self.q_proj(x).view(1, 6, 2, 8).float(), cos, sin)
        k = self.half(self.k_proj(x).view(1, 6, 2, 8), cos, sin)
        v = self.interleaved(self.v_proj(x).view(1, 6, 2, 8), cos, sin)
        scores = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(2, 3)) * 8**-0.5
        scores = torch.where(mask[:, None], scores, torch.finfo(torch.float32).min)
        out = torch.matmul(scores.softmax(-1).to(v.dtype), v.permute(0, 2, 1, 3))
        return out.permute(0, 2, 1, 3).reshape(1, 6, 16)


@model
def rope_block():
    return RopeBlock(), (torch.randn(1, 6, 16), torch.ones(1, 6, 6, dtype=torch.bool).tril())


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn_norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(8, 8, 3, 2, padding=1, groups=4, bias=False)
        self.group_norm = nn.GroupNorm(2, 8)
        self.patch = nn.Conv2d(8, 6, 2, 2, padding="valid")
        self.same = nn.Conv2d(6, 6, 2, padding="same", dilation=2)
        self.head = nn.Linear(6, 4)
        self.bn_norm.running_mean.normal_(0, 0.1)
        self.bn_norm.running_var.uniform_(0.5, 1.5)

    def forward(self, x: Any) -> Any:
        x = self.relu(self.bn_norm(self.conv1(x)))
        x = F.max_pool2d(x, 3, 2, 1)
        x = self.group_norm(self.conv2(x))
        x = F.avg_pool2d(F.interpolate(x, scale_factor=2), 2, 2)
        x = self.same(self.patch(x))
        return F.log_softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


@model
def conv_net():
    return ConvNet(), (torch.randn(1, 3, 16, 16),)


@model
def windows():
    signal, kernel = torch.randn(1, 2, 9), torch.randn(3, 2, 3)

    def forward(x: Any, signal: Any, kernel: Any) -> Any:
        return {
            "conv1d": F.conv1d(signal, kernel, stride=2, padding=1),
            "unbatched": F.conv2d(x[0], kernel[..., None], padding=(1, 0)),
            "ceil": F.max_pool2d(x, 2, 2, ceil_mode=True),
            "border": F.avg_pool2d(x, 3, 2, 1),
            "no_border": F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            "adaptive": F.adaptive_avg_pool2d(x[..., :4], (1, 2)),
        }

    return Lambda(forward), (torch.randn(1, 2, 7, 7), signal, kernel)


class Counter(nn.Module):
    """A buffer that changes with every call, and a cache written at a position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: Any, position: Any) -> Any:
        self.count.add_(1)
        self.cache.index_copy_(0, position, x)
        return {"mean": self.cache.mean(0) + self.count, "steps": 3, "nothing": None}


@model
def counter():
    return Counter(), (torch.randn(1, 3), torch.tensor([2]))


@model
def arithmetic():
    def forward(x: Any, y: Any, i: Any, flag: Any) -> Any:
        positive = x.abs() + 0.5
        return {
            "add_alpha": torch.add(x, y, alpha=2), "sub_alpha": torch.sub(x, y, alpha=0.5),
            "rsub": 1 - x, "div": x / (y.abs() + 1), "int_div": i / 3,
            "floor_div": i // 3, "trunc_div": torch.div(i, 3, rounding_mode="trunc"),
            "float_floor": torch.div(x, 0.3, rounding_mode="floor"),
            "float_trunc": torch.div(x, 0.3, rounding_mode="trunc"), "mod": i % 3, "fmod": x % 0.7,
            "bool_mul": flag * (x > 0), "bool_add": flag + (x > 0), "and": flag & (x > y),
            "or": flag | (x >= y), "xor": flag ^ (i == 2), "not": ~flag, "int_not": ~i,
            "logical": torch.logical_and(i, flag), "logical_not": torch.logical_not(i),
            "compare_int": i <= 2, "compare_mixed": i < 1.5, "compare_bool": flag != (x < 0),
            "promote": i * x, "promote_flag": flag * x, "wide": x.double() * y, "int_add": i + 2,
            "where": torch.where(flag, x, y), "where_number": torch.where(flag, x, -1.0),
            "masked": x.masked_fill(flag, -math.inf), "clamp": x.clamp(-0.5, 0.5),
            "clamp_min": x.clamp(min=0.1), "clamp_tensor": torch.clamp(x, min=y), "max": torch.maximum(x, y),
            "min": torch.minimum(x, y), "pow2": x**2, "pow3": x**3, "pow": positive**1.7,
            "root": positive**0.5, "inverse": positive**-1, "base": 2.0**x, "pow_tensor": positive**y,
            "int_pow": i**2, "square": x.square(), "neg": -x, "exp": x.exp(), "log": positive.log(),
            "log2": positive.log2(), "log1p": positive.log1p(), "expm1": x.expm1(), "log10": positive.log10(),
            "sqrt": positive.sqrt(), "rsqrt": positive.rsqrt(), "reciprocal": positive.reciprocal(),
            "tanh": x.tanh(), "sin": x.sin(), "cos": x.cos(), "erf": x.erf(), "relu": x.relu(),
            "sigmoid": x.sigmoid(), "floor": x.floor(), "ceil": x.ceil(), "round": (x * 2).round(),
            "leaky": F.leaky_relu(x, 0.2), "elu": F.elu(x, 0.7), "softplus": F.softplus(x * 9),
            "hardswish": F.hardswish(x * 4), "hardsigmoid": F.hardsigmoid(x * 4), "relu6": F.relu6(x * 9),
            "addcmul": torch.addcmul(x, x, y, value=0.5), "lerp": torch.lerp(x, y, 0.3),
            "to_int": (x * 3).to(torch.int32), "to_bool": i.to(torch.bool), "half": x.half(),
            "isnan": torch.isnan(x), "broadcast": x + y[:, :1], "tensor_scalar": x * torch.tensor(0.1),
        }  # fmt: skip

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    return Lambda(forward), (x, y, torch.arange(-4, 8).view(3, 4), torch.rand(3, 4) > 0.5)


@model
def movement():
    def write(x: Any) -> Any:
        out = torch.zeros_like(x)
        out[:, 1:3] = x[:, :2] * 2
        out[1] = 5.0
        return out

    def undefined(x: Any) -> Any:
        out = torch.empty(4, 3, 2)
        out[2:] = x[..., :2][:2]
        out[:2] = 1.0
        return out

    def forward(x: Any) -> Any:
        parts = torch.split(x, [1, 3], -1)
        return {
            "view": x.view(-1, 2), "flatten": x.flatten(1), "unflatten": x.unflatten(2, (2, 2)),
            "squeeze": x[:, :1].squeeze(1), "unsqueeze": x.unsqueeze(-1), "permute": x.permute(2, 0, 1),
            "transpose": x.transpose(-1, 0), "movedim": x.movedim(0, -1), "expand": x[:1].expand(4, -1, -1),
            "repeat": x.repeat(2, 1, 2, 1), "interleave": x.repeat_interleave(2, 1),
            "last": x[..., -2:], "stepped": x[:, ::2], "negative": x[:, -3:-1], "select": x[:, -1],
            "narrow": x.narrow(1, 1, 2), "split": parts[1], "chunks": x.chunk(2, 1)[1],
            "unbind": x.unbind(1)[1], "cat": torch.cat((x, x[:, :1]), 1), "cat_one": torch.cat((x,), 0),
            "cat_types": torch.cat((x, x.bfloat16()), 0), "stack": torch.stack((x, x + 1), 1),
            "pad": F.pad(x, (1, 2, 0, 1), value=3.0), "crop": F.pad(x, (-1, 0)),
            "roll": x.roll(1, 1), "roll_flat": x.roll(3), "flip": x.flip(0, -1), "shuffle": F.pixel_shuffle(x.reshape(1, 4, 3, 2), 2),
            "unshuffle": F.pixel_unshuffle(x[:2].reshape(1, 1, 6, 4), 2), "write": write(x),
            "undefined": undefined(x), "clone": x.clone(), "triangle": x.tril(-1), "upper": x.triu(1),
        }  # fmt: skip

    return Lambda(forward), (torch.randn(2, 3, 4),)


@model
def rows():
    def forward(x: Any, i: Any, a: Any, b: Any) -> Any:
        top, where = x.max(-1)
        low = x.min(1, keepdim=True).values
        spread, mean = torch.var_mean(x, -1, correction=0)
        return {
            "sum": x.sum(), "sum_dims": x.sum((0, 2)), "int_sum": i.sum(-1), "bool_sum": (i > 2).sum(0),
            "mean": x.mean(), "mean_dim": x.mean(1, keepdim=True), "amax": x.amax((0, 1)), "amin": x.amin(-1),
            "max": x.max(), "min": i.min(), "prod": x.prod(-1), "top": top, "where": where, "low": low,
            "argmax": x.argmax(), "argmin": x.argmin(1), "cumsum": i.cumsum(-1), "float_cumsum": x.cumsum(0),
            "any": (x > 1).any(-1), "all": (x > -3).all(), "var": x.var(-1), "std": x.std((0, 1)),
            "spread": spread, "mean2": mean, "length": torch.linalg.vector_norm(x, dim=-1),
            "softmax": x.softmax(1), "typed": i.softmax(-1, dtype=torch.float32),
            "log_softmax": x.log_softmax(0), "norm2d": F.layer_norm(x, (3, 4)),
            "rms": F.rms_norm(x, (4,)), "bias_only": F.layer_norm(x, (4,), None, a[0]),
            "mm": a @ b, "bmm": torch.bmm(x, x.transpose(1, 2)), "batched": x @ b, "left": a @ x.mT,
            "vector": a[0] @ b, "matvec": a @ b[:, 0], "dot": torch.dot(a[0], b[:, 0]),
            "broadcast": x[:, None] @ x.transpose(1, 2)[None],
            "addmm": torch.addmm(b[0], a, b, beta=0.5, alpha=2.0),
            "baddbmm": torch.baddbmm(x[..., :3], x, x.transpose(1, 2)),
        }  # fmt: skip

    x, i = torch.randn(2, 3, 4), torch.randint(0, 9, (2, 5))
    return Lambda(forward), (x, i, torch.randn(3, 4), torch.randn(4, 5))


@model
def indexing():
    table = nn.Embedding(7, 3)

    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = table

        def forward(self, tokens: Any, x: Any, position: Any) -> Any:
            steps = torch.arange(2, 8, 2)
            causal = torch.full((3, 3), float("-inf")).triu(1)
            grid = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
            return {
                "tokens": self.table(tokens), "rows": x[position], "columns": x[:, position],
                "pairs": x[position, position],
                "negative": x[position - 4], "chosen": x.index_select(1, position),
                "causal": x[:3, :3] + causal, "steps": x[:, :3] * steps,
                "grid": x[0, 0] * grid, "eye": x + torch.eye(4), "ones": x + x.new_ones(4),
                "full": torch.full_like(x, 2.0) * x, "wave": 10.0 ** (torch.arange(4) / 4) + x,
                "seen": (torch.arange(4) <= position[0]) & (x > 0), "scattered": x.index_copy(0, position, x[:2]),
            }  # fmt: skip

    return Lookup(), (torch.tensor([[1, 6, 0]]), torch.randn(4, 4), torch.tensor([3, 1]))
