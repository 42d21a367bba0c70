"""Where everything of a compiled model lies, as a table to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.runtime.compiled_model import CompiledModel, Region

_HEAD = ("address", "end", "bytes", "kind", "steps", "shape", "name")


@dataclass(frozen=True)
class MemoryMap:
    """Regions by memory and address; `sizes` are the machine's memories, `used` the highest end."""

    regions: tuple[Region, ...]
    sizes: dict[str, int]
    code_bytes: tuple[int, ...]  # per segment
    code_limit: int

    @classmethod
    def of(cls, model: CompiledModel) -> MemoryMap:
        order = sorted(
            model.regions.values(), key=lambda r: (r.space, r.address, r.first, r.last, r.name)
        )
        sizes = {"dram": model.profile.dram_bytes, "vmem": model.profile.vmem_bytes}
        code = tuple(4 * len(program) for program in model.segments)
        return cls(tuple(order), sizes, code, model.profile.imem_bytes)

    def used(self, space: str) -> int:
        """One past the highest byte a region has."""
        return max((r.address + r.bytes for r in self.regions if r.space == space), default=0)

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
                    "bytes": region.bytes,
                    "kind": region.kind,
                    "first": region.first,
                    "last": region.last,
                    "shape": list(region.layout.shape),
                    "dtype": region.layout.dtype,
                    "order": region.layout.order,
                    "count": region.count,
                    "stride": region.stride,
                }
                for region in self.regions
            ],
        }

    def __str__(self) -> str:
        lines = []
        for space, size in self.sizes.items():
            mine = [region for region in self.regions if region.space == space]
            lines.append(f"{space.upper()}: {self.used(space):,} of {size:,} bytes")
            if mine:
                lines += _table([_HEAD, *map(_row, mine)])
        code = " + ".join(f"{size:,}" for size in self.code_bytes) or "0"
        lines.append(f"code: {code} bytes, instruction memory {self.code_limit:,}")
        return "\n".join(lines)


def _row(region: Region) -> tuple[str, ...]:
    layout = region.layout
    shape = "x".join(map(str, layout.shape)) + f" {layout.dtype} {layout.order}"
    if layout.arrangement is not None:
        shape += f" of {'x'.join(map(str, layout.given))}"
    if region.count > 1:
        shape = f"{region.count} of {shape}"
    steps = f"{region.first}" if region.first == region.last else f"{region.first}-{region.last}"
    end = region.address + region.bytes
    return (
        f"{region.address:#x}", f"{end:#x}", f"{region.bytes:,}", region.kind, steps, shape,
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
