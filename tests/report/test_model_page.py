"""The page as text; `test_page_in_browser.py` opens it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import example_models as examples
import pytest

from tilewright.report.collect_report import collect
from tilewright.report.model_page import model_page, script_json
from tilewright.report.model_report import AccuracyFigures, Errors, LayerErrors, ReportData
from tilewright.report.page_summary import share_text

SECTIONS = ("summary", "cycles", "timeline", "memory", "accuracy", "host", "tensors", "ir", "assembly")  # fmt: skip
VOID = {"meta", "link", "input", "br"}


def large() -> ReportData:
    model = examples.transformer()
    return collect(model, examples.transformer_run(model), examples.transformer_accuracy(model))


class Reader(HTMLParser):
    """Checks that elements are closed in order; keeps ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href"):
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def data_of(page: str) -> dict:
    found = re.search(r'id="report-data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("make", [large, lambda: collect(examples.mlp())])
def test_one_whole_page_that_needs_nothing_else(make) -> None:
    page = model_page(make())
    reader = read(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(SECTIONS) <= set(reader.ids)
    assert all(address.startswith("#") or address == "data:," for address in reader.addresses)
    assert {address[1:] for address in reader.addresses if address[0] == "#"} <= set(reader.ids)
    assert "{{" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert (
        "https://" not in page and "@import" not in page and "url(" not in page.replace("url(#", "")
    )


def test_sixteen_layers_stay_small_and_repeat() -> None:
    page = model_page(large())
    assert len(page.encode()) < 400_000
    assert page == model_page(large())


def test_the_summary_has_the_figures() -> None:
    data = large()
    page = model_page(data)
    assert data.run is not None and data.ratio is not None
    for text in (
        f"{data.run.cycles:,}", f"{data.bound:,}", f"{data.ratio:.3f}", f"{data.macs:,}",
        f"{data.run.loaded:,} B", "exact", "0.999996", "4.219 KiB of 128 KiB", "336 KiB of 1 MiB",
        "quantize = fp8, fuse = yes, calibrate = random:8", "sha256:9f9f",
    ):  # fmt: skip
        assert text in page


def test_a_wrong_result_is_named() -> None:
    model = examples.transformer(4)
    found = examples.transformer_accuracy(model, exact=False)
    page = model_page(collect(model, examples.transformer_run(model), found))
    assert "not exact" in page
    assert "First difference: layers.3.self_attn: element 17 is 0x3f80, not 0x3f81" in page
    wrong = [layer for layer in data_of(page)["layers"] if layer["exact"] is False]
    assert [layer["name"] for layer in wrong] == ["layers.3.self_attn"]


def test_names_from_outside_stay_text() -> None:
    evil = '</script><script>alert("x")</script><b>&{{data}}'
    model = examples.mlp()
    model.name = evil
    model.artifact.steps[0] = replace(model.artifact.steps[0], name=evil, sources=(evil,))
    model.phases[evil] = evil
    model.provenance = {evil: {evil: evil}}
    layer = LayerErrors(Errors(evil, True, 1.0, float("inf"), float("nan")), formats=evil)
    found = AccuracyFigures(False, [Errors(evil)], [layer], evil, evil)
    page = model_page(collect(model, examples.mlp_run(model), found))
    read(page)
    assert page.count("<script") == 2
    assert "alert(&quot;x&quot;)" in page
    assert data_of(page)["steps"][0]["name"] == evil
    assert data_of(page)["layers"][0]["relative"] == 1e300
    assert data_of(page)["layers"][0]["cosine"] is None
    assert "The model was not verified for this report: it was not asked for." in model_page(
        collect(examples.mlp())
    )


def test_a_model_from_a_file_is_called_by_its_name() -> None:
    model = examples.mlp()
    model.name = "/some/folder/mlp.onnx"
    assert "<h1>mlp.onnx</h1>" in model_page(collect(model))


def test_a_small_share_is_not_nothing() -> None:
    assert share_text(2e-6) == "less than 0.01 %"
    assert (share_text(0), share_text(0.0061)) == ("0.00 %", "0.61 %")


def test_json_inside_a_script_cannot_end_it() -> None:
    text = script_json({"a": "</script><!-- &"})
    assert "<" not in text and "&" not in text
    assert json.loads(text) == {"a": "</script><!-- &"}


def test_text_that_was_left_out_is_counted() -> None:
    page = model_page(large())
    assert "301 more lines left out" in page  # 901 lines of IR
    assert "30 more instructions left out" in page


def test_models_without_steps_or_runs_have_a_page() -> None:
    model = examples.mlp()
    model.artifact.steps, model.artifact.regions, model.phases, model.artifact.segments = (
        [],
        {},
        {},
        [],
    )
    model.parts, model.ports, model.inputs, model.outputs = [], {}, (), ()
    page = model_page(collect(model))
    read(page)
    assert "compile with --dump-phases" in page
