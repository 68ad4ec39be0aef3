"""The main job as a person does it in a browser, on the real API, runner, database and dashboard."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect

SWEEP_TIMEOUT_MS = 90_000


def test_a_trace_becomes_a_tuned_configuration(
    stack, page: Page, recording: Path, screenshots: Path, tmp_path: Path
) -> None:
    _open(page, stack.dashboard_url, "")
    expect(page.get_by_text("hand in a trace first")).to_be_visible()
    _shot(page, screenshots / "start.png")
    page.get_by_role("link", name="1. Hand in a trace").click()
    expect(page.get_by_text("No trace yet")).to_be_visible()

    _upload(page, recording)
    expect(page.get_by_text(re.compile(r"is stored as Azure 2023: kept [\d,]+ of [\d,]+ rows"))).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Requests per second")).to_contain_text(re.compile(r"\d"))
    _shot(page, screenshots / "traces.png")

    page.get_by_role("button", name="See its workload").click()
    _choose(page, "Scheduler", "Decode node")
    _fill(page, "Load", "4")
    expect(page.get_by_text("of the tokens that it can sustain").first).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Above the ceiling")).to_be_visible()
    _shot(page, screenshots / "workload.png")

    page.get_by_role("button", name="Tune for this trace").click()
    expect(page.get_by_role("heading", name="What is asked")).to_be_visible()
    _fill(page, "Engine options", "max_num_seqs=512")
    _fill(page, "Trials", "6")
    # Scheduler and load came along from the page before.
    expect(page.get_by_text("at 4 × its recorded rate")).to_be_visible()
    _shot(page, screenshots / "tune.png")
    page.get_by_role("button", name="Start tuning").click()

    expect(page).to_have_url(re.compile(r"/sweeps\?sweep=\w+"))
    expect(page.get_by_text(re.compile(r"[1-9]\d* of 6 trials")).first).to_be_visible(timeout=SWEEP_TIMEOUT_MS)
    result = page.get_by_role("button", name="See the result")
    expect(result).to_be_visible(timeout=SWEEP_TIMEOUT_MS)
    _shot(page, screenshots / "sweeps.png")

    result.click()
    expect(page).to_have_url(re.compile(r"/result\?recommendation=\w+"))
    expect(page.get_by_role("heading", level=2).first).to_contain_text(re.compile(r"\d+ sizes"))
    expect(page.get_by_text("not measured here").first).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Mean step").first).to_contain_text("ms")
    page.get_by_text("Evidence", exact=True).click()
    _shot(page, screenshots / "result.png")

    configuration = _download(page, "Download the vLLM 0.33.0 configuration", tmp_path)
    stored = _stored(stack.api_url)
    sizes = stored["lists"]["capture"]
    assert re.search(r"cudagraph[_-]capture[_-]sizes", configuration)
    assert all(str(size) in configuration for size in sizes)
    assert len(sizes) <= len(stored["default"]["lists"]["capture"]) // 2

    # A link carries the whole state: another visitor sees the same result.
    visitor = page.context.new_page()
    visitor.goto(page.url)
    expect(visitor.get_by_role("heading", level=2).first).to_contain_text(re.compile(r"\d+ sizes"), timeout=20_000)


@pytest.mark.parametrize("engine", ["SGLang", "TensorRT-LLM"])
def test_the_same_list_is_exported_for_other_engines(stack, page: Page, engine: str, tmp_path: Path) -> None:
    _open(page, stack.dashboard_url, f"result?recommendation={_stored(stack.api_url)['id']}")
    _choose(page, "Engine", engine)
    configuration = _download(page, re.compile(f"Download the {engine}.*configuration"), tmp_path)
    assert {"SGLang": "--cuda-graph", "TensorRT-LLM": "cuda_graph_config"}[engine] in configuration
    largest = max(_stored(stack.api_url)["lists"]["capture"])
    assert str(largest) in configuration


def test_a_picture_is_refused_with_a_sentence_and_nothing_is_stored(
    stack, page: Page, tmp_path: Path, screenshots: Path
) -> None:
    picture = tmp_path / "holiday.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(4096))
    before = _traces(stack.api_url)
    _open(page, stack.dashboard_url, "traces")
    _upload(page, picture)
    refusal = page.get_by_test_id("stAlert").filter(has_text="holiday.png")
    expect(refusal).to_contain_text("Nothing was stored.")
    assert "Traceback" not in page.content()
    _shot(page, screenshots / "refused.png")
    assert _traces(stack.api_url) == before


@pytest.mark.parametrize(("scheme", "width_px"), [("light", 900), ("dark", 1440)])
def test_every_page_opens_from_its_link(
    stack, browser: Browser, screenshots: Path, scheme: Literal["light", "dark"], width_px: int
) -> None:
    result = _stored(stack.api_url)
    links = {
        "start": "",
        "traces": "traces",
        "workload": "workload?policy=decode&load=4",
        "tune": "tune?policy=decode&load=4",
        "sweeps": f"sweeps?sweep={result['sweep_id']}",
        "result": f"result?recommendation={result['id']}",
    }
    context = browser.new_context(viewport={"width": width_px, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for name, link in links.items():
        _open(page, stack.dashboard_url, link)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("alert").filter(has=page.get_by_test_id("stAlertContentError"))).to_have_count(0)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{name} scrolls sideways by {wider} px"
        _shot(page, screenshots / f"{name}-{scheme}-{width_px}.png")
    context.close()


def test_a_running_sweep_is_cancelled(stack, page: Page) -> None:
    wanted = {"trace_id": _traces(stack.api_url)[0], "engine": "sglang@0.5.23", "profile": "h200-llama-3.1-8b"}
    wanted |= {"trials": 5_000, "serving": {"policy": "decode", "load": 2.0}}
    sweep = httpx.post(f"{stack.api_url}/api/v1/sweeps", json=wanted).json()
    _open(page, stack.dashboard_url, f"sweeps?sweep={sweep['id']}")
    expect(page.get_by_text(re.compile(r"[1-9]\d* of 5,000 trials"))).to_be_visible(timeout=SWEEP_TIMEOUT_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".stMarkdownBadge", has_text="Cancelled")).to_be_visible()
    assert httpx.get(f"{stack.api_url}/api/v1/sweeps/{sweep['id']}").json()["state"] == "cancelled"


def test_a_trace_is_deleted(stack, page: Page, tmp_path: Path) -> None:
    before = _traces(stack.api_url)
    histogram = tmp_path / "sizes.csv"
    histogram.write_text("size,count\n1,10\n2,25\n7,5\n")
    _open(page, stack.dashboard_url, "traces")
    _upload(page, histogram)
    expect(page.get_by_text("kept 3 of 3 rows")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("kept 3 of 3 rows")).to_have_count(0)
    assert _traces(stack.api_url) == before


def test_a_link_to_something_that_is_gone_says_so(stack, page: Page) -> None:
    _open(page, stack.dashboard_url, "result?recommendation=nosuchresult")
    expect(page.get_by_test_id("stAlert").first).to_contain_text("nosuchresult")


def _stored(api_url: str) -> dict[str, Any]:
    sweeps = httpx.get(f"{api_url}/api/v1/sweeps").json()["items"]
    identity = next(sweep["recommendation_id"] for sweep in sweeps if sweep["recommendation_id"])
    document = httpx.get(f"{api_url}/api/v1/recommendations/{identity}").json()
    assert isinstance(document, dict)
    return document


def _traces(api_url: str) -> list[str]:
    return [trace["id"] for trace in httpx.get(f"{api_url}/api/v1/traces").json()["items"]]


def _open(page: Page, url: str, path: str) -> None:
    page.goto(f"{url}/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    _idle(page)


def _idle(page: Page) -> None:
    """Streamlit has run the page to its end."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')


def _upload(page: Page, path: Path) -> None:
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(path)


def _choose(page: Page, label: str, option: str) -> None:
    wanted = page.get_by_role("option", name=re.compile(option)).first
    for _ in range(5):  # a rerun of the page closes an open list
        page.get_by_role("combobox", name=re.compile(rf"\b{label}\b")).click()
        try:
            wanted.click(timeout=2_000)
        except TimeoutError:
            continue
        break
    _idle(page)


def _fill(page: Page, label: str, value: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(value)
    box.press("Enter")
    _idle(page)


def _download(page: Page, name: str | re.Pattern[str], folder: Path) -> str:
    with page.expect_download() as caught:
        page.get_by_role("button", name=name).click()
    path = folder / caught.value.suggested_filename
    caught.value.save_as(path)
    return path.read_text()


def _shot(page: Page, path: Path) -> None:
    """The whole page: Streamlit scrolls inside a box, so the window is made as tall as its content."""
    _idle(page)
    page.wait_for_timeout(600)  # figures ease in
    size = page.viewport_size
    assert size is not None
    tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], int(tall))})
    page.wait_for_timeout(600)
    page.screenshot(path=path)
    page.set_viewport_size(size)
    assert path.stat().st_size > 10_000
