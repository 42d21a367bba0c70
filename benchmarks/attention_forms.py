"""Attention in the forms that libraries write it: which run on the device, and what is left to the host.

    python benchmarks/attention_forms.py                  a table of all forms
    python benchmarks/attention_forms.py --only rope      those whose name contains a text

Every form is a module of its own, compiled and verified. `device` says whether a kernel of the
device attends; `host` is the host's share of the arithmetic. The exit code is 1 if a value is wrong.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn.functional import scaled_dot_product_attention as attend  # pyright: ignore[reportMissingImports]

ROWS = 20


class Heads(nn.Module):
    """Self attention with separate projections; subclasses say what differs."""

    def __init__(self, wide: int = 64, heads: int = 4, groups: int | None = None, head: int = 0):
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        self.head = head or wide // heads
        self.q = nn.Linear(wide, heads * self.head)
        self.k = nn.Linear(wide, self.groups * self.head)
        self.v = nn.Linear(wide, self.groups * self.head)
        self.o = nn.Linear(heads * self.head, wide)

    def split(self, x: torch.Tensor, count: int) -> torch.Tensor:
        return x.view(*x.shape[:2], count, -1).transpose(1, 2)

    def join(self, x: torch.Tensor) -> torch.Tensor:
        return self.o(x.transpose(1, 2).flatten(2))

    def prepared(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return (
            self.split(self.q(x), self.heads),
            self.split(self.k(x), self.groups),
            self.split(self.v(x), self.groups),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grouped = self.groups != self.heads
        return self.join(attend(*self.prepared(x), is_causal=True, enable_gqa=grouped))


class PackedInFront(nn.Module):
    """One product for all; [B, M, 3, H, D] with 3 turned to the front, as in timm."""

    def __init__(self, wide: int = 64, heads: int = 4):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, m, c = x.shape
        packed = self.qkv(x).reshape(b, m, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.o(attend(*packed.unbind(0)).transpose(1, 2).reshape(b, m, c))


class PackedPerHead(PackedInFront):
    """[B, M, H, 3, D], as in GPT-NeoX and Bloom."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, m, c = x.shape
        q, k, v = self.qkv(x).view(b, m, self.heads, 3, -1).unbind(3)
        turned = (y.transpose(1, 2) for y in (q, k, v))
        return self.o(attend(*turned, is_causal=True).transpose(1, 2).reshape(b, m, c))


class WithoutProjection(Heads):
    """What attention gives is the result."""

    def join(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).flatten(2)


class NotTurned(Heads):
    """Rows cut into heads by a reshape alone: a head has parts of many rows."""

    def split(self, x: torch.Tensor, count: int) -> torch.Tensor:
        return x.view(x.shape[0], count, x.shape[1], -1)


class OneDimension(Heads):
    """Heads and batch as one dimension, products by `bmm`, as in older libraries."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, m, _ = x.shape
        q, k, v = (y.reshape(b * self.heads, m, self.head) for y in self.prepared(x))
        weights = torch.softmax(torch.bmm(q * self.head**-0.5, k.transpose(1, 2)), -1)
        return self.join(torch.bmm(weights, v).view(b, self.heads, m, self.head))


class OneHead(nn.Module):
    """One head for each example, without a dimension for heads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return attend(x, x, x)


class Apart(Heads):
    """The result as heads [B, H, M, D]."""

    def join(self, x: torch.Tensor) -> torch.Tensor:
        return x


class WithCache(Heads):
    """Keys and values are results too."""

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = self.prepared(x)
        return self.join(attend(q, k, v, is_causal=True)), k, v


def tables(rows: int, wide: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(rows)[:, None] / 100 ** (torch.arange(0, wide, 2) / wide)
    both = torch.cat([angles, angles], -1)
    return both.cos(), both.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Rotated(Heads):
    """Rotated as in Llama; part: only the first columns of a head, as in Phi."""

    def __init__(self, part: float = 1.0, norm: type | None = None, **more: Any):
        super().__init__(**more)
        self.turning = int(self.head * part)
        cos, sin = tables(ROWS, self.turning)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.norms = nn.ModuleList(norm(self.head) for _ in range(2)) if norm else None

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        if self.turning == self.head:
            return rotate(x, self.cos, self.sin)
        first = rotate(x[..., : self.turning], self.cos, self.sin)
        return torch.cat([first, x[..., self.turning :]], -1)

    def prepared(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        shapes = (*x.shape[:2], -1, self.head)
        q, k = self.q(x).view(shapes), self.k(x).view(shapes)
        if self.norms is not None:
            q, k = self.norms[0](q), self.norms[1](k)
        v = self.split(self.v(x), self.groups)
        return self.turned(q.transpose(1, 2)), self.turned(k.transpose(1, 2)), v


class Neighbours(Rotated):
    """Pairs of neighbours rotated, as in GPT-J."""

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        part = x[..., : self.turning]
        pairs = torch.stack([-part[..., 1::2], part[..., ::2]], -1).flatten(-2)
        half = self.turning // 2
        cos = self.cos[:, :half].repeat_interleave(2, -1)
        sin = self.sin[:, :half].repeat_interleave(2, -1)
        return torch.cat([part * cos + pairs * sin, x[..., self.turning :]], -1)


class Masked(Heads):
    """A constant mask: window, bias of every head, or slopes of ALiBi."""

    def __init__(self, kind: str):
        super().__init__()
        far = torch.arange(ROWS)[:, None] - torch.arange(ROWS)[None]
        later = torch.where(far < 0, -math.inf, 0.0)
        slopes = 2.0 ** -torch.arange(1, 5)[:, None, None]
        mask = {
            "window": torch.where(far > 7, -math.inf, later),
            "bias": torch.randn(1, 4, ROWS, ROWS),
            "alibi": (later - slopes * far)[None],
        }[kind]
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(attend(*self.prepared(x), attn_mask=self.mask))


class GivenMask(Heads):
    """A mask for every head, given as an input."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return self.join(attend(*self.prepared(x), attn_mask=mask))


class Capped(Heads):
    """Scores kept between two limits by tanh, as in Gemma 2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.prepared(x)
        scores = torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(self.head) / 5.0) * 5.0
        return self.join(scores.softmax(-1) @ v)


class Cross(Heads):
    """Keys and values of another sequence."""

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: torch.Tensor, other: torch.Tensor
    ) -> torch.Tensor:
        q = self.split(self.q(x), self.heads)
        k, v = (self.split(f(other), self.heads) for f in (self.k, self.v))
        return self.join(attend(q, k, v))


class Bare(nn.Module):
    """Attention of what is given, and nothing else."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v)


@dataclass(frozen=True)
class Form:
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def _x(wide: int = 64) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(1, ROWS, wide),)


def _bare(width: int) -> Form:
    return Form(Bare, lambda: tuple(torch.randn(2, 3, ROWS, width) for _ in range(3)))


FORMS: dict[str, Form] = {
    "separate projections": Form(Heads, _x()),
    "two sequences": Form(Heads, lambda: (torch.randn(2, ROWS, 64),)),
    "packed, 3 in front": Form(PackedInFront, _x()),
    "packed per head": Form(PackedPerHead, _x()),
    "no output projection": Form(WithoutProjection, _x()),
    "heads by a reshape alone": Form(NotTurned, _x()),
    "heads and batch in one": Form(OneDimension, lambda: (torch.randn(3, ROWS, 64),)),
    "one head of an example": Form(OneHead, lambda: (torch.randn(3, ROWS, 48),)),
    "heads as the result": Form(Apart, _x()),
    "keys and values as results": Form(WithCache, _x()),
    "grouped heads": Form(lambda: Heads(groups=2), _x()),
    "one head for all": Form(lambda: Heads(groups=1), _x()),
    "rope": Form(Rotated, _x()),
    "rope, part of a head": Form(lambda: Rotated(part=0.5), _x()),
    "rope, neighbours": Form(Neighbours, _x()),
    "rope, neighbours, part of a head": Form(lambda: Neighbours(part=0.5), _x()),
    "rms norm before rope": Form(lambda: Rotated(norm=nn.RMSNorm), _x()),
    "layer norm before rope": Form(lambda: Rotated(norm=nn.LayerNorm, groups=2), _x()),
    "sliding window": Form(lambda: Masked("window"), _x()),
    "bias of every head": Form(lambda: Masked("bias"), _x()),
    "alibi": Form(lambda: Masked("alibi"), _x()),
    "mask of every head as an input": Form(
        GivenMask, lambda: (torch.randn(1, ROWS, 64), torch.randn(1, 4, ROWS, ROWS))
    ),
    "soft cap": Form(Capped, _x()),
    "cross attention": Form(Cross, lambda: (torch.randn(1, ROWS, 64), torch.randn(1, 33, 64))),
    "bare, 16 wide": _bare(16),
    "bare, 64 wide": _bare(64),
    **{
        f"{'rope, ' * turned}{width} wide": Form(
            lambda width=width, turned=turned: (
                Rotated(heads=2, head=width) if turned else Heads(heads=2, head=width)
            ),
            _x(),
        )
        for width in (40, 48, 80, 112, 160, 256)
        for turned in (False, True)
    },
}


@dataclass(frozen=True)
class Found:
    """What became of a form."""

    right: bool
    attends: bool  # a kernel of the device attends, in one piece or as products and a softmax
    share: float  # of the host
    ratio: float
    cosine: float  # of the results, against torch in float32; the least of them
    reasons: tuple[str, ...]


def tried(form: Form, target: str = "atlas-v1") -> Found:
    """A form compiled and verified."""
    import tilewright as tw

    torch.manual_seed(7)
    module, inputs = form.make().eval(), form.inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter warns of itself
        program = tw.compile(module, inputs, target=target)
    with torch.no_grad():
        expected = module(*inputs)
    compiled, result = program.model, program.verify()
    kernels = {step.kernel for step in compiled.artifact.steps}
    parts = [getattr(part, "reasons", ()) for part in compiled.parts]
    return Found(
        result.ok,
        any(k.startswith("attention") for k in kernels) or {"product", "softmax"} <= kernels,
        float(compiled.provenance["host_share"]),
        result.cycles / program.report().bound,
        _cosine(program(*inputs), expected),
        tuple(dict.fromkeys(reason for part in parts for reason in part)),
    )


def _cosine(found: Any, expected: Any) -> float:
    pairs = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    flat = ((torch.as_tensor(a).double().flatten(), b.double().flatten()) for a, b in pairs)
    return min(float(torch.cosine_similarity(a, b, 0)) for a, b in flat)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="forms with this in the name")
    parser.add_argument("--target", default="atlas-v1")
    parser.add_argument("--reasons", action="store_true", help="why anything is on the host")
    options = parser.parse_args()
    wrong = 0
    print("| form | exact | attends | host | x bound | cosine |\n|---|---|---|---|---|---|")
    for name, form in FORMS.items():
        if options.only and not any(text in name for text in options.only):
            continue
        found = tried(form, options.target)
        wrong += not found.right
        print(
            f"| {name} | {'yes' if found.right else 'NO'} | {'device' if found.attends else 'host'} "
            f"| {found.share:.2%} | {found.ratio:.2f} | {found.cosine:.4f} |",
            flush=True,
        )
        if options.reasons:
            for reason in found.reasons:
                print(f"    {reason}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
