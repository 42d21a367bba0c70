"""What processes of tests/test_content_cache.py do: they find it by its name."""

from __future__ import annotations

from tilewright.io.content_cache import ContentCache


def write(folder: str, seed: int) -> None:
    cache = ContentCache(folder, limit=200_000)
    for turn in range(150):
        number = (turn * 7 + seed) % 40
        cache.put(b"%d" % number, b"%d" % number * 2000)
        found = cache.get(b"%d" % (turn % 40))
        assert found is None or found == b"%d" % (turn % 40) * 2000
