"""When a sweep runs: now, at a time, by a cron line, or for every new upload of a trace's name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import streamlit as st

from dashboard.client import ApiProblem
from dashboard.state import api, choose, chosen, pick
from services.contract.trace import TraceModel

NOW, LATER, CRON, UPLOAD = "now", "later", "cron", "upload"
_WORDS = {
    NOW: "Now, as soon as a runner is free",
    LATER: "Once, at a time",
    CRON: "Again and again, by a cron line",
    UPLOAD: "For each new upload of this trace's name",
}
NIGHTLY = "30 2 * * *"


@dataclass(frozen=True, slots=True)
class Timing:
    """When, and for which trace.

    Attributes:
        start_at: of a single sweep; None is now.
        cron: line of a schedule, in UTC.
        trace_name: a schedule follows the newest trace of this name instead of the chosen trace.
        name: of the schedule.
        words: for a sentence.
        problem: why it cannot be; it has been said at the field.
    """

    kind: str = NOW
    start_at: datetime | None = None
    cron: str | None = None
    trace_name: str | None = None
    name: str = ""
    words: str = "It starts as soon as a runner is free."
    problem: str | None = None

    @property
    def repeats(self) -> bool:
        return self.kind in (CRON, UPLOAD)


def pick_timing(trace: TraceModel) -> Timing:
    """Controls for all of it; what is wrong is said at its field."""
    left, right = st.columns(2)
    kind = pick(left, "It runs", list(_WORDS), "when", show=_WORDS.__getitem__)
    if kind == LATER:
        with right:
            return _later()
    if kind == CRON:
        with right:
            return _cron(trace)
    if kind == UPLOAD:
        name = _name(right, f"every new {trace.name}")
        return Timing(
            UPLOAD, trace_name=trace.name, name=name, words=f"It runs for each new upload named {trace.name}."
        )
    return Timing()


def _later() -> Timing:
    now = datetime.now(UTC).replace(tzinfo=None, second=0, microsecond=0)
    value = _moment(chosen("start_at")) or now + timedelta(hours=1)
    typed = st.datetime_input("Start at (UTC)", value, key="start-at", format="YYYY-MM-DD")
    choose("start_at", None if typed is None else f"{typed:%Y-%m-%dT%H:%M}")
    if typed is None or typed < now:
        st.error("This time has passed; choose a later one.", icon=":material/error:")
        return Timing(LATER, words="", problem="passed")
    return Timing(LATER, start_at=typed.replace(tzinfo=UTC), words=f"It starts at {typed:%Y-%m-%d %H:%M} UTC.")


def _cron(trace: TraceModel) -> Timing:
    typed = st.text_input(
        "Cron line (UTC)",
        chosen("cron") or NIGHTLY,
        key="cron",
        help="Minute, hour, day, month, weekday; each a number, *, a range such as 1-5 or a step such as */10.",
    ).strip()
    choose("cron", None if typed == NIGHTLY else typed)
    times = _shown_times(typed)
    newest = st.toggle(
        "Follow new uploads",
        chosen("newest") != "no",
        key="newest",
        help=f"Each time, the newest trace named {trace.name}; otherwise always this one.",
    )
    choose("newest", None if newest else "no")
    name = _name(st.container(), f"{trace.name} by the clock")
    if not times:
        return Timing(CRON, name=name, words="", problem="not a cron line")
    of = f"the newest trace named {trace.name}" if newest else trace.name or "this trace"
    words = f"It runs for {of} from {times[0]:%Y-%m-%d %H:%M} UTC on, as `{typed}` says."
    return Timing(CRON, cron=typed, trace_name=trace.name if newest else None, name=name, words=words)


def _shown_times(cron: str) -> tuple[datetime, ...]:
    """The next times, said below the field; none where it is no cron line, which is said instead."""
    try:
        times = times_of(cron)
    except ApiProblem as problem:
        st.error(f"Cron line: {_reason(problem)}", icon=":material/error:")
        return ()
    st.caption("Next: " + ", ".join(f"{time:%a %Y-%m-%d %H:%M}" for time in times) + " UTC.")
    return times


def _name(place: st.delta_generator.DeltaGenerator, default: str) -> str:
    value = chosen("schedule_name") or default
    typed = place.text_input("Name of the schedule", value, max_chars=200, key=f"name-{default}").strip()
    choose("schedule_name", None if typed == default else typed)
    return typed or default


def _reason(problem: ApiProblem) -> str:
    """The API names the parameter first; the field on this page has its own label."""
    return str(problem).removeprefix("cron: ").removeprefix("query.cron: ")


def _moment(typed: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=None) if typed else None
    except ValueError:
        return None


@st.cache_data(ttl=60, max_entries=64, show_spinner=False)
def times_of(cron: str) -> tuple[datetime, ...]:
    """The next times of a cron line; `ApiProblem` where it is none."""
    return api().cron_times(cron).times
