"""Networks of flax's layers, as functions of their weights."""

from __future__ import annotations

from typing import Any

from zoo_models import Architecture, Example


def applied(module: Any, *inputs: Any) -> Example:
    """A linen module as a function of weights and inputs."""
    import jax

    weights = jax.jit(module.init)(jax.random.key(0), *inputs)
    return Example(module.apply, inputs, weights=weights)


def numbers(*shape: int) -> Any:
    import jax

    return jax.random.normal(jax.random.key(1), shape)


def mlp() -> Example:
    from flax import linen as nn

    return applied(nn.Sequential([nn.Dense(96), nn.relu, nn.Dense(10)]), numbers(5, 40))


def cnn() -> Example:
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (8, 16):
                x = nn.relu(nn.GroupNorm(4)(nn.Conv(width, (3, 3))(x)))
                x = nn.avg_pool(x, (2, 2), (2, 2))
            x = x.reshape(x.shape[0], -1)
            return nn.log_softmax(nn.Dense(10)(x))

    return applied(Network(), numbers(1, 16, 16, 3))


def residual() -> Example:
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(8, (3, 3))(x)
            y = nn.BatchNorm(use_running_average=True)(nn.Conv(8, (3, 3))(nn.swish(x)))
            x = nn.max_pool(x + y, (2, 2), (2, 2))
            return nn.Dense(4)(x.mean((1, 2)))

    return applied(Network(), numbers(1, 12, 12, 3))


def attention() -> Example:
    from flax import linen as nn

    return applied(nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=64), numbers(1, 9, 64))


def transformer() -> Example:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            mask = nn.make_causal_mask(x[..., 0])
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(y, y, mask=mask)
            y = nn.Dense(128)(nn.LayerNorm()(x))
            return x + nn.Dense(64)(nn.gelu(y))

    class Network(nn.Module):
        @nn.compact
        def __call__(self, ids: Any) -> Any:
            x = nn.Embed(50, 64)(ids)
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(50)(nn.RMSNorm()(x))

    import jax

    return applied(Network(), jax.random.randint(jax.random.key(2), (1, 10), 0, 50))


def recurrent(kind: str) -> Example:
    from flax import linen as nn

    return applied(nn.RNN(getattr(nn, kind)(features=32)), numbers(2, 6, 24))


def autoencoder() -> Example:
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.elu(nn.Conv(8, (3, 3), strides=(2, 2))(x))
            return nn.sigmoid(nn.ConvTranspose(3, (4, 4), strides=(2, 2))(x))

    return applied(Network(), numbers(1, 12, 12, 3))


ROWS = {
    "mlp": mlp,
    "cnn": cnn,
    "residual": residual,
    "attention": attention,
    "transformer": transformer,
    "LSTM": lambda: recurrent("OptimizedLSTMCell"),
    "GRU": lambda: recurrent("GRUCell"),
    "autoencoder": autoencoder,
}


def architectures() -> list[Architecture]:
    return [Architecture(name, "flax", build) for name, build in ROWS.items()]
