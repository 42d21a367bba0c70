"""The code of one launch, and what it was generated from, as plain data for the cache on disk.

The code of a launch depends on the kernel with its options, on where its tensors lie, on the
machine, on the settings of the code generator and on the code generator itself. All of that is the
key of its entry; names of layers and contents of weights are not, since generating never sees them.

Error codes: none. What cannot be described is not cached, what cannot be read is generated again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.io import content_cache
from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.compile_kernel import (
    LoweredKernel,
    PlacedKernel,
    Placement,
    Use,
)
from tilewright.targets.atlas.codegen.tail_loads import Transfer
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.isa import MAX_OPERANDS, OPCODES
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

FORMAT = 5  # of keys and entries
LOOKS = 10  # per second, at most, at whether files of the package have changed
ROOT = Path(tilewright.__file__).parent
_LIBRARIES = ("numpy", "ml_dtypes", "xdsl")  # which kernels are traced with
_COLUMNS = (("opcodes", "u1"), ("operands", "<i4"), ("lines", "<i4"))


UNKNOWN = Use()


@dataclass(frozen=True)
class KernelCode:
    """A launch's program for tensors at given places.

    schedule: what was traced, as npu_schedule IR. data: to be in DRAM before it runs. end: of what it
    uses of DRAM beyond its tensors. use: of VMEM and of the engine. open: the next launch's code goes on at
    once, with registers and units as it finds them.
    """

    program: Program
    schedule: str
    data: list[tuple[int, bytes]]
    end: int
    use: Use = UNKNOWN
    open: bool = False


@dataclass(frozen=True)
class Fitting:
    """There is no code yet, but its end and its use of the machine are known."""

    end: int
    use: Use = UNKNOWN


@dataclass(frozen=True)
class Lacking:
    """There is no code: the kernel would need so many bytes of VMEM for itself."""

    wanted: int


class LaunchRefused(TilewrightError):
    """The code of one launch of a program cannot be generated."""

    def __init__(self, error: TilewrightError, launch: int) -> None:
        super().__init__(error.code, error.message, error.location, error.hint)
        self.launch = launch


@dataclass(frozen=True)
class Source:
    """All that the code of a launch is generated from. short: its loop bodies may be short."""

    kernel: str
    options: Mapping[str, Any]
    placement: Placement
    profile: Profile
    short: bool

    @property
    def is_ours(self) -> bool:
        """Whether its kernel is written in the package: other processes know it then."""
        record = RECORDS.get(self.kernel)
        return record is not None and record.make.__module__.partition(".")[0] == "tilewright"


@dataclass
class Pending:
    """A kernel that fits where it is placed: its instructions are not yet in order.

    Buffer assignment tries many places; code is generated for the last ones only.
    """

    end: int
    use: Use
    lower: Callable[[], LoweredKernel]
    key: bytes | None
    source: Source

    def finish(self) -> KernelCode:
        """Its code, which the cache learns."""
        return self.learn(self.code_of(self.lower().finish()))

    def learn(self, code: KernelCode) -> KernelCode:
        """Its code, which the cache keeps."""
        _keep(self.key, code)
        return code

    def code_of(self, placed: PlacedKernel) -> KernelCode:
        return KernelCode(
            placed.program, print_module(placed.module), placed.data, self.end, self.use
        )


def stored(
    source: Source, lower: Callable[[], LoweredKernel], joins: bool = False
) -> KernelCode | Pending | Lacking:
    """The code of a launch from the cache, or the launch lowered, or what it lacks.

    joins: it may get its code together with others.
    """
    store = content_cache.current()
    key = None if store is None else key_of(source)
    if key is not None and joins:
        key = b"joins " + key
    if store is not None and key is not None:
        raw = store.get(key)
        found = None if raw is None else from_bytes(raw)
        if isinstance(found, Fitting):
            return Pending(found.end, found.use, lower, key, source)
        if found is not None:
            return found
    try:
        made = lower()
    except VmemExceeded as error:
        lacking = Lacking(error.wanted)
        _keep(key, lacking)
        return lacking
    _keep(key, Fitting(made.end, made.use))
    return Pending(made.end, made.use, lambda: made, key, source)


def _keep(key: bytes | None, code: KernelCode | Fitting | Lacking) -> None:
    store = content_cache.current()
    if store is not None and key is not None:
        store.put(key, to_bytes(code))


# --- keys ---------------------------------------------------------------------------------


def key_of(source: Source) -> bytes | None:
    """All that the code of a launch depends on; none if some of it cannot be written down."""
    generator = generator_digest()
    if generator is None or sources_changed() or not source.is_ours:
        return None
    try:
        table = {
            "format": FORMAT,
            "generator": generator,
            "tuning": asdict(TUNING),
            "profile": _plain(source.profile),
            "kernel": source.kernel,
            "options": _plain(source.options),
            "placement": _plain(source.placement),
            "short": source.short,
        }
        return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return None


@cache
def _files() -> tuple[Path, ...]:
    """The files of the package that decide what is generated: all that it reads."""
    return tuple(sorted(path for end in ("py", "toml") for path in ROOT.rglob(f"*.{end}")))


def sources_changed() -> bool:
    """Whether files were written after the package was loaded: then something else runs than they say."""
    try:
        return _newest(int(time.monotonic() * LOOKS)) > tilewright.LOADED_AT
    except OSError:
        return True


@lru_cache(maxsize=1)
def _newest(now: int) -> int:
    """When a file of the package was written last, as of a moment: there are a thousand of them, and a
    model asks for each of its kernels."""
    return max((path.stat().st_mtime_ns for path in _files()), default=0)


@cache
def generator_digest() -> str | None:
    """A digest of the package's files and of what they run on; none if they cannot be read."""
    digest = hashlib.blake2b(digest_size=20)
    try:
        libraries = [importlib.metadata.version(name) for name in _LIBRARIES]
        for path in _files():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    except (OSError, importlib.metadata.PackageNotFoundError):
        return None
    if not _files():
        return None
    about = [tilewright.__version__, platform.python_version(), sys.byteorder, *libraries]
    digest.update("\0".join(about).encode())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """The value in JSON's words, so that different values differ."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        rows = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"": type(value).__name__, **rows}
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) and name for name in value):
            raise TypeError("names are texts")
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, frozenset | set):
        return {"": "set", "of": sorted(json.dumps(_plain(one), sort_keys=True) for one in value)}
    raise TypeError(f"{type(value).__name__} has no plain form")


# --- entries ------------------------------------------------------------------------------


def to_bytes(code: KernelCode | Fitting | Lacking) -> bytes:
    """An entry's content: a line of JSON, then the bytes it speaks of."""
    if isinstance(code, Fitting):
        return json.dumps({"fitting": code.end, "use": _uses(code.use)}).encode() + b"\n"
    if isinstance(code, Lacking):
        return json.dumps({"lacking": code.wanted}).encode() + b"\n"
    schedule = code.schedule.encode()
    head = {
        "end": code.end,
        "use": _uses(code.use),
        "instructions": len(code.program),
        "schedule": len(schedule),
        "open": code.open,
        "data": [[address, len(raw)] for address, raw in code.data],
    }
    columns = [np.asarray(getattr(code.program, n), kind).tobytes() for n, kind in _COLUMNS]
    rows = [schedule, *columns, *(raw for _, raw in code.data)]
    return json.dumps(head).encode() + b"\n" + b"".join(rows)


def from_bytes(raw: bytes) -> KernelCode | Fitting | Lacking | None:
    """What an entry says; none if it says nothing that makes sense."""
    try:
        first, _, rest = raw.partition(b"\n")
        head = json.loads(first)
        if set(head) == {"lacking"}:
            return Lacking(_count(head["lacking"]))
        if set(head) == {"fitting", "use"}:
            return Fitting(_count(head["fitting"]), _use(head["use"]))
        at = 0

        def take(size: int) -> bytes:
            nonlocal at
            if at + size > len(rest):
                raise ValueError("cut short")
            at += size
            return rest[at - size : at]

        count = _count(head["instructions"])
        schedule = take(_count(head["schedule"])).decode()
        opcodes = np.frombuffer(take(count), "u1").astype(np.uint8)
        operands = np.frombuffer(take(4 * MAX_OPERANDS * count), "<i4").astype(np.int32)
        lines = np.frombuffer(take(4 * count), "<i4").astype(np.int32)
        data = [(_count(address), take(_count(size))) for address, size in head["data"]]
        end, use, goes_on = _count(head["end"]), _use(head["use"]), head["open"] is True
        if at != len(rest) or (opcodes >= len(OPCODES)).any():
            return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    program = Program(opcodes, operands.reshape(count, MAX_OPERANDS), lines, "<kernel>")
    return KernelCode(program, schedule, data, end, use, goes_on)


def _uses(use: Use) -> list[Any]:
    counts = [use.room, use.moved, use.busy, use.upper, use.ending]
    return [*counts, *([list(astuple(t)) for t in found] for found in (use.leading, use.beyond))]


def _use(value: object) -> Use:
    if not isinstance(value, list) or len(value) != 7:
        raise ValueError("not five counts and two lists of transfers")
    room, moved, busy, upper, ending = map(_count, value[:5])
    leading, beyond = (tuple(map(_transfer, found)) for found in value[5:])
    return Use(room, moved, busy, upper, ending, leading, beyond)


def _transfer(value: list[Any]) -> Transfer:
    vmem, dram, size, rounds = value
    return Transfer(_count(vmem), _count(dram), _count(size), rounds is True)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value
