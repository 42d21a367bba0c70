"""The architectures of `benchmarks/zoo.py`: small configurations of what the usual libraries have."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Example:
    """A model with example inputs; `weights` are those of a jax function."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    weights: Any = None


@dataclass(frozen=True)
class Architecture:
    """A name, the library it comes from, and how it is built."""

    name: str
    library: str
    build: Callable[[], Example]

    @property
    def key(self) -> str:
        return f"{self.library}/{self.name}"


def library(name: str) -> Any:
    """A framework's module; it may be missing, so that nothing knows its types."""
    return importlib.import_module(name)


def architectures() -> list[Architecture]:
    """All of them, in the order of the table."""
    from zoo_models import (
        flax_models,
        image_models,
        layers,
        transformers_families,
        transformers_models,
        unseen,
    )

    return [
        *transformers_models.architectures(),
        *transformers_families.architectures(),
        *image_models.architectures(),
        *layers.architectures(),
        *flax_models.architectures(),
        *unseen.architectures(),
    ]


def chosen(patterns: Sequence[str], sample: int | None) -> list[Architecture]:
    """Those whose key contains one of the patterns; `sample` takes so many at random."""
    found = [a for a in architectures() if not patterns or any(p in a.key for p in patterns)]
    if sample is not None and sample < len(found):
        found = sorted(random.Random(sample).sample(found, sample), key=lambda a: a.key)
    return found


def seeded(make: Callable[[], Any]) -> Any:
    """A module with weights that are the same in every run, in eval mode.

    Libraries start many weights at zero or one; small random ones in their place let every part
    of a model be seen in its outputs.
    """
    torch = library("torch")

    torch.manual_seed(0)
    module = make().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dtype.is_floating_point:
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    return module
