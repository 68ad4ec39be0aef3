"""Tables with their downloads: what is shown is what is saved, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

Row = Mapping[str, Any]


def table(rows: Sequence[Row], name: str, *, alt: str, columns: Mapping[str, Any] | None = None) -> None:
    """Show `rows` and offer them as `captune-NAME.csv` and `.json`."""
    st.dataframe(list(rows), hide_index=True, column_config=dict(columns or {}), key=f"table-{name}", alt=alt)
    with st.container(horizontal=True, gap="small"):
        for kind, mime, render in (("CSV", "text/csv", as_csv), ("JSON", "application/json", as_json)):
            st.download_button(
                f"{alt.rstrip('.')} as {kind}",
                partial(render, rows),
                file_name=f"captune-{name}.{kind.lower()}",
                mime=mime,
                key=f"{kind}-{name}",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
            )


def as_csv(rows: Sequence[Row]) -> bytes:
    """Rows with a header; text that a spreadsheet would run as a formula is made plain."""
    output = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(output, names)
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return output.getvalue().encode()


def as_json(rows: Sequence[Row]) -> bytes:
    return json.dumps(list(rows), indent=1, default=str).encode()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@" else value
