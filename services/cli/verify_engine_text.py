"""What `captune verify --in-engine` prints, and the same as Markdown for the folder of the records."""

from __future__ import annotations

from rich.console import Console

from services.cli.output import table
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.engine_table import engine_tables
from services.contract.recommendation import VERDICTS
from services.report.in_engine import engine_report
from services.report.markdown import as_markdown

_MOST_COLUMNS = 8  # that stand side by side on a usual screen


def draw(console: Console, answer: EngineEvidenceModel) -> None:
    """The verdict, then every figure of every list."""
    console.print(f"[bold]{VERDICTS[answer.verdict]}[/bold]")
    for line in (*answer.reasons, *(f"note: {note}" for note in answer.notes)):
        console.print(line, markup=False)
    for made in engine_tables(answer):
        of = made.transposed() if len(made.columns) > _MOST_COLUMNS else made
        console.print(table(of.title, of.columns, of.rows))
    console.print(f"every start: {answer.records}", markup=False)


def report_text(answer: EngineEvidenceModel) -> str:
    """The same as Markdown, for the folder of the records."""
    return as_markdown(engine_report(answer))
