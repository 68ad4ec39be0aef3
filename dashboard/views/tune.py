"""Tune: say what to optimise in one screen, read it back in plain words, start or schedule it."""

from __future__ import annotations

import streamlit as st
from pydantic import ValidationError

from dashboard import names
from dashboard.costs_picker import CostsChoice, pick_costs
from dashboard.pickers import EngineChoice, ServingChoice, pick_engine, pick_serving, pick_trace
from dashboard.promise_picker import pick_promise
from dashboard.schedule_picker import Timing, pick_timing
from dashboard.state import api, go, pick, readable_errors, real, whole
from dashboard.tune_summary import Search, summary
from services.contract.budget import BudgetModel
from services.contract.schedule import ScheduleCreate, ScheduledJob
from services.contract.serving import ServingOptionsModel
from services.contract.sweep import SweepCreate
from services.contract.trace import TraceModel

_FREE = {"placeholder": "no limit"}


def page() -> None:
    st.caption("Find the capture list that serves this traffic best, and prove it on traffic that was kept out.")
    with readable_errors():
        st.subheader("What runs")
        trace = pick_trace()
        if trace is None:
            return
        engine = pick_engine()
        costs = pick_costs()
        if costs is None:
            return
        serving = ServingChoice(None, 1.0, 1, None, None)
        if trace.kind == "requests":
            st.subheader("How it is served")
            serving = pick_serving()
        st.subheader("What is asked")
        search = _search(trace.kind)
        st.subheader("When")
        timing = pick_timing(trace)
        wrong = engine.problem or costs.problem or timing.problem
        if wrong is None:
            st.info(summary(trace, engine, costs, serving, search, timing), icon=":material/summarize:")
        label, icon = ("Keep the schedule", "schedule") if timing.repeats else ("Start tuning", "play_arrow")
        if st.button(label, type="primary", icon=f":material/{icon}:", disabled=wrong is not None):
            with readable_errors(), st.spinner("Checking and queueing …"):
                _ask(trace, engine, costs, serving, search, timing)


def _search(kind: str) -> Search:
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
    length = whole(columns[1], "Most sizes", "max_length", 1, 100_000, None, help="Each is a graph.", **_FREE)
    memory = real(columns[2], "Memory, MiB", "max_memory_mib", 1.0, None, None, **_FREE)
    capture = real(columns[3], "Capture time, s", "max_capture_s", 0.1, None, None, **_FREE)
    budget = BudgetModel(
        regret=None if regret is None else regret / 100,
        max_length=length,
        max_memory_mib=memory,
        max_capture_s=capture,
    )
    ttft_ms, tpot_ms = None, None
    if kind == "requests":
        st.markdown("**Promised to users**, to count goodput")
        ttft_ms, tpot_ms = pick_promise()
    return Search(objective, trials or 24, (holdout or 0) / 100, budget, ttft_ms, tpot_ms)


def _ask(
    trace: TraceModel, engine: EngineChoice, costs: CostsChoice, serving: ServingChoice, search: Search, timing: Timing
) -> None:
    """Queue the sweep, or keep the schedule, and go where it can be followed."""
    wish = {
        "engine": engine.spec,
        "profile": costs.profile,
        "model": costs.model,
        **({"worker": costs.worker} if costs.worker else {}),
        "options": engine.options,
        "serving": ServingOptionsModel.model_validate({**serving.document(), **search.promise()}),
        "budget": search.budget,
        "objective": search.objective,
        "trials": search.trials,
        "holdout_share": search.holdout_share,
    }
    try:
        if timing.repeats:
            own = None if timing.trace_name else trace.id
            job = ScheduledJob.model_validate({**wish, "trace_id": own})
            asked = ScheduleCreate(name=timing.name, cron=timing.cron, trace_name=timing.trace_name, job=job)
            api().start_schedule(asked)
        else:
            sweep = SweepCreate.model_validate({**wish, "trace_id": trace.id or "", "start_at": timing.start_at})
            go("sweeps", sweep=api().start_sweep(sweep).id, state="")
    except ValidationError as error:
        first = error.errors()[0]
        st.error(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}", icon=":material/error:")
        return
    go("fleet")


page()
