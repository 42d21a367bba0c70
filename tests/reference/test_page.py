"""The snippets of docs/reference-executor.md run, in order, as one program."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference-executor.md"


def test_snippets_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(snippets) == 3
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(compile(snippet, PAGE.name, "exec"), names)


def test_the_page_lists_every_error_code() -> None:
    source = "".join(
        p.read_text() for p in (PAGE.parents[1] / "src/tilewright/reference").glob("*.py")
    )
    used = set(re.findall(r"TW15\d\d", source))
    assert used == set(re.findall(r"TW15\d\d", PAGE.read_text()))
