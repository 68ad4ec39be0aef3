"""The page of trace formats says what the registry reads."""

from __future__ import annotations

import runpy
from pathlib import Path

from workloads.traces.registry import READERS


def test_the_page_of_trace_formats_is_current(repository: Path) -> None:
    module = runpy.run_path(str(repository / "docs" / "make_trace_formats.py"))
    page = (repository / "docs" / "trace-formats.md").read_text()
    assert page == module["render"](), "run: python docs/make_trace_formats.py"


def test_every_reader_says_what_gives_its_format_away(repository: Path) -> None:
    assert [reader.name for reader in READERS if not reader.told_by and not reader.markers] == []
    page = (repository / "docs" / "trace-formats.md").read_text()
    assert [reader.name for reader in READERS if f"| `{reader.name}` |" not in page] == []
