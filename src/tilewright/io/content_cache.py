"""What was computed before, on disk: entries found by everything they were computed from.

An entry's file is named by the digest of its key, holds the key itself and a digest of all it says.
The key is compared, never its digest alone; a file that is damaged, cut short or somebody else's is
no entry, and what it should have held is computed again. Files are written beside their place and
moved there, so that any number of processes may read and write at once. Entries hold plain bytes:
nothing in them is ever executed by reading it.

    TILEWRIGHT_CACHE        a folder, or "off"; by default tilewright in the user's folder of caches
    TILEWRIGHT_CACHE_LIMIT  bytes that entries may take together (K, M, G behind a number): 1G

Error codes: TW0069 a limit that is no number of bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import TilewrightError

PLACE, LIMIT = "TILEWRIGHT_CACHE", "TILEWRIGHT_CACHE_LIMIT"
OFF = ("off", "0", "no", "false")
USUAL_LIMIT = 1 << 30
_MAGIC = b"TWCACHE1"
_HEAD = struct.Struct("<8s32sQQ")  # magic, digest of the rest, bytes of key and content
_SUFFIX = ".entry"
_KEPT_SHARE = 0.8  # of the limit, when entries that were not used for long are removed
_LOOK_AFTER = 64  # entries written by a process until it looks at the size again


@dataclass(frozen=True)
class Usage:
    """How much a cache holds."""

    entries: int
    bytes: int


class ContentCache:
    """Entries in a folder."""

    def __init__(self, folder: str | Path, limit: int = USUAL_LIMIT) -> None:
        self.folder, self.limit = Path(folder), limit
        self._written = 0

    # --- entries --------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """What was stored for the key; none if it was not, or can no longer be read."""
        path = self._path(key)
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return None
            raw = path.read_bytes()
        except OSError:
            return None
        content = _content(raw, key)
        if content is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # the least recently used go first
        return content

    def put(self, key: bytes, content: bytes) -> None:
        """Store something. Where that is not possible, it will be computed again."""
        path = self._path(key)
        rest = struct.pack("<QQ", len(key), len(content)) + key + content
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)  # nobody else plants code here
            path.parent.mkdir(mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.blake2b(rest, digest_size=32).digest() + rest)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError:
            return
        self._written += 1
        if self._written % _LOOK_AFTER == 1:
            self.trim()

    def _path(self, key: bytes) -> Path:
        name = hashlib.blake2b(key, digest_size=20).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}{_SUFFIX}"

    # --- all of them ----------------------------------------------------------------------

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Files of entries, and what writers that were stopped have left."""
        with contextlib.suppress(OSError):
            for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
                if path.suffix in (_SUFFIX, ".new"):
                    with contextlib.suppress(OSError):
                        yield path, path.lstat()

    def usage(self) -> Usage:
        sizes = [info.st_size for path, info in self._files() if path.suffix == _SUFFIX]
        return Usage(len(sizes), sum(sizes))

    def trim(self) -> int:
        """Remove what was not used for longest, until entries are well below the limit; how many."""
        files = sorted(self._files(), key=lambda row: (row[1].st_mtime_ns, row[0].name))
        total, removed = sum(info.st_size for _, info in files), 0
        if total <= self.limit:
            return 0
        for path, info in files:
            if total <= self.limit * _KEPT_SHARE:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= info.st_size
                removed += 1
        return removed

    def clear(self) -> Usage:
        """Remove all entries; what was removed. Other files of the folder stay."""
        entries = size = 0
        for path, info in self._files():
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise TilewrightError(
                    "TW0011", f"cannot remove {path}: {error.strerror or error}"
                ) from None
            entries, size = entries + (path.suffix == _SUFFIX), size + info.st_size
        for folder in self.folder.glob("[0-9a-f][0-9a-f]"):
            with contextlib.suppress(OSError):
                folder.rmdir()
        return Usage(entries, size)


def _content(raw: bytes, key: bytes) -> bytes | None:
    """The content of an entry's file, if it is whole and of this key."""
    if len(raw) < _HEAD.size:
        return None
    magic, digest, key_bytes, content_bytes = _HEAD.unpack_from(raw)
    start = _HEAD.size + key_bytes
    if magic != _MAGIC or len(raw) != start + content_bytes:
        return None
    if hashlib.blake2b(raw[40:], digest_size=32).digest() != digest:
        return None
    return raw[start:] if raw[_HEAD.size : start] == key else None


# --- which one ----------------------------------------------------------------------------


_chosen: ContextVar[str | None] = ContextVar("cache", default=None)
_open: dict[tuple[str, int], ContentCache] = {}


@contextlib.contextmanager
def caching(place: str | Path | None) -> Iterator[None]:
    """Another folder while a block runs, or "off"; none: what the environment says."""
    before = _chosen.set(None if place is None else str(place))
    try:
        yield
    finally:
        _chosen.reset(before)


def place() -> str:
    """The folder of the cache, or "off"."""
    chosen = _chosen.get()
    named = os.environ.get(PLACE, "") if chosen is None else chosen
    if named.strip().lower() in OFF:
        return "off"
    if named.strip():
        return os.path.abspath(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = os.path.expanduser("~")
    if os.path.isabs(base):
        return os.path.join(base, "tilewright")
    return os.path.join(home, ".cache", "tilewright") if os.path.isabs(home) else "off"


def limit() -> int:
    """Bytes that entries may take together."""
    text = os.environ.get(LIMIT, "").strip()
    if not text:
        return USUAL_LIMIT
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)", text.upper())
    if found is None:
        raise TilewrightError(
            "TW0069", f"{LIMIT} is {text!r}, which is no number of bytes", hint="such as 512M or 2G"
        )
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2]]


def refused(folder: str) -> str | None:
    """Why a folder is not used as a cache; none if it is, or does not exist yet."""
    try:
        info = os.stat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return "it is not a folder"
    if os.name == "posix" and info.st_mode & stat.S_IWOTH:
        return "everybody may write there"
    return None


def current() -> ContentCache | None:
    """The cache to use, if any."""
    folder = place()
    if folder == "off" or refused(folder):
        return None
    key = (folder, limit())
    return _open.setdefault(key, ContentCache(*key))
