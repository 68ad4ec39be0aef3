"""The verdict: whether a list deserves its place, by rules that were fixed before anything was searched.

`adopt` needs a confirmation in the engine itself, on the GPU in question; nothing here can give that, so the best
verdict from a profile is `try`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.cost_profile import FamilyCost
from tuner.recommendation import Holdout, Objective, Scorecard, Verdict
from workloads.histogram import StepHistogram
from workloads.serving.report import ServingReport

TIE = 1e-9
"""Two ways of adding up one time may differ by this share."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as worse, as better and as enough.

    Attributes:
        margin_share: a step or token time up to this much above the default's is non-inferior; the objective itself
            has no margin on the held-out part.
        p99_share: the 99th percentile step may lie this much above the default's; a few rare sizes decide it, and the
            regret bound limits every one of them. A rise beyond noise is said in any case.
        fallback_share: more steps without a graph than the default plus this is worse.
        noise_sigmas: a time gain counts from this many standard deviations of the measured sizes on.
        least_noise_share: and from this share on, however quiet the profile claims to be.
        saving_share: graphs, capture seconds or MiB saved count from this share of the default's on.
        coverage_share: steps without a graph that get one count from this share of steps on.
        least_held_out_steps: fewer held-out steps decide nothing.
    """

    margin_share: float = 0.005
    p99_share: float = 0.05
    fallback_share: float = 1e-4
    noise_sigmas: float = 2.0
    least_noise_share: float = 0.005
    saving_share: float = 0.20
    coverage_share: float = 0.01
    least_held_out_steps: int = 100


@dataclass(frozen=True, slots=True)
class Judged:
    """All that a verdict rests on.

    Attributes:
        tuned, default: scorecards on the same histogram of the whole trace.
        held_out_steps: decode steps in the held-out part.
        closed_loop_report: the service under the tuned list; `default_report` under the default.
        noise_share: see `noise_share`.
        moved: the tuned list makes other step sizes, or leaves another KV cache, than the default. A mean step time
            then says nothing by itself: the two are compared on time per token, throughput and goodput.
    """

    tuned: Scorecard
    default: Scorecard
    holdout: Holdout | None
    held_out_steps: float
    default_report: ServingReport | None
    closed_loop_report: ServingReport | None
    noise_share: float
    objective: Objective = "step"
    moved: bool = False


def noise_share(cost: FamilyCost, histogram: StepHistogram, thresholds: Thresholds) -> float:
    """Relative noise band of a difference between two lists, from the spread of the measured sizes in use."""
    share = cost.spread_ms / cost.step_ms
    used = (cost.sizes <= histogram.largest) & (share == share)
    if not used.any():
        return thresholds.least_noise_share
    # Both lists are noisy, hence the root of two.
    band = thresholds.noise_sigmas * math.sqrt(2.0) * float(sorted(share[used])[int(used.sum()) // 2])
    return max(thresholds.least_noise_share, band)


def decide(case: Judged, thresholds: Thresholds | None = None) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and its reasons, the most important first."""
    thresholds = thresholds or Thresholds()
    thin = _too_thin(case, thresholds)
    if thin:
        return "inconclusive", thin
    worse = _worse(case, thresholds)
    gains = _gains(case, thresholds)
    if worse:
        return "keep_default", (*worse, *gains)
    if not gains:
        return "keep_default", (_no_gain(case), *_rehearsal(case))
    unconfirmed = "This is computed from a profile; measure it in the engine before relying on it."
    return "try", (*gains, *_price(case), *_rehearsal(case), unconfirmed)


def _too_thin(case: Judged, thresholds: Thresholds) -> tuple[str, ...]:
    reasons = []
    if case.tuned.mean_step_ms is None or case.default.mean_step_ms is None:
        reasons.append("The profile does not know the time of every step that this traffic makes (no fallback_ms).")
    if case.holdout is None:
        reasons.append("The traffic has no order in time, so nothing could be held out to test the choice.")
    elif case.held_out_steps < thresholds.least_held_out_steps:
        reasons.append(
            f"Only {case.held_out_steps:.0f} decode steps were held out; at least "
            f"{thresholds.least_held_out_steps} are needed to judge."
        )
    report = case.default_report
    if report is not None and report.overloaded:
        reasons.append(
            f"The load is {report.load_share:.2f} of what the engine sustains and the queue keeps growing; step sizes "
            "then follow the limits, not the traffic. Lower --load or raise --engines."
        )
    return tuple(reasons)


def _worse(case: Judged, thresholds: Thresholds) -> tuple[str, ...]:
    reasons = []
    assert case.holdout is not None
    for where, tuned, default in (
        ("held-out part", case.holdout.tuned, case.holdout.default),
        ("whole trace", case.tuned, case.default),
    ):
        for what, objective, new, old in (
            ("mean step", "step", tuned.mean_step_ms, default.mean_step_ms),
            ("time per token", "token", tuned.tpot_ms, default.tpot_ms),
        ):
            strict = tuned is case.holdout.tuned and objective == case.objective
            if new is None or old is None or new > old * (1 + (TIE if strict else thresholds.margin_share)):
                reasons.append(f"On the {where} the {what} is {_ms(new)} against the default's {_ms(old)}.")
        new, old = tuned.p99_step_ms, default.p99_step_ms
        if new is not None and old is not None and new > old * (1 + thresholds.p99_share):
            reasons.append(f"On the {where} the 99th percentile step is {_ms(new)} against the default's {_ms(old)}.")
        if tuned.fallback_rate > default.fallback_rate + thresholds.fallback_share:
            reasons.append(
                f"On the {where} {tuned.fallback_rate:.2%} of steps run without a graph, {default.fallback_rate:.2%} "
                "with the default."
            )
    after, before = case.closed_loop_report, case.default_report
    if after is not None and before is not None:
        if after.overloaded:
            reasons.append(f"With this list the engine is overloaded (load {after.load_share:.2f}).")
        if after.tpot_mean_ms > before.tpot_mean_ms * (1 + thresholds.margin_share):
            reasons.append(
                f"Simulated with its own step times, a request's time per token rises from {before.tpot_mean_ms:.3f} "
                f"to {after.tpot_mean_ms:.3f} ms."
            )
        for what, new, old in _rates(after, before):
            if new < old * (1 - thresholds.margin_share):
                reasons.append(f"Simulated with its own step times, {what} falls from {old:.4g} to {new:.4g}.")
    return tuple(reasons)


def _rates(after: ServingReport, before: ServingReport) -> Iterator[tuple[str, float, float]]:
    """(what, with the list, with the default) of everything that a service should have more of."""
    yield "throughput (tokens/s)", after.throughput_tokens_per_s, before.throughput_tokens_per_s
    if after.goodput_requests_per_s is not None and before.goodput_requests_per_s is not None:
        yield "goodput (requests/s)", after.goodput_requests_per_s, before.goodput_requests_per_s


def _gains(case: Judged, thresholds: Thresholds) -> tuple[str, ...]:
    reasons = []
    tuned, default = case.tuned, case.default
    after, before = case.closed_loop_report, case.default_report
    times: tuple[tuple[str, float | None, float | None], ...] = (
        ("Mean step", tuned.mean_step_ms, default.mean_step_ms),
        ("Time per token", tuned.tpot_ms, default.tpot_ms),
    )
    if case.moved and after is not None and before is not None:
        times = (("A request's time per token", after.tpot_mean_ms, before.tpot_mean_ms),)
        for what, new_rate, old_rate in _rates(after, before):
            if new_rate > old_rate * (1 + case.noise_share):
                reasons.append(f"Simulated, {what} rises from {old_rate:.4g} to {new_rate:.4g}.")
    for what, new, old in times:
        if new is not None and old is not None and new < old * (1 - case.noise_share):
            reasons.append(f"{what} falls from {old:.3f} to {new:.3f} ms ({1 - new / old:.1%}).")
    for what, unit, saved, had in (
        ("Graphs", "", float(tuned.graphs), float(default.graphs)),
        ("Capture time", " s", tuned.capture_s, default.capture_s),
        ("Graph memory", " MiB", tuned.memory_mib, default.memory_mib),
    ):
        if saved is not None and had is not None and had > 0 and saved <= had * (1 - thresholds.saving_share):
            reasons.append(f"{what}: {saved:.4g}{unit} instead of {had:.4g}{unit} ({1 - saved / had:.0%} less).")
    covered = default.fallback_rate - tuned.fallback_rate
    if covered >= thresholds.coverage_share:
        reasons.append(f"{covered:.1%} of steps get a graph that the default runs without one.")
    if reasons and default.worst_regret is not None and tuned.worst_regret is not None:
        reasons.append(
            f"Over every reachable size the worst step is {tuned.worst_regret:.1%} above the best measured time; "
            f"with the default {default.worst_regret:.1%}, at size {default.worst_regret_size}."
        )
    return tuple(reasons)


def _no_gain(case: Judged) -> str:
    return (
        f"No gain: {case.tuned.graphs} graphs against {case.default.graphs}, mean step {_ms(case.tuned.mean_step_ms)} "
        f"against {_ms(case.default.mean_step_ms)}; a difference below {case.noise_share:.1%} is noise."
    )


def _price(case: Judged) -> tuple[str, ...]:
    """What the rarest steps pay, where that is more than noise."""
    assert case.holdout is not None
    new, old = case.holdout.tuned.p99_step_ms, case.holdout.default.p99_step_ms
    if new is None or old is None or new <= old * (1 + case.noise_share):
        return ()
    return (
        f"Its price: on the held-out part the 99th percentile step rises from {_ms(old)} to {_ms(new)} "
        f"({new / old - 1:.1%}).",
    )


def _rehearsal(case: Judged) -> tuple[str, ...]:
    if case.holdout is None:
        return ()
    tuned, default = case.holdout.tuned, case.holdout.default
    return (
        f"Rehearsal: a list of at most {tuned.list_length} sizes fitted to the first {1 - case.holdout.share:.0%} of "
        f"the trace runs the rest at {_ms(tuned.mean_step_ms)} a step, the default at {_ms(default.mean_step_ms)}.",
    )


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f} ms"
