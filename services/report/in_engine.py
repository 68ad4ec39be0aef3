"""What an engine itself did with the lists: the part of a report, the report of a folder, and that of the docs."""

from __future__ import annotations

from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.engine_table import engine_tables
from services.contract.recommendation import VERDICTS
from services.report.blocks import Block, Bullets, Code, Report, Section, Table, Words


def engine_blocks(seen: EngineEvidenceModel) -> tuple[Block, ...]:
    """Where it ran, every table, what to know besides, and the thresholds."""
    load = "" if seen.load is None else f", at load {seen.load:g}"
    blocks: list[Block] = [
        Words(
            f"{seen.engine} ({seen.way}) with {seen.model} on {seen.device or 'an unknown device'}{load}; means over "
            "its starts with 95 % intervals (Student's t)."
        )
    ]
    tuned = next((item for item in seen.lists if item.name == "tuned" and item.asked), None)
    if tuned is not None and tuned.asked is not None:
        sizes = next(iter(tuned.asked.values()))
        blocks += [
            Words(f"The tuned list, {len(sizes)} sizes ({seen.requested_by or 'given'}):"),
            Code(", ".join(map(str, sizes))),
        ]
    for table in engine_tables(seen):
        blocks += [Words(f"{table.title}."), Table(table.columns, table.rows)]
    if seen.notes:
        blocks.append(Bullets(seen.notes))
    written = seen.thresholds.get("written_at")
    values = ", ".join(f"{name} {value:g}" for name, value in seen.thresholds.items() if name != "written_at")
    when = "" if written is None else f", written {written}, before the first start"
    blocks.append(Words(f"Thresholds{when}: {values}. Start-up seconds are those of starts that found compiled code."))
    return tuple(blocks)


def engine_report(seen: EngineEvidenceModel) -> Report:
    """A report of its own: the verdict, why, and everything that was measured."""
    title = f"{seen.engine} with {seen.model} on {seen.device or 'an unknown device'}: {seen.workload}"
    sections = (Section("Why", (Bullets(seen.reasons),)), Section("Inside the engine", engine_blocks(seen)))
    return Report(title, VERDICTS[seen.verdict], sections)
