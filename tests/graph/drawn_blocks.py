"""Blocks of networks that are large for their machine, drawn from a seed.

Tensors that do not fit VMEM take other ways than small ones: rows in parts, sums that come and go,
keys that pass by, weights that stay, images in bands. A machine with little VMEM takes them at sizes
that compile in seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported
from tilewright.targets.atlas.profile import Profile, load_profile

BATCHES = (1, 1, 1, 2, 3, 5, 8)
ROWS = (1, 2, 31, 33, 50, 64, 97, 130, 162, 194, 197, 241, 256, 290, 385, 512, 610)
WIDTHS = (32, 40, 64, 96, 100, 128, 192, 256, 320)
KIBIBYTES = (64, 96, 128, 192, 256)


@dataclass(frozen=True)
class Drawn:
    """A network, the machine it is for, and what it is in a line."""

    model: Imported
    profile: Profile
    text: str


def drawn(seed: int) -> Drawn:
    """The network of a seed."""
    rng = random.Random(seed)
    kibibytes = rng.choice(KIBIBYTES)
    base = rng.choice(("atlas-v1", "atlas-v1", "atlas-v1", "atlas-v0"))
    profile = replace(load_profile(base), vmem_bytes=kibibytes * 1024)
    net = ModelBuilder("block", seed=seed)
    text = _images(net, rng) if rng.random() < 0.2 else _tokens(net, rng)
    return Drawn(net.build(), profile, f"{base} with {kibibytes} KiB: {text}")


def _tokens(net: ModelBuilder, rng: random.Random) -> str:
    batch, rows, width = rng.choice(BATCHES), rng.choice(ROWS), rng.choice(WIDTHS)
    x, said = net.input("x", (batch, rows, width)), [f"{batch}x{rows}x{width}"]
    layers = rng.choice((1, 1, 2))
    kinds = [
        rng.choice(("attention", "mlp", "gated", "norm", "head")) for _ in range(rng.randint(1, 3))
    ]
    seen: list[Value] = []
    for layer in range(layers):
        with net.layer(f"layers.{layer}"):
            for number, kind in enumerate(kinds):
                with net.layer(f"{kind}{number}"):
                    draw = random.Random(f"{kind} {number} {kinds}")  # layers are alike
                    x = PARTS[kind](net, x, draw, said if not layer else [])
                if draw.random() < 0.15:
                    seen.append(x)
    if rng.random() < 0.3:
        said.append("last norm")
        x = net.rms_norm(x, "last")
    net.output("y", x)
    for number, value in enumerate(seen[:2]):
        said.append("read again")
        net.output(f"z{number}", net.linear(value, rng.choice((32, 40)), f"again{number}"))
    return f"{layers} of {', '.join(said)}"


def _norm(net: ModelBuilder, x: Value, rng: random.Random) -> Value:
    return rng.choice((net.rms_norm, net.layer_norm))(x, "norm")


def _attention(net: ModelBuilder, x: Value, rng: random.Random, said: list[str]) -> Value:
    rows, width = x.shape[1:]
    head, heads = rng.choice((16, 32, 40, 64)), rng.choice((1, 2, 3, 4, 6))
    groups = rng.choice([g for g in (1, 2, 3, heads) if heads % g == 0])
    causal, keys = rng.random() < 0.5, rows
    n, source = _norm(net, x, rng), None
    if rng.random() < 0.2:
        keys, causal = rng.choice(ROWS), False
        source = net.drawn("memory", (x.shape[0], keys, width), 1.0)
    bias = rng.random() < 0.5
    q = net.heads(net.linear(n, heads * head, "q_proj", bias=bias), heads)
    k, v = (
        net.heads(net.linear(source or n, groups * head, name, bias=bias), groups)
        for name in ("k_proj", "v_proj")
    )
    rope = source is None and rng.random() < 0.4
    if rope:
        tables = net.rotary_tables(rows, head)
        q, k = net.rope(q, tables), net.rope(k, tables)
    y = net.attention(q, k, v, causal=causal)
    said.append(
        f"attention {heads}/{groups}x{head} of {keys} keys{' causal' * causal}{' rope' * rope}"
    )
    return x + net.linear(y, width, "o_proj", bias=bias)


def _mlp(net: ModelBuilder, x: Value, rng: random.Random, said: list[str]) -> Value:
    width, hidden = x.shape[-1], rng.choice((64, 130, 256, 384, 500, 768))
    y = net.linear(_norm(net, x, rng), hidden, "up")
    y = rng.choice((net.gelu, net.relu, net.silu))(y)
    said.append(f"mlp {hidden}")
    return x + net.linear(y, width, "down")


def _gated(net: ModelBuilder, x: Value, rng: random.Random, said: list[str]) -> Value:
    width, hidden = x.shape[-1], rng.choice((40, 96, 200, 256, 512, 700))
    n = _norm(net, x, rng)
    gate, up = (net.linear(n, hidden, f"{name}_proj", bias=False) for name in ("gate", "up"))
    y = net.linear(net.silu_gate(gate, up), width, "down_proj", bias=rng.random() < 0.5)
    said.append(f"gated {hidden}")
    return x + y


def _only_norm(net: ModelBuilder, x: Value, rng: random.Random, said: list[str]) -> Value:
    said.append("norm")
    return _norm(net, x, rng)


def _linear(net: ModelBuilder, x: Value, rng: random.Random, said: list[str]) -> Value:
    columns = rng.choice((32, 70, 128, 200, 512))
    said.append(f"linear {columns} and back")
    return net.linear(net.silu(net.linear(x, columns, "one")), x.shape[-1], "two")


PARTS = {
    "attention": _attention,
    "mlp": _mlp,
    "gated": _gated,
    "norm": _only_norm,
    "head": _linear,
}


def _images(net: ModelBuilder, rng: random.Random) -> str:
    batch, channels = rng.choice((1, 1, 2)), rng.choice((3, 8, 16, 40, 64))
    size = rng.choice((7, 12, 14, 20, 28, 33))
    x, said = net.input("x", (batch, channels, size, size)), [f"{batch}x{channels}x{size}x{size}"]
    for number in range(rng.randint(1, 4)):
        channels, taps = rng.choice((8, 16, 32, 48, 64, 96, 130)), rng.choice((1, 3, 3, 5))
        stride = 2 if rng.random() < 0.25 and x.shape[2] > 8 else 1
        if x.shape[2] + 2 * (taps // 2) < taps:
            break
        before = x
        x = net.conv2d(x, channels, taps, f"conv{number}", stride=stride, padding=taps // 2)
        said.append(f"conv {taps}/{stride} to {channels}")
        if rng.random() < 0.4:
            x = net.batch_norm(x, f"norm{number}")
        if before.shape == x.shape and rng.random() < 0.5:
            said.append("sum")
            x = x + before
        if rng.random() < 0.6:
            x = rng.choice((net.relu, net.silu))(x)
        if rng.random() < 0.2 and x.shape[2] >= 4:
            said.append("pool")
            x = rng.choice((net.max_pool, net.average_pool))(x, 2)
    net.output("y", x)
    return ", ".join(said)
