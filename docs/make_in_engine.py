"""Rebuild the results at the end of docs/in_engine.md from the recorded experiments of benchmarks/in_engine/.

.venv/bin/python docs/make_in_engine.py

A folder there is what `captune verify --in-engine --records DIR` leaves, without logs, model and compiled code. The
tables are those of its report.
"""

from __future__ import annotations

from pathlib import Path

from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.recommendation import VERDICTS
from services.engine_view import read_evidence
from services.report.blocks import Bullets
from services.report.in_engine import engine_blocks
from services.report.markdown import blocks_as_markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "in_engine.md"
RECORDS = ROOT / "benchmarks" / "in_engine"
BEGIN, END = "<!-- results: made by docs/make_in_engine.py -->", "<!-- /results -->"


def render(records: Path = RECORDS) -> str:
    """The results as Markdown; empty where no experiment is recorded."""
    found = [(path.parent.name, read_evidence(path.parent)) for path in sorted(records.glob("*/plan.json"))]
    if not found:
        return ""
    head = "Rebuilt from `benchmarks/in_engine/` by `python docs/make_in_engine.py`; every start is a file there."
    return "\n\n".join(["## Results", head, *(_experiment(name, seen) for name, seen in found)])


def _experiment(name: str, seen: EngineEvidenceModel) -> str:
    parts = [f"### {name}", f"**{VERDICTS[seen.verdict]}**"]
    if seen.command:
        parts.append(f"Made by `{seen.command}`.")
    return "\n\n".join([*parts, blocks_as_markdown((Bullets(seen.reasons), *engine_blocks(seen)))])


def main() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}")


if __name__ == "__main__":
    main()
