"""What can be asked for on the Tune page beside a sweep that starts now, and what is refused at its field."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.actions import choose, fill, idle, open_page

pytestmark = pytest.mark.slow

TUNE = "tune?trace={trace_id}&policy=decode&load=4&set=max_num_seqs%3D512"


def alert(page: Page, words: str):
    return page.get_by_test_id("stAlert").filter(has_text=words)


def test_what_cannot_be_is_said_at_its_field_and_cannot_be_started(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, TUNE.format(**tuned))
    start = page.get_by_role("button", name="Start tuning")
    expect(start).to_be_enabled()
    fill(page, "Engine options", "max_num_seqs=-3")
    expect(alert(page, "max_num_seqs: must be at least 1")).to_be_visible()
    expect(start).to_be_disabled()
    fill(page, "Engine options", "no_such_option=1")
    expect(alert(page, "no_such_option")).to_be_visible()
    fill(page, "Engine options", "max_num_seqs=512")
    expect(start).to_be_enabled()

    choose(page, "It runs", "cron line")
    fill(page, "Cron line (UTC)", "61 * * * *")
    expect(alert(page, "minute is from 0 to 59")).to_be_visible()
    expect(page.get_by_role("button", name="Keep the schedule")).to_be_disabled()


def test_a_schedule_is_kept_seen_and_ended(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, TUNE.format(**tuned) + "&when=cron&cron=30+2+*+*+1")
    expect(page.get_by_text(re.compile(r"Next: Mon \d{4}-\d\d-\d\d 02:30"))).to_be_visible()
    fill(page, "Name of the schedule", "monday nights")
    page.get_by_role("button", name="Keep the schedule").click()
    expect(page).to_have_url(re.compile("/fleet"))
    expect(page.get_by_role("heading", name="Schedule")).to_be_visible()
    kept = httpx.get(f"{stack.api_url}/api/v1/schedules").json()["items"]
    assert [(item["name"], item["cron"], item["job"]["options"]) for item in kept] == [
        ("monday nights", "30 2 * * 1", {"max_num_seqs": "512"})
    ]
    page.get_by_text("End a schedule").click()
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_text("Nothing is scheduled.")).to_be_visible()
    assert httpx.get(f"{stack.api_url}/api/v1/schedules").json()["items"] == []


def test_a_sweep_can_wait_for_its_time_and_be_taken_back(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, TUNE.format(**tuned) + "&when=later&start_at=2999-01-01T06:30")
    page.get_by_role("button", name="Start tuning").click()
    expect(page).to_have_url(re.compile(r"/sweeps\?.*sweep=\w+"))
    expect(page.get_by_text("Waiting until 2999-01-01 06:30 UTC")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    choose(page, "Show", "Cancelled")
    expect(page).to_have_url(re.compile("state=cancelled"))
    expect(page.get_by_role("heading", name="Cancelled sweeps")).to_be_visible()
    idle(page)


def test_measuring_first_asks_for_a_model(stack, tuned, page: Page) -> None:
    open_page(page, stack.dashboard_url, TUNE.format(**tuned))
    choose(page, "Costs come from", "Measure a model")
    choose(page, "Model", "qwen3-30b-a3b")
    expect(page).to_have_url(re.compile("model=qwen3-30b-a3b"))
    expect(page.get_by_text("which is measured here first")).to_be_visible()
