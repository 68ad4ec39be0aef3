"""What is written about the product is true of the product."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from services.cli.main import COMMANDS


def test_the_map_is_current(repository: Path) -> None:
    module = runpy.run_path(str(repository / "docs" / "make_map.py"))
    assert (repository / "docs" / "map.md").read_text() == module["render"](), "run: python docs/make_map.py"


def test_every_command_is_in_the_readme(repository: Path) -> None:
    readme = (repository / "README.md").read_text()
    missing = [name for name in COMMANDS if f"captune {name}" not in readme]
    assert not missing


def test_every_setting_is_in_the_readme(repository: Path) -> None:
    names = set()
    for path in (*(repository / "services").rglob("*.py"), *(repository / "dashboard").rglob("*.py")):
        names |= set(re.findall(r"\bCAPTUNE_[A-Z_]+\b", path.read_text()))
    readme = (repository / "README.md").read_text()
    assert not sorted(name for name in names if name not in readme)


def test_links_in_the_docs_lead_somewhere(repository: Path) -> None:
    broken = []
    for page in (repository / "README.md", repository / "CONTRIBUTING.md", *(repository / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert not broken


def test_make_verbs_of_the_design_exist(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    for verb in ("setup", "demo", "test", "lint", "serve"):
        assert re.search(rf"^{verb}:", makefile, flags=re.MULTILINE)
