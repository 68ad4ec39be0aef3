"""Controls that several pages share: trace, engine and options, profile, policy and load."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.client import ApiProblem
from dashboard.state import api, choose, chosen, flag, go, real, whole
from services.contract.profile import ProfileSummary
from services.contract.sweep import MEASURE, SweepModel
from services.contract.trace import TraceModel


def pick_trace() -> TraceModel | None:
    """The trace of the URL, changeable; with none stored, the next action instead."""
    traces = {trace.id: trace for trace in api().traces().items if trace.id}
    if not traces:
        st.info("No trace yet. Upload recorded traffic or an engine log first.", icon=":material/upload_file:")
        if st.button("Upload a trace", type="primary"):
            go("traces")
        return None
    wanted = chosen("trace")
    if wanted is not None and wanted not in traces:
        traces[wanted] = api().trace(wanted)  # older than the first page of the list
    ids = list(traces)
    index = ids.index(wanted) if wanted in traces else 0
    # A new key after an upload or a deletion: the box then shows the trace of the URL, not what it showed before.
    box = f"trace-{st.session_state.get('uploads', 0)}"
    picked = st.selectbox("Trace", ids, index=index, key=box, format_func=lambda key: trace_label(traces[key]))
    choose("trace", picked)
    return traces[picked]


def trace_label(trace: TraceModel) -> str:
    noun = {"requests": "requests", "steps": "steps"}.get(trace.kind, "rows")
    return f"{trace.name or 'unnamed'} · {text.count(trace.rows_kept, noun)} · {text.ago(trace.created_at)}"


def sweep_label(sweep: SweepModel) -> str:
    engine = names.engine_name(sweep.engine)
    return f"{sweep.trace_name} · {engine} · load {sweep.serving.load:g} × · {text.ago(sweep.created_at)}"


def clone_parameters(sweep: SweepModel) -> dict[str, str]:
    """The URL parameters that make the Tune page ask for the same sweep again."""
    serving, budget = sweep.serving, sweep.budget
    numbers = {
        "load": serving.load,
        "engines": serving.engines,
        "max_running": serving.max_running,
        "kv_tokens": serving.kv_tokens,
        "acceptance": serving.acceptance,
        "dp_attention": serving.dp_attention,
        "trials": sweep.trials,
        "holdout": round(100 * sweep.holdout_share),
        "regret": None if budget.regret is None else round(100 * budget.regret, 6),
        "max_length": budget.max_length,
        "max_memory_mib": budget.max_memory_mib,
        "max_capture_s": budget.max_capture_s,
        "slo_ttft_ms": serving.slo_ttft_ms,
        "slo_tpot_ms": serving.slo_tpot_ms,
    }
    return {
        "trace": sweep.trace_id or "",
        "engine": sweep.engine,
        **_costs_parameters(sweep),
        "set": " ".join(f"{key}={value}" for key, value in sweep.options.items()),
        "policy": serving.policy or "",
        "objective": sweep.objective,
        "preempt": "yes" if serving.preempt else "",
        "prefix_cache": "yes" if serving.prefix_cache else "",
        **{name: "" if value is None else f"{value:g}" for name, value in numbers.items()},
    }


def _costs_parameters(sweep: SweepModel) -> dict[str, str]:
    if sweep.profile == MEASURE:
        wish = sweep.worker
        memory = "" if wish.memory_gib is None else f"{wish.memory_gib:g}"
        where = {"device": wish.device, "gpu": wish.gpu or "", "gpu_gib": memory}
        return {"costs": "measured", "model": sweep.model or "", **where}
    return {"costs": "", "profile": sweep.profile}


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine with the options it is started with; `problem` says what cannot be read."""

    spec: str
    options: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


def pick_engine(default: str | None = None) -> EngineChoice:
    """Engine and version, and its own arguments as key=value."""
    specs = [engine.spec for engine in api().engines().items]
    wanted = chosen("engine") or default
    if wanted and wanted not in specs:
        specs.insert(0, wanted)  # another version than the newest
    left, right = st.columns(2)
    spec = left.selectbox(
        "Engine and version",
        specs,
        index=specs.index(wanted) if wanted else 0,
        key="engine",
        format_func=names.engine_name,
        accept_new_options=True,
        help="For another version type name@version, such as vllm@0.32.0.",
    )
    typed = right.text_input(
        "Engine options",
        chosen("set") or "",
        key="set",
        placeholder="max_num_seqs=256 tp_size=2",
        help="The engine's own argument names as key=value, separated by spaces. They decide its defaults and limits.",
    )
    choose("engine", spec)
    choose("set", typed)
    options, problem = parse_options(typed)
    if problem is None and spec:
        problem = engine_problem(spec, tuple(sorted(options.items())))
    if problem:
        right.error(problem)
    return EngineChoice(spec or specs[0], options, problem)


@st.cache_data(ttl=600, max_entries=128, show_spinner=False)
def engine_problem(spec: str, options: tuple[tuple[str, str], ...]) -> str | None:
    """Why there is no such engine, or why it would refuse these options; None where it would not."""
    try:
        api().lint(spec, None, dict(options))
    except ApiProblem as problem:
        if problem.problem is None:
            raise  # not an answer about the engine, and not to be remembered
        return str(problem)
    return None


def parse_options(typed: str) -> tuple[dict[str, str], str | None]:
    """`a=1 b=2` as pairs, and what is wrong with it."""
    options: dict[str, str] = {}
    for part in typed.replace(",", " ").split():
        key, equals, value = part.lstrip("-").partition("=")
        if not equals or not key or not value:
            return {}, f"'{part}' is not key=value."
        options[key.replace("-", "_")] = value
    return options, None


def profile_label(profile: ProfileSummary) -> str:
    """`Llama-3.1-8B on NVIDIA H200`, or the name where the file says neither; with the attention library where it is
    not torch's own, or the engine where it was read inside one."""
    model = (profile.model or {}).get("name")
    device = (profile.device or {}).get("name")
    label = f"{str(model).rsplit('/', 1)[-1]} on {device}" if model and device else profile.name
    software = profile.software or {}
    library = str(software.get("attention") or "torch").partition("-")[0]
    if software.get("engine"):
        label = f"{label}, in {software['engine']}"
    elif library != "torch":
        label = f"{label}, {library}"
    return label if profile.origin == "shipped" else f"{label} (added here)"


def pick_profile() -> ProfileSummary | None:
    """A cost profile; with none there, the next action instead."""
    profiles = {profile.ref: profile for profile in api().profiles().items}
    refs = list(profiles)
    if not refs:
        st.info(
            "No cost profile yet. Measure one with `captune profile measure`, or import one with "
            "`captune profile import FILE`.",
            icon=":material/speed:",
        )
        return None
    wanted = chosen("profile")
    picked = st.selectbox(
        "Cost profile",
        refs,
        index=refs.index(wanted) if wanted in refs else 0,
        key="profile",
        format_func=lambda ref: profile_label(profiles[ref]),
        help="What each size costs, as measured on a device.",
    )
    choose("profile", picked)
    return profiles[picked]


_RANKS_HELP = "Data-parallel attention: every rank has the limits above, and a step is padded to the largest rank."


@dataclass(frozen=True, slots=True)
class ServingChoice:
    """How the recorded requests are replayed."""

    policy: str | None
    load: float
    engines: int
    max_running: int | None
    kv_tokens: int | None
    preempt: bool = False
    prefix_cache: bool = False
    acceptance: float | None = None
    dp_attention: int | None = None

    def document(self) -> dict[str, Any]:
        """As the API takes it."""
        return asdict(self)


def workload_query(engine: EngineChoice, serving: ServingChoice | None, profile: str | None) -> dict[str, Any]:
    """The URL query that histogram and audit share."""
    options = [f"{key}={value}" for key, value in engine.options.items()]
    document = serving.document() if serving else {}
    return {"engine": engine.spec, "set": options or None, "profile": profile, **document}


def pick_serving() -> ServingChoice:
    """Scheduler policy, load and limits of the simulation."""
    left, middle, right = st.columns([2, 1, 1])
    policies, wanted = list(names.POLICIES), chosen("policy")
    policy = left.selectbox(
        "Scheduler",
        policies,
        index=policies.index(wanted) if wanted in policies else 0,
        key="policy",
        format_func=names.POLICIES.__getitem__,
    )
    load = real(
        middle,
        "Load",
        "load",
        0.01,
        1000.0,
        1.0,
        step=0.5,
        help="1 replays the recording as it was; 2 sends requests twice as fast.",
    )
    engines = whole(right, "Engines", "engines", 1, 10_000, 1, help="Requests are spread over so many.")
    choose("policy", policy)
    with st.expander("Limits of one engine"):
        first, second = st.columns(2)
        running = whole(
            first, "Requests running at once", "max_running", 1, 100_000, None, placeholder="the engine's default"
        )
        kv = whole(second, "KV cache, tokens", "kv_tokens", 1, 2_000_000_000, None, placeholder="unlimited")
    with st.expander("Preemption, prefix cache, speculation, ranks"):
        first, second = st.columns(2)
        preempt = flag(
            first,
            "Preempt as the engine does",
            "preempt",
            help="Off: a request waits until its whole output fits into the KV cache, and nobody is preempted.",
        )
        prefix_cache = flag(
            first,
            "Prefix cache",
            "prefix_cache",
            help="Shared prompt prefixes are computed once. Needs block hashes; preempts as the engine does.",
        )
        acceptance = real(
            second,
            "Draft tokens accepted",
            "acceptance",
            0.0,
            1.0,
            None,
            step=0.05,
            placeholder="unknown",
            help="Chance for each draft token when all before it were accepted; their number is an engine option.",
        )
        ranks = whole(
            second, "Attention ranks", "dp_attention", 1, 4_096, None, placeholder="the engine's own", help=_RANKS_HELP
        )
    extras = (preempt, prefix_cache, acceptance, ranks)
    return ServingChoice(policy, load or 1.0, engines or 1, running, kv, *extras)
