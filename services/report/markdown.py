"""A report as Markdown; drawings stand beside it as files, or as their sentence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.report.blocks import Block, Bullets, Code, Report, Table, Words


def as_markdown(report: Report, files: Mapping[str, str] | None = None) -> str:
    """The report as text.

    Args:
        files: from a drawing's name to the address of its file; one without a file leaves its sentence.
    """
    parts = [f"# {report.title}", f"**{report.verdict}**"]
    for section in report.sections:
        parts += [f"## {section.title}", blocks_as_markdown(section.blocks, files)]
    return "\n\n".join(parts) + "\n"


def blocks_as_markdown(blocks: Sequence[Block], files: Mapping[str, str] | None = None) -> str:
    """What stands in a section, without its heading."""
    return "\n\n".join(_block(block, files or {}) for block in blocks)


def _block(block: Block, files: Mapping[str, str]) -> str:
    if isinstance(block, Words):
        return block.text
    if isinstance(block, Bullets):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Code):
        return f"```\n{block.text}\n```"
    if isinstance(block, Table):
        ruler = ["---", *["---:"] * (len(block.columns) - 1)]
        return "\n".join(_row(cells) for cells in (block.columns, ruler, *block.rows))
    drawn = f"![{block.name}]({files[block.name]})\n\n" if block.name in files else ""
    return f"{drawn}*{block.caption}*"


def _row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
