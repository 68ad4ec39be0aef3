"""Recordings on their page: what is too large for it, tags."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import choose, download, hand_in, open_page, press, stored_traces

pytestmark = pytest.mark.slow


def test_a_file_above_the_limit_is_sent_elsewhere_by_name(stack, page: Page, tmp_path: Path) -> None:
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(201 * 1024 * 1024)  # a hole: it takes no room
    before = stored_traces(stack.api_url)
    open_page(page, stack.dashboard_url, "traces")
    expect(page.get_by_text("A larger file goes in by captune trace import FILE")).to_be_visible()
    hand_in(page, large)
    expect(page.get_by_test_id("stFileUploader")).to_contain_text("must be 200.0MB or smaller")
    assert stored_traces(stack.api_url) == before


def test_a_trace_is_tagged_and_the_table_narrowed_to_the_tag(stack, page: Page, tmp_path: Path) -> None:
    histogram = tmp_path / "tagged.csv"
    histogram.write_text("size,count\n1,11\n2,26\n9,6\n")
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, histogram)
    expect(page.get_by_text("kept 3 of 3 rows")).to_be_visible()
    expect(page.get_by_test_id("stMetric").filter(has_text="Evidence")).to_contain_text("As given")
    page.get_by_role("button", name="Tags").click()
    page.get_by_label("Tags, separated by commas").fill("EU-west, night")
    press(page, "Keep these tags")
    expect(page.locator(".stMarkdownBadge", has_text="eu-west")).to_be_visible()
    choose(page, "Tag", "^night$")
    expect(page).to_have_url(re.compile(r"[?&]tag=night\b"))
    rows = list(csv.DictReader(io.StringIO(download(page, "All traces as CSV", tmp_path))))
    assert [(row["Name"], row["Tags"], row["Evidence"]) for row in rows] == [
        ("tagged.csv", "eu-west, night", "As given")
    ]
    newest = httpx.get(f"{stack.api_url}/api/v1/traces", params={"tag": "night"}).json()["items"][0]
    httpx.delete(f"{stack.api_url}/api/v1/traces/{newest['id']}")
