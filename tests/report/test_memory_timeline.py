"""The memory picture: well-formed, one titled box per buffer, to scale."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilewright.planning import exact
from tilewright.planning.buffers import Buffer
from tilewright.planning.generate import cut_rectangle
from tilewright.planning.plan import Region, plan
from tilewright.report.memory_timeline import HEIGHT, WIDTH, bytes_text, memory_timeline, ticks

SVG = "{http://www.w3.org/2000/svg}"


def test_boxes():
    buffers = [
        Buffer("a<b", 512, 0, 5),
        Buffer("c", 256, 5, 10),
        Buffer("w", 64, 0, 10, region="weight"),
    ]
    result = plan(buffers, regions=[Region("memory", 1024), Region("weight")])
    picture = memory_timeline(result, "two regions")
    root = ElementTree.fromstring(picture)
    groups = root.findall(f"{SVG}g")
    titles = [group.findtext(f"{SVG}title") for group in groups]
    assert titles == [
        "a<b: 512 bytes at 0 (to 512), steps 0 to 4",
        "c: 256 bytes at 0 (to 256), steps 5 to 9",
        "w: 64 bytes at 0 (to 64), steps 0 to 9",
    ]
    box = groups[0].find(f"{SVG}rect")
    assert box is not None
    assert float(box.attrib["width"]) == WIDTH / 2
    assert abs(float(box.attrib["height"]) - HEIGHT / 2.04) < 0.1
    assert "peak 512 B" in picture and "capacity 1 KiB" in picture
    assert memory_timeline(result, "two regions") == picture


def test_ticks():
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(0, 60) == [0, 10, 20, 30, 40, 50, 60]
    assert ticks(0, 1 << 20) == [i << 17 for i in range(9)]
    assert bytes_text(1536) == "1.5 KiB"


@pytest.mark.skipif(exact.native is None, reason="the native search is not built")
def test_the_picture_of_the_documentation_is_current():
    """docs/images/memory-plan.svg is what docs/memory-planning.md draws."""
    buffers, _ = cut_rectangle(60, 1 << 20, 40, 1)
    result = plan(buffers, capacity=1 << 20, strategy="exact")
    page = Path(__file__).parents[2] / "docs" / "images" / "memory-plan.svg"
    assert page.read_text() == memory_timeline(result, "60 buffers, no slack")
