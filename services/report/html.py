"""A report as one HTML file: no script, no network, printable."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from services.report.blocks import UNKNOWN, Block, Bullets, Code, Report, Table, Words

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; }
body { max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
.verdict { font-size: 1.1rem; font-weight: 600; background: #f6f6f6; }
.verdict { border-left: 4px solid #D55E00; padding: .4rem .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid #e5e5e5; text-align: right; vertical-align: top; }
td { white-space: nowrap; }
td.words { white-space: normal; overflow-wrap: anywhere; }
th.words, td.words { text-align: left; }
table.facts td:first-child { white-space: nowrap; }
table.wide { font-size: .7rem; }
table.wide th, table.wide td { padding: .25rem .3rem; white-space: normal; }
table.wide td.words { overflow-wrap: normal; }
pre { background: #f6f6f6; padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #444; }
tr { break-inside: avoid; }
h2 { break-after: avoid; }
@page { margin: 16mm; }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } }
"""

MOST_COLUMNS = 8
"""That fit beside each other at full size."""


def as_html(report: Report) -> str:
    """The report as a complete document."""
    body = [f"<h1>{escape(report.title)}</h1>", f'<p class="verdict">{escape(report.verdict)}</p>']
    for section in report.sections:
        body.append(f"<section><h2>{escape(section.title)}</h2>")
        body += [_block(block) for block in section.blocks]
        body.append("</section>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Words):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    if isinstance(block, Table):
        return _table(block)
    return f"<figure>{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    # Two columns are facts to be read, more are figures to be compared.
    facts = len(table.columns) == 2
    kind = ' class="facts"' if facts else ' class="wide"' if len(table.columns) > MOST_COLUMNS else ""
    words = [facts or i == 0 or _is_words(row[i] for row in table.rows) for i in range(len(table.columns))]

    def cell(tag: str, i: int, text: str) -> str:
        side = ' class="words"' if words[i] else ""
        return f"<{tag}{side}>{escape(text)}</{tag[:2]}>"

    head = "".join(cell('th scope="col"', i, name) for i, name in enumerate(table.columns))
    rows = "".join(f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in table.rows)
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _is_words(cells: Iterable[str]) -> bool:
    """Whether a column holds words more often than figures; words stand left, figures right."""
    held = [cell[:1].isalpha() for cell in cells if cell != UNKNOWN]
    return sum(held) * 2 > len(held)
