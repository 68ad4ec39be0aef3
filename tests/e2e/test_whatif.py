"""Editing, comparing, exporting and downloading, on the real API."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import choose, download, fill, hand_in, idle, metric, open_page, press

pytestmark = pytest.mark.slow

CASE = "coverage?trace={trace_id}&policy=decode&load=4&set=max_num_seqs%3D512"


def test_an_edited_list_moves_the_scorecard_and_lives_in_the_link(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned))
    assert metric(page, "Sizes") == "51"
    default_ms = metric(page, "Mean step")
    fill(page, "Capture list", "1, 2, 4-16:4, 64, 512", "Control+Enter")
    expect(page.get_by_test_id("stMetric").filter(has_text="Sizes").first).to_contain_text("8")
    assert metric(page, "Mean step") != default_ms
    expect(page).to_have_url(re.compile(r"sizes=1\.2\.4-16%3A4\.64\.512"))

    choose(page, "Size to drop", "^64$")
    press(page, "Drop 64")
    expect(page.get_by_label("Capture list", exact=True)).to_have_value("1, 2, 4, 8, 12, 16, 512")
    expect(page).to_have_url(re.compile(r"sizes=1\.2\.4-16%3A4\.512"))
    shown = metric(page, "Mean step")

    visitor = page.context.new_page()
    visitor.goto(page.url)
    expect(visitor.get_by_label("Capture list", exact=True)).to_have_value("1, 2, 4, 8, 12, 16, 512", timeout=20_000)
    idle(visitor)
    assert metric(visitor, "Mean step") == shown


def test_what_is_no_list_is_said_at_the_field(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned))
    fill(page, "Capture list", "1, two, 3", "Control+Enter")
    expect(page.get_by_test_id("stAlert")).to_contain_text("'two' is neither a size nor a range")


def test_the_figures_of_a_table_and_a_plot_are_taken_along(stack, tuned, page: Page, tmp_path: Path) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned))
    rows = list(csv.DictReader(io.StringIO(download(page, "Sizes of the list as CSV", tmp_path))))
    again = json.loads(download(page, "Sizes of the list as JSON", tmp_path))
    assert [row["Size"] for row in rows] == [str(row["Size"]) for row in again]
    assert len(rows) == 51 and all(float(row["Step ms"]) > 0 for row in rows)
    html = download(page, "Plot as HTML", tmp_path)
    assert "<html" in html and "captured" in html


def test_lists_profiles_and_results_are_compared_by_a_link(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned) + "&from=two")
    page.get_by_role("button", name="Add to the comparison").click()
    expect(page.get_by_role("button", name="In the comparison")).to_be_visible()
    page.get_by_role("link", name="Measurements").click()
    page.get_by_role("button", name="Add to the comparison").click()
    expect(page.get_by_role("button", name="In the comparison")).to_be_visible()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("button", name=re.compile("Take out 10 sizes up to 512"))).to_be_visible()
    visitor = page.context.new_page()
    visitor.goto(page.url)
    expect(visitor.get_by_role("heading", name="Profiles")).to_be_visible(timeout=20_000)
    expect(visitor.get_by_role("heading", name="Lists")).to_be_visible()


def test_a_list_of_ones_own_is_exported_with_its_findings(stack, page: Page, tmp_path: Path) -> None:
    open_page(page, stack.dashboard_url, "export?export_of=list&engine=sglang@0.5.23&sizes=1.2.4.8.160")
    text = download(page, re.compile("Download the SGLang.*configuration"), tmp_path)
    assert "160" in text
    expect(page.get_by_text("Captured by the engine")).to_be_visible()
    expect(page.get_by_text(re.compile(r"removed"))).to_be_visible()
    fill(page, "What runs today", "python -m sglang.launch_server --cuda-graph-bs 1 2 8", "Control+Enter")
    expect(page.get_by_text("--- running (sglang@")).to_be_visible()
    fill(page, "What runs today", "vllm serve m --max-num-seqs 64", "Control+Enter")
    expect(page.get_by_text("is for vllm, but the export is for sglang")).to_be_visible()


def test_a_trace_is_renamed(stack, page: Page, tmp_path: Path) -> None:
    histogram = tmp_path / "sizes.csv"
    histogram.write_text("size,count\n1,10\n2,25\n9,5\n")
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, histogram)
    expect(page.get_by_text("kept 3 of 3 rows")).to_be_visible()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill("monday, eu-west")
    page.get_by_role("button", name="Rename it").click()
    expect(page.get_by_text("kept 3 of 3 rows")).to_have_count(0)
    newest = httpx.get(f"{stack.api_url}/api/v1/traces").json()["items"][0]
    assert newest["name"] == "monday, eu-west"
    httpx.delete(f"{stack.api_url}/api/v1/traces/{newest['id']}")
