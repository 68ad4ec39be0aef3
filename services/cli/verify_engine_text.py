"""What `captune verify --in-engine` prints, and the same as Markdown for the folder of the records."""

from __future__ import annotations

from rich.console import Console

from services.cli.output import table
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.engine_table import engine_table
from services.contract.recommendation import VERDICTS


def draw(console: Console, answer: EngineEvidenceModel) -> None:
    """The verdict, then every figure of every list."""
    console.print(f"[bold]{VERDICTS[answer.verdict]}[/bold]")
    for line in (*answer.reasons, *(f"note: {note}" for note in answer.notes)):
        console.print(line, markup=False)
    head, rows = engine_table(answer)
    console.print(table("", head, rows))
    console.print(f"every start: {answer.records}", markup=False)


def report_text(answer: EngineEvidenceModel) -> str:
    """The same as Markdown, for the folder of the records."""
    head, rows = engine_table(answer)
    lines = [
        f"# {answer.engine} ({answer.way}), {answer.model} on {answer.device or 'an unknown device'}",
        "",
        f"Workload {answer.workload} at load {answer.load:g}. **{VERDICTS[answer.verdict]}**",
        "",
        *(f"- {reason}" for reason in answer.reasons),
        *(f"- Note: {note}" for note in answer.notes),
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "Means over starts of the engine with 95 % intervals (Student's t). Thresholds, written "
        f"{answer.thresholds['written_at']}: "
        + ", ".join(f"{name} {value}" for name, value in answer.thresholds.items() if name != "written_at")
        + ".",
    ]
    return "\n".join(lines) + "\n"
