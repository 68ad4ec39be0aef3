"""A report in a real browser: it asks for nothing, draws what it says, and prints."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from services.report.content import report_of
from services.report.html import as_html
from tests.services.report.made import made

PAGE_PX = 1000


def test_a_report_stands_alone_and_prints(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(as_html(report_of(made())))
    page = browser.new_page(viewport={"width": PAGE_PX, "height": 900})
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(file.as_uri())
    assert asked == [file.as_uri()] and said == []
    drawings = page.locator("figure svg")
    assert drawings.count() == 3
    for drawing in drawings.all():
        box = drawing.bounding_box()
        assert box is not None and box["width"] > 600 and box["height"] > 150
    # Nothing sticks out: neither the page nor a word of a drawing.
    assert page.evaluate("document.documentElement.scrollWidth") <= PAGE_PX
    outside = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1;
        }).map(text => text.textContent);
    })"""
    assert page.evaluate(outside) == []
    assert page.pdf().startswith(b"%PDF")
    page.close()
