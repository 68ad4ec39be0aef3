"""A report says what was found, in both forms, and needs nothing but itself."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from services.cli.main import run
from services.contract.recommendation import RecommendationModel
from services.report.content import report_of
from services.report.drawings import branches_drawing
from services.report.html import as_html
from services.report.markdown import as_markdown
from tests.services.report.made import made
from tuner.closed_loop import Rise
from tuner.evidence import branch_curve


@pytest.fixture(scope="module")
def found() -> RecommendationModel:
    return made()


class Outline(HTMLParser):
    """Open elements, and everything that would load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.active: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "rect", "path", "circle"):
            self.open.append(tag)
        names = [name for name, _ in attrs]
        loads = [value for _, value in attrs if value and re.match(r"(?i)(https?:|//|javascript:)", value)]
        if tag in ("script", "link", "iframe", "img", "object") or any(n.startswith("on") or n == "src" for n in names):
            self.active.append(tag)
        self.active += [value for value in loads if not value.startswith("http://www.w3.org/")]

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)


def test_the_page_is_whole_and_loads_and_runs_nothing(found: RecommendationModel) -> None:
    page = as_html(report_of(found))
    outline = Outline()
    outline.feed(page)
    assert outline.open == [] and outline.active == []
    assert "&lt;script&gt;alert(1)" in page and len(page) < 200_000
    assert outline.headings == [
        "Why",
        "The list",
        "What the list does",
        "In service",
        "All lists compared",
        "Evidence",
        "What this leaves out",
    ]


def test_both_forms_carry_the_evidence_and_the_reasons(found: RecommendationModel) -> None:
    report = report_of(found)
    evidence = found.evidence
    for text in (as_html(report), as_markdown(report)):
        for fact in (evidence["trace"]["digest"], evidence["profile"]["digest"], "numba", "least_held_out_steps 100"):
            assert fact in text
        assert "KV cache:" in text and "goodput within TPOT 20 ms" in text
        assert ", ".join(map(str, found.lists["capture"])) in text
    assert all(f"- {reason}" in as_markdown(report) for reason in found.reasons)
    assert "\\|x" in as_markdown(report)  # a pipe in a name ends no cell


def test_drawings_are_valid_svg_with_a_sentence_each(found: RecommendationModel) -> None:
    drawings = report_of(found).drawings
    assert [drawing.name for drawing in drawings] == ["list", "front", "branches"]
    for drawing in drawings:
        root = ElementTree.fromstring(drawing.svg)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert root.get("role") == "img" and root.get("aria-label") and len(ids) == len(set(ids)) and drawing.caption
        assert "nan" not in drawing.svg


def test_the_published_case_is_drawn_with_both_branches_and_its_tipping_load(found: RecommendationModel) -> None:
    """sglang#33483: 23 running with graphs up to 128, 67 with graphs up to 32; see tests/tuner/test_branches.py."""
    batch = np.arange(513)
    rises = {
        name: Rise(np.where(batch <= last, 23.0, 67.0) / 32 / 128 * 1e3, 32.0, 128.0)
        for name, last in (("default", 32), ("tuned", 128))
    }
    loop = {
        "branches": {
            name: {"settled": rise.branches().settled, "tip_load": rise.branches().tip_load}
            | {"tips_from": rise.branches().tips_from, "tips_to": rise.branches().tips_to}
            for name, rise in rises.items()
        },
        "branch_curves": {name: branch_curve(rise) for name, rise in rises.items()},
    }
    drawing = branches_drawing(found.model_copy(update={"evidence": {**found.evidence, "closed_loop": loop}}))
    assert drawing is not None
    assert (
        "Under the engine's default 24 or 68 requests run at this load, and it tips over at 1.39 times"
        in drawing.caption
    )
    assert "Under this list 24 requests run at this load, and it tips over at 5.57 times" in drawing.caption
    assert "default tips at 1.39x" in drawing.svg and 'stroke-dasharray="2,4"' in drawing.svg


def test_recorded_steps_have_a_report_without_a_service(found: RecommendationModel) -> None:
    bare = {
        key: value
        for key, value in found.evidence.items()
        if key not in ("closed_loop", "service", "curve", "compared")
    }
    report = report_of(found.model_copy(update={"evidence": bare, "holdout": None, "serving": None}))
    assert "In service" not in [section.title for section in report.sections]
    assert [drawing.name for drawing in report.drawings] == ["list", "front"]


def test_the_command_reads_what_tune_printed(
    found: RecommendationModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "tuned.json"
    given.write_text(json.dumps({"recommendation": found.model_dump(mode="json")}))
    assert run(["report", "--from-json", str(given), "--out", str(tmp_path / "printed.html")]) == 0
    given.write_text(found.model_dump_json())
    assert run(["report", "--from-json", str(given), "--out", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert run(["report", "--from-json", str(given), "--out", str(tmp_path / "r.md")]) == 0
    assert "![branches](r.branches.svg)" in (tmp_path / "r.md").read_text()
    ElementTree.parse(tmp_path / "r.branches.svg")
    given.write_text(json.dumps({"verdict": "try"}))
    capsys.readouterr()
    assert run(["report", "--from-json", str(given)]) == 2
    assert "is not what `captune tune --json` prints" in capsys.readouterr().err
    given.write_text("{")
    assert run(["report", "--from-json", str(given)]) == 2
    assert run(["report"]) == 2 and run(["report", "--from-json", str(tmp_path / "no.json")]) == 2
