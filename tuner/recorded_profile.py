"""A cost profile from step times that an engine reported itself: its own parallelism, quantisation and kernels.

Every reading counts for the bucket that the step ran in, where the log or the engine's rule tells it; a size with too
few readings stays unknown. What a log cannot tell (memory of single graphs, the graph time of sizes that always ran
eagerly) is left out and said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tuner.cost_profile import CostProfile, FamilyCost
from tuner.dispatch import DispatchTable
from tuner.engines.base import Engine, Lists
from tuner.recorded_readings import Fit, attention_fit, centre, prefill_curve
from workloads.arrays import F64, I64, Bool
from workloads.errors import BadInput
from workloads.histogram import Unit
from workloads.traces.records import EngineObservation, ReadResult, StepTrace

MIN_READINGS = 5


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the recorded steps the profile speaks for.

    Attributes:
        readings: step times used, over all sizes.
        step_share: share of the source's decode steps whose bucket (or eager size) is a point.
        too_few: size -> readings, for sizes that stay unknown.
        eager_only: sizes that ran without a graph only.
    """

    readings: int
    step_share: float
    too_few: Mapping[int, int]
    eager_only: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordedProfile:
    """A profile and what it rests on."""

    profile: CostProfile
    coverage: Coverage
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Decode steps with the bucket they ran in: arrays of one shape; `bucket` is 0 for an eager step."""

    family: F64 | Any
    size: I64
    bucket: I64
    steps: I64
    step_ms: F64
    kv_tokens: F64

    @property
    def timed(self) -> Bool:
        timed: Bool = np.isfinite(self.step_ms) & (self.step_ms > 0)
        return timed

    @property
    def point(self) -> I64:
        return np.where(self.bucket > 0, self.bucket, self.size)

    def only(self, rows: Bool) -> _Steps:
        return _Steps(
            self.family[rows], self.size[rows], self.bucket[rows], self.steps[rows], self.step_ms[rows],
            self.kv_tokens[rows],
        )  # fmt: skip


def has_step_times(read: ReadResult) -> bool:
    """Whether a source tells how long a decode step took."""
    steps = read.traffic
    if not isinstance(steps, StepTrace):
        return False
    return any(bool(np.isfinite(steps.step_ms[steps.family_index == i]).any()) for i in _decodes(steps))


def profile_from_log(
    read: ReadResult,
    *,
    source: str,
    engine: Engine | None = None,
    options: Any = None,
    lists: Lists | None = None,
    name: str | None = None,
    device: str | None = None,
    model: str | None = None,
    min_readings: int = MIN_READINGS,
    command: str | None = None,
) -> RecordedProfile:
    """Step times found in a log or record as a profile.

    Args:
        source: what the log is called, for the provenance.
        engine, options: whose dispatch rule says in which bucket a step ran; None takes sizes as they are.
        lists: what was captured; None takes what the log shows.
        min_readings: readings that a size needs.

    Raises:
        BadInput: the source has no step times, or no size has enough of them.
    """
    trace = read.traffic
    if not isinstance(trace, StepTrace) or not has_step_times(read):
        raise BadInput(
            "no step time in this source; vLLM writes them with --enable-logging-iteration-details, SGLang in steady "
            "decode lines or forward-pass metrics, TensorRT-LLM with print_iter_log",
            file=source,
        )
    seen = read.observation or EngineObservation()
    notes: list[str] = []
    table = _dispatch(engine, options, lists, seen, notes)
    unit, scale = _unit(trace, engine, options)
    decode = _decode_steps(trace, table, scale)
    timed = decode.only(decode.timed)
    families, too_few, eager_only = _families(timed, unit, min_readings, seen, notes)
    if not families:
        best = max(too_few.values())
        raise BadInput(f"no size has {min_readings} readings of its step time, the most is {best}", file=source)
    coverage = _coverage(decode, timed, families, too_few, eager_only)
    prefill = prefill_curve(trace, min_readings)
    if prefill is None:
        notes.append("the source has no prefill times: requests cannot be simulated with this profile alone")
    if trace.origin == "sample":
        notes.append(f"step times are those of a sample ({int(coverage.readings)} readings)")
    profile = CostProfile(
        name=name or f"recorded-{seen.engine or 'engine'}",
        families=families,
        prefill=prefill,
        device=None if device is None else {"name": device},
        model={"name": model or seen.options.get("model_path") or seen.options.get("model") or "unknown"},
        software={"engine": _spec(engine, seen), "recorded_from_log": _provenance(read, source, seen, coverage, notes)},
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        starts=1,
    )
    return RecordedProfile(profile, coverage, tuple(notes))


def _decodes(trace: StepTrace) -> list[int]:
    return [i for i, family in enumerate(trace.families) if not family.startswith("prefill")]


def _dispatch(
    engine: Engine | None, options: Any, lists: Lists | None, seen: EngineObservation, notes: list[str]
) -> DispatchTable | None:
    known = lists or {n: s for n, s in seen.lists.items() if engine is not None and n in engine.list_names}
    if engine is None or not known:
        notes.append(
            "the capture list is not known, so a step counts for its own size, in whatever bucket it ran; give --sizes"
        )
        return None
    effective = engine.effective(known, options)
    if effective.refused is not None:
        raise BadInput(f"{engine.spec} would not start with this list: {effective.refused}", field="sizes")
    return engine.dispatch(effective, options)


def _unit(trace: StepTrace, engine: Engine | None, options: Any) -> tuple[Unit, int]:
    """Unit of the points, and what a recorded size is multiplied with to be in it."""
    unit = trace.units[_decodes(trace)[0]]
    if unit == "requests" and engine is not None and engine.name == "vllm":
        return "tokens", engine.step_tokens_per_request(options)
    return unit, 1


def _decode_steps(trace: StepTrace, table: DispatchTable | None, scale: int) -> _Steps:
    rows = np.isin(trace.family_index, _decodes(trace))
    names = np.array(trace.families)[trace.family_index[rows]]
    size, said, flag = trace.size[rows] * scale, trace.padded_size[rows], trace.fallback[rows]
    bucket = size.copy()
    for family in np.unique(names) if table is not None else ():
        assert table is not None
        own = names == family
        went = table.dispatch(str(family), size[own])
        bucket[own] = np.where((went.bucket == 0) & (flag[own] == 0), size[own], went.bucket)
        rule = table.families.get(str(family))
        if rule is not None and rule.otherwise is not None:
            names[own] = np.where(went.elsewhere, rule.otherwise, names[own])
    bucket = np.where(said > 0, said, bucket)
    bucket = np.where(flag == 1, 0, bucket)
    return _Steps(names, size, bucket, trace.steps[rows], trace.step_ms[rows], trace.kv_tokens[rows])


def _families(
    timed: _Steps, unit: Unit, min_readings: int, seen: EngineObservation, notes: list[str]
) -> tuple[dict[str, FamilyCost], dict[int, int], tuple[int, ...]]:
    families: dict[str, FamilyCost] = {}
    too_few: dict[int, int] = {}
    eager_only: list[int] = []
    for family in dict.fromkeys(timed.family.tolist()):
        own = timed.only(timed.family == family)
        fit = attention_fit(own.bucket, own.step_ms, own.kv_tokens, own.steps)
        points = _points(own, fit, min_readings, too_few)
        if not points:
            continue
        eager_only += [size for size, (graph, _, _) in points.items() if graph is None]
        families[family] = _family_cost(own, points, fit, unit, seen if not families else EngineObservation())
    if eager_only:
        notes.append(
            f"{len(eager_only)} sizes ran without a graph only; their step time is that of the eager step, which "
            "claims no gain from capturing them"
        )
    return families, too_few, tuple(sorted(eager_only))


_Point = tuple[float | None, float | None, float]
"""(graph ms, eager ms, spread ms) of one size."""


def _points(own: _Steps, fit: Fit, min_readings: int, too_few: dict[int, int]) -> dict[int, _Point]:
    points: dict[int, _Point] = {}
    ms = own.step_ms - fit.terms_ms(own.kv_tokens)
    for size in np.unique(own.point).tolist():
        graph, eager = (own.point == size) & (own.bucket > 0), (own.point == size) & (own.bucket == 0)
        told = [(int(own.steps[rows].sum()) >= min_readings, rows) for rows in (graph, eager)]
        if not any(enough for enough, _ in told):
            too_few[size] = too_few.get(size, 0) + int(own.steps[graph | eager].sum())
            continue
        middle = [centre(ms[rows], own.steps[rows]) if enough else None for enough, rows in told]
        spread = middle[0] or middle[1]
        points[size] = (
            None if middle[0] is None else middle[0][0],
            None if middle[1] is None else middle[1][0],
            np.nan if spread is None else spread[1],
        )
    return points


def _family_cost(
    own: _Steps, points: Mapping[int, _Point], fit: Fit, unit: Unit, seen: EngineObservation
) -> FamilyCost:
    sizes = np.array(sorted(points), dtype=np.int64)
    graph, eager, spread = (
        np.array([np.nan if points[s][i] is None else points[s][i] for s in sizes.tolist()], dtype=np.float64)
        for i in range(3)
    )
    memory, pool = _memory(sizes, seen)
    known = np.isfinite(own.kv_tokens)
    context = float(np.mean(own.kv_tokens[known] / own.size[known])) if known.any() and not fit.known else 1.0
    captured = len(next(iter(seen.lists.values()), ()))
    each_s = seen.capture_s / captured if seen.capture_s is not None and captured else np.nan
    return FamilyCost(
        unit=unit,
        sizes=sizes,
        step_ms=np.where(np.isnan(graph), eager, graph),
        replay_ms=np.full(len(sizes), np.nan),
        fallback_ms=eager,
        spread_ms=spread,
        capture_s=np.full(len(sizes), each_s),
        memory_mib=memory,
        starts=np.ones(len(sizes), dtype=np.int64),
        context_tokens=max(1.0, context),
        attention_ms_per_mtoken=fit.ms_per_mtoken,
        pool_mib=pool,
    )


def _memory(sizes: I64, seen: EngineObservation) -> tuple[F64, float]:
    """MiB of each size, and of the pool: what the first and largest capture takes beyond its neighbour."""
    by_size = dict(seen.memory_by_size_mib)
    pool = 0.0
    if len(by_size) > 1:
        largest, second = sorted(by_size, reverse=True)[:2]
        pool = max(0.0, by_size[largest] - by_size[second])
        by_size[largest] -= pool
    return np.array([by_size.get(size, np.nan) for size in sizes.tolist()], dtype=np.float64), pool


def _coverage(
    decode: _Steps,
    timed: _Steps,
    families: Mapping[str, FamilyCost],
    too_few: Mapping[int, int],
    eager_only: tuple[int, ...],
) -> Coverage:
    known = np.zeros(len(decode.size), dtype=np.bool_)
    for family, cost in families.items():
        known |= (decode.family == family) & np.isin(decode.point, cost.sizes)
    share = float(decode.steps[known].sum()) / float(decode.steps.sum())
    return Coverage(int(timed.steps.sum()) - sum(too_few.values()), share, dict(too_few), eager_only)


def _spec(engine: Engine | None, seen: EngineObservation) -> str | None:
    if seen.engine is not None:
        return seen.engine if seen.version is None else f"{seen.engine}@{seen.version}"
    return None if engine is None else engine.spec


def _provenance(
    read: ReadResult, source: str, seen: EngineObservation, coverage: Coverage, notes: list[str]
) -> dict[str, object]:
    trace = read.traffic
    assert isinstance(trace, StepTrace)
    return {
        "source": source,
        "format": read.format,
        "origin": trace.origin,
        "sample_every_steps": trace.sample_every_steps,
        "sample_every_s": trace.sample_every_s,
        "readings": coverage.readings,
        "step_share": round(coverage.step_share, 4),
        "options": dict(seen.options),
        "notes": list(notes),
    }
