"""What all recorded starts of a comparison come to: figures per list with intervals over starts, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.capture.probes.experiment import DEFAULT, TUNED
from services.capture.probes.records import Comparison, ReplayedStep, StartRecord
from services.capture.probes.step_time import StepCase, medians_ms
from tuner.cost_profile import CostProfile
from tuner.engine_verdict import EngineDecision, EngineThresholds, ListRuns, decide_in_engine
from tuner.engines.base import Engine, Lists
from tuner.intervals import Interval, interval
from tuner.scorecard import list_regret


@dataclass(frozen=True, slots=True)
class SizeEvidence:
    """Step time of one replayed size at one context."""

    rows: int
    context_tokens: int
    step_ms: Interval


@dataclass(frozen=True, slots=True)
class ListEvidence:
    """One list over its starts.

    Attributes:
        effective: what the engine's log says it captured.
        list_length: captured sizes of the list that decode steps use.
        figures: see `tuner.engine_verdict.ListRuns`; also `exact_rate`, `padded_rate`, `padding_waste` of the served
            requests where the engine counts them.
        by_rule: exact, padded and fallback share of the replayed steps, by the engine's dispatch rule.
        predicted_step_ms: mean of the replayed steps by the profile; None where it does not know a step.
        worst_regret, worst_regret_size: by the profile, over every decode size that the scheduler can reach and the
            profile covers.
        failures: sentences of the starts that failed.
    """

    name: str
    asked: Lists | None
    effective: Lists
    list_length: int
    graphs: int
    starts: int
    figures: Mapping[str, Interval]
    sizes: tuple[SizeEvidence, ...]
    by_rule: Mapping[str, float]
    predicted_step_ms: float | None
    worst_regret: float | None
    worst_regret_size: int | None
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The answer of an experiment so far."""

    lists: tuple[ListEvidence, ...]
    decision: EngineDecision
    notes: tuple[str, ...]


def weigh(
    records: Sequence[StartRecord],
    comparison: Comparison,
    profile: CostProfile,
    engine: Engine,
    options: Any,
    thresholds: EngineThresholds,
) -> Evidence:
    """Sum up every comparing start that is recorded."""
    runs = [record for record in records if record.purpose == "compare"]
    lists = tuple(
        _list_evidence(name, asked, [r for r in runs if r.name == name], comparison, profile, engine, options)
        for name, asked in comparison.lists.items()
    )
    by_name = {item.name: item for item in lists}
    values = {name: _runs([r for r in runs if r.name == name], by_name[name], comparison.steps) for name in by_name}
    refused = next(iter(by_name[TUNED].failures), None) if by_name[TUNED].starts == 0 else None
    decision = decide_in_engine(values[TUNED], values[DEFAULT], thresholds, refused)
    return Evidence(lists, decision, _notes(lists, runs, engine, options))


def values_of(record: StartRecord, steps: Sequence[ReplayedStep]) -> dict[str, float]:
    """Every figure that one start gives."""
    known: dict[str, float | None] = {
        "startup_s": record.startup_s,
        "capture_s": record.capture_s,
        "graph_memory_mib": record.graph_memory_mib,
        "kv_tokens": record.kv_tokens,
        "mean_step_ms": _mean_step_ms(record, steps),
    }
    if record.served is not None:
        served = record.served
        known |= {
            "ttft_ms": served.ttft_mean_ms,
            "ttft_p99_ms": served.ttft_p99_ms,
            "tpot_ms": served.tpot_mean_ms,
            "tpot_p99_ms": served.tpot_p99_ms,
            "throughput_tokens_per_s": served.throughput_tokens_per_s,
            "failed_rate": served.failed / served.requests,
        }
    if record.census is not None:
        census = record.census
        known |= {
            "exact_rate": census.exact,
            "padded_rate": census.padded,
            "fallback_rate": census.fallback,
            "padding_waste": census.padding_waste,
        }
    return {name: float(value) for name, value in known.items() if value is not None}


def _mean_step_ms(record: StartRecord, steps: Sequence[ReplayedStep]) -> float | None:
    """Weighted by how many recorded steps each case stands for; None where a case was not read."""
    step_ms = medians_ms(record.steps)
    cases = [(StepCase(step.rows, step.context_tokens), step.weight) for step in steps]
    if not cases or any(case not in step_ms for case, _ in cases):
        return None
    return sum(step_ms[case] * weight for case, weight in cases) / sum(weight for _, weight in cases)


def _columns(records: Sequence[StartRecord], steps: Sequence[ReplayedStep]) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = {}
    for record in records:
        for name, value in values_of(record, steps).items():
            columns.setdefault(name, []).append(value)
    return columns


def _runs(records: Sequence[StartRecord], item: ListEvidence, steps: Sequence[ReplayedStep]) -> ListRuns:
    good = [record for record in records if record.failure is None]
    columns = _columns(good, steps)
    if (
        "fallback_rate" not in columns and "fallback" in item.by_rule
    ):  # this engine counts none: our rule, on the replay
        columns["fallback_rate"] = [item.by_rule["fallback"]]
    return ListRuns(item.list_length, len(good), columns)


def _list_evidence(
    name: str,
    asked: Mapping[str, tuple[int, ...]] | None,
    records: Sequence[StartRecord],
    comparison: Comparison,
    profile: CostProfile,
    engine: Engine,
    options: Any,
) -> ListEvidence:
    good = [record for record in records if record.failure is None]
    rules = engine.effective(asked or engine.default_lists(options), options)
    effective = next((record.effective for record in good if record.effective), None)
    if effective is None:
        effective = asked or engine.default_lists(options)
    figures = {name: found for name, values in _columns(good, comparison.steps).items() if (found := interval(values))}
    rates, predicted_ms = _by_rule(asked, comparison.steps, profile, engine, options)
    regret, at_size = _regret(asked, profile, engine, options)
    return ListEvidence(
        name=name,
        asked=asked,
        effective=effective,
        list_length=len(effective.get(engine.list_names[0], ())),
        graphs=rules.graphs,
        starts=len(good),
        figures=figures,
        sizes=_sizes(good),
        by_rule=rates,
        predicted_step_ms=predicted_ms,
        worst_regret=regret,
        worst_regret_size=at_size,
        failures=tuple(record.failure.sentence for record in records if record.failure is not None),
    )


def _sizes(records: Sequence[StartRecord]) -> tuple[SizeEvidence, ...]:
    readings: dict[StepCase, list[float]] = {}
    for record in records:
        for case, step_ms in medians_ms(record.steps).items():
            readings.setdefault(case, []).append(step_ms)
    found = ((case, interval(values)) for case, values in readings.items())
    rows = [SizeEvidence(case.rows, case.context_tokens, of) for case, of in found if of is not None]
    return tuple(sorted(rows, key=lambda row: (row.rows, row.context_tokens)))


def _by_rule(
    asked: Mapping[str, tuple[int, ...]] | None,
    steps: Sequence[ReplayedStep],
    profile: CostProfile,
    engine: Engine,
    options: Any,
) -> tuple[dict[str, float], float | None]:
    """(shares by the dispatch rule, predicted mean step) of the replayed steps."""
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None or not steps:
        return {}, None
    cost = profile.family(engine.decode_family)
    rows = np.array([step.rows for step in steps], dtype=np.int64)
    size = rows * engine.step_tokens_per_request(options)
    bucket = engine.dispatch(effective, options).dispatch(engine.decode_family, size).bucket
    weight = np.array([step.weight for step in steps])
    weight = weight / weight.sum()
    kv_tokens = rows * np.array([step.context_tokens for step in steps])
    g_ms = np.where(bucket > 0, cost.bucket_ms_at(np.maximum(bucket, 1)), cost.fallback_ms_at(size))
    step_ms = g_ms + cost.attention_ms_per_mtoken * 1e-6 * kv_tokens + cost.row_ms * rows
    rates = {
        "exact": float(weight[bucket == size].sum()),
        "padded": float(weight[(bucket > 0) & (bucket != size)].sum()),
        "fallback": float(weight[bucket == 0].sum()),
    }
    predicted_ms = float(weight @ step_ms)
    return rates, predicted_ms if np.isfinite(predicted_ms) else None


def _regret(
    asked: Mapping[str, tuple[int, ...]] | None, profile: CostProfile, engine: Engine, options: Any
) -> tuple[float | None, int | None]:
    effective = engine.effective(asked or engine.default_lists(options), options)
    if effective.refused is not None:
        return None, None
    allowed, family = engine.allowed(options), engine.decode_family
    reachable = min(allowed.reachable, int(profile.family(family).sizes[-1]))
    return list_regret(profile, engine.dispatch(effective, options), family, reachable, allowed)


def _notes(
    lists: Sequence[ListEvidence], records: Sequence[StartRecord], engine: Engine, options: Any
) -> tuple[str, ...]:
    notes = []
    default = next(item for item in lists if item.name == DEFAULT)
    name = engine.list_names[0]
    rule = tuple(engine.default_lists(options)[name])
    if default.starts and tuple(default.effective.get(name, ())) != rule:
        notes.append(
            f"the engine captured {len(default.effective.get(name, ()))} sizes by default, our rules of {engine.spec} "
            f"say {len(rule)}"
        )
    tuned = next(item for item in lists if item.name == TUNED)
    said = engine.lint(tuned.asked, options) if tuned.asked is not None else ()
    notes += [f"lint of the tuned list: {problem.message}" for problem in said if problem.severity == "error"]
    if not any(record.served for record in records):
        notes.append("no requests were served: what users would see is not known")
    versions = sorted({record.version for record in records if record.version})
    if any(version != str(engine.version) for version in versions):
        notes.append(f"rules of {engine.version} were used, the engine calls itself {', '.join(versions)}")
    failed = sum(record.served.failed for record in records if record.served)
    if failed:
        first = next(r.served.first_error for r in records if r.served and r.served.first_error)
        notes.append(f"{failed} requests failed; the first: {first}")
    clipped = max((record.clipped_requests for record in records), default=0)
    if clipped:
        notes.append(f"{clipped} requests were cut to the longest that the engine takes")
    return tuple(notes)
