"""C to ELF with the `ziglang` wheel: clang, lld, our start-up code, one linker script per map.

Error codes: TW5010 the toolchain is missing, TW5011 it refused the source, TW5012 a memory is too
small, TW5013 the program contains instructions the core lacks.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.io import content_cache
from tilewright.targets.coral.elf import Elf, parse_elf
from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.scan import scan

DEFAULT_STACK = 2048

# No contraction (a fused operation reads a stale register on the measured core, and f32 results
# follow a reference without it); wrapping integers and freely reused buffers; no auto-vectoriser,
# which prefers strided loads.
FLAGS = [
    "-O2",
    "-g",
    "-ffreestanding",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-sanitize=all",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fomit-frame-pointer",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-falign-functions=16",
    "-fdebug-compilation-dir=.",  # not where we happened to compile: the same bytes every time
]

SCRIPT = """\
MEMORY {{ ITCM (rx) : ORIGIN = {code_base:#010x}, LENGTH = {code_size}
         DTCM (rw) : ORIGIN = {data_base:#010x}, LENGTH = {data_size}{external} }}
ENTRY(_start)
SECTIONS {{
  .text   : {{ KEEP(*(.text.init)) *(.text .text.*) }}               > ITCM
{far}  .rodata : ALIGN(16) {{ *(.srodata*) *(.rodata .rodata.*) }}        > {constants}
  .data   : ALIGN(16) {{ __global_pointer$ = . + 0x800;
                        KEEP(*(.data)) *(.data.* .sdata*)
                        . = ALIGN(4); _ret = .; _instret = . + 4; _mcycle = . + 8; . += 12; }} > DTCM
  .bss (NOLOAD)   : ALIGN(16) {{ __bss_start = .; *(.sbss*) *(.bss .bss.*) *(COMMON)
                        . = ALIGN(4); __bss_end = .; }} > DTCM
  /* Planned buffers: not cleared, so that a stale read shows. */
  .arena (NOLOAD) : ALIGN(16) {{ *(.arena .arena.*) }} > DTCM
  .stack (NOLOAD) : ALIGN(16) {{ __stack_bottom = .; . += DEFINED(__stack_size) ? __stack_size : 2K;
                        . = ALIGN(16); __stack_top = .; }} > DTCM
  /DISCARD/ : {{ *(.comment) *(.note*) *(.eh_frame*) }}
}}
"""


@dataclass(frozen=True)
class Build:
    """One linked program and what the linker said."""

    elf: bytes
    map: str
    stack: int

    @property
    def program(self) -> Elf:
        return parse_elf(self.elf, "model.elf")


class MemoryOverflow(TilewrightError):
    """A memory that is too small for what was linked, and by how much."""

    memory: str = ""
    missing: int = 0


@cache
def toolchain_missing() -> str | None:
    """None when models can be compiled, else how to get there."""
    if importlib.util.find_spec("ziglang") is None:
        return "the RISC-V toolchain is not installed; pip install 'tilewright[coral]'"
    return None


def toolchain_version() -> str:
    """Of the wheel that compiled a program; nothing when there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"ziglang {version('ziglang')}"
    except PackageNotFoundError:
        return ""


def linker_script(machine: CoralMachine, constants_in_code: bool = False) -> str:
    """The script for a machine's memories."""
    outer = machine.external[0] if machine.external else None
    return SCRIPT.format(
        external=""
        if outer is None
        else f"\n         {outer.name} (rw) : ORIGIN = {outer.base:#010x}, LENGTH = {outer.size}",
        far=""
        if outer is None
        else f"  .extmem : ALIGN(16) {{ *(.extmem .extmem.*) }}                    > {outer.name}\n"
        f"  .extio (NOLOAD) : ALIGN(16) {{ *(.extio) }}                       > {outer.name}\n",
        code_base=machine.code.base,
        code_size=machine.code.size,
        data_base=machine.data.base,
        data_size=machine.data.size,
        constants="ITCM" if constants_in_code else "DTCM",
    )


def _environment(directory: Path) -> dict[str, str]:
    # zig wants caches, and a home when it has none; both in a place of ours.
    named = content_cache.place() if os.environ.get(content_cache.PLACE) else "off"
    ours = Path(named) / "zig"
    if named == "off":
        ours = Path(tempfile.gettempdir()) / f"tilewright-zig-{os.getuid()}"
    ours.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(ours),
        "ZIG_LOCAL_CACHE_DIR": str(directory / "zig-cache"),
        "HOME": os.environ.get("HOME") or str(directory),
    }


@cache
def _zig() -> Path:
    """The program in the wheel, without an interpreter that only starts it."""
    package = importlib.util.find_spec("ziglang")
    assert package is not None and package.origin is not None
    return Path(package.origin).with_name("zig")


def _run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    missing = toolchain_missing()
    if missing:
        raise TilewrightError("TW5010", missing)
    try:
        return subprocess.run(
            [_zig(), *arguments],
            cwd=directory,
            env=_environment(directory),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TilewrightError("TW5010", f"the RISC-V toolchain does not run: {error}") from None


def compile_c(
    source: str,
    machine: CoralMachine,
    stack: int = DEFAULT_STACK,
    constants_in_code: bool = False,
    flags: tuple[str, ...] = (),
    check: bool = True,
    name: str = "model",
) -> Build:
    """Compile and link one C file with the start-up code.

    `check` scans the linked program for what the core lacks. `flags` come after ours.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-coral-") as scratch:
        directory = Path(scratch)
        contents = {
            "crt0.o": _runtime_object("crt0.S", machine.cpu),
            f"{name}.o": _compiled(source, f"{name}.c", machine.cpu, flags),
            "rt.o": _runtime_object("rt.c", machine.cpu),
        }
        for file, content in contents.items():
            (directory / file).write_bytes(content)
        (directory / "tcm.ld").write_text(linker_script(machine, constants_in_code))
        link = ["ld.lld", "-m", "elf32lriscv", "-T", "tcm.ld", "--gc-sections", "-Map=model.map"]
        sizes = [f"--defsym=__stack_size={stack}"]
        done = _run([*link, *sizes, *contents, "-o", "model.elf"], directory)
        if done.returncode:
            # Once more with all the room up to data memory, for the sizes of functions.
            code = replace(machine.code, size=machine.data.base - machine.code.base)
            roomy = replace(machine, memories=(code, *machine.memories[1:]))
            (directory / "tcm.ld").write_text(linker_script(roomy, constants_in_code))
            _run([*link, *sizes, *contents, "-o", "over.elf"], directory)
            over = directory / "over.elf"
            raise _link_error(
                done.stderr, machine, over.read_bytes() if os.path.exists(over) else b""
            )
        build = Build(
            (directory / "model.elf").read_bytes(), (directory / "model.map").read_text(), stack
        )
    if check:
        findings = scan(build.program, machine)
        if findings:
            shown = "; ".join(str(f) for f in findings[:3])
            raise TilewrightError(
                "TW5013", f"the program contains what {machine.name} lacks: {shown}"
            )
    return build


def ascii_text(data: bytes) -> str:
    """Assembly as text: the bytes of constants that are no characters become octal escapes."""
    return re.sub(rb"[\x80-\xff]", lambda found: b"\\%03o" % found[0][0], data).decode("ascii")


def assembly(source: str, machine: CoralMachine, flags: tuple[str, ...] = ()) -> str:
    """The compiler's assembly of one C file."""
    return ascii_text(_compiled(source, "model.c", machine.cpu, flags, "-S"))


def _compiled(
    source: str, name: str, cpu: str, flags: tuple[str, ...] = (), form: str = "-c"
) -> bytes:
    """One file through the C compiler: an object, or assembly with -S."""
    with tempfile.TemporaryDirectory(prefix="tilewright-coral-") as scratch:
        directory = Path(scratch)
        (directory / name).write_text(source)
        target = ["-target", "riscv32-freestanding-none", f"-mcpu={cpu}", "-mabi=ilp32"]
        done = _run(["cc", *target, *FLAGS, *flags, form, name, "-o", "made"], directory)
        if done.returncode:
            raise TilewrightError(
                "TW5011", f"the C compiler refused {name}: {_first_error(done.stderr)}"
            )
        return (directory / "made").read_bytes()


@cache
def _runtime_object(name: str, cpu: str) -> bytes:
    """A file of ours that every program has, compiled once."""
    runtime = files("tilewright.targets.coral") / "runtime"
    return _compiled((runtime / name).read_text(), name, cpu)


def _first_error(text: str) -> str:
    for line in text.splitlines():
        if "error" in line:
            return line.strip()
    return text.strip()[:300] or "no message"


def _code_table(elf: bytes) -> str:
    """The largest functions of a program, a line each."""
    try:
        symbols = parse_elf(elf, "over.elf").symbols.values()
    except TilewrightError:
        return ""
    sizes = sorted(((s.size, s.name) for s in symbols if s.kind == "func"), reverse=True)
    return "".join(f"\n          {name}: {size:,} bytes of code" for size, name in sizes[:12])


def _link_error(text: str, machine: CoralMachine, elf: bytes = b"") -> TilewrightError:
    over = re.findall(
        r"section '([^']+)' will not fit in region '(\w+)': overflowed by (\d+) bytes", text
    )
    if not over:
        return TilewrightError("TW5011", f"the linker refused the program: {_first_error(text)}")
    section, region, missing = max(over, key=lambda item: int(item[2]))
    memory = machine.code if region == "ITCM" else machine.data
    hint = "build for coral-highmem, with 1 MB of each" if not machine.high_memory else None
    table = _code_table(elf) if region == "ITCM" else ""
    error = MemoryOverflow(
        "TW5012",
        f"{section} does not fit {region} of {machine.name}: {int(missing):,} bytes more than the "
        f"{memory.size:,} there are{table}",
        hint=hint,
    )
    error.memory, error.missing = region, int(missing)
    return error
