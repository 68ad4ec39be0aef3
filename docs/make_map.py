"""Writes docs/map.md: one sentence a module, taken from the modules themselves (python docs/make_map.py)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "workloads": "what runs: recorded traffic, and the computation that a graph captures",
    "tuner": "the decision",
    "db": "what is remembered",
    "services": "what runs by itself: the GPU worker, the runner, the API, the command line",
    "dashboard": "the screens",
}


def sentence(path: Path) -> str | None:
    """The first sentence of a module's docstring; None for an empty module."""
    module = ast.parse(path.read_text())
    if not module.body:
        return None
    docstring = ast.get_docstring(module)
    if docstring is None:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring: every module says in one sentence what it is")
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    first = paragraph.split(". ")[0]
    return first if first.endswith((".", ":", "?")) else f"{first}."


def render() -> str:
    """The whole page."""
    lines = ["# Map", "", "One sentence a module, from the modules themselves: `python docs/make_map.py`.", ""]
    for package, what in PACKAGES.items():
        lines += [f"## `{package}/`: {what}", ""]
        folder = None
        for path in sorted((ROOT / package).rglob("*.py"), key=lambda p: (p.parent.as_posix(), p.name)):
            said = sentence(path)
            if said is None or "versions" in path.parts:
                continue
            if path.parent != folder and path.parent != ROOT / package:
                lines.append(f"- **{path.parent.relative_to(ROOT)}/**")
            folder = path.parent
            indent = "  " if folder != ROOT / package else ""
            lines.append(f"{indent}- `{path.name}` {said}")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "map.md").write_text(render())
    sys.stdout.write("docs/map.md written\n")
