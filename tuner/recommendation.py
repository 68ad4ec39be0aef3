"""What a tuning job asks and answers: the types that CLI, runner and API share. `tuner.recommend` does the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tuner.budget import Budget
from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from workloads.errors import BadUsage
from workloads.serving.goodput import Slo
from workloads.serving.limits import PolicyName
from workloads.serving.report import ServingReport
from workloads.traces.records import Traffic

SamplerName = Literal["tpe", "nsgaii", "gp"]
Objective = Literal["step", "token"]
"""step: mean time of a step (GPU time). token: mean time per generated token, a step of n rows counting n times."""

Target = Literal["step", "token", "p99"]
"""What a front minimises; p99: the time that 99 % of the steps keep."""

Verdict = Literal["adopt", "try", "keep_default", "inconclusive"]

TrialState = Literal["complete", "infeasible", "failed"]


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How recorded requests are turned into steps; None takes the engine's own value.

    Attributes:
        load: arrival times are divided by this.
        engines: requests are spread over this many engines.
        kv_tokens: the KV cache, whatever is captured; None is what the engine's rule leaves under each list.
        slo: what users were promised, for goodput.
        preempt: admit and preempt by the engine's own KV rule instead of reserving every whole output.
        prefix_cache: reuse shared prompt prefixes, which the trace must name; implies `preempt`.
        acceptance: chance that a draft token is accepted when all before it were.
        spec_tokens: draft tokens of a step, where no engine says.
        dp_attention: data-parallel attention ranks of an engine; `max_running` and `kv_tokens` hold for each.
    """

    policy: PolicyName | None = None
    load: float = 1.0
    engines: int = 1
    max_running: int | None = None
    kv_tokens: int | None = None
    slo: Slo = field(default_factory=Slo)
    preempt: bool = False
    prefix_cache: bool = False
    acceptance: float | None = None
    spec_tokens: int | None = None
    dp_attention: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.load < float("inf"):
            raise BadUsage("must be above 0", field="load")
        for name in ("engines", "max_running", "kv_tokens", "spec_tokens", "dp_attention"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadUsage("must be at least 1", field=name)
        if self.acceptance is not None and not 0 <= self.acceptance <= 1:
            raise BadUsage(f"is a share from 0 to 1, not {self.acceptance}", field="acceptance")


@dataclass(frozen=True, slots=True)
class Scorecard:
    """What some lists do to a workload under a profile; None where profile or workload do not say.

    Attributes:
        list_length: sizes over all scored lists.
        graphs: graphs captured over families and variants.
        exact_hit_rate, hit_rate, fallback_rate: shares of steps.
        padding_waste: padded slots / executed slots, weighted by steps.
        mean_step_ms, p99_step_ms: over steps, attention and row terms included where the workload knows them.
        tpot_ms: over generated tokens.
        worst_regret, worst_regret_size: over every size that the scheduler can reach.
        capture_s, memory_mib: of the captured sizes; None where a size was never measured.
        estimated_share: share of steps whose time is interpolated, not measured.
    """

    lists: Lists
    list_length: int
    graphs: int
    exact_hit_rate: float
    hit_rate: float
    fallback_rate: float
    padding_waste: float
    mean_step_ms: float | None
    tpot_ms: float | None
    p99_step_ms: float | None
    worst_regret: float | None
    worst_regret_size: int | None
    capture_s: float | None
    memory_mib: float | None
    estimated_share: float = 0.0


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Best list of at most `list_length` sizes under the constraints."""

    list_length: int
    sizes: tuple[int, ...]
    mean_step_ms: float
    tpot_ms: float
    capture_s: float | None
    memory_mib: float | None
    worst_regret: float | None
    p99_step_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One Optuna trial.

    Attributes:
        number: from 0; 0 is the engine's default.
        source: `default`, `study`, or the name of a baseline ladder.
        reason: why it is infeasible or failed.
        values: objective name -> value, as handed to Optuna.
    """

    number: int
    source: str
    state: TrialState
    params: Mapping[str, Any]
    lists: Lists
    values: Mapping[str, float]
    scorecard: Scorecard | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Everything a recommendation depends on; equal requests give equal recommendations.

    Attributes:
        traffic: the recorded requests or steps.
        trace_name: for messages and evidence.
        options: the engine's options, from `engine.options(...)`.
        raw_options: the `--set` pairs that made them.
        trials: Optuna trials, the default included.
        holdout_share: last part of the trace, in time, kept out of a rehearsal fit that the verdict rests on.
        seed: of the sampler; trial n is seeded by (seed, n).
        sampler: Optuna's, for the study.
        search: engine options that the study varies beside the list, each with its values.
    """

    traffic: Traffic
    trace_name: str
    engine: Engine
    options: Any
    profile: CostProfile
    raw_options: Mapping[str, str] = field(default_factory=dict)
    serving: ServingOptions = field(default_factory=ServingOptions)
    budget: Budget = field(default_factory=Budget)
    objective: Objective = "step"
    trials: int = 24
    holdout_share: float = 0.3
    seed: int = 0
    sampler: SamplerName = "tpe"
    search: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holdout:
    """The rehearsal: a list of the same length fitted to the first part of the trace, scored on the rest."""

    share: float
    lists: Lists
    tuned: Scorecard
    default: Scorecard


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The chosen lists with their evidence.

    Attributes:
        lists: what to configure, named as the engine names its lists.
        default_lists: what the engine would do by itself.
        reasons: plain sentences with numbers, the most important first.
        holdout: None where the traffic has no order to split.
        evidence: trace digest, profile name and device, thresholds, seed, closed-loop check, what was left out.
        front: best list for every length.
        histogram: decode family name -> {size: steps} that the choice rests on.
    """

    lists: Lists
    scorecard: Scorecard
    default_lists: Lists
    default_scorecard: Scorecard
    verdict: Verdict
    reasons: tuple[str, ...]
    holdout: Holdout | None
    evidence: Mapping[str, Any]
    front: tuple[FrontPoint, ...]
    trials: tuple[Trial, ...]
    histogram: Mapping[str, Mapping[int, float]]
    serving: ServingReport | None
