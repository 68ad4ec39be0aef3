"""The measured figures in the docs are those of the committed profiles and runs."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_measurements_are_current(repository: Path) -> None:
    module = runpy.run_path(str(repository / "docs" / "make_measurements.py"))
    page = (repository / "docs" / "measurements.md").read_text()
    assert page == module["render"](), "run: python docs/make_measurements.py"
    for name, svg in module["plots"]().items():
        drawn = (repository / "docs" / "plots" / name).read_text()
        assert drawn == svg + "\n", "run: python docs/make_measurements.py"
