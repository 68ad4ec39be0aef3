"""Recorded traffic -> step histograms: steps are counted, requests are simulated with a list's own step times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.cost_profile import CostProfile
from tuner.dispatch import DispatchTable
from tuner.engines.base import Engine, Lists
from tuner.kv_cache import kv_cache
from tuner.recommendation import ServingOptions
from tuner.serving_features import features_of, unknown_acceptance
from tuner.step_cost import step_cost
from workloads.arrays import F64, I64
from workloads.errors import BadInput, BadUsage, Infeasible
from workloads.histogram import StepHistogram
from workloads.serving.goodput import with_goodput
from workloads.serving.limits import SchedulerLimits
from workloads.serving.report import ServingReport
from workloads.serving.simulate import simulate
from workloads.serving.step_time import StepTime
from workloads.traces.records import RequestTrace, StepTrace, Traffic

DEFAULT_MAX_RUNNING = 512
"""Requests that run at once where no engine says."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the traffic asks of the graphs.

    Attributes:
        histograms: by graph family.
        decode_family: the family whose list is tuned.
        reachable: largest decode step that the scheduler can make, in the family's unit.
        report: the simulated service; None where steps were recorded.
    """

    steps: StepTrace
    histograms: Mapping[str, StepHistogram]
    decode_family: str
    reachable: int
    report: ServingReport | None
    notes: tuple[str, ...] = ()

    @property
    def decode(self) -> StepHistogram:
        """Histogram of the decode family.

        Raises:
            BadInput: the traffic has no decode step.
        """
        return self.histograms.get(self.decode_family) or self.steps.histogram(self.decode_family)


def observe(
    traffic: Traffic,
    engine: Engine | None,
    options: Any,
    profile: CostProfile | None,
    serving: ServingOptions | None = None,
    lists: Lists | None = None,
) -> Observed:
    """Histograms of a workload.

    Args:
        engine, options: None, None is a plain decode node of 512 requests that captures every measured size.
        profile: step times; needed for requests only.
        lists: whose step times the simulation uses; None is the engine's default.

    Raises:
        BadUsage: requests without a profile.
        BadInput: the profile does not fit the workload, or the simulation reaches a size whose time is unknown.
        Infeasible: the graphs of `lists` leave nothing for the KV cache.
    """
    serving = serving or ServingOptions()
    if isinstance(traffic, StepTrace):
        return _counted(traffic, engine, options, serving)
    if profile is None:
        raise BadUsage("a request trace needs a profile to become steps", field="profile")
    return _simulated(traffic, engine, options, profile, serving, lists)


def dispatch_of(engine: Engine | None, options: Any, profile: CostProfile, lists: Lists | None) -> DispatchTable:
    """The engine's rule for these lists; without an engine every measured size is a bucket, or the one list given."""
    if engine is not None:
        return engine.dispatch(engine.effective(lists or engine.default_lists(options), options), options)
    family = plain_family(profile)
    sizes = next(iter(lists.values())) if lists else profile.family(family).sizes
    return DispatchTable.plain(family, np.array(sizes, dtype=np.int64))


def plain_family(profile: CostProfile) -> str:
    """The family that is tuned without an engine: `decode_full`, or the only one that was measured."""
    return next(iter(profile.families)) if len(profile.families) == 1 else "decode_full"


def limits_of(
    engine: Engine | None, options: Any, serving: ServingOptions, profile: CostProfile, lists: Lists | None
) -> SchedulerLimits:
    """The engine's scheduler limits with the user's `max_running` and `kv_tokens` in their place.

    Where the user gives no KV cache, it is what the engine's rule leaves beside the graphs of `lists`.

    Raises:
        Infeasible: these graphs leave nothing for it.
    """
    limits = SchedulerLimits(DEFAULT_MAX_RUNNING) if engine is None else engine.limits(options)
    kv_tokens = serving.kv_tokens or limits.kv_tokens
    if engine is not None and serving.kv_tokens is None:
        kv = kv_cache(engine, options, profile, lists or engine.default_lists(options))
        if kv.tokens == 0:
            raise Infeasible(f"nothing is left for the KV cache beside these graphs: {kv.reason}", field="kv_tokens")
        kv_tokens = kv.tokens or kv_tokens
    return replace(limits, max_running_requests=serving.max_running or limits.max_running_requests, kv_tokens=kv_tokens)


def step_time_of(
    profile: CostProfile, dispatch: DispatchTable, decode_family: str, max_running: int, *, tokens_per_request: int = 1
) -> StepTime:
    """Step times of one engine with one capture list, for 1..max_running requests.

    Sizes whose fallback the profile does not know take the time of an unseen bucket of that size, so that a
    simulation that never gets there can run; `observe` refuses one that does. What rows cost beyond a price per row is
    part of the time of that many requests; steps that also prefill leave it out.
    """
    cost = profile.family(decode_family)
    rows: I64 = np.arange(1, max_running + 1, dtype=np.int64)
    sizes = rows * tokens_per_request
    ms = step_cost(profile, dispatch, decode_family, sizes).ms
    ms = np.where(np.isnan(ms), cost.bucket_ms_at(sizes), ms)
    tokens, prefill_ms = _prefill(profile)
    return StepTime(
        np.concatenate(([0.0], ms + cost.row_curve.at(rows))),
        attention_ms_per_token=cost.attention_ms_per_mtoken * 1e-6,
        row_ms=cost.row_ms,
        prefill_tokens=tokens,
        prefill_ms=prefill_ms,
        prefix_ms_per_token2=0.0 if profile.prefill is None else profile.prefill.prefix_ms_per_token2(),
    )


def _prefill(profile: CostProfile) -> tuple[F64, F64]:
    return (np.empty(0), np.empty(0)) if profile.prefill is None else profile.prefill.curve()


def _counted(steps: StepTrace, engine: Engine | None, options: Any, serving: ServingOptions) -> Observed:
    family = engine.decode_family if engine is not None else "decode_full"
    if engine is None and family not in steps.families and len(steps.families) == 1:
        family = steps.families[0]
    steps, notes = _in_tokens(steps, family, engine, options)
    histograms = steps.histograms()
    largest = histograms[family].largest if family in histograms else 1
    if serving.load != 1.0:
        notes.append("recorded steps cannot be replayed at another load; --load was not used")
    reachable = _reachable(engine, options, serving, largest)
    if largest > reachable:
        notes.append(f"steps of up to {largest} were recorded, above the {reachable} that these options allow")
    return Observed(steps, histograms, family, reachable, None, tuple(notes))


def _in_tokens(steps: StepTrace, family: str, engine: Engine | None, options: Any) -> tuple[StepTrace, list[str]]:
    """Recorded requests in the unit of the engine's list: a step that verifies drafts has several tokens of each.

    A histogram that somebody gave is taken to be in that unit already.
    """
    per_request = 1 if engine is None else engine.step_tokens_per_request(options)
    index = steps.families.index(family) if family in steps.families else -1
    if per_request == 1 or index < 0 or steps.units[index] == "tokens" or steps.origin == "given":
        return steps, []
    size = np.where(steps.family_index == index, steps.size * per_request, steps.size)
    units = tuple("tokens" if i == index else unit for i, unit in enumerate(steps.units))
    note = f"recorded requests are counted as {per_request} tokens each: one and its draft tokens"
    return replace(steps, size=size, units=units), [note]


def _reachable(engine: Engine | None, options: Any, serving: ServingOptions, largest: int) -> int:
    if engine is None:
        return largest
    if serving.max_running is not None:
        return serving.max_running * engine.step_tokens_per_request(options)
    return engine.allowed(options).reachable


def _simulated(
    trace: RequestTrace,
    engine: Engine | None,
    options: Any,
    profile: CostProfile,
    serving: ServingOptions,
    lists: Lists | None,
) -> Observed:
    family = engine.decode_family if engine is not None else plain_family(profile)
    features = features_of(engine, options, serving)
    policy = serving.policy or (engine.policy if engine is not None else "decode")
    # The vllm policy counts the tokens of a step that verifies drafts, the others its requests.
    simulated_per_request = features.speculation.query_tokens if policy == "vllm" and features.speculation else 1
    per_request = simulated_per_request if engine is None else engine.step_tokens_per_request(options)
    if per_request > 1 and profile.family(family).unit == "requests":
        raise BadInput(
            f"the engine counts {per_request} tokens per request here, but profile '{profile.name}' was measured by "
            "requests; measure one with the unit 'tokens'",
            field=f"families.{family}.unit",
        )
    limits = limits_of(engine, options, serving, profile, lists)
    dispatch = dispatch_of(engine, options, profile, lists)
    step_time = step_time_of(profile, dispatch, family, limits.max_running_requests, tokens_per_request=per_request)
    simulation = simulate(
        trace, policy, limits, step_time, load=serving.load, engines=serving.engines, features=features
    )
    steps = _in_units(simulation.steps, family, per_request, simulated_per_request)
    histograms = steps.histograms()
    if family not in histograms:
        raise BadInput("no request takes part in a decode step: every output has one token")
    largest = histograms[family].largest
    _check_known(profile, dispatch, family, histograms[family].sizes)
    report = with_goodput(
        simulation.report, serving.slo, simulation.requests, trace.output_tokens, decode_only=policy == "decode"
    )
    said = unknown_acceptance(engine, options, serving)
    notes = (*_rejections(report, len(trace)), *([said] if said else []))
    return Observed(steps, histograms, family, _reachable(engine, options, serving, largest), report, notes)


def _rejections(report: ServingReport, requests: int) -> tuple[str, ...]:
    if not report.rejected:
        return ()
    return (
        f"{report.rejected} of {requests} requests were left out: they need more KV cache, or without chunked prefill "
        "more tokens in one step, than these options allow",
    )


def _in_units(steps: StepTrace, family: str, per_request: int, simulated_per_request: int) -> StepTrace:
    """Decode steps renamed to the engine's family and counted in its unit."""
    families = tuple(family if name == "decode_full" else name for name in steps.families)
    if per_request == simulated_per_request:
        return replace(steps, families=families)
    decode = steps.family_index == families.index(family)
    size = steps.size // simulated_per_request * per_request
    return replace(steps, families=families, size=np.where(decode, size, steps.size))


def _check_known(profile: CostProfile, dispatch: DispatchTable, family: str, sizes: I64) -> None:
    unknown = sizes[np.isnan(step_cost(profile, dispatch, family, sizes).ms)]
    if len(unknown):
        rule = dispatch.families.get(family)
        last = int(rule.buckets[-1]) if rule is not None and len(rule.buckets) else 0
        raise BadInput(
            f"the simulation makes a step of {unknown[-1]}, above the last captured size {last}, and profile "
            f"'{profile.name}' has no fallback_ms; lower --max-running or measure the fallback",
            field="fallback_ms",
        )
