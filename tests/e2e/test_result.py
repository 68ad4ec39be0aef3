"""What is believed of a result: other ladders, their KV cache, limits on the trade-offs, the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import download, open_page, run_again

pytestmark = pytest.mark.slow

RESULT = "result?recommendation={recommendation_id}"


def test_other_ladders_stand_as_cards_with_the_kv_cache_that_they_leave(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, RESULT.format(**tuned))
    cards = page.get_by_test_id("stMarkdown").filter(has_text="Without a graph")
    expect(cards.first).to_be_visible()
    assert cards.count() >= 6
    default = cards.filter(has_text="vLLM 0.33.0 default").first
    for figure in (r"Step [\d.]+\sms", r"Start-up [\d.]+\ss", r"Graphs \d+\sMiB", r"KV [\d.]+\sk tokens"):
        expect(default).to_contain_text(re.compile(figure))
    expect(page.get_by_text("Taken from the profile")).to_be_visible()
    expect(page.get_by_text(re.compile("differ by noise"))).to_be_visible()


def test_limits_of_the_trade_offs_live_in_the_link(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, RESULT.format(**tuned))
    slider = page.get_by_role("slider", name="At most, sizes")
    most = int(slider.get_attribute("max") or 0)
    slider.focus()
    with run_again(page):
        page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(rf"limit_list_length={most - 1}\b"))
    with run_again(page):
        page.get_by_text("Show infeasible").click()
    expect(page).to_have_url(re.compile("infeasible=yes"))
    visitor = page.context.new_page()
    open_page(visitor, page.url.rsplit("/", 1)[0], page.url.rsplit("/", 1)[1])
    expect(visitor.get_by_role("slider", name="At most, sizes")).to_have_value(str(most - 1))


def test_the_report_is_taken_along(stack, tuned, page: Page, tmp_path: Path) -> None:
    open_page(page, stack.dashboard_url, RESULT.format(**tuned))
    assert download(page, "Report as HTML", tmp_path).lstrip().lower().startswith("<!doctype html>")
    assert download(page, "Report as Markdown", tmp_path).startswith("#")
