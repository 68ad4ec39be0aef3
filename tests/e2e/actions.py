"""What a person does in the dashboard, as functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Locator, Page, TimeoutError, expect

SWEEP_TIMEOUT_MS = 90_000


COUNT_RUNS = """() => {
  window.startedRuns = 0;
  window.runCounter ??= new MutationObserver(changes => {
    for (const change of changes)
      if (change.target.dataset.testScriptState === 'running') window.startedRuns += 1;
  });
  const app = document.querySelector('[data-testid=stApp]');
  window.runCounter.observe(app, {attributeFilter: ['data-test-script-state']});
}"""


def stored_result(api_url: str) -> dict[str, Any]:
    """The newest recommendation."""
    sweeps = httpx.get(f"{api_url}/api/v1/sweeps").json()["items"]
    identity = next(sweep["recommendation_id"] for sweep in sweeps if sweep["recommendation_id"])
    document = httpx.get(f"{api_url}/api/v1/recommendations/{identity}").json()
    assert isinstance(document, dict)
    return document


def stored_traces(api_url: str) -> list[str]:
    return [trace["id"] for trace in httpx.get(f"{api_url}/api/v1/traces").json()["items"]]


def open_page(page: Page, url: str, path: str) -> None:
    page.goto(f"{url}/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    idle(page)


def idle(page: Page) -> None:
    """Streamlit has run the page to its end. After an action this is not enough: its run may not have begun."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')


def drawn(page: Page) -> None:
    """Every plot and table has come in; their code is fetched when the first of them is met."""
    idle(page)
    page.wait_for_function(
        "!document.querySelector('[data-testid=stSkeleton]') && "
        "[...document.querySelectorAll('[data-testid=stPlotlyChart]')].every(e => e.querySelector('.main-svg'))"
    )


@contextmanager
def run_again(page: Page) -> Iterator[None]:
    """What happens inside makes Streamlit run the page anew; go on when that run has ended."""
    idle(page)
    page.evaluate(COUNT_RUNS)
    yield
    page.wait_for_function("window.startedRuns > 0")
    idle(page)


def hand_in(page: Page, path: Path) -> None:
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(path)


def choose(page: Page, label: str, option: str) -> None:
    """Pick another option of a box than it shows."""
    wanted = page.get_by_role("option", name=re.compile(option)).first
    drawn(page)
    for _ in range(5):  # a rerun of the page closes an open list, a plot that comes in moves it out of sight
        page.get_by_role("combobox", name=re.compile(rf"\b{label}\b")).click()
        try:
            wanted.wait_for(timeout=2_000)
            with run_again(page):
                wanted.click(timeout=3_000)
        except TimeoutError:
            page.keyboard.press("Escape")
            continue
        return
    raise AssertionError(f"{label} offers no {option}")


def fill(page: Page, label: str, value: str, key: str = "Enter") -> None:
    """Type a value that the field does not have yet."""
    box = page.get_by_label(label, exact=True)
    box.fill(value)
    with run_again(page):
        box.press(key)


def press(page: Page, name: str | re.Pattern[str]) -> None:
    """Click a button that changes this page."""
    with run_again(page):
        page.get_by_role("button", name=name).click()


def metric(page: Page, label: str, nth: int = 0) -> str:
    """The figure of a card, without its change."""
    found = page.get_by_test_id("stMetric").filter(has=page.get_by_text(label, exact=True)).nth(nth)
    return found.get_by_test_id("stMetricValue").inner_text().strip()


def download(page: Page, name: str | re.Pattern[str], folder: Path) -> str:
    with page.expect_download() as caught:
        page.get_by_role("button", name=name).first.click()
    path = folder / caught.value.suggested_filename
    caught.value.save_as(path)
    return path.read_text()


def drag_sideways(page: Page, thumb: Locator, by_px: int) -> None:
    """Take the thumb of a slider and let it go elsewhere."""
    thumb.scroll_into_view_if_needed()
    box = thumb.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by_px, y, steps=5)
    page.mouse.up()


def shot(page: Page, path: Path) -> None:
    """The whole page: Streamlit scrolls inside a box, so the window is made as tall as its content."""
    drawn(page)
    page.wait_for_timeout(600)  # figures ease in
    size = page.viewport_size
    assert size is not None
    tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], int(tall))})
    page.wait_for_timeout(600)
    page.screenshot(path=path)
    page.set_viewport_size(size)
    assert path.stat().st_size > 10_000
    in_few_colours(path)


def in_few_colours(path: Path) -> None:
    """A picture of flat surfaces looks the same in 256 colours, at a third of the size."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
