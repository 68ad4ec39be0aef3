"""The service at rising load under a promise that the user enters."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import fill, open_page

pytestmark = pytest.mark.slow

FEEDBACK = "feedback?trace={trace_id}&policy=decode&load=4&set=max_num_seqs%3D512"


def test_goodput_follows_the_promise_and_both_live_in_the_link(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, FEEDBACK.format(**tuned))
    expect(page.get_by_text("The queue grows without end")).to_be_visible()
    expect(page.get_by_text("Goodput counts the requests that kept a promise")).to_be_visible()
    fill(page, "First token within, ms", "200")
    fill(page, "Each further token within, ms", "25")
    expect(page.get_by_text(re.compile("The promise is kept for 99% of the requests"))).to_be_visible()
    expect(page.get_by_text(re.compile("Requests a second that get their first token within 200.ms"))).to_be_visible()
    expect(page).to_have_url(re.compile(r"slo_ttft_ms=200&slo_tpot_ms=25"))
    assert page.locator(".js-plotly-plot").count() == 5
