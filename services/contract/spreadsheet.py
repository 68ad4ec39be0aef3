"""CSV that is safe to open in a spreadsheet: no text of somebody's file becomes a formula there."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_BEGIN_FORMULA = "=+-@"
_BREAK_CELL = "\t\r\n"
_PASSED_OVER = ("Z", "C")
"""Unicode classes of spaces, controls and invisible marks, which spreadsheets skip before they look for a formula."""


def as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows with a header, as UTF-8; text that a spreadsheet would run as a formula is made plain."""
    output = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(output)
    writer.writerow(map(harmless, names))
    writer.writerows([harmless(row.get(name, "")) for name in names] for row in rows)
    return output.getvalue().encode()


def harmless(value: Any) -> Any:
    """The value; text that may be run begins with an apostrophe, which spreadsheets show as plain text.

    Full-width and small forms of the signs count as the signs, and so does a sign behind spaces or invisible marks.
    """
    if not isinstance(value, str) or not value:
        return value
    seen = next((mark for mark in value if unicodedata.category(mark)[0] not in _PASSED_OVER), "")
    runs = unicodedata.normalize("NFKC", seen)[:1] in tuple(_BEGIN_FORMULA)
    return f"'{value}" if runs or value[0] in _BREAK_CELL else value
