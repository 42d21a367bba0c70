"""SmolVLA in plain torch: a vision tower, a prefix of language tokens, an action expert.

The network has three methods, which become the entry points of the compiled program:

    vision    pixels of one camera                     -> 64 tokens
    prefix    tokens of all cameras, language, state   -> keys and values for every layer of the expert
    denoise   noisy actions, a time, keys and values   -> less noisy actions

What does not depend on the step is computed once: odd layers of the expert project the prefix's keys
and values by matrices of their own, and `prefix` does that. Of the last text layer only keys and
values are ever read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]

HEAD = 64
ROPE_BASE = 10000.0


@dataclass(frozen=True)
class Sizes:
    """How large the network is; the defaults are those of the published one."""

    vision_layers: int = 12
    layers: int = 16
    image: int = 512
    patch: int = 16
    shuffle: int = 4
    vision: int = 768
    vision_hidden: int = 3072
    text: int = 960
    text_hidden: int = 2560
    expert: int = 720
    expert_hidden: int = 2048
    heads: int = 15
    groups: int = 5
    vocabulary: int = 49280
    language: int = 48
    chunk: int = 50
    actions: int = 32

    @property
    def image_tokens(self) -> int:
        return (self.image // self.patch // self.shuffle) ** 2

    def prefix(self, cameras: int) -> int:
        return self.image_tokens * cameras + self.language + 1


class RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


def rotary(positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin for positions [1, tokens], to be applied to the halves of every head."""
    wavelengths = ROPE_BASE ** (torch.arange(HEAD // 2, dtype=torch.float32) * (2.0 / HEAD))
    angles = (positions[..., None].float() / wavelengths)[:, :, None, :]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    (cos, sin), (a, b) = table, x.split(HEAD // 2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Queries [1, tokens, heads, 64] over keys and values [1, keys, groups, 64]."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    grouped = q.shape[1] != k.shape[1]
    mask = None if mask is None else mask[:, None]
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)
    return mixed.transpose(1, 2).flatten(2)


class VisionLayer(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(width, eps=1e-6)
        self.layer_norm2 = nn.LayerNorm(width, eps=1e-6)
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer_norm1(x)
        q, k, v = (p(h).unflatten(-1, (-1, HEAD)) for p in (self.q_proj, self.k_proj, self.v_proj))
        x = x + self.out_proj(attend(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(self.layer_norm2(x)), approximate="tanh"))


class VisionTower(nn.Module):
    """Patches, learned positions, layers, a norm, neighbouring tokens side by side, a projection.

    Attention without a mask does not care about the order of tokens. Here they are ordered by
    their place in a group of neighbours first, so that putting neighbours side by side takes whole
    blocks of rows.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.side, self.shuffle = sizes.image // sizes.patch, sizes.shuffle
        self.patch_embedding = nn.Conv2d(3, sizes.vision, sizes.patch, sizes.patch)
        self.position_embedding = nn.Parameter(torch.zeros(self.side**2, sizes.vision))
        self.layers = nn.ModuleList(
            VisionLayer(sizes.vision, sizes.vision_hidden) for _ in range(sizes.vision_layers)
        )
        self.post_layernorm = nn.LayerNorm(sizes.vision, eps=1e-6)
        self.connector = nn.Linear(sizes.vision * sizes.shuffle**2, sizes.text, bias=False)

    def forward(self, pixels: Tensor) -> Tensor:
        few, many = self.side // self.shuffle, self.shuffle
        patch = self.patch_embedding.kernel_size[0]
        patches = pixels.view(1, 3, few, many, patch, few, many, patch)
        patches = patches.permute(0, 3, 6, 2, 5, 1, 4, 7).reshape(1, self.side**2, -1)
        weight = self.patch_embedding.weight.flatten(1)
        positions = self.position_embedding.view(few, many, few, many, -1).permute(1, 3, 0, 2, 4)
        x = F.linear(patches, weight, self.patch_embedding.bias) + positions.flatten(0, 3)
        for layer in self.layers:
            x = layer(x)
        x = self.post_layernorm(x)
        return self.connector(torch.cat(x.split(few * few, 1), -1))


class Layer(nn.Module):
    """A layer of the text model or of the expert. `cross` layers read projected keys and values."""

    def __init__(
        self, width: int, hidden: int, heads: int, groups: int, cross: bool = False
    ) -> None:
        super().__init__()
        source = groups * HEAD if cross else width
        self.cross = cross
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(width), RMSNorm(width)
        self.q_proj = nn.Linear(width, heads * HEAD, bias=False)
        self.k_proj = nn.Linear(source, groups * HEAD, bias=False)
        self.v_proj = nn.Linear(source, groups * HEAD, bias=False)
        self.o_proj = nn.Linear(heads * HEAD, width, bias=False)
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def queries(self, h: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        return rotate(self.q_proj(h).unflatten(-1, (-1, HEAD)), table)

    def keys(self, h: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        return rotate(self.k_proj(h).unflatten(-1, (-1, HEAD)), table)

    def keys_alone(self, h: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """The same as a result of its own: the other halves come from a product of their own."""
        groups = self.k_proj.out_features // HEAD
        halves = self.k_proj.weight.view(groups, 2, HEAD // 2, -1)
        other = torch.stack((-halves[:, 1], halves[:, 0]), 1).reshape(self.k_proj.weight.shape)
        cos, sin = (torch.cat((t, t), -1).expand(-1, -1, groups, -1).flatten(2) for t in table)
        return (self.k_proj(h) * cos + F.linear(h, other) * sin).unflatten(-1, (-1, HEAD))

    def values(self, h: Tensor) -> Tensor:
        return self.v_proj(h).unflatten(-1, (-1, HEAD))

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """What follows attention."""
        x = x + self.o_proj(mixed)
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class SmolVLA(nn.Module):
    """The whole policy."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Sizes()
        self.tower = VisionTower(sizes)
        # A table is only looked up: it is kept in the format its rows are used in.
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.text).to(torch.bfloat16)
        self.state_proj = nn.Linear(sizes.actions, sizes.text)
        heads = (sizes.heads, sizes.groups)
        self.text: Any = nn.ModuleList(
            Layer(sizes.text, sizes.text_hidden, *heads) for _ in range(sizes.layers)
        )
        self.expert: Any = nn.ModuleList(
            Layer(sizes.expert, sizes.expert_hidden, *heads, cross=bool(number % 2))
            for number in range(sizes.layers)
        )
        self.expert_norm = RMSNorm(sizes.expert)
        self.action_in_proj = nn.Linear(sizes.actions, sizes.expert)
        self.action_out_proj = nn.Linear(sizes.expert, sizes.actions)
        self.action_time_mlp_in = nn.Linear(2 * sizes.expert, sizes.expert)
        self.action_time_mlp_out = nn.Linear(sizes.expert, sizes.expert)

    # --- entry points -------------------------------------------------------------------

    def vision(self, pixels: Tensor) -> Tensor:
        """Tokens of one camera [1, 64, width]."""
        return self.tower(pixels) * math.sqrt(self.sizes.text)

    def prefix(
        self, images: list[Tensor], tokens: Tensor, token_valid: Tensor, state: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values [1, prefix, groups, 64] that the expert's layers read.

        Everything but the state, the last token, is blind to the state.
        """
        language = self.embed_tokens(tokens).float() * math.sqrt(self.sizes.text)
        # Language and state are rows of one block, of which only the last goes through a layer.
        rows = torch.cat((language, self.state_proj.bias[None, None]), 1)
        state = F.pad(state[:, None], (0, 0, self.sizes.language, 0))
        x = torch.cat([*images, rows + F.linear(state, self.state_proj.weight)], 1)
        valid = self._valid(token_valid, len(images))
        length = x.shape[1]
        is_state = torch.arange(length) == length - 1
        mask = (
            (is_state[:, None] | ~is_state[None, :])[None] & valid[:, None, :] & valid[:, :, None]
        )
        table = rotary(valid.cumsum(1) - 1)
        keys, values = [], []
        for number, (layer, reader) in enumerate(zip(self.text, self.expert, strict=True)):
            h, last = layer.input_layernorm(x), number + 1 == len(self.text)
            k, v = layer.keys_alone(h, table), layer.values(h)
            if not last:
                x = layer.finish(x, attend(layer.queries(h, table), k, v, mask))
            if reader.cross:
                k = reader.k_proj(k.flatten(2)).unflatten(-1, (-1, HEAD))
                v = reader.v_proj(v.flatten(2)).unflatten(-1, (-1, HEAD))
            keys.append(k)
            values.append(v)
        return keys, values

    def denoise(
        self,
        actions: Tensor,
        time: Tensor,
        step: Tensor,
        token_valid: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
    ) -> Tensor:
        """Actions after one Euler step of length `step` [1, 1, 1]; `time` is `time_embedding`."""
        count, own = actions.shape[1], torch.arange(actions.shape[1])[None]
        x = self.action_in_proj(actions)
        x = torch.cat((x, time[:, None].expand_as(x)), 2)
        x = self.action_time_mlp_out(F.silu(self.action_time_mlp_in(x)))
        cameras = (keys[0].shape[1] - self.sizes.language - 1) // self.sizes.image_tokens
        valid = self._valid(token_valid, cameras)
        to_prefix = valid[:, None, :].expand(1, count, valid.shape[1])
        causal = (own[:, None, :] <= own[:, :, None]).expand(1, count, count)
        to_all = torch.cat((to_prefix, causal), 2)
        here, after = rotary(own), rotary(own + valid.sum(-1, keepdim=True))
        for layer, k, v in zip(self.expert, keys, values, strict=True):
            h = layer.input_layernorm(x)
            if layer.cross:
                mixed = attend(layer.queries(h, here), k, v, to_prefix)
            else:
                k = torch.cat((k, layer.keys(h, after)), 1)
                v = torch.cat((v, layer.values(h)), 1)
                mixed = attend(layer.queries(h, after), k, v, to_all)
            x = layer.finish(x, mixed)
        return actions - self.action_out_proj(self.expert_norm(x)) * step

    def _valid(self, token_valid: Tensor, cameras: int) -> Tensor:
        images = torch.ones(1, self.sizes.image_tokens * cameras, dtype=torch.bool)
        return torch.cat((images, token_valid, torch.ones(1, 1, dtype=torch.bool)), 1)

    # --- around them --------------------------------------------------------------------

    def time_embedding(self, time: float) -> Tensor:
        """Sines and cosines at periods from 0.004 to 4, in float64: phases reach 1571 radians."""
        half = self.sizes.expert // 2
        periods = 4e-3 * 1000.0 ** torch.linspace(0.0, 1.0, half, dtype=torch.float64)
        phases = time * (2 * math.pi / periods)
        return torch.cat((phases.sin(), phases.cos()))[None].float()

    @torch.no_grad()
    def act(
        self,
        images: list[Tensor],
        tokens: Tensor,
        token_valid: Tensor,
        state: Tensor,
        noise: Tensor,
        steps: int = 10,
    ) -> Tensor:
        """Actions from noise, in float32: what the compiled program is compared with."""
        keys, values = self.prefix(
            [self.vision(image) for image in images], tokens, token_valid, state
        )
        return self.denoised(noise, token_valid, keys, values, steps)

    @torch.no_grad()
    def denoised(
        self,
        noise: Tensor,
        token_valid: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        steps: int = 10,
    ) -> Tensor:
        """Actions from noise, with the keys and values of a prefix."""
        actions, length = noise, torch.full((1, 1, 1), 1.0 / steps)
        for number in range(steps):
            time = self.time_embedding(1.0 - number / steps)
            actions = self.denoise(actions, time, length, token_valid, keys, values)
        return actions


def seeded(model: SmolVLA, seed: int = 0) -> SmolVLA:
    """Weights from one generator in the order of their names: variance 1 / inputs, norms near 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            value = 0.02 * noise if name.endswith("bias") else 1.0 + 0.1 * noise
        else:
            value = noise * (1.0 if "embed" in name else parameter[0].numel() ** -0.5)
        parameter.data = value.to(parameter.dtype)
    return model.eval().requires_grad_(False)
