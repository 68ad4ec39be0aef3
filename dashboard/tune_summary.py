"""A tuning job read back in plain words before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard import names, text
from dashboard.costs_picker import CostsChoice
from dashboard.pickers import EngineChoice, ServingChoice
from dashboard.promise_picker import promise_words
from dashboard.schedule_picker import Timing
from services.contract.budget import BudgetModel
from services.contract.trace import TraceModel


@dataclass(frozen=True, slots=True)
class Search:
    """How long to look and what counts as better."""

    objective: str
    trials: int
    holdout_share: float
    budget: BudgetModel
    slo_ttft_ms: float | None = None
    slo_tpot_ms: float | None = None

    def promise(self) -> dict[str, float | None]:
        """What users were promised, as a sweep's `serving` takes it."""
        return {"slo_ttft_ms": self.slo_ttft_ms, "slo_tpot_ms": self.slo_tpot_ms}


def summary(
    trace: TraceModel, engine: EngineChoice, costs: CostsChoice, serving: ServingChoice, search: Search, timing: Timing
) -> str:
    """Two or three sentences in Markdown."""
    goal = names.GOALS[search.objective]
    promised = promise_words(search.slo_ttft_ms, search.slo_tpot_ms)
    counted = f"It also counts the requests that get {promised}. " if promised else ""
    return (
        f"Captune will look for the capture list with the least **{goal}** for **{names.engine_name(engine.spec)}**"
        f"{_option_words(engine)} serving **{trace.name}**{_load_words(trace, serving)}, {costs.words}: "
        f"{text.joined(_limits(search.budget))}. It compares {text.count(search.trials, 'trials')}, the engine's "
        f"default first. {counted}{_held_out_words(trace, search)} {timing.words}"
    )


def _limits(budget: BudgetModel) -> list[str]:
    bounded = budget.regret is not None
    limits = [f"no step more than {text.share(budget.regret)} slower than its best"] if bounded else ["no regret bound"]
    if budget.max_length:
        limits.append(f"at most {text.count(budget.max_length, 'sizes')}")
    if budget.max_memory_mib:
        limits.append(f"at most {text.mib(budget.max_memory_mib)} of graph memory")
    if budget.max_capture_s:
        limits.append(f"at most {text.seconds(budget.max_capture_s)} of capturing")
    return limits


def _option_words(engine: EngineChoice) -> str:
    pairs = [f"{key}={value}" for key, value in engine.options.items()]
    return f" ({', '.join(pairs)})" if pairs else ""


def _load_words(trace: TraceModel, serving: ServingChoice) -> str:
    if trace.kind != "requests":
        return " as recorded"
    spread = f" spread over {serving.engines} engines" if serving.engines > 1 else ""
    return f" at {serving.load:g}{text.NBSP}× its recorded rate{spread}"


def _held_out_words(trace: TraceModel, search: Search) -> str:
    if trace.kind == "histogram":
        return "A histogram has no order in time, so nothing can be kept out and the choice stays unchecked."
    if search.holdout_share:
        return f"The last {text.share(search.holdout_share)} of the trace is kept out to check the choice."
    return "Nothing is kept out, so the choice stays unchecked."
