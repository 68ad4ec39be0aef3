"""A real measurement on a local Ray worker, asked for and followed in the browser."""

from __future__ import annotations

import re
import time

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import choose, fill, open_page

pytestmark = pytest.mark.slow

MEASURE_TIMEOUT_MS = 120_000


def wait_until_measured(api_url: str) -> None:
    deadline = time.monotonic() + MEASURE_TIMEOUT_MS / 1000
    while (job := httpx.get(f"{api_url}/api/v1/measurements").json()["items"][0])["state"] != "complete":
        assert job["state"] in ("queued", "running") and time.monotonic() < deadline, job
        time.sleep(0.5)


def test_a_measurement_is_seen_on_the_fleet_and_becomes_a_profile(stack, page: Page) -> None:
    open_page(page, stack.dashboard_url, "measurements")
    page.get_by_text("On a worker of this installation").click()
    choose(page, "Model", "tiny-llama")
    fill(page, "Name of the profile", "two words")
    expect(page.get_by_test_id("stAlert").filter(has_text="A name starts with")).to_be_visible()
    expect(page.get_by_role("button", name="Start measuring")).to_be_disabled()
    fill(page, "Name of the profile", "seen-in-a-browser")
    page.get_by_role("button", name="Start measuring").click()
    expect(page.get_by_role("button", name="Cancel seen-in-a-browser")).to_be_visible()

    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("heading", name="Jobs in line")).to_be_visible()
    follow = page.get_by_role("button", name="Follow the profile seen-in-a-browser")
    expect(follow).to_be_visible(timeout=MEASURE_TIMEOUT_MS)  # a worker is at work on it
    measuring = page.get_by_test_id("stMetric").filter(has_text="Measuring").first
    expect(measuring).to_contain_text(re.compile(r"[1-9]"))
    busy = [w for w in httpx.get(f"{stack.api_url}/api/v1/workers").json()["items"] if w["state"] == "busy"]
    assert busy and busy[0]["torch"] and busy[0]["sweep_id"]

    follow.click()
    expect(page).to_have_url(re.compile("/measurements"))
    expect(page.get_by_role("heading", name="Measure a model")).to_be_visible()
    wait_until_measured(stack.api_url)
    # The page reads its profiles again when the measurement ends.
    expect(page.get_by_role("button", name="Cancel seen-in-a-browser")).to_have_count(0)
    choose(page, "Cost profile", "tiny-llama on cpu")
    expect(page.get_by_text("recorded on cpu")).to_be_visible()
    expect(page).to_have_url(re.compile("profile="))
