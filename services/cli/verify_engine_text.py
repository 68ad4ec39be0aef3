"""What `captune verify --in-engine` prints, and the same as Markdown for the folder of the records."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from services.cli.output import number, percent, table
from services.contract.engine_evidence import EngineEvidenceModel, IntervalModel
from services.contract.recommendation import VERDICTS

FIGURES: Mapping[str, tuple[str, int]] = {
    "startup_s": ("start-up s", 1),
    "capture_s": ("capture s", 1),
    "graph_memory_mib": ("graph memory MiB", 0),
    "kv_tokens": ("KV tokens", 0),
    "mean_step_ms": ("mean replayed step ms", 3),
    "ttft_ms": ("TTFT ms", 1),
    "ttft_p99_ms": ("TTFT p99 ms", 1),
    "tpot_ms": ("TPOT ms", 3),
    "tpot_p99_ms": ("TPOT p99 ms", 3),
    "throughput_tokens_per_s": ("throughput tokens/s", 0),
    "failed_rate": ("served: failed requests", 4),
    "exact_rate": ("served: exact hits", 4),
    "padded_rate": ("served: padded hits", 4),
    "fallback_rate": ("served: fallback", 4),
    "padding_waste": ("served: padding", 4),
}


def draw(console: Console, answer: EngineEvidenceModel) -> None:
    """The verdict, then every figure of every list."""
    console.print(f"[bold]{VERDICTS[answer.verdict]}[/bold]")
    for line in (*answer.reasons, *(f"note: {note}" for note in answer.notes)):
        console.print(line, markup=False)
    head, rows = _cells(answer)
    console.print(table("", head, rows))
    console.print(f"every start: {answer.records}", markup=False)


def report_text(answer: EngineEvidenceModel) -> str:
    """The same as Markdown, for the folder of the records."""
    head, rows = _cells(answer)
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


def _cells(answer: EngineEvidenceModel) -> tuple[list[str], list[list[str]]]:
    lists = answer.lists
    rows: list[list[str]] = [
        ["starts", *(str(item.starts) for item in lists)],
        ["sizes captured", *(str(item.list_length) for item in lists)],
        ["graphs by our rules", *(str(item.graphs) for item in lists)],
        ["predicted step ms", *(number(item.predicted_step_ms) for item in lists)],
        ["worst regret by the profile", *(percent(item.worst_regret) for item in lists)],
        ["replayed: exact hits", *(percent(item.by_rule.get("exact")) for item in lists)],
        ["replayed: fallback", *(percent(item.by_rule.get("fallback")) for item in lists)],
    ]
    for name, (what, digits) in FIGURES.items():
        if any(name in item.figures for item in lists):
            rows.append([what, *(_interval(item.figures.get(name), digits) for item in lists)])
    cases = sorted({(size.rows, size.context_tokens) for item in lists for size in item.sizes})
    for case in cases:
        by_list = [{(s.rows, s.context_tokens): s.step_ms for s in item.sizes} for item in lists]
        rows.append([f"step ms of {case[0]} at {case[1]}", *(_interval(of.get(case), 3) for of in by_list)])
    return ["", *(item.name for item in lists)], rows


def _interval(of: IntervalModel | None, digits: int) -> str:
    if of is None:
        return "unknown"
    if of.low is None or of.high is None:
        return f"{of.mean:,.{digits}f}"
    return f"{of.mean:,.{digits}f} ({of.low:,.{digits}f} to {of.high:,.{digits}f})"
