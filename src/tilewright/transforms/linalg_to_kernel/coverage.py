"""Which tensor op becomes which kernel, which stay behind and why.

Every tensor op of a module is in exactly one of these states:

bound    part of one or more kernel intents
folded   absorbed: a zero start, a transpose read in place, a broadcast read through a map
dead     nobody reads its result
host     explicitly on the host: by a host family, or marked `npu.host`, with the reason
unbound  no mapping: the reason and what to do
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tilewright.dialects.kernel_symbols import family_of
from tilewright.dialects.locations import location_of, name_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import ModuleOp, Operation, StringAttr, TensorType
from tilewright.errors import Location
from tilewright.transforms.linalg_to_kernel.driver import HOST_ATTRIBUTE, convert_module
from tilewright.transforms.linalg_to_kernel.emitter import Settings

STATES = ("bound", "folded", "dead", "host", "unbound")


@dataclass
class Row:
    """One tensor op and what becomes of it."""

    op: str
    types: str
    location: Location | None
    state: str
    kernels: list[str] = field(default_factory=list)
    reason: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "types": self.types,
            "location": str(self.location or "?"),
            "state": self.state,
            "kernels": self.kernels,
            "reason": self.reason,
            "hint": self.hint,
        }


@dataclass
class Coverage:
    """All tensor ops of a module, in order, and how often each kernel is used."""

    rows: list[Row]
    kernels: dict[str, int]

    def count(self, *states: str) -> int:
        return sum(row.state in states for row in self.rows)

    @property
    def assigned(self) -> float:
        """The share of ops that a kernel or, explicitly, the host takes care of."""
        if not self.rows:
            return 1.0
        return 1.0 - self.count("unbound") / len(self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "ops": len(self.rows),
            **{state: self.count(state) for state in STATES},
            "assigned": round(self.assigned, 4),
            "kernels": self.kernels,
            "rows": [row.to_json() for row in self.rows],
        }

    def table(self) -> str:
        """The coverage as text: one line per kind of op and fate, then kernels, then the total."""
        groups: Counter[tuple[str, str, str]] = Counter()
        for row in self.rows:
            fate = ", ".join(dict.fromkeys(row.kernels)) or row.reason or ""
            groups[(row.op, row.state, fate)] += 1
        lines = [("count", "op", "state", "kernel or reason")]
        for (op, state, fate), count in sorted(
            groups.items(), key=lambda item: (STATES.index(item[0][1]), -item[1], item[0])
        ):
            lines.append((str(count), op, state, fate))
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        text = "\n".join(
            f"{a:>{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip()
            for a, b, c, d in lines
        )
        used = "\n".join(
            f"{n:>{widths[0]}}  {kernel}"
            for kernel, n in sorted(self.kernels.items(), key=lambda item: (-item[1], item[0]))
        )
        states = ", ".join(f"{self.count(s)} {s}" for s in STATES if self.count(s))
        total = f"{len(self.rows)} tensor ops: {states or 'none'}; {self.assigned:.1%} assigned"
        return f"{text}\n\nkernels\n{used}\n\n{total}"


def coverage_of(module: ModuleOp, settings: Settings) -> Coverage:
    """The coverage of a module, which stays as it is."""
    result = convert_module(module, settings, collect=True)
    problems = {op: problem for op, problem in result.problems}
    kernels: dict[Operation, list[Operation]] = {}
    used: Counter[str] = Counter()
    for _, region in result.regions:
        for op in region.walk():
            if isinstance(op, UKernelGenericOp | MatmulOp):
                used[kernel_name(op)] += 1
                for source in result.sources.get(op, ()):
                    kernels.setdefault(source, []).append(op)
    on_host = settings.unmapped == "host"
    rows = []
    for op in result.compute_ops:
        row = Row(name_of(op), _types(op), location_of(op), "bound")
        made = kernels.get(op, [])
        problem = problems.get(op)
        if problem is not None:
            row.state = "host" if on_host else "unbound"
            row.reason, row.hint = problem.reason, problem.hint
        elif made:
            row.kernels = [kernel_name(k) for k in made]
            row.state = "host" if all(_runs_on_host(k) for k in made) else "bound"
            if row.state == "host":
                row.reason = _host_reason(made)
        elif not any(result.uses for result in op.results):
            row.state = "dead"
        else:
            row.state, row.reason = "folded", "read in place by the kernels that use it"
        rows.append(row)
    for op in module.walk():
        if isinstance(op, UKernelGenericOp | MatmulOp):
            state = "host" if _runs_on_host(op) else "bound"
            place = location_of(op)
            rows.append(Row(name_of(op), _types(op), place, state, [kernel_name(op)]))
        elif HOST_ATTRIBUTE in op.attributes and op not in result.compute_ops:
            reason = op.attributes[HOST_ATTRIBUTE]
            text = reason.data if isinstance(reason, StringAttr) else None
            rows.append(Row(name_of(op), _types(op), location_of(op), "host", [], text))
    return Coverage(rows, dict(sorted(used.items())))


def kernel_name(op: Operation) -> str:
    """A kernel's symbol; a matmul's with its element types."""
    if isinstance(op, UKernelGenericOp):
        return op.symbol.data
    types = [v.type for v in (*op.operands[:2], op.results[0])]
    suffix = "_".join(str(t.element_type) for t in types if isinstance(t, TensorType))
    return f"npu_uk_matmul_{suffix}"


def _runs_on_host(op: Operation) -> bool:
    if not isinstance(op, UKernelGenericOp):
        return False
    family = family_of(op.symbol.data)
    return family is not None and family.runs_on == "host"


def _host_reason(made: list[Operation]) -> str:
    symbols = [op.symbol.data for op in made if isinstance(op, UKernelGenericOp)]
    families = [family_of(symbol) for symbol in symbols]
    if any(family is not None and family.name == "elementwise_rem" for family in families):
        return "remainders are exact on the host, whose division is not rounded"
    return "looked up and counted on the host, whose memory holds the tables"


def _types(op: Operation) -> str:
    inputs = ", ".join(str(v.type) for v in op.operands)
    outputs = ", ".join(str(r.type) for r in op.results)
    return f"{inputs} -> {outputs}"
