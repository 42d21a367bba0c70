"""Types of kernel parameters: `tw.fp8["M", "K"]`, `tw.bf16["H", "M", 64]`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tilewright.errors import TilewrightError


class Arrangement(Protocol):
    """How an array that is given in one shape is stored in another: images, grouped weights."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array as it is given."""
        ...

    @property
    def stored(self) -> tuple[int, ...]:
        """Of the tensor that holds it."""
        ...

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        """given -> stored"""
        ...

    def restored(self, codes: np.ndarray) -> np.ndarray:
        """stored -> given"""
        ...


@dataclass(frozen=True)
class TensorSpec:
    """An element type and sizes, each a number or a name that is bound at compile time."""

    dtype: str
    sizes: tuple[int | str, ...]
    order: str = "tiles"
    arrangement: Arrangement | None = None

    def panels(self) -> TensorSpec:
        """The same tensor stored column panel by column panel."""
        return replace(self, order="panels")

    def halves(self) -> TensorSpec:
        """A bf16 result of one number per row in 16 equal columns, stored as the left halves of
        its tiles."""
        if self.dtype != "bf16" or self.sizes[-1] != 16:
            raise TypeError("halves are for bf16 tensors whose last size is 16")
        return replace(self, order="halves")

    def separate(self) -> TensorSpec:
        """The same tensor with each row stored as a vector of its own, to be indexed with
        tw.each: a bias or mask per head."""
        return replace(self, order="rows")

    def arranged(self, arrangement: Arrangement) -> TensorSpec:
        """The same tensor for arrays of another shape, which are rearranged on the way in and
        out."""
        if arrangement.stored != self.sizes:
            raise TypeError(f"the arrangement makes {arrangement.stored}, not {self.sizes}")
        return replace(self, arrangement=arrangement)

    def bind(self, name: str, shape: tuple[int, ...], known: dict[str, int]) -> None:
        """Match a concrete shape, binding names."""
        if self.arrangement is not None and shape != self.sizes:
            self._match_arranged(name, shape, self.arrangement.shape)
            return
        if len(shape) != len(self.sizes):
            raise TilewrightError(
                "TW1601", f"{name} has {len(shape)} dimensions, the kernel wants {len(self.sizes)}"
            )
        for size, actual in zip(self.sizes, shape, strict=True):
            wanted = size if isinstance(size, int) else known.setdefault(size, actual)
            if wanted != actual:
                label = f"{size} = {wanted}" if isinstance(size, str) else str(size)
                raise TilewrightError(
                    "TW1602", f"{name} has size {actual} where the kernel wants {label}"
                )
            if actual < 1:
                raise TilewrightError("TW1603", f"{name} is empty: its shape is {shape}")

    def _match_arranged(self, name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if shape != wanted:
            given, want = ("x".join(map(str, sizes)) for sizes in (shape, wanted))
            raise TilewrightError("TW1602", f"{name} has shape {given}, the kernel wants {want}")

    def resolve(self, known: dict[str, int]) -> tuple[int, ...] | None:
        """The concrete shape, if all names are bound."""
        sizes = [s if isinstance(s, int) else known.get(s) for s in self.sizes]
        return None if None in sizes else tuple(s for s in sizes if s is not None)


class ElementType:
    """Indexing gives a tensor type."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, sizes: int | str | tuple[int | str, ...]) -> TensorSpec:
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        if not sizes:
            raise TypeError("a tensor has at least one size")
        for size in sizes:
            if not isinstance(size, (int, str)) or (isinstance(size, int) and size < 1):
                raise TypeError(f"a size is a name or a positive number, not {size!r}")
        return TensorSpec(self.name, sizes)

    def __repr__(self) -> str:
        return f"tw.{self.name}"


fp8 = ElementType("fp8")
bf16 = ElementType("bf16")
f16 = ElementType("f16")
operand = ElementType("operand")  # of products, in whatever format the machine multiplies
value = ElementType("value")  # everything else
