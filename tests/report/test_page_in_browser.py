"""The page opened in a headless Chromium: it draws, sorts, opens, zooms and searches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import example_models as examples
import pytest
from browser import Browser, find_browser

from tilewright.report.collect_report import collect
from tilewright.report.model_page import model_page

pytestmark = pytest.mark.skipif(
    find_browser() is None,
    reason="no Chromium found (install chromium, or name one in TILEWRIGHT_BROWSER)",
)
TABLE = "#cycles-table tbody tr"
TIMELINE = "#timeline-chart svg"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages: a large model, a wrong one, a small one, one that never ran."""
    place = tmp_path_factory.mktemp("pages")
    model, mlp = examples.transformer(), examples.mlp()
    run = examples.transformer_run(model)
    pages = {
        "large": collect(model, run, examples.transformer_accuracy(model)),
        "wrong": collect(model, run, examples.transformer_accuracy(model, exact=False)),
        "small": collect(mlp, examples.mlp_run(mlp)),
        "never": collect(mlp),
        "unrolled": collect(*examples.unrolled(model, run)),
    }
    for name, data in pages.items():
        (place / f"{name}.html").write_text(model_page(data), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = find_browser()
    assert path is not None
    with Browser(path, tmp_path_factory.mktemp("browser") / "chromium") as browser:
        yield browser


@pytest.fixture
def browser(tab: Browser, folder: Path) -> Iterator[Browser]:
    """The large page, freshly opened; whatever it complains about fails the test."""
    tab.problems.clear()
    tab.requests.clear()
    tab.open(folder / "large.html")
    yield tab
    assert tab.problems == []


def texts(browser: Browser, selector: str) -> list[str]:
    chosen = json.dumps(selector)
    return browser.run(f"[...document.querySelectorAll({chosen})].map(e => e.textContent)")


def numbers(browser: Browser, selector: str) -> list[float]:
    return [float(text.replace(",", "")) for text in texts(browser, selector)]


def shown(browser: Browser, selector: str) -> tuple[int, int]:
    first, last = browser.run(
        f"(() => {{ const d = document.querySelector({json.dumps(selector)}).dataset; "
        "return [Number(d.from), Number(d.to)]; })()"
    )
    return first, last


@pytest.mark.parametrize("name", ["large", "wrong", "small", "never"])
@pytest.mark.parametrize("width", [1280, 1920, 480])
def test_pages_open_without_complaint(tab: Browser, folder: Path, name: str, width: int) -> None:
    tab.problems.clear()
    tab.requests.clear()
    tab.resize(width, 900)
    tab.open(folder / f"{name}.html")
    assert tab.problems == []
    assert tab.requests == [(folder / f"{name}.html").as_uri()]
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    empty = tab.run(
        "[...document.querySelectorAll('main section')].filter(s => s.getBoundingClientRect().height"
        " < 60 || s.innerText.trim().length < 20).map(s => s.id)"
    )
    assert empty == []
    # Text of pictures stays inside of them.
    cut = tab.run(
        "[...document.querySelectorAll('svg text')].filter(t => { const p = t.ownerSVGElement"
        ".getBoundingClientRect(), b = t.getBoundingClientRect(); return b.left < p.left - 1 || "
        "b.right > p.right + 1 || b.bottom > p.bottom + 1; }).map(t => t.textContent)"
    )
    assert cut == []
    tab.resize(1280, 900)


def test_every_section_is_drawn(browser: Browser) -> None:
    assert len(texts(browser, TABLE)) == 12
    assert len(texts(browser, "#cycles-chart svg > g")) == 12
    assert browser.run(f"document.querySelectorAll('{TIMELINE} path').length") == 6
    assert browser.run("document.querySelectorAll('#memory-maps svg').length") == 2
    assert browser.run("document.querySelectorAll('#accuracy-chart circle').length") == 162
    assert len(texts(browser, "#accuracy-table tbody tr")) == 20
    assert len(texts(browser, "#regions-table tbody tr")) == 21
    assert len(texts(browser, "#ir details")) == 3
    assert len(texts(browser, "#assembly details")) == 12


def test_tables_sort_and_the_chart_follows(browser: Browser) -> None:
    cycles = f"{TABLE} td:nth-child(3)"
    before = numbers(browser, cycles)
    assert before != sorted(before)
    browser.click("#cycles-table th:nth-child(3) button")
    assert numbers(browser, cycles) == sorted(before, reverse=True)
    assert texts(browser, "#cycles-table th[aria-sort=descending]") == ["cycles"]
    assert texts(browser, "#cycles-chart svg > g > text:first-of-type")[0] == "mlp.gate_up_proj"
    browser.click("#cycles-table th:nth-child(3) button")
    assert numbers(browser, cycles) == sorted(before)
    browser.click("#cycles-table th:nth-child(1) button")
    names = texts(browser, f"{TABLE} td:nth-child(1)")
    assert names[0] == "embedding.cast" and names == sorted(names)


def test_rounds_open_and_close(browser: Browser) -> None:
    third = f"{TABLE}:nth-child(3) button.expand"
    browser.click(third)
    rows = texts(browser, f"{TABLE} td:nth-child(1)")
    assert rows[2:6] == ["self_attn.q_proj", "layers.0", "layers.1", "layers.2"]
    assert len(rows) == 12 + 16
    parts = numbers(browser, f"{TABLE}.child td:nth-child(3)")
    assert sum(parts) == numbers(browser, f"{TABLE}:nth-child(3) td:nth-child(3)")[0]
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    browser.press("Enter")  # the button kept the focus
    assert len(texts(browser, TABLE)) == 12


def test_rows_may_be_layers(browser: Browser) -> None:
    total = sum(numbers(browser, f"{TABLE} td:nth-child(3)"))
    browser.click("#cycles-controls button:nth-of-type(2)")
    rows = texts(browser, f"{TABLE} td:nth-child(1)")
    assert rows[:3] == ["embedding.cast", "layers.0", "layers.1"] and len(rows) == 18
    assert sum(numbers(browser, f"{TABLE} td:nth-child(3)")) == total
    browser.click("#cycles-controls button:nth-of-type(3)")  # open all
    assert len(texts(browser, f"{TABLE}.child")) == 160


def test_layers_without_rounds_are_found_by_their_names(browser: Browser, folder: Path) -> None:
    browser.open(folder / "unrolled.html")
    assert len(texts(browser, TABLE)) == 162
    assert len(texts(browser, "#cycles-chart svg > g")) == 60
    assert "102 more rows" in texts(browser, "#cycles-chart p")[0]
    assert "layers.15" in texts(browser, f"{TIMELINE} text.on")
    browser.click("#cycles-controls button:nth-of-type(2)")
    assert texts(browser, f"{TABLE} td:nth-child(1)")[15:] == ["layers.14", "layers.15", "norm"]
    browser.click(f"{TABLE}:nth-child(2) button.expand")
    assert texts(browser, f"{TABLE}.child td:nth-child(1)")[1] == "self_attn.q_proj"


def test_the_timeline_zooms_and_moves(browser: Browser) -> None:
    low, high = shown(browser, TIMELINE)
    assert low == 0
    browser.wheel(TIMELINE, -600)  # without the focus the page scrolls instead
    assert shown(browser, TIMELINE) == (low, high)
    browser.click(TIMELINE)
    browser.wheel(TIMELINE, -600)
    first, last = shown(browser, TIMELINE)
    assert 0 < first < last < high and (last - first) < 0.5 * high
    browser.drag(TIMELINE, 200)
    moved, _ = shown(browser, TIMELINE)
    assert moved < first
    for key in ("+", "ArrowRight"):
        before = shown(browser, TIMELINE)
        browser.press(key)
        assert shown(browser, TIMELINE)[0] > before[0]
    browser.press("Home")
    assert shown(browser, TIMELINE)[0] == 0
    browser.press("0")
    assert shown(browser, TIMELINE) == (low, high)


def test_zooming_shows_the_names_of_steps(browser: Browser) -> None:
    browser.click(f"{TABLE}:nth-child(2) button.link")
    browser.press("0")
    label = f"{TIMELINE} text.on"
    assert "input_norm" not in texts(browser, label)
    browser.press("n")
    assert "layers.0 · self_attn.q_proj" in texts(browser, "#timeline-details")[0]
    browser.press("p")
    browser.press("Enter")
    assert "input_norm" in texts(browser, label)
    assert "limited by VPU" in texts(browser, "#timeline-details")[0]


def test_pointing_shows_a_tooltip(browser: Browser) -> None:
    x, y = browser.middle(TIMELINE)
    browser.move(x, y)
    browser.settle()
    text = texts(browser, "#tooltip")[0]
    assert "busy" in text and "layers." in text
    assert browser.run("!document.getElementById('tooltip').hidden")
    browser.press("Escape")
    assert browser.run("document.getElementById('tooltip').hidden")


def test_memory_maps_zoom_and_hide_kinds(browser: Browser) -> None:
    chart = "#memory-dram svg"
    boxes = f"document.querySelectorAll('{chart} g g').length"
    before = browser.run(boxes)
    assert before == 4 + 9 * 16  # weights of every round
    low, high = shown(browser, chart)
    browser.click(chart)
    browser.press("+")
    first, last = shown(browser, chart)
    assert 0 <= low < first < last < high
    browser.press("0")
    browser.click("#memory-dram-legend label:nth-child(3) input")
    assert browser.run(boxes) == 3  # no weights
    browser.click("#memory-dram-controls button:nth-of-type(5)")
    assert shown(browser, chart) == (low, high)


def test_layers_are_listed_worst_first(browser: Browser) -> None:
    errors = numbers(browser, "#accuracy-table tbody td:nth-child(3)")
    assert len(errors) == 20 and errors == sorted(errors, reverse=True)
    browser.click("#accuracy-controls button:nth-of-type(2)")
    assert len(texts(browser, "#accuracy-table tbody tr")) == 162


def test_the_ir_can_be_searched(browser: Browser) -> None:
    browser.type_into("#ir-search", "%w17 ")
    assert texts(browser, "#ir-found") == ["1 line in 1 of 3 texts"]
    assert texts(browser, "#ir details:not([hidden]) summary") == ["quantise: 901 lines"]
    assert texts(browser, "#ir mark") == ["%w17 "]
    assert len(texts(browser, "#ir details:not([hidden]) pre")[0].splitlines()) == 6
    browser.run("document.querySelector('#ir-search').select()")
    browser.press("Backspace")
    browser.run("(() => { const i = document.querySelector('#ir-search'); i.value = ''; "
                "i.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert len(texts(browser, "#ir details:not([hidden])")) == 3
    assert texts(browser, "#ir mark") == []


def test_the_memory_map_can_be_filtered(browser: Browser) -> None:
    browser.type_into("#regions-controls input", "vmem gat")
    assert [row[:5] for row in texts(browser, "#regions-table tbody tr")] == ["gated"]


def test_light_and_dark(browser: Browser) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("dark")
    assert browser.run(back) == "rgb(21, 24, 29)"
    browser.prefer("light")
    assert browser.run(back) == "rgb(255, 255, 255)"
    browser.click("#theme")
    browser.click("#theme")
    assert (browser.run(back), texts(browser, "#theme")) == ("rgb(21, 24, 29)", ["theme: dark"])


def test_everything_is_reached_by_the_keyboard_and_has_a_name(browser: Browser) -> None:
    nameless = browser.run(
        "[...document.querySelectorAll('button, input, svg, [tabindex]')].filter(e => !(e.textContent"
        ".trim() || e.getAttribute('aria-label') || e.getAttribute('title') || e.closest('label')))"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    scrolling = browser.run(
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1 "
        "&& e.tabIndex < 0).length"
    )
    assert scrolling == 0
