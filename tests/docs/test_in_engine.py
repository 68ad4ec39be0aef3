"""The results inside engines in the docs are those of the recorded experiments."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.engine_view import read_evidence
from tests.services.capture.probes.conftest import MakeExperiment, experiment, launch
from tests.services.capture.probes.virtual import Costs, VirtualProbe

__all__ = ["experiment", "launch"]


@pytest.fixture
def page(repository: Path) -> dict[str, Any]:
    return runpy.run_path(str(repository / "docs" / "make_in_engine.py"))


def test_the_results_are_current(repository: Path, page: dict[str, Any]) -> None:
    text = (repository / "docs" / "in_engine.md").read_text()
    written = text.split(page["BEGIN"])[1].split(page["END"])[0].strip()
    assert written == page["render"](), "run: python docs/make_in_engine.py"


def test_the_shipped_profiles_are_what_their_starts_make(repository: Path, page: dict[str, Any]) -> None:
    made = page["shipped"]()
    assert made
    for name, text in made.items():
        assert (repository / "profiles" / name).read_text() == text, "run: python docs/make_in_engine.py"


def test_without_an_experiment_nothing_is_written(tmp_path: Path, page: dict[str, Any]) -> None:
    render: Callable[[Path], str] = page["render"]
    assert render(tmp_path) == ""


def test_a_recorded_experiment_becomes_the_tables_of_its_report(
    experiment: MakeExperiment, page: dict[str, Any]
) -> None:
    made = experiment(VirtualProbe(Costs(noise=(0.001, -0.001, 0.0))), starts=2, lists={"capture": (1, 8, 64)})
    made.run()
    folder = made.starter.folder.path
    text: str = page["render"](folder.parent)
    assert text.startswith("## Results") and f"### {folder.name}" in text
    assert "**Inconclusive: the evidence is too thin to say.**" in text
    assert "- 2 starts of one list; at least 3 of each are needed to judge." in text
    assert "made up, load 1: every list." in text and "| tuned | 2 |" in text
    assert "Thresholds, written" in text and all(f"- {note}" in text for note in read_evidence(folder).notes)
