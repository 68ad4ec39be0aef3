"""Export: a list as the configuration of an engine and version, with what it will really capture."""

from __future__ import annotations

import streamlit as st

from dashboard import text
from dashboard.client import ApiProblem
from dashboard.export_panel import show_export
from dashboard.list_editor import use
from dashboard.lists import compact, default_list, expanded, list_text, parse_sizes
from dashboard.pickers import EngineChoice, pick_engine, sweep_label
from dashboard.problems import show_problems
from dashboard.state import api, choose, chosen, pick, readable_errors
from services.contract.export import ExportModel
from services.contract.recommendation import RecommendationModel


def page() -> None:
    st.caption("Turn a list into the configuration of an engine, and read what that engine will make of it.")
    with readable_errors():
        results = {s.recommendation_id: s for s in api().sweeps().items if s.recommendation_id}
        kinds = {"result": "A tuned result", "list": "My own list"}
        default = 1 if not results or chosen("sizes") else 0
        kind = pick(st.container(), "What to export", list(kinds), "export_of", show=kinds.__getitem__, default=default)
        if kind == "result":
            _result({key: sweep_label(sweep) for key, sweep in results.items()})
        else:
            _list()


def _result(labels: dict[str, str]) -> None:
    wanted = chosen("recommendation")
    if wanted is not None and wanted not in labels:
        labels[wanted] = wanted
    if not labels:
        st.info("No result yet. Start a sweep, or export a list of your own.", icon=":material/tune:")
        return
    result = api().recommendation(
        pick(st.container(), "Result of", list(labels), "recommendation", show=labels.__getitem__)
    )
    engine = pick_engine(result.engine)
    if engine.problem:
        return
    same = engine.spec.partition("@")[0] == result.engine.partition("@")[0]
    if not same:
        st.caption(f"The list was tuned for {result.engine.replace('@', ' ')}; the rules of another engine differ.")
    export = api().export(result.id or "", engine.spec, engine.options)
    _shown(export, engine, _log_shows(result) if same else ())


def _log_shows(result: RecommendationModel) -> tuple[int, ...]:
    """The list that the tuned log shows running; empty where the trace is none, or gone."""
    try:
        sweep = api().sweep(result.sweep_id) if result.sweep_id else None
        trace = api().trace(sweep.trace_id) if sweep and sweep.trace_id else None
    except ApiProblem:
        return ()
    lists = trace.observation.lists if trace and trace.observation else {}
    return lists.get(next(iter(result.lists)), ())


def _list() -> None:
    engine = pick_engine()
    if engine.problem:
        return
    name, default = default_list(engine.spec, engine.options)
    if "list-text" not in st.session_state:
        st.session_state["list-text"] = list_text(expanded(chosen("sizes") or "") or default)
    sizes, problem = parse_sizes(
        st.text_area("Capture list", key="list-text", height="content", help="Sizes, or ranges such as 8-64:8.")
    )
    if problem:
        st.error(problem, icon=":material/error:")
        return
    choose("sizes", compact(sizes))
    _shown(api().export_lists(engine.spec, {name: sizes}, engine.options), engine, ())


def _shown(export: ExportModel, engine: EngineChoice, running: tuple[int, ...]) -> None:
    """`running` is the list that a log shows, empty without one."""
    show_export(export)
    show_problems(export.lint, fixable=True)
    asked = next(iter(export.requested.values()), ())
    st.subheader("What changes")
    pasted = st.text_area(
        "What runs today",
        key="running-today",
        height="content",
        placeholder="vllm serve … --cudagraph-capture-sizes 1 2 4 8",
        help="The command line or configuration of the engine as it runs now. It is read, never kept.",
    )
    if pasted.strip():
        with readable_errors():
            told = api().export_lists(engine.spec, export.requested, engine.options, pasted).diff
            st.code(told or "nothing changes", language="diff", wrap_lines=True)
    elif running:
        st.caption("Against the list that the tuned log shows running:")
        _difference(asked, running)
    else:
        st.caption("Against the engine's default; paste what runs today to compare with that.")
        _difference(asked, default_list(engine.spec, engine.options)[1])
    st.button("Edit this list", icon=":material/edit:", on_click=_edit, args=(asked,))


def _edit(sizes: tuple[int, ...]) -> None:
    use(sizes)
    st.session_state["export_of"] = "list"
    choose("export_of", "list")


def _difference(asked: tuple[int, ...], before: tuple[int, ...]) -> None:
    added, gone = sorted(set(asked) - set(before)), sorted(set(before) - set(asked))
    kept = len(set(asked) & set(before))
    lines = [f"  kept     {text.count(kept, 'sizes')}"]
    lines += [f"+ added    {text.sizes(added)}"] if added else []
    lines += [f"- removed  {text.sizes(gone)}"] if gone else []
    st.code("\n".join(lines), language="diff", wrap_lines=True)


page()
