"""The configuration of an engine: copy or download it, and read what the engine will really capture."""

from __future__ import annotations

import re
from collections.abc import Mapping

import streamlit as st

from dashboard import names, text
from dashboard.problems import show_problems
from dashboard.state import Place, api, folded, pick, readable_errors
from services.contract.export import ExportModel
from services.contract.recommendation import RecommendationModel


def export_panel(result: RecommendationModel) -> None:
    """Configuration for the tuned engine, or for another one."""
    st.subheader("Export")
    with readable_errors():
        specs = [result.engine, *(e.spec for e in api().engines().items if e.name != result.engine.partition("@")[0])]
        spec = pick(st.container(), "Engine", specs, "export_engine", show=names.engine_name)
        if spec != result.engine:
            st.caption(f"The list was tuned for {names.engine_name(result.engine)}; its rules differ.")
        export = api().export(result.id or "", spec)
        show_export(export)
        show_problems(export.lint)


def show_export(export: ExportModel) -> None:
    """Text, files, requested against effective, notes, and how to see it working."""
    _configuration(export)
    _effective(export)
    for note in export.notes:
        st.caption(note)
    st.markdown(f"**How to see it working.** {export.watch}")


def _configuration(export: ExportModel) -> None:
    name = names.engine_name(export.engine)
    arguments = any(line.startswith("--") for line in export.text.splitlines())
    language = "bash" if arguments else "yaml"
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
    if export.files:
        place = folded(f"{text.count(len(export.files), 'files')} for deployment", "files")
        if place is not None:
            _files(place, export.files)


def _files(place: Place, files: Mapping[str, str]) -> None:
    for file, content in files.items():
        place.download_button(f"Download {file}", content, file_name=file, mime="text/plain", on_click="ignore")
        place.code(content, wrap_lines=True, height=200 if content.count("\n") > 9 else "content")


def _suffix(language: str) -> str:
    return "yaml" if language == "yaml" else "txt"


def _effective(export: ExportModel) -> None:
    left, right = st.columns(2)
    left.markdown("**Requested**")
    right.markdown("**Captured by the engine**")
    _sizes(left, {name.capitalize(): sizes for name, sizes in export.requested.items()})
    _sizes(right, {names.family_name(name): sizes for name, sizes in export.effective.items()})


def _sizes(place: Place, lists: Mapping[str, tuple[int, ...]]) -> None:
    for name, sizes in lists.items():
        place.markdown(f"{name}, {text.count(len(sizes), 'sizes')}: {text.short_sizes(sizes)}")
