"""The verdict of runs inside the engine: the only evidence that may end in `adopt`.

Every start of the engine is one independent value; a difference between two lists is judged on its 95 % interval over
starts, within each GPU where several took part. Times of served requests are judged beside the time to first token of
prompts that no list has a graph for, where there are enough: no list has a part in it, and the others move with it. The
thresholds are fixed, and written down, before the first start. A deployment has one list for all of its workloads, so a
list that is worse for one of them is not adopted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tuner.intervals import BlockValue, Interval, blocked_change, difference
from tuner.recommendation import Verdict

Figures = Mapping[str, Sequence[BlockValue]]
"""Figure -> one value a start, with the GPU that it ran on as its block; a figure that was not measured is absent."""

Changes = Mapping[str, Interval]
"""Figure -> the tuned list's mean against the default's, as a share with its interval."""


@dataclass(frozen=True, slots=True)
class EngineThresholds:
    """What counts as worse, as better and as enough.

    Attributes:
        margin_share: a step, a token time or a throughput up to this much worse than the default's is non-inferior.
        ttft_margin_share: the same of the time to first token, which scatters more.
        saving_share: graphs, capture seconds or graph memory saved count from this share of the default's on.
        kv_share: the KV cache may shrink by this share.
        fallback_share: more steps without a graph than the default plus this, beyond the interval, is worse.
        least_starts: of the default and of the tuned list; fewer decide nothing.
        prediction_share: a profile's mean step may be off by this, or by the start-to-start band where that is wider.
    """

    margin_share: float = 0.01
    ttft_margin_share: float = 0.05
    saving_share: float = 0.20
    kv_share: float = 0.005
    fallback_share: float = 1e-4
    least_starts: int = 3
    prediction_share: float = 0.03


@dataclass(frozen=True, slots=True)
class ListRuns:
    """What the starts of one list measured.

    Attributes:
        figures: of the starts: `capture_s`, `recording_s`, `graph_memory_mib`, `setup_s`, `startup_s`, `kv_tokens`.
        workloads: name -> its `mean_step_ms`, `tpot_ms`, `ttft_ms`, `throughput_tokens_per_s`, `fallback_rate`,
            `failed_rate`; both lists have the same names.
    """

    sizes: int
    starts: int
    figures: Figures = field(default_factory=dict)
    workloads: Mapping[str, Figures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineDecision:
    """`changes` of the starts, `workload_changes` by workload."""

    verdict: Verdict
    reasons: tuple[str, ...]
    changes: Changes
    workload_changes: Mapping[str, Changes]


_TIMES = {
    "mean_step_ms": "the mean decode step of the replayed sizes",
    "tpot_ms": "the time per token",
    "ttft_ms": "the time to first token",
}
_SAVINGS = {"capture_s": "capture time", "graph_memory_mib": "graph memory"}
_OF_STARTS = (*_SAVINGS, "recording_s", "setup_s", "startup_s", "kv_tokens")
_OF_WORKLOADS = (*_TIMES, "throughput_tokens_per_s")


def decide_in_engine(
    tuned: ListRuns, default: ListRuns, thresholds: EngineThresholds, refused: str | None = None
) -> EngineDecision:
    """The verdict and its reasons, the most important first; with several workloads they name the one they are about.

    Args:
        refused: why the engine did not start with the tuned list, where it never did.
    """
    changes = _changes(tuned.figures, default.figures, _OF_STARTS)
    by_workload = {
        name: _changes(tuned.workloads[name], figures, _OF_WORKLOADS) | _unadjusted(tuned.workloads[name], figures)
        for name, figures in default.workloads.items()
    }

    def decided(verdict: Verdict, *reasons: str) -> EngineDecision:
        return EngineDecision(verdict, reasons, changes, by_workload)

    if refused is not None:
        return decided("keep_default", f"The engine does not start with this list: {refused}")
    few = min(tuned.starts, default.starts)
    if few < thresholds.least_starts:
        return decided(
            "inconclusive", f"{few} starts of one list; at least {thresholds.least_starts} of each are needed to judge."
        )
    worse, open_, better = _shrinks(changes, thresholds), list[str](), list[str]()
    for name, of in by_workload.items():
        about = f"{name}: " if len(by_workload) > 1 else ""
        found = _times(of, thresholds)
        worse += [about + told for told in (*found[0], *_losses(tuned.workloads[name], default.workloads[name]))]
        worse += [about + told for told in _uncovered(tuned.workloads[name], default.workloads[name], thresholds)]
        open_ += [about + told for told in found[1]]
        better += [about + told for told in found[2]]
    better += list(_savings(tuned, default, thresholds))
    if worse:
        return decided("keep_default", *worse, *better)
    if open_:
        return decided("inconclusive", *open_, *better)
    if not better:
        return decided("keep_default", "No gain: every difference lies within its interval.")
    return decided("adopt", *better)


def _changes(tuned: Figures, default: Figures, names: Sequence[str]) -> dict[str, Interval]:
    found = ((name, blocked_change(tuned.get(name, ()), default.get(name, ()))) for name in names)
    return {name: change for name, change in found if change is not None}


def _unadjusted(tuned: Figures, default: Figures) -> dict[str, Interval]:
    """`NAME_unadjusted` of every figure that is read beside another one: the change without that."""
    plain = {}
    for name in _OF_WORKLOADS:
        groups = [of.get(name, ()) for of in (tuned, default)]
        if all(item.beside is not None for group in groups for item in group):
            change = blocked_change(*([item._replace(beside=None) for item in group] for group in groups))
            if change is not None:
                plain[f"{name}_unadjusted"] = change
    return plain


def _times(changes: Changes, thresholds: EngineThresholds) -> tuple[list[str], list[str], list[str]]:
    """Sentences on what is worse, on what could be, and on what is better."""
    worse, open_, better = [], [], []
    for name, what in (*_TIMES.items(), ("throughput_tokens_per_s", "the throughput")):
        change = changes.get(name)
        if change is None and name != "mean_step_ms":
            continue  # no requests were served, by either list
        if change is None or change.low is None or change.high is None:
            open_.append(f"Not measured often enough: {what}.")
            continue
        margin = thresholds.ttft_margin_share if name == "ttft_ms" else thresholds.margin_share
        # Of a throughput less is worse.
        low, high = (change.low, change.high) if name in _TIMES else (-change.high, -change.low)
        told = f"{what[0].upper()}{what[1:]} changes by {_share(change)}"
        if low > margin:
            worse.append(f"{told}, beyond the margin of {margin:.1%}.")
        elif high > margin:
            open_.append(f"{told}: the interval reaches beyond the margin of {margin:.1%}; more starts narrow it.")
        elif high < 0:
            better.append(f"{told}.")
    return worse, open_, better


def _shrinks(changes: Changes, thresholds: EngineThresholds) -> list[str]:
    kv = changes.get("kv_tokens")
    if kv is None or kv.mean >= -thresholds.kv_share:
        return []
    return [f"The KV cache shrinks by {-kv.mean:.1%}."]


def _losses(tuned: Figures, default: Figures) -> Iterator[str]:
    failed, before = (_mean(of.get("failed_rate", ())) or 0.0 for of in (tuned, default))
    if failed > before:
        yield f"{failed:.2%} of the requests failed, {before:.2%} with the default."


def _uncovered(tuned: Figures, default: Figures, thresholds: EngineThresholds) -> Iterator[str]:
    own, other = ([item.value for item in of.get("fallback_rate", ())] for of in (tuned, default))
    more = difference(own, other)
    # Mixed steps run without a graph, and how many there are differs from start to start.
    if more is not None and (more.mean if more.low is None else more.low) > thresholds.fallback_share:
        yield f"{fmean(own):.2%} of steps run without a graph, {fmean(other):.2%} with the default."


def _savings(tuned: ListRuns, default: ListRuns, thresholds: EngineThresholds) -> Iterator[str]:
    if tuned.sizes <= default.sizes * (1 - thresholds.saving_share):
        yield f"{tuned.sizes} captured sizes instead of {default.sizes} ({1 - tuned.sizes / default.sizes:.0%} less)."
    for name, what in _SAVINGS.items():
        new, old = (_mean(of.figures.get(name, ())) for of in (tuned, default))
        if new is not None and old is not None and old > 0 and new <= old * (1 - thresholds.saving_share):
            yield f"{1 - new / old:.0%} less {what}: {new:.4g} instead of {old:.4g}."


def _mean(values: Sequence[BlockValue]) -> float | None:
    return sum(item.value for item in values) / len(values) if values else None


def _share(change: Interval) -> str:
    return f"{change.mean:+.1%} ({change.low:+.1%} to {change.high:+.1%})"
