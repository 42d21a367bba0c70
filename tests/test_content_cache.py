"""The cache on disk: what it gives back was put there for this key; whatever else is in the folder does no harm."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache_writers import write
from tilewright.cli import main
from tilewright.errors import TilewrightError
from tilewright.io import content_cache
from tilewright.io.content_cache import ContentCache, Usage, caching


def only_file(cache: ContentCache) -> Path:
    (path,) = cache.folder.glob("*/*.entry")
    return path


def test_what_was_put_is_found_by_its_whole_key(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path / "new" / "folder")
    assert cache.get(b"a") is None
    for key, content in ((b"a", b"one"), (b"b", b""), (b"", bytes(range(256)) * 300)):
        cache.put(key, content)
        assert cache.get(key) == content
    assert cache.usage().entries == 3
    cache.put(b"a", b"two")
    assert cache.get(b"a") == b"two" and cache.usage().entries == 3
    assert ContentCache(cache.folder).get(b"b") == b""
    assert (cache.folder.stat().st_mode & 0o077) == 0, "other users may look into it"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_entry_is_none(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    cache = ContentCache(tmp_path_factory.mktemp("cache"))
    cache.put(b"key", b"content" * 9)
    path = only_file(cache)
    raw = bytearray(path.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "more", "swap", "other"]))
    at = data.draw(st.integers(0, len(raw) - 1))
    if kind == "flip":
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        raw = raw[:at]
    elif kind == "more":
        raw += data.draw(st.binary(min_size=1, max_size=90))
    elif kind == "swap":
        raw = raw[at:] + raw[:at] if at else bytearray()
    else:
        raw = bytearray(data.draw(st.binary(max_size=200)))
    path.write_bytes(raw)
    assert cache.get(b"key") is None
    cache.put(b"key", b"again")
    assert cache.get(b"key") == b"again"


def test_an_entry_of_another_key_in_its_place_is_none(tmp_path: Path) -> None:
    """As if two keys had the same digest."""
    cache = ContentCache(tmp_path)
    cache.put(b"mine", b"x")
    mine = only_file(cache)
    other = ContentCache(tmp_path / "other")
    other.put(b"yours", b"y")
    mine.write_bytes(only_file(other).read_bytes())
    assert cache.get(b"mine") is None


def test_folders_links_and_pipes_in_an_entrys_place_are_none(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path)
    cache.put(b"k", b"x")
    path = only_file(cache)
    path.unlink()
    path.mkdir()
    assert cache.get(b"k") is None
    cache.put(b"k", b"x")  # cannot be stored, which is no error
    path.rmdir()
    os.mkfifo(path)
    assert cache.get(b"k") is None
    path.unlink()
    path.symlink_to("/dev/zero")
    assert cache.get(b"k") is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ContentCache(tmp_path / "file" / "folder")
    cache.put(b"k", b"x")
    assert cache.get(b"k") is None and cache.usage() == Usage(0, 0)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, limit=10_000)
    for number in range(12):
        cache.put(b"%d" % number, bytes(1000))
        for path in tmp_path.glob("*/*.entry"):  # a second apart
            info = path.stat()
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns - 10**9))
    assert cache.get(b"0") is not None  # used just now
    assert cache.trim() > 0
    assert cache.usage().bytes <= 8000
    assert cache.get(b"0") is not None and cache.get(b"11") is not None
    assert cache.get(b"1") is None


def test_writing_keeps_to_the_limit(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path, limit=20_000)
    for number in range(300):
        cache.put(b"%d" % number, bytes(1000))
    assert cache.usage().bytes < 20_000 + 65 * 1100


def test_processes_that_write_at_once_never_read_half_an_entry(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write, args=(str(tmp_path), seed)) for seed in range(2)]
    for worker in workers:
        worker.start()
    write(str(tmp_path), 3)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert not list(tmp_path.glob("*/*.new"))


# --- which folder -------------------------------------------------------------------------


def test_the_environment_says_where_and_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "3M")
    found = content_cache.current()
    assert found is not None and found.folder == tmp_path / "mine" and found.limit == 3 << 20
    with caching("off"):
        assert content_cache.current() is None
        with caching(tmp_path / "other"):
            other = content_cache.current()
            assert other is not None and other.folder == tmp_path / "other"
    monkeypatch.setenv("TILEWRIGHT_CACHE", "OFF")
    assert content_cache.current() is None
    monkeypatch.delenv("TILEWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert content_cache.place() == str(tmp_path / "xdg" / "tilewright")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, as its standard says
    monkeypatch.setenv("HOME", str(tmp_path))
    assert content_cache.place() == str(tmp_path / ".cache" / "tilewright")
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "much")
    with pytest.raises(TilewrightError, match="TILEWRIGHT_CACHE_LIMIT is 'much'"):
        content_cache.limit()


def test_a_folder_where_everybody_writes_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with caching(tmp_path):
        assert content_cache.current() is None
    tmp_path.chmod(0o700)
    with caching(tmp_path):
        assert content_cache.current() is not None


# --- the command --------------------------------------------------------------------------


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["cache", *arguments])
    return int(caught.value.code or 0), capsys.readouterr().out


def test_the_command_shows_trims_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "1G")
    (tmp_path / "notes.txt").write_text("mine")
    cache = ContentCache(tmp_path)
    for number in range(20):
        cache.put(b"%d" % number, bytes(1000))
    status, text = shown(capsys, "--json")
    found = json.loads(text)
    assert status == 0 and found["folder"] == str(tmp_path) and found["used"] is True
    assert found["entries"] == 20 and found["bytes"] == cache.usage().bytes
    assert found["limit"] == 1 << 30 and found["refused"] is None
    assert "entries  20\n" in shown(capsys)[1]
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "10K")
    trimmed = json.loads(shown(capsys, "trim", "--json")[1])
    assert 0 < trimmed["entries"] < 10
    assert trimmed["removed"]["entries"] == 20 - trimmed["entries"]
    assert f"removed  {trimmed['entries']} entries" in shown(capsys, "clear")[1]
    assert cache.usage() == Usage(0, 0)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_command_says_why_there_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    assert "the cache is off" in shown(capsys)[1]
    assert json.loads(shown(capsys, "--json")[1])["folder"] is None
    tmp_path.chmod(0o777)
    assert "everybody may write there" in shown(capsys, "--folder", str(tmp_path))[1]
    monkeypatch.setenv("TILEWRIGHT_CACHE_LIMIT", "-3")
    status, text = shown(capsys, "--json")
    assert status == 2 and json.loads(text)["errors"][0]["code"] == "TW0069"
