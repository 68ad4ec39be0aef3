"""Tune: say what to optimise in one screen, read it back in plain words, start."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from pydantic import ValidationError

from dashboard import names, text
from dashboard.pickers import (
    EngineChoice,
    ServingChoice,
    pick_engine,
    pick_profile,
    pick_serving,
    pick_trace,
    profile_label,
)
from dashboard.state import api, go, pick, readable_errors, real, whole
from services.contract.budget import BudgetModel
from services.contract.serving import ServingOptionsModel
from services.contract.sweep import SweepCreate, SweepModel
from services.contract.trace import TraceModel


@dataclass(frozen=True, slots=True)
class Search:
    """How long to look and what counts as better."""

    objective: str
    trials: int
    holdout_share: float
    budget: BudgetModel


def page() -> None:
    st.caption("Find the capture list that serves this traffic best, and prove it on traffic that was kept out.")
    with readable_errors():
        st.subheader("What runs")
        trace = pick_trace()
        if trace is None:
            return
        engine = pick_engine()
        profile = pick_profile()
        if profile is None:
            return
        serving = ServingChoice(None, 1.0, 1, None, None)
        if trace.kind == "requests":
            st.subheader("How it is served")
            serving = pick_serving()
        st.subheader("What is asked")
        search = _search()
        _summary(trace, engine, profile_label(profile), serving, search)
        if st.button("Start tuning", type="primary", icon=":material/play_arrow:", disabled=engine.problem is not None):
            sweep = _start(trace, engine, profile.ref, serving, search)
            if sweep is not None:
                go("sweeps", sweep=sweep.id)


def _search() -> Search:
    left, middle, right = st.columns([2, 1, 1], vertical_alignment="bottom")
    objective = pick(left, "Objective", list(names.OBJECTIVES), "objective", show=names.OBJECTIVES.__getitem__)
    trials = whole(middle, "Trials", "trials", 1, 10_000, 24, help="Trial 0 is the engine's own default list.")
    holdout = whole(
        right, "Kept out, %", "holdout", 0, 90, 30, step=5, help="The end of the trace, to check the choice on."
    )
    st.markdown("**Budgets**, at most")
    columns = st.columns(4, vertical_alignment="bottom")
    regret = real(
        columns[0],
        "Worst regret, %",
        "regret",
        0.0,
        1000.0,
        10.0,
        step=1.0,
        help="No step size that the scheduler can reach may run slower than this above its best possible time.",
    )
    free = {"placeholder": "no limit"}
    length = whole(columns[1], "Most sizes", "max_length", 1, 100_000, None, **free)
    memory = real(columns[2], "Memory, MiB", "max_memory_mib", 1.0, None, None, **free)
    capture = real(columns[3], "Capture time, s", "max_capture_s", 0.1, None, None, **free)
    budget = BudgetModel(
        regret=None if regret is None else regret / 100,
        max_length=length,
        max_memory_mib=memory,
        max_capture_s=capture,
    )
    return Search(objective, trials or 24, (holdout or 0) / 100, budget)


def _summary(trace: TraceModel, engine: EngineChoice, profile: str, serving: ServingChoice, search: Search) -> None:
    budget = search.budget
    bounded = budget.regret is not None
    limits = [f"no step more than {text.share(budget.regret)} slower than its best"] if bounded else ["no regret bound"]
    if budget.max_length:
        limits.append(f"at most {text.count(budget.max_length, 'sizes')}")
    if budget.max_memory_mib:
        limits.append(f"at most {text.mib(budget.max_memory_mib)} of graph memory")
    if budget.max_capture_s:
        limits.append(f"at most {text.seconds(budget.max_capture_s)} of capturing")
    goal = "time per generated token" if search.objective == "token" else "mean step time"
    kept_out = f"The last {text.share(search.holdout_share)} of the trace is kept out to check the choice."
    st.info(
        f"Captune will look for the capture list with the least **{goal}** for **{names.engine_name(engine.spec)}** "
        f"serving **{trace.name}**{_load_words(trace, serving)}, by the costs of **{profile}**: "
        f"{text.joined(limits)}. It compares {text.count(search.trials, 'trials')}, the engine's default first. "
        + (kept_out if search.holdout_share else "Nothing is kept out, so the choice stays unchecked."),
        icon=":material/summarize:",
    )


def _load_words(trace: TraceModel, serving: ServingChoice) -> str:
    if trace.kind != "requests":
        return " as recorded"
    spread = f" spread over {serving.engines} engines" if serving.engines > 1 else ""
    return f" at {serving.load:g} × its recorded rate{spread}"


def _start(
    trace: TraceModel, engine: EngineChoice, profile: str, serving: ServingChoice, search: Search
) -> SweepModel | None:
    try:
        wanted = SweepCreate(
            trace_id=trace.id or "",
            engine=engine.spec,
            profile=profile,
            options=engine.options,
            serving=ServingOptionsModel.model_validate(serving.document()),
            budget=search.budget,
            objective="token" if search.objective == "token" else "step",
            trials=search.trials,
            holdout_share=search.holdout_share,
        )
    except ValidationError as error:
        first = error.errors()[0]
        st.error(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}", icon=":material/error:")
        return None
    return api().start_sweep(wanted)


page()
