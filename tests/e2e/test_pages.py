"""Every page from its link, light and dark, wide and narrow: readable by people, by screen readers and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.actions import drawn, idle, open_page, run_again, shot

pytestmark = pytest.mark.slow

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
CASE = "policy=decode&load=4&set=max_num_seqs%3D512"
PAGES = {
    "start": "",
    "traces": "traces?trace={trace_id}",
    "workload": "workload?trace={trace_id}&" + CASE,
    "coverage": "coverage?trace={trace_id}&" + CASE + "&from=own&sizes=1.2.4.8-64:8.96.128-512:128",
    "tune": "tune?trace={trace_id}&" + CASE,
    "sweeps": "sweeps?sweep={sweep_id}",
    "result": "result?recommendation={recommendation_id}",
    "measurements": "measurements",
    "feedback": "feedback?trace={trace_id}&" + CASE + "&slo_ttft_ms=200&slo_tpot_ms=25",
    "export": "export?recommendation={recommendation_id}",
    "fleet": "fleet",
    "compare": "compare?trace={trace_id}&" + CASE + "&basket=result~{recommendation_id},"
    "sweep~{sweep_id},list~1.2.4.8-256:8,"
    "list~16.32.64.128.256.512,profile~h200-llama-3.1-8b,profile~h200-qwen3-0.6b",
}


@pytest.fixture
def looked_at(warm: None, browser: Browser, scheme: Literal["light", "dark"], width_px: int) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width_px, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(20_000)
    yield page
    context.close()


@pytest.mark.parametrize("width_px", [1440, 900])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_opens_from_its_link(
    stack, tuned: dict[str, str], looked_at: Page, screenshots: Path, scheme: str, width_px: int
) -> None:
    problems = []
    for name, link in PAGES.items():
        open_page(looked_at, stack.dashboard_url, link.format(**tuned))
        expect(looked_at.get_by_test_id("stAlertContentError")).to_have_count(0)
        wider = looked_at.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{name} scrolls sideways by {wider} px"
        if (name, scheme, width_px) == ("result", "light", 1440):
            looked_at.screenshot(path=screenshots / "result.png")  # the README shows what one sees first
        drawn(looked_at)
        assert looked_at.evaluate(NOT_TAKEN_ALONG) == [0, 0, 0], f"{name} has a table or a plot without its downloads"
        shot(looked_at, screenshots / f"{name}-{scheme}-{width_px}.png")
        problems += [f"{name}: {problem}" for problem in accessibility_problems(looked_at)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(("scheme", "width_px"), [("light", 1440)])
def test_every_control_is_reached_with_the_tab_key(stack, tuned: dict[str, str], looked_at: Page) -> None:
    for name, link in PAGES.items():
        open_page(looked_at, stack.dashboard_url, link.format(**tuned))
        unreachable = looked_at.evaluate(UNREACHABLE)
        assert not unreachable, f"{name}: {unreachable}"
    open_page(looked_at, stack.dashboard_url, PAGES["measurements"])
    looked_at.get_by_role("combobox", name="Compare with").focus()
    with run_again(looked_at):
        looked_at.keyboard.press("Backspace")
    expect(looked_at).not_to_have_url(re.compile("against="))
    open_page(looked_at, stack.dashboard_url, PAGES["tune"].format(**tuned))
    reached = tabbed_names(looked_at, presses=60)
    for wanted in ("Tune", "Trials", "Start tuning"):
        assert any(wanted in name for name in reached), (wanted, reached)


def accessibility_problems(page: Page) -> list[str]:
    """Serious and critical violations that axe-core finds."""
    idle(page)
    page.add_script_tag(path=AXE)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']} ({violation['impact']}): {violation['nodes'][0]['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def tabbed_names(page: Page, presses: int) -> list[str]:
    """Names of what the tab key reaches, in order."""
    names = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.ariaLabel || document.activeElement.innerText || ''"))
    return names


# Tables without their CSV and JSON, plots without their page; the camera that saves a PNG is in every plot's tool bar.
NOT_TAKEN_ALONG = """() => {
  const buttons = [...document.querySelectorAll('[data-testid=stDownloadButton]')].map(e => e.textContent.trim());
  const ending = words => buttons.filter(text => text.endsWith(words)).length;
  const tables = document.querySelectorAll('[data-testid=stDataFrame]').length;
  const plots = document.querySelectorAll('[data-testid=stPlotlyChart]').length;
  const missing = [tables - ending(' as CSV'), tables - ending(' as JSON'), plots - ending('Plot as HTML')];
  return missing.map(count => Math.max(0, count));
}"""

# Step, arrow and remove buttons inside fields repeat what the arrow keys and the backspace key do there, and are left
# out on purpose.
UNREACHABLE = """() => [...document.querySelectorAll(
  '[data-testid=stMain] :is(button, a[href], input, textarea, [role=slider], [role=combobox])')]
  .filter(e => e.offsetParent !== null && e.tabIndex < 0 && !e.disabled && e.type !== 'file')
  .filter(e => !e.closest('[data-testid=stNumberInput], .modebar, [data-testid=stDataFrame]'))
  .filter(e => !e.closest(':is([data-testid=stSelectbox], [data-testid=stMultiSelect]) button'))
  .map(e => e.outerHTML.slice(0, 160))"""
