"""The verdict of runs inside the engine: the only evidence that may end in `adopt`.

Every start of the engine is one independent value; a difference between two lists is judged on its 95 % interval over
starts. The thresholds are fixed, and written down, before the first start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.intervals import Interval, relative_change
from tuner.recommendation import Verdict


@dataclass(frozen=True, slots=True)
class EngineThresholds:
    """What counts as worse, as better and as enough.

    Attributes:
        margin_share: a step, a token time or a throughput up to this much worse than the default's is non-inferior.
        ttft_margin_share: the same of the time to first token, which scatters more.
        saving_share: graphs, capture seconds or graph memory saved count from this share of the default's on.
        kv_share: the KV cache may shrink by this share.
        fallback_share: more steps without a graph than the default plus this is worse.
        least_starts: of the default and of the tuned list; fewer decide nothing.
    """

    margin_share: float = 0.01
    ttft_margin_share: float = 0.05
    saving_share: float = 0.20
    kv_share: float = 0.005
    fallback_share: float = 1e-4
    least_starts: int = 3


@dataclass(frozen=True, slots=True)
class ListRuns:
    """What the starts of one list measured: figure -> one value a start; a figure that was not measured is absent.

    Figures: `mean_step_ms`, `tpot_ms`, `ttft_ms`, `throughput_tokens_per_s`, `capture_s`, `graph_memory_mib`,
    `startup_s`, `kv_tokens`, `fallback_rate`, `failed_rate`.
    """

    sizes: int
    starts: int
    figures: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def of(self, name: str) -> Sequence[float]:
        return self.figures.get(name, ())


@dataclass(frozen=True, slots=True)
class EngineDecision:
    """`changes`: figure -> the tuned list's mean against the default's, as a share with its interval."""

    verdict: Verdict
    reasons: tuple[str, ...]
    changes: Mapping[str, Interval]


_TIMES = {
    "mean_step_ms": "the mean decode step of the replayed sizes",
    "tpot_ms": "the time per token",
    "ttft_ms": "the time to first token",
}
_SAVINGS = {"capture_s": "capture time", "graph_memory_mib": "graph memory"}


def decide_in_engine(
    tuned: ListRuns, default: ListRuns, thresholds: EngineThresholds, refused: str | None = None
) -> EngineDecision:
    """The verdict and its reasons, the most important first.

    Args:
        refused: why the engine did not start with the tuned list, where it never did.
    """
    names = ("mean_step_ms", "tpot_ms", "ttft_ms", "throughput_tokens_per_s", *_SAVINGS, "startup_s", "kv_tokens")
    changes = {name: found for name in names if (found := relative_change(tuned.of(name), default.of(name)))}
    if refused is not None:
        return EngineDecision("keep_default", (f"The engine does not start with this list: {refused}",), changes)
    few = min(tuned.starts, default.starts)
    if few < thresholds.least_starts:
        reason = f"{few} starts of one list; at least {thresholds.least_starts} of each are needed to judge."
        return EngineDecision("inconclusive", (reason,), changes)
    worse, open_, better = _times(changes, thresholds)
    worse += _losses(tuned, default, changes, thresholds)
    better += list(_savings(tuned, default, thresholds))
    if worse:
        return EngineDecision("keep_default", (*worse, *better), changes)
    if open_:
        return EngineDecision("inconclusive", (*open_, *better), changes)
    if not better:
        return EngineDecision("keep_default", ("No gain: every difference lies within its interval.",), changes)
    return EngineDecision("adopt", tuple(better), changes)


def _times(changes: Mapping[str, Interval], thresholds: EngineThresholds) -> tuple[list[str], list[str], list[str]]:
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


def _losses(
    tuned: ListRuns, default: ListRuns, changes: Mapping[str, Interval], thresholds: EngineThresholds
) -> list[str]:
    losses = []
    kv = changes.get("kv_tokens")
    if kv is not None and kv.mean < -thresholds.kv_share:
        losses.append(f"The KV cache shrinks by {-kv.mean:.1%}.")
    failed, before = (_mean(runs.of("failed_rate")) or 0.0 for runs in (tuned, default))
    if failed > before:
        losses.append(f"{failed:.2%} of the requests failed, {before:.2%} with the default.")
    own, other = (_mean(runs.of("fallback_rate")) for runs in (tuned, default))
    if own is not None and other is not None and own > other + thresholds.fallback_share:
        losses.append(f"{own:.2%} of steps run without a graph, {other:.2%} with the default.")
    return losses


def _savings(tuned: ListRuns, default: ListRuns, thresholds: EngineThresholds) -> Iterator[str]:
    if tuned.sizes <= default.sizes * (1 - thresholds.saving_share):
        yield f"{tuned.sizes} captured sizes instead of {default.sizes} ({1 - tuned.sizes / default.sizes:.0%} less)."
    for name, what in _SAVINGS.items():
        new, old = _mean(tuned.of(name)), _mean(default.of(name))
        if new is not None and old is not None and old > 0 and new <= old * (1 - thresholds.saving_share):
            yield f"{1 - new / old:.0%} less {what}: {new:.4g} instead of {old:.4g}."


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(change: Interval) -> str:
    return f"{change.mean:+.1%} ({change.low:+.1%} to {change.high:+.1%})"
