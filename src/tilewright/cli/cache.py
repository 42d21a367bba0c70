"""tilewright cache: the cache of generated kernels."""

from __future__ import annotations

import os

import click

from tilewright.cli import print_json
from tilewright.io import content_cache
from tilewright.io.content_cache import ContentCache, Usage


@click.command("cache")
@click.argument("action", type=click.Choice(["show", "clear", "trim"]), default="show")
@click.option(
    "--folder",
    type=click.Path(file_okay=False),
    help="Look at this folder instead of the one in use.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(action: str, folder: str | None, as_json: bool) -> None:
    """Show, clear or trim the cache of generated kernels.

    Compiling keeps the code of every kernel on disk and finds it again by all it was generated
    from: a second model with the same layers compiles in a fraction of the time, and gives the same
    bytes as without.

    \b
    show   where the cache is, how much it holds, its limit
    clear  remove all entries
    trim   remove what was not used for longest, down to the limit

    TILEWRIGHT_CACHE names another folder, or is "off". TILEWRIGHT_CACHE_LIMIT is what entries may
    take together, such as 512M (1G).
    """
    place = content_cache.place() if folder is None else os.path.abspath(folder)
    limit = content_cache.limit()
    refused = None if place == "off" else content_cache.refused(place)
    used = place != "off" and refused is None
    cache = ContentCache(place, limit) if used else None
    found = Usage(0, 0) if cache is None else cache.usage()
    removed = Usage(0, 0)
    if cache is not None and action == "clear":
        removed = cache.clear()
    elif cache is not None and action == "trim":
        cache.trim()
    if cache is not None and action != "show":
        left = cache.usage()
        removed = Usage(found.entries - left.entries, max(found.bytes - left.bytes, removed.bytes))
        found = left
    if as_json:
        print_json(
            {
                "folder": None if place == "off" else place,
                "used": used,
                "refused": refused,
                "entries": found.entries,
                "bytes": found.bytes,
                "limit": limit,
                "removed": {"entries": removed.entries, "bytes": removed.bytes},
            }
        )
        return
    if place == "off":
        click.echo(f"the cache is off ({content_cache.PLACE})")
        return
    click.echo(f"folder   {place}")
    if refused:
        click.echo(f"unused   {refused}")
        return
    if action != "show":
        click.echo(f"removed  {removed.entries:,} entries, {removed.bytes:,} bytes")
    click.echo(f"entries  {found.entries:,}")
    click.echo(f"bytes    {found.bytes:,} of at most {limit:,}")
