"""The main job as a person does it in a browser, on the real API, runner, database and dashboard."""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import (
    SWEEP_TIMEOUT_MS,
    choose,
    download,
    drag_sideways,
    fill,
    hand_in,
    open_page,
    run_again,
    stored_result,
    stored_traces,
)


def test_a_trace_becomes_a_tuned_configuration(stack, page: Page, recording: Path, tmp_path: Path) -> None:
    open_page(page, stack.dashboard_url, "")
    expect(page.get_by_text("hand in a trace first")).to_be_visible()
    page.get_by_role("link", name="1. Hand in a trace").click()
    expect(page.get_by_text("No trace yet")).to_be_visible()

    hand_in(page, recording)
    expect(page.get_by_text(re.compile(r"is stored as Azure 2023: kept [\d,]+ of [\d,]+ rows"))).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Requests per second")).to_contain_text(re.compile(r"\d"))

    page.get_by_role("button", name="See its workload").click()
    choose(page, "Scheduler", "Decode node")
    fill(page, "Load", "4")
    expect(page.get_by_text("of the tokens that it can sustain").first).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Above the ceiling")).to_be_visible()

    page.get_by_role("button", name="Tune for this trace").click()
    expect(page.get_by_role("heading", name="What is asked")).to_be_visible()
    fill(page, "Engine options", "max_num_seqs=512")
    fill(page, "Trials", "6")
    # Scheduler and load came along from the page before.
    expect(page.get_by_text("at 4 × its recorded rate")).to_be_visible()
    page.get_by_role("button", name="Start tuning").click()

    expect(page).to_have_url(re.compile(r"/sweeps\?sweep=\w+"))
    expect(page.get_by_text(re.compile(r"[1-9]\d* of 6 trials")).first).to_be_visible(timeout=SWEEP_TIMEOUT_MS)
    result = page.get_by_role("button", name="See the result")
    expect(result).to_be_visible(timeout=SWEEP_TIMEOUT_MS)

    result.click()
    expect(page).to_have_url(re.compile(r"/result\?recommendation=\w+"))
    expect(page.get_by_role("heading", level=2).first).to_contain_text(re.compile(r"\d+ sizes"))
    expect(page.get_by_text("not measured here").first).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Mean step").first).to_contain_text("ms")
    page.get_by_text("Evidence", exact=True).click()

    configuration = download(page, "Download the vLLM 0.33.0 configuration", tmp_path)
    stored = stored_result(stack.api_url)
    sizes = stored["lists"]["capture"]
    assert re.search(r"cudagraph[_-]capture[_-]sizes", configuration)
    assert all(str(size) in configuration for size in sizes)
    assert len(sizes) <= len(stored["default"]["lists"]["capture"]) // 2

    # Another length of the exact front: by the arrow keys, and by dragging.
    slider = page.get_by_role("slider", name="At most so many sizes")
    slider.focus()
    with run_again(page):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(rf"[?&]k={len(sizes) + 1}\b"))
    with run_again(page):
        drag_sideways(page, slider, 300)
    expect(page).not_to_have_url(re.compile(rf"[?&]k={len(sizes) + 1}\b"))
    expect(page).to_have_url(re.compile(r"[?&]k=\d+\b"))

    # A link carries the whole state: another visitor sees the same result.
    visitor = page.context.new_page()
    visitor.goto(page.url)
    expect(visitor.get_by_role("heading", level=2).first).to_contain_text(re.compile(r"\d+ sizes"), timeout=20_000)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["SGLang", "TensorRT-LLM"])
def test_the_same_list_is_exported_for_other_engines(stack, tuned, page: Page, engine: str, tmp_path: Path) -> None:
    open_page(page, stack.dashboard_url, f"result?recommendation={stored_result(stack.api_url)['id']}")
    choose(page, "Engine", engine)
    configuration = download(page, re.compile(f"Download the {engine}.*configuration"), tmp_path)
    assert {"SGLang": "--cuda-graph", "TensorRT-LLM": "cuda_graph_config"}[engine] in configuration
    largest = max(stored_result(stack.api_url)["lists"]["capture"])
    assert str(largest) in configuration


def test_a_picture_is_refused_with_a_sentence_and_nothing_is_stored(stack, page: Page, tmp_path: Path) -> None:
    picture = tmp_path / "holiday.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(4096))
    before = stored_traces(stack.api_url)
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, picture)
    refusal = page.get_by_test_id("stAlert").filter(has_text="holiday.png")
    expect(refusal).to_contain_text("Nothing was stored.")
    assert "Traceback" not in page.content()
    assert stored_traces(stack.api_url) == before


@pytest.mark.slow
def test_a_file_with_columns_of_its_own_is_read_once_they_are_named(stack, page: Page, tmp_path: Path) -> None:
    """Nothing is guessed: the refusal is followed by a form with the proposal, and the answer stores the trace."""
    own = tmp_path / "own.csv"
    rows = "".join(f"{i * 250},{100 + i},{10 + i % 7}\n" for i in range(200))
    own.write_text("came_at,asked,answered\n" + rows)
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, own)
    expect(page.get_by_test_id("stAlert").filter(has_text="own.csv")).to_contain_text("Nothing was stored.")
    for label, column in (("Arrival time", "came_at"), ("Prompt tokens", "asked"), ("Generated tokens", "answered")):
        page.get_by_label(label, exact=True).click()
        page.get_by_role("option", name=column, exact=True).click()
    page.get_by_label("Unit of the arrival time").click()
    page.get_by_role("option", name=re.compile("^milliseconds")).click()
    page.get_by_role("button", name="Read it like this").click()
    expect(page.get_by_test_id("stAlert").filter(has_text="own.csv is stored")).to_contain_text("kept 200 of 200 rows")


@pytest.mark.slow
def test_a_running_sweep_is_cancelled_and_resumed(stack, tuned, page: Page) -> None:
    wanted = {"trace_id": tuned["trace_id"], "engine": "sglang@0.5.23", "profile": "h200-llama-3.1-8b"}
    wanted |= {"trials": 5_000, "serving": {"policy": "decode", "load": 2.0}}
    sweep = httpx.post(f"{stack.api_url}/api/v1/sweeps", json=wanted).json()
    open_page(page, stack.dashboard_url, f"sweeps?sweep={sweep['id']}")
    expect(page.get_by_text(re.compile(r"[1-9]\d* of 5,000 trials"))).to_be_visible(timeout=SWEEP_TIMEOUT_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".stMarkdownBadge", has_text="Cancelled")).to_be_visible()
    stored = f"{stack.api_url}/api/v1/sweeps/{sweep['id']}"
    done = httpx.get(stored).json()
    assert done["state"] == "cancelled"
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible(timeout=20_000)
    assert httpx.get(stored).json()["trials_done"] >= done["trials_done"]
    httpx.post(f"{stored}/cancel")


@pytest.mark.slow
def test_a_trace_is_deleted(stack, page: Page, tmp_path: Path) -> None:
    before = stored_traces(stack.api_url)
    histogram = tmp_path / "sizes.csv"
    histogram.write_text("size,count\n1,10\n2,25\n7,5\n")
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, histogram)
    expect(page.get_by_text("kept 3 of 3 rows")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("kept 3 of 3 rows")).to_have_count(0)
    assert stored_traces(stack.api_url) == before


@pytest.mark.slow
def test_a_link_to_something_that_is_gone_says_so(stack, page: Page) -> None:
    open_page(page, stack.dashboard_url, "result?recommendation=nosuchresult")
    expect(page.get_by_test_id("stAlert").first).to_contain_text("nosuchresult")
