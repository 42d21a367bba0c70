"""Networks of torch.nn's own layers."""

from __future__ import annotations

from typing import Any

from zoo_models import Architecture, Example, seeded


def drawn(*shape: int) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def sequential(*rows: Any) -> Any:
    from torch import nn

    return nn.Sequential(*rows)


def mlp() -> Any:
    from torch import nn

    return Example(
        seeded(lambda: sequential(nn.Linear(40, 96), nn.ReLU(), nn.Linear(96, 10))), (drawn(5, 40),)
    )


def recurrent(kind: str, **options: Any) -> Example:
    from torch import nn

    module = seeded(lambda: getattr(nn, kind)(24, 32, batch_first=True, **options))
    return Example(module, (drawn(2, 7, 24),))


def transformer() -> Example:
    from torch import nn

    module = seeded(lambda: nn.Transformer(64, 4, 2, 2, 128, batch_first=True))
    return Example(module, (drawn(1, 11, 64), drawn(1, 7, 64).flip(1)))


def encoder(**options: Any) -> Example:
    from torch import nn

    def make() -> Any:
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options)
        return nn.TransformerEncoder(layer, 2)

    return Example(seeded(make), (drawn(2, 11, 64),))


def decoder() -> Example:
    from torch import nn

    def make() -> Any:
        layer = nn.TransformerDecoderLayer(64, 4, 128, batch_first=True)
        return nn.TransformerDecoder(layer, 2)

    return Example(seeded(make), (drawn(1, 7, 64), drawn(1, 11, 64)))


def attention() -> Example:
    from torch import nn

    x, y = drawn(1, 9, 64), drawn(1, 13, 64)
    return Example(
        seeded(lambda: nn.MultiheadAttention(64, 4, batch_first=True)), (x, y, y.clone())
    )


def autoencoder() -> Example:
    from torch import nn

    def make() -> Any:
        return sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ELU(),
            nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1), nn.PReLU(),
            nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1), nn.Tanh(),
        )  # fmt: skip

    return Example(seeded(make), (drawn(1, 3, 20, 28),))


def unet() -> Example:
    import torch
    from torch import nn

    class Block(nn.Sequential):
        def __init__(self, inside: int, outside: int) -> None:
            super().__init__(
                nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
                nn.Conv2d(outside, outside, 3, padding=1), nn.InstanceNorm2d(outside), nn.SiLU(),
            )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.down, self.floor = Block(3, 8), Block(8, 16), Block(16, 32)
            self.pool = nn.MaxPool2d(2)
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.rise, self.last = Block(48, 16), Block(24, 8)
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x: Any) -> Any:
            a = self.first(x)
            b = self.down(self.pool(a))
            c = self.floor(self.pool(b))
            d = self.rise(torch.cat([self.up(c), b], 1))
            return self.head(self.last(torch.cat([self.up(d), a], 1)))

    return Example(seeded(UNet), (drawn(1, 3, 24, 32),))


def temporal() -> Example:
    from torch import nn

    def make() -> Any:
        return sequential(
            nn.Conv1d(6, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16), nn.GELU(), nn.AvgPool1d(3, 2),
            nn.AdaptiveAvgPool1d(5), nn.Flatten(), nn.Linear(80, 7), nn.LogSoftmax(-1),
        )  # fmt: skip

    return Example(seeded(make), (drawn(2, 6, 50),))


def volumes() -> Example:
    from torch import nn

    def make() -> Any:
        return sequential(
            nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(8, 12, (1, 3, 3), stride=(1, 2, 2)), nn.Hardswish(), nn.AdaptiveAvgPool3d(1),
            nn.Flatten(), nn.Linear(12, 4),
        )  # fmt: skip

    return Example(seeded(make), (drawn(1, 2, 6, 14, 14),))


def generator() -> Example:
    from torch import nn

    def make() -> Any:
        return sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(3, 8, 7), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.ReplicationPad2d((1, 2, 0, 1)), nn.Conv2d(8, 8, 3), nn.Softplus(),
            nn.Upsample(size=(19, 23), mode="bicubic"), nn.PixelShuffle(2), nn.Mish(),
            nn.AdaptiveMaxPool2d((5, 3)),
        )  # fmt: skip

    return Example(seeded(make), (drawn(1, 3, 12, 15),))


def tagger() -> Example:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(50, 24)
            self.reader = nn.LSTM(24, 32, bidirectional=True, batch_first=True)
            self.tags = nn.Linear(64, 9)

        def forward(self, ids: Any) -> Any:
            return self.tags(self.reader(self.words(ids))[0]).topk(3)

    ids = torch.randint(0, 50, (2, 6), generator=torch.Generator().manual_seed(3))
    return Example(seeded(Tagger), (ids,))


ROWS = {
    "mlp": mlp,
    "LSTM": lambda: recurrent("LSTM", num_layers=2, bidirectional=True),
    "GRU": lambda: recurrent("GRU"),
    "RNN": lambda: recurrent("RNN"),
    "Transformer": transformer,
    "TransformerEncoder": encoder,
    "TransformerEncoder_norm_first_gelu": lambda: encoder(norm_first=True, activation="gelu"),
    "TransformerDecoder": decoder,
    "MultiheadAttention": attention,
    "autoencoder": autoencoder,
    "unet": unet,
    "temporal": temporal,
    "volumes": volumes,
    "generator": generator,
    "tagger": tagger,
}


def architectures() -> list[Architecture]:
    return [Architecture(name, "torch.nn", build) for name, build in ROWS.items()]
