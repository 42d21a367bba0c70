"""QEMU as an independent oracle: the same program on an emulator that shares no code with ours.

The emulator has memory from 0 on, so both maps fit (and, where asked, the memory behind the bus, of
which the host gives only what is touched), and is driven over its debugger socket. It has
no bounds, no mpause, and other control registers; those are our simulator's business.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.coral.elf import Elf
from tilewright.targets.coral.machines import CoralMachine

COMMAND = "qemu-system-riscv32"
SMALL, LARGE = "4M", "516M"  # both maps; and 4 MB at 0x20000000
# Parking places outside of both maps. A breakpoint in a page with running code would slow it down.
PARK_HALT, PARK_FAIL = 0x300000, 0x301000
PIECE = 0x700  # bytes per write packet


def qemu_missing() -> str | None:
    """None when the oracle can be asked, else why not."""
    if shutil.which(COMMAND) is None:
        return f"{COMMAND} is not installed (apt-get install qemu-system-misc)"
    text = subprocess.run(
        [COMMAND, "--version"], capture_output=True, text=True, check=False
    ).stdout
    if "version 7.2" not in text:
        return f"the options are those of QEMU 7.2, this is {text.split(chr(10))[0]}"
    return None


@dataclass(frozen=True)
class QemuOutcome:
    """What the emulator ended with."""

    halted: bool  # at the halt, not at the failure loop
    ret: int | None
    region_instructions: int | None


class Qemu:
    """One emulator kept alive; use it as a context manager."""

    def __init__(
        self, zba: bool = False, agnostic_ones: bool = False, external: bool = False
    ) -> None:
        missing = qemu_missing()
        if missing:
            raise TilewrightError("TW5015", missing)
        self._scratch = tempfile.TemporaryDirectory(prefix="tilewright-qemu-")
        path = str(Path(self._scratch.name) / "gdb")
        ones = ",rvv_ta_all_1s=true,rvv_ma_all_1s=true" if agnostic_ones else ""
        cpu = (
            "rv32,a=false,c=false,d=false,h=false,s=false,u=false,mmu=false,pmp=false,"
            f"zba={'true' if zba else 'false'},zbb=true,zbc=false,zbs=false,"
            f"Zve32f=true,vlen=128,elen=32,vext_spec=v1.0{ones}"
        )
        self._process = subprocess.Popen(
            [
                *(COMMAND, "-M", "none", "-m", LARGE if external else SMALL, "-S"),
                *("-nographic", "-monitor", "none"),
                *("-serial", "none", "-icount", "shift=0", "-cpu", cpu),
                *("-chardev", f"socket,path={path},server=on,wait=off,id=g", "-gdb", "chardev:g"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._socket = self._connect(path)
        self._buffer = b""
        self._ask("qSupported:xmlRegisters=riscv")
        self._ask("qXfer:features:read:target.xml:0,ffff")
        for park in (PARK_HALT, PARK_FAIL):
            self._ask(f"Z0,{park:x},4")

    def _connect(self, path: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(30)
        for _ in range(500):
            try:
                made.connect(path)
                return made
            except OSError:
                if self._process.poll() is not None:
                    said = self._process.stderr.read().decode() if self._process.stderr else ""
                    raise TilewrightError("TW5015", f"QEMU does not start: {said[:200]}") from None
                time.sleep(0.01)
        raise TilewrightError("TW5015", "QEMU does not answer")

    def _send(self, text: str) -> None:
        body = text.encode()
        self._socket.sendall(b"$" + body + b"#" + f"{sum(body) & 0xFF:02x}".encode())

    def _receive(self) -> str:
        while True:
            start = self._buffer.find(b"$")
            end = self._buffer.find(b"#", start)
            if start >= 0 and end >= 0 and len(self._buffer) >= end + 3:
                body = self._buffer[start + 1 : end]
                self._buffer = self._buffer[end + 3 :]
                self._socket.sendall(b"+")
                return body.decode("latin-1")
            more = self._socket.recv(1 << 16)
            if not more:
                self._process.wait(5)
                said = self._process.stderr.read().decode() if self._process.stderr else ""
                raise TilewrightError("TW5015", f"QEMU ended: {said[-300:]}")
            self._buffer += more

    def _ask(self, text: str) -> str:
        self._send(text)
        return self._receive()

    def write(self, address: int, data: bytes) -> None:
        for offset in range(0, len(data), PIECE):
            piece = data[offset : offset + PIECE]
            answer = self._ask(f"M{address + offset:x},{len(piece):x}:{piece.hex()}")
            if answer != "OK":
                raise TilewrightError("TW5015", f"QEMU refuses a write: {answer}")

    def read(self, address: int, size: int) -> bytes:
        parts = []
        for offset in range(0, size, PIECE):
            count = min(PIECE, size - offset)
            parts.append(bytes.fromhex(self._ask(f"m{address + offset:x},{count:x}")))
        return b"".join(parts)

    def clear_registers(self) -> None:
        """Integer registers as after a reset, not as the last program left them."""
        for register in range(1, 32):
            self._ask(f"P{register:x}=00000000")

    def go(self, entry: int, seconds: float = 30.0) -> int:
        """Run from an address to a parking place; the place it stopped at."""
        self._ask(f"P20={entry.to_bytes(4, 'little').hex()}")
        self._send("c")
        self._socket.settimeout(seconds)
        try:
            self._receive()
        except TimeoutError:
            self._socket.sendall(b"\x03")
            self._socket.settimeout(30)
            self._receive()
        self._socket.settimeout(30)
        return int.from_bytes(bytes.fromhex(self._ask("p20")), "little")

    def run(
        self,
        elf: Elf,
        machine: CoralMachine,
        inputs: dict[str, np.ndarray] | None = None,
        seconds: float = 120.0,
    ) -> QemuOutcome:
        """Load a linked program, write inputs, run it to its end."""
        for memory in machine.memories:
            used = max(
                (
                    s.address + s.size
                    for s in elf.segments
                    if s.address >= memory.base and s.address < memory.base + memory.size
                ),
                default=memory.base,
            )
            self.write(memory.base, bytes(min(used - memory.base, memory.size)))
        for segment in elf.segments:
            self.write(segment.address, segment.data)
        for name, value in (inputs or {}).items():
            self.write(elf.symbol(name).address, np.ascontiguousarray(value).tobytes())
        for symbol, park in (("__halt", PARK_HALT), ("__fail", PARK_FAIL)):
            self.write(elf.symbol(symbol).address, park_jump(park))
        stopped = self.go(elf.entry, seconds)
        words = self.read(elf.symbol("_ret").address, 8)
        return QemuOutcome(
            stopped == PARK_HALT,
            int.from_bytes(words[:4], "little"),
            int.from_bytes(words[4:], "little"),
        )

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send("k")
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stderr:
            self._process.stderr.close()
        self._scratch.cleanup()

    def __enter__(self) -> Qemu:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def park_jump(park: int) -> bytes:
    """`lui t0, park; jr t0`."""
    return (park | 0x2B7).to_bytes(4, "little") + (0x00028067).to_bytes(4, "little")
