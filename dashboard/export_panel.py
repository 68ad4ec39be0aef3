"""The export: pick an engine, read what it will really capture, copy or download the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.state import api, readable_errors
from services.contract.export import ExportModel
from services.contract.lint import ProblemModel
from services.contract.recommendation import RecommendationModel


def export_panel(result: RecommendationModel) -> None:
    """Configuration for the tuned engine, or for another one."""
    st.subheader("Export")
    with readable_errors():
        specs = [result.engine, *(e.spec for e in api().engines().items if e.name != result.engine.partition("@")[0])]
        spec = st.selectbox("Engine", specs, format_func=names.engine_name, key="export-engine")
        if spec != result.engine:
            st.caption(f"The list was tuned for {names.engine_name(result.engine)}; its rules differ.")
        export = api().export(result.id or "", spec)
        _configuration(export)
        _effective(export)
        for problem in export.lint:
            _problem(problem)
        for note in export.notes:
            st.caption(note)
        st.markdown(f"**How to see it working.** {export.watch}")


def _configuration(export: ExportModel) -> None:
    name = names.engine_name(export.engine)
    language = "yaml" if any(file.endswith((".yaml", ".yml")) for file in export.files) else "bash"
    st.code(export.text, language=language, wrap_lines=True)
    with st.container(horizontal=True):
        st.download_button(
            f"Download the {name} configuration",
            export.text,
            file_name=f"captune-{re.sub(r'[^a-z0-9.]+', '-', export.engine.lower())}.{_suffix(language)}",
            mime="text/plain",
            icon=":material/download:",
            on_click="ignore",
        )
        for file, content in export.files.items():
            st.download_button(f"Download {file}", content, file_name=file, mime="text/plain", on_click="ignore")


def _suffix(language: str) -> str:
    return "yaml" if language == "yaml" else "txt"


def _effective(export: ExportModel) -> None:
    left, right = st.columns(2)
    left.markdown("**Requested**")
    right.markdown("**Captured by the engine**")
    _sizes(left, {name.capitalize(): sizes for name, sizes in export.requested.items()})
    _sizes(right, {names.family_name(name): sizes for name, sizes in export.effective.items()})


def _sizes(place: st.delta_generator.DeltaGenerator, lists: Mapping[str, tuple[int, ...]]) -> None:
    for name, sizes in lists.items():
        place.markdown(f"{name}, {text.count(len(sizes), 'sizes')}: {text.short_sizes(sizes)}")


def _problem(problem: ProblemModel) -> None:
    show = {"error": st.error, "warning": st.warning, "info": st.info}[problem.severity]
    show(problem.message if problem.fix is None else f"{problem.message} Instead: {_fix(problem.fix)}")


def _fix(fix: Any) -> str:
    return text.short_sizes(fix) if isinstance(fix, list) and fix else str(fix)
