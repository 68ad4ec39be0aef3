"""The page on engines says what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from tuner.engines.registry import ENGINE_NAMES


def test_the_page_is_current(repository: Path) -> None:
    module = runpy.run_path(str(repository / "docs" / "make_engines.py"))
    assert (repository / "docs" / "engines.md").read_text() == module["render"](), "run: python docs/make_engines.py"


def test_every_engine_has_a_section_with_flags_rules_and_traps(repository: Path) -> None:
    page = (repository / "docs" / "engines.md").read_text()
    for name in ENGINE_NAMES:
        section = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## )", page, flags=re.MULTILINE | re.DOTALL)
        assert section is not None, name
        assert all(word in section.group(1) for word in ("| flag |", "Rules:", "Traps:", "`--set` takes")), name
