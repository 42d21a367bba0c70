"""Where everything of a compiled model lies, as a table to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.targets.artifact import Inspectable, Tensor
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.registry import description_of

_HEAD = ("address", "end", "bytes", "kind", "steps", "shape", "name")
_CODE = "imem"  # what machines call the memory of their instructions


@dataclass(frozen=True)
class MemoryMap:
    """Tensors by memory and address; `sizes` are the machine's memories, `used` the highest end."""

    tensors: tuple[Tensor, ...]
    sizes: dict[str, int]
    code_bytes: tuple[int, ...]  # of each piece
    code_limit: int

    @classmethod
    def of(cls, model: CompiledModel[Any]) -> MemoryMap:
        artifact = model.artifact
        order = sorted(
            artifact.tensors.values(), key=lambda r: (r.space, r.address, r.first, r.last, r.name)
        )
        sizes = {memory.name: memory.bytes for memory in description_of(artifact).memories}
        code = tuple(artifact.code_bytes) if isinstance(artifact, Inspectable) else ()
        limit = sizes.pop(_CODE, 0)
        return cls(tuple(order), sizes, code, limit)

    def used(self, space: str) -> int:
        """One past the highest byte a region has."""
        return max((r.end for r in self.tensors if r.space == space), default=0)

    def to_json(self) -> dict[str, Any]:
        return {
            "memories": {
                space: {"bytes": size, "used": self.used(space)}
                for space, size in self.sizes.items()
            },
            "code": {"bytes": list(self.code_bytes), "limit": self.code_limit},
            "regions": [
                {
                    "name": region.name,
                    "space": region.space,
                    "address": region.address,
                    "bytes": region.end - region.address,
                    "kind": region.kind,
                    "first": region.first,
                    "last": region.last,
                    "shape": list(region.shape),
                    "dtype": region.dtype,
                    "encoding": region.encoding,
                    "count": region.count,
                    "stride": region.stride,
                }
                for region in self.tensors
            ],
        }

    def __str__(self) -> str:
        lines = []
        for space, size in self.sizes.items():
            mine = [region for region in self.tensors if region.space == space]
            lines.append(f"{space.upper()}: {self.used(space):,} of {size:,} bytes")
            if mine:
                lines += _table([_HEAD, *map(_row, mine)])
        if self.code_bytes:
            code = " + ".join(f"{size:,}" for size in self.code_bytes)
            lines.append(f"code: {code} bytes, instruction memory {self.code_limit:,}")
        return "\n".join(lines)


def _row(region: Tensor) -> tuple[str, ...]:
    shape = f"{'x'.join(map(str, region.shape))} {region.encoding}"
    if region.count > 1:
        shape = f"{region.count} of {shape}"
    steps = f"{region.first}" if region.first == region.last else f"{region.first}-{region.last}"
    return (
        f"{region.address:#x}", f"{region.end:#x}", f"{region.end - region.address:,}", region.kind, steps, shape,
        region.name,
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns under each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index < 3 else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
