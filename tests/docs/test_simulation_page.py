"""docs/simulation.md names every option of the simulation and every figure that its features report."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from tuner.recommendation import ServingOptions
from workloads.serving.features import SglangKvRule
from workloads.serving.outcome import Tally
from workloads.serving.report import ServingReport


def test_every_option_and_figure_is_on_the_page(repository: Path) -> None:
    page = (repository / "docs" / "simulation.md").read_text()
    options = {"--" + field.name.replace("_", "-") for field in fields(ServingOptions)} - {"--slo"}
    assert {option for option in options if option not in page} == set()
    figures = {field.name for field in fields(Tally)} & {field.name for field in fields(ServingReport)}
    assert {figure for figure in figures if f"`{figure}`" not in page} == set()


def test_sglangs_numbers_are_those_of_the_rule(repository: Path) -> None:
    page = (repository / "docs" / "simulation.md").read_text()
    rule = SglangKvRule()
    assert re.search(rf"{rule.initial_ratio}, falling to {rule.initial_ratio * rule.least_ratio_factor:.3f} over", page)
    for number in (rule.decay_steps, rule.retract_steps, rule.clip_tokens, rule.reserved_decode_tokens):
        assert str(number) in page
