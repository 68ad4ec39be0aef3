"""Tables with their downloads: what is shown is what is saved, as CSV and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from services.contract.spreadsheet import as_csv

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


def as_json(rows: Sequence[Row]) -> bytes:
    return json.dumps(list(rows), indent=1, default=str).encode()
