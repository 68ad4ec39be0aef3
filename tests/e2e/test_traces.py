"""Handing in recordings: what is too large here, what is on its way."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import hand_in, open_page, stored_traces

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
