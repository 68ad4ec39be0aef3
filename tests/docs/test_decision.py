"""The table of what choosing on readings costs is that of the shipped profile."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_table_of_luck_is_current(repository: Path) -> None:
    module = runpy.run_path(str(repository / "docs" / "make_decision.py"))
    page = (repository / "docs" / "decision.md").read_text()
    table = page.split(module["BEGIN"])[1].split(module["END"])[0].strip()
    assert table == module["render"](), "run: python docs/make_decision.py"
