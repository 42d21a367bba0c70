"""Programs as C: one function per group, called by main in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

from tilewright.targets.coral.expressions import PARTS, expression, index_text, initialiser, literal
from tilewright.targets.coral.far_constants import Staged
from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.program import C_TYPES, Access, Node, Program, Value, identity
from tilewright.targets.coral.storage import Scratch, Storage

IO = '#define DTCM_IO __attribute__((section(".data"), aligned(16), used))'
FAR_IO = (
    '#define FAR_IO __attribute__((section(".extio"), aligned(16), used))  /* behind the bus */'
)


FETCH = """/* Weights from behind the bus, a word at a time. */
static __attribute__((noinline)) void k_fetch(uint32_t *to, const uint32_t *from, int words) {
  while (words-- > 0) *to++ = *from++;
}"""


@dataclass
class Writer:
    """Lines of C with indentation."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head + " {")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def loop(self, name: str, end: int, step: int = 1) -> object:
        stride = f"{name}++" if step == 1 else f"{name} += {step}"
        return self.block(f"for (int {name} = 0; {name} < {end}; {stride})")


@contextmanager
def nest(writer: Writer, loops: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Loops around what is written inside, and their indices: a loop of one turn is none, its index 0."""
    opened = 0
    for name, end in loops:
        if end > 1:
            writer.line(f"for (int {name} = 0; {name} < {end}; {name}++) {{")
            writer.depth += 1
            opened += 1
    yield [name if end > 1 else "0" for name, end in loops]
    for _ in range(opened):
        writer.depth -= 1
        writer.line("}")


def runtime_parts(name: str) -> dict[str, str]:
    """The marked parts of a runtime file; the text before the first mark is called ''."""
    text = (files("tilewright.targets.coral") / "runtime" / name).read_text()
    parts = {}
    mark = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("//@ "):
            parts[mark] = "\n".join(lines)
            mark, lines = line[4:].strip(), []
        else:
            lines.append(line)
    parts[mark] = "\n".join(lines)
    return parts


class Emitter:
    """Collects what the whole file needs while groups are written."""

    def __init__(self, program: Program, groups: list[Group], machine: CoralMachine) -> None:
        self.program = program
        self.groups = groups
        self.machine = machine
        self.definitions = program.definitions()
        self.math: set[str] = set()
        self.kernels: set[str] = set()
        self.scratch: list[Scratch] = []
        self.extra: list[str] = []  # tables and descriptors of groups
        self.packed: dict[Value, np.ndarray] = {}  # of far constants: as kernels want them
        self.storage: Storage | None = None
        self.far: dict[Value, Staged] = {}  # constants behind the bus
        self.far_ports: list[Value] = []  # inputs and outputs behind the bus
        self.helpers: list[str] = []  # functions of streamed regions

    # Names

    def name(self, value: Value) -> str:
        assert self.storage is not None
        found = self.storage.names.get(value)
        if found is None:
            found = self.storage.names[source_of(value, self.definitions)]
        return found

    def fetches(self, group: int) -> list[str]:
        """Calls that bring the constants a group is the first to read into data memory."""
        assert self.storage is not None
        return [
            f"  k_fetch((uint32_t *){s.place}, (const uint32_t *)far_{self.storage.constants[v]}, {-(-s.bytes // 4)});"
            for v, s in self.far.items()
            if s.groups[0] == group
        ]

    def need_math(self, *parts: str) -> None:
        self.math |= set(parts)

    def need_scratch(self, stem: str, size: int, group: int) -> str:
        name = f"{stem}_{group}"
        if all(s.name != name for s in self.scratch):
            self.scratch.append(Scratch(name, size, group))
        return name

    # Elementwise statements

    def statements(
        self,
        writer: Writer,
        nodes: Sequence[Node],
        known: dict[Value, str],
        loops: Sequence[str],
        stored: Sequence[Value],
    ) -> None:
        """One statement per node at the current index, then what is kept."""
        for node in nodes:
            self.need_math(*PARTS.get(node.kind, ()))
            operands = [
                self.element(v, a, known, loops)
                for v, a in zip(node.inputs, node.accesses, strict=True)
            ]
            # A name for what an expression may use twice.
            named = []
            for k, text in enumerate(operands):
                if "[" in text:
                    short = f"x{len(known)}_{k}"
                    writer.line(f"const {C_TYPES[node.inputs[k].dtype]} {short} = {text};")
                    named.append(short)
                else:
                    named.append(text)
            variable = f"v{len(known)}"
            writer.line(
                f"const {C_TYPES[node.output.dtype]} {variable} = {expression(node, named)};"
            )
            known[node.output] = variable
        for value in stored:
            index = index_text(value, identity(len(value.shape)), loops)
            writer.line(f"{self.name(value)}[{index}] = {known[value]};")

    def element(
        self, value: Value, access: Access, known: dict[Value, str], loops: Sequence[str]
    ) -> str:
        if value in known:
            return known[value]
        if value.data is not None and value.elements == 1:
            return literal(value.data.reshape(-1)[0], value.dtype)
        return f"{self.name(value)}[{index_text(value, access, loops)}]"

    # The file

    def file(
        self, bodies: Sequence[tuple[str, list[str]]], title: str, calls: Sequence[str]
    ) -> str:
        assert self.storage is not None
        storage = self.storage
        out = [f"/* {title} */", "#include <stddef.h>", "#include <stdint.h>"]
        if self.kernels:
            out.append("#include <riscv_vector.h>")
        out += ["", IO, *([FAR_IO] if self.far_ports else [])]
        for stem, values in (("input", self.program.inputs), ("output", self.program.outputs)):
            for index, value in enumerate(values):
                shape = "x".join(map(str, value.shape)) or "scalar"
                scale = "" if value.scale is None else f", (q - {value.zero}) * {value.scale!r}"
                place = "FAR_IO" if value in self.far_ports else "DTCM_IO"
                out.append(
                    f"{C_TYPES[value.dtype]} {stem}_{index}[{value.elements}] {place};  /* {shape} {value.dtype}{scale} */"
                )
        if storage.arena:
            out += [
                "",
                "/* Intermediate values; live ranges and offsets come from the memory planner. */",
            ]
            out.append(
                f'static uint8_t arena[{storage.arena}] __attribute__((section(".arena"), aligned(16)));'
            )
            kinds = {name: value for value, name in storage.names.items()}
            for buffer in storage.buffers():
                value = kinds.get(buffer.name)
                kind = C_TYPES[value.dtype] if value else "int8_t"
                shape = "x".join(map(str, value.shape)) if value else "scratch"
                out.append(
                    f"#define {buffer.name} (({kind} *)(arena + {storage.offset(buffer.name)}))"
                    f"  /* {shape}, steps {buffer.lower}..{buffer.upper - 1} */"
                )
        used = "\n".join(line for _, lines in bodies for line in lines) + "\n".join(self.extra)
        out.append("")
        for value, name in storage.constants.items():
            if (
                f"{name}[" not in used
                and f"{name} " not in used
                and f"{name}," not in used
                and f"{name};" not in used
                and f"{name})" not in used
            ):
                continue
            assert value.data is not None
            shape = "x".join(map(str, value.shape)) or "scalar"
            kind, place = C_TYPES[value.dtype], "aligned(16)"
            if value in self.far:
                out.append(f"#define {name} ((const {kind} *){self.far[value].place})")
                name, place = f"far_{name}", 'section(".extmem"), aligned(16)'
            out.append(
                f"static const {kind} {name}[{value.elements}] __attribute__(({place})) = "
                f"{initialiser(self.packed.get(value, value.data), value.dtype)};  /* {shape} */"
            )
        if self.far:
            out.append(FETCH)
        out.append("")
        math = runtime_parts("math.c")
        out.append(math[""])
        out += [math[mark] for mark in math if mark in self.math]
        kernels = runtime_parts("kernels.c")
        out += [kernels[mark] for mark in kernels if mark in self.kernels]
        out += self.extra
        out += self.helpers
        for _, lines in bodies:
            out.append("")
            out += lines
        out += ["", "int main(void) {"]
        out += calls
        out += ["  return 0;", "}"]
        return "\n".join(out) + "\n"
