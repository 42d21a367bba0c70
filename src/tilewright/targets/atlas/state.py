"""Architectural state of an Atlas machine: registers and memories, without any timing."""

from __future__ import annotations

import re

import numpy as np

from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile

PAGE = 1 << 16
COMPAT_BITS = 128  # of scalars in compat mode, where the public model has numbers without end
M32, M64, M128 = (1 << 32) - 1, (1 << 64) - 1, (1 << COMPAT_BITS) - 1
POISON_SCALAR = 0xFFFFFFE0

# Which part of the state a random pattern belongs to.
SPACES = {"dram": 0, "vmem": 1, "m": 2, "w": 3, "acc": 4, "x": 5, "e": 6, "csr": 7}


def random_bytes(seed: int, space: str, start: int, count: int) -> np.ndarray:
    """Bytes start…start+count of the reproducible random pattern of a space.

    Each aligned group of eight bytes is one splitmix64 value of (seed, space, group), so any
    part can be made without the rest.
    """
    first, last = start // 8, -(-(start + count) // 8)
    with np.errstate(over="ignore"):
        z = np.arange(first, last, dtype=np.uint64)
        z ^= np.uint64((seed ^ (SPACES[space] << 56)) & M64)
        z += np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return z.astype("<u8").view(np.uint8)[start - 8 * first :][:count]


class SparseMemory:
    """Bytes that exist only where something was written; the rest is the initial pattern."""

    def __init__(self, size: int, space: str, policy: Policy) -> None:
        self.size, self.space, self.policy = size, space, policy
        self.pages: dict[int, np.ndarray] = {}

    def _fresh(self, start: int, count: int) -> np.ndarray:
        if self.policy.initial == "random":
            return random_bytes(self.policy.seed, self.space, start, count)
        return np.full(count, 0xFF if self.policy.initial == "poison" else 0, np.uint8)

    def read(self, start: int, count: int) -> np.ndarray:
        pieces = []
        while count > 0:
            page, offset = divmod(start, PAGE)
            n = min(count, PAGE - offset)
            held = self.pages.get(page)
            pieces.append(self._fresh(start, n) if held is None else held[offset : offset + n])
            start, count = start + n, count - n
        return np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)

    def write(self, start: int, data: np.ndarray) -> None:
        done = 0
        while done < len(data):
            page, offset = divmod(start + done, PAGE)
            n = min(len(data) - done, PAGE - offset)
            if page not in self.pages:
                whole = min(PAGE, self.size - page * PAGE)
                self.pages[page] = self._fresh(page * PAGE, whole).copy()
            self.pages[page][offset : offset + n] = data[done : done + n]
            done += n


class State:
    """Everything a program can observe. Scalars are 32-bit patterns; in compat mode they are
    128-bit signed integers, standing in for the public model's unbounded ones."""

    def __init__(self, profile: Profile, policy: Policy) -> None:
        self.profile, self.compat = profile, policy.compat
        self.vmem = SparseMemory(profile.vmem_bytes, "vmem", policy)
        self.dram = SparseMemory(profile.dram_bytes, "dram", policy)
        self.m = self._filled("m", 64 * 1024, policy).reshape(64, 1024)
        self.w = self._filled("w", 4 * 1024, policy).reshape(2, 2, 1024)
        acc = self._filled("acc", 4 * 2048, policy)
        self.acc = acc.view("<u2").astype(np.uint16).reshape(2, 2, 32, 32)
        self.e = self._filled("e", 32, policy)
        scalars = self._filled("x", 128, policy).view("<u4")
        self.x = [int(v) for v in scalars]
        if policy.initial == "poison":
            self.x = [POISON_SCALAR] * 32
        self.x[0] = 0
        self.csr = self._filled("csr", 4 * 4096, policy).view("<u4").astype(object)
        self.dma_base = 0

    @staticmethod
    def _filled(space: str, count: int, policy: Policy) -> np.ndarray:
        if policy.initial == "random":
            return random_bytes(policy.seed, space, 0, count).copy()
        return np.full(count, 0xFF if policy.initial == "poison" else 0, np.uint8)

    # --- scalars ---

    def write_x(self, register: int, value: int) -> None:
        if register == 0:
            return
        self.x[register] = self._wrapped(value)

    def _wrapped(self, value: int) -> int:
        """A number as a scalar register holds it."""
        if not self.compat:
            return value & M32
        value &= M128
        return value - (1 << COMPAT_BITS) if value >> (COMPAT_BITS - 1) else value

    def signed(self, register: int) -> int:
        """x as a signed number."""
        value = self.x[register]
        return value - (1 << 32) if not self.compat and value >> 31 else value

    def unsigned(self, value: int) -> int:
        """A value as unsigned compares see it."""
        return value & (M64 if self.compat else M32)

    def address(self, register: int, offset: int) -> int:
        """x + offset, as an address."""
        value = self.x[register] + offset
        return value if self.compat else value & M32

    # --- tensor registers ---

    def bytes_of(self, register: int) -> np.ndarray:
        """The fp8 or byte view of one register: 32x32."""
        return self.m[register].reshape(32, 32)

    def tile(self, register: int, registers: int) -> np.ndarray:
        """The bf16 view of one register (32x16) or of a pair (32x32)."""
        halves = [self.m[register + k].view("<u2").reshape(32, 16) for k in range(registers)]
        return np.concatenate(halves, axis=1)

    def write_tile(self, register: int, tile: np.ndarray) -> None:
        for k in range(tile.shape[1] // 16):
            half = np.ascontiguousarray(tile[:, 16 * k : 16 * k + 16], "<u2")
            self.m[register + k] = half.view(np.uint8).reshape(-1)

    # --- by name, for debuggers and tests ---

    def read_register(self, name: str) -> int | bytes:
        kind, parts = parse_register(name)
        match kind:
            case "x":
                return self.x[parts[0]]
            case "e":
                return int(self.e[parts[0]])
            case "csr":
                return int(self.csr[parts[0]])
            case "m":
                return self.m[parts[0]].tobytes()
            case "w":
                return self.w[parts[0], parts[1]].tobytes()
            case "acc":
                return self.acc[parts[0], parts[1]].astype("<u2").tobytes()
            case _:
                return self.dma_base

    def write_register(self, name: str, value: int | bytes) -> None:
        kind, parts = parse_register(name)
        if kind in ("m", "w", "acc"):
            raw = np.frombuffer(_as_bytes(name, value, 2048 if kind == "acc" else 1024), np.uint8)
            if kind == "m":
                self.m[parts[0]] = raw
            elif kind == "w":
                self.w[parts[0], parts[1]] = raw
            else:
                self.acc[parts[0], parts[1]] = raw.view("<u2").reshape(32, 32)
            return
        if not isinstance(value, int):
            raise ValueError(f"{name} takes a number")
        if kind == "x":
            self.write_x(parts[0], value)
        elif kind == "e":
            self.e[parts[0]] = value & 0xFF
        elif kind == "csr":
            self.csr[parts[0]] = self._wrapped(value)
        else:
            self.dma_base = value & M32


_REGISTER = re.compile(r"(x|e|m|csr)(\d{1,4})|mxu([01])\.(w|acc)([01])|(dma\.base)")
_LIMIT = {"x": 32, "e": 32, "m": 64, "csr": 4096}


def parse_register(name: str) -> tuple[str, tuple[int, ...]]:
    match = _REGISTER.fullmatch(name)
    if match and match[1] and int(match[2]) < _LIMIT[match[1]]:
        return match[1], (int(match[2]),)
    if match and match[3]:
        return match[4], (int(match[3]), int(match[5]))
    if match and match[6]:
        return "base", ()
    raise ValueError(
        f"no register {name!r}; names are x0…x31, e0…e31, m0…m63, mxu0.w0, mxu1.acc1, csr5, dma.base"
    )


def _as_bytes(name: str, value: int | bytes, size: int) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)) or len(value) != size:
        raise ValueError(f"{name} takes {size} bytes")
    return bytes(value)
