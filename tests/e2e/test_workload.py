"""The traffic itself: windows of a recording against each other, weights and scales, and how little of it is sent."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import choose, hand_in, open_page, run_again

pytestmark = pytest.mark.slow

CASE = "workload?trace={trace_id}&policy=decode&load=4&set=max_num_seqs%3D512"
MOST_PLOT_BYTES = 600_000


def test_two_windows_of_ones_own_are_compared(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned))
    expect(page.get_by_text("the beginning to")).to_be_visible()
    end = page.get_by_role("slider", name="First window").last
    end.focus()
    with run_again(page):
        page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"[?&]first=0-49\b"))
    told = page.get_by_text("of the recording alike").inner_text()

    visitor = page.context.new_page()
    open_page(visitor, *page.url.rsplit("/", 1))
    expect(visitor.get_by_text("of the recording alike")).to_have_text(told)
    open_page(visitor, stack.dashboard_url, CASE.format(**tuned) + "&first=20-20")
    expect(visitor.get_by_text("A window needs some length")).to_be_visible()


def test_steps_are_weighted_by_their_time(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, CASE.format(**tuned))
    choose(page, "Weighted by", "Time")
    expect(page.get_by_text("share of time")).to_be_visible()
    choose(page, "Scale", "Logarithmic")
    expect(page).to_have_url(re.compile("weight=time.*scale=log|scale=log.*weight=time"))
    assert page.evaluate("document.querySelector('.js-plotly-plot').layout.yaxis.type") == "log"
    expect(page.get_by_test_id("stDataFrame")).to_have_count(1)  # the ceilings; the counts are sent when asked for
    page.get_by_text("Counts as a table").click()
    expect(page.get_by_role("button", name="Steps per size as CSV")).to_be_visible()


def test_ten_million_steps_of_many_sizes_are_drawn_as_few_bars_and_sent_as_few_bytes(
    stack, page: Page, tmp_path: Path
) -> None:
    histogram = tmp_path / "many.csv"
    histogram.write_text("size,count\n" + "".join(f"{size},{2500}\n" for size in range(1, 4001)))
    open_page(page, stack.dashboard_url, "traces")
    hand_in(page, histogram)
    expect(page.get_by_text("kept 4,000 of 4,000 rows")).to_be_visible()
    newest = httpx.get(f"{stack.api_url}/api/v1/traces").json()["items"][0]

    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    open_page(page, stack.dashboard_url, f"workload?trace={newest['id']}")
    expect(page.get_by_text("10,000,000 steps")).to_be_visible()
    page.wait_for_selector(".js-plotly-plot .bars")
    bars = page.evaluate(
        "[...document.querySelector('.js-plotly-plot').data].filter(t => t.type == 'bar')"
        ".reduce((n, t) => n + (t.x.length ?? t.x._inputArray?.length ?? 0), 0)"
    )
    assert 0 < bars <= 1300
    assert 0 < sum(received) < MOST_PLOT_BYTES
    httpx.delete(f"{stack.api_url}/api/v1/traces/{newest['id']}")
