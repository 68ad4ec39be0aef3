"""What all recorded starts of a comparison come to: figures per list with intervals over starts, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.capture.probes.evidence_notes import notes_of
from services.capture.probes.experiment import DEFAULT, TUNED
from services.capture.probes.figures import Columns, start_columns, workload_columns
from services.capture.probes.prediction import (
    Prediction,
    mean_ms_of,
    predicted_steps,
    prediction_of,
    rates_of,
    worst_regret,
)
from services.capture.probes.records import ComparedWorkload, Comparison, StartRecord
from services.capture.probes.step_time import StepCase, medians_ms
from tuner.cost_profile import CostProfile
from tuner.engine_verdict import EngineDecision, EngineThresholds, ListRuns, decide_in_engine
from tuner.engines.base import Engine, Lists
from tuner.intervals import BlockValue, Interval, interval


@dataclass(frozen=True, slots=True)
class SizeEvidence:
    """Step time of one replayed size at one context."""

    rows: int
    context_tokens: int
    step_ms: Interval


@dataclass(frozen=True, slots=True)
class ListOnWorkload:
    """What one list did for one workload.

    Attributes:
        columns: see `figures.workload_columns`; figures: their means.
        by_rule: exact, padded and fallback share of the replayed steps, by the engine's dispatch rule.
        predicted_step_ms: mean of the replayed steps by the profile; None where it does not know a step.
        prediction: held against what was measured; None before anything was.
    """

    name: str
    columns: Columns
    by_rule: Mapping[str, float]
    predicted_step_ms: float | None
    prediction: Prediction | None

    @property
    def figures(self) -> dict[str, Interval]:
        return _means(self.columns)


@dataclass(frozen=True, slots=True)
class WorkloadEvidence:
    """One workload under every list, in the order of the lists."""

    workload: ComparedWorkload
    lists: tuple[ListOnWorkload, ...]


@dataclass(frozen=True, slots=True)
class ListEvidence:
    """One list over its starts.

    Attributes:
        effective: what the engine's log says it captured.
        list_length: captured sizes of the list that decode steps use.
        columns: see `figures.start_columns`; figures: their means.
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
    columns: Columns
    sizes: tuple[SizeEvidence, ...]
    worst_regret: float | None
    worst_regret_size: int | None
    failures: tuple[str, ...]

    @property
    def figures(self) -> dict[str, Interval]:
        return _means(self.columns)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The answer of an experiment so far."""

    lists: tuple[ListEvidence, ...]
    workloads: tuple[WorkloadEvidence, ...]
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
    runs = {name: [r for r in records if r.purpose == "compare" and r.name == name] for name in comparison.lists}
    good = {name: [record for record in of if record.failure is None] for name, of in runs.items()}
    lists = tuple(
        _list_evidence(name, asked, runs[name], profile, engine, options) for name, asked in comparison.lists.items()
    )
    target = thresholds.prediction_share
    workloads = tuple(
        WorkloadEvidence(
            workload,
            tuple(
                _on_workload(name, asked, good[name], workload, profile, engine, options, target)
                for name, asked in comparison.lists.items()
            ),
        )
        for workload in comparison.workloads
    )
    by_name = {item.name: item for item in lists}
    refused = _refusal(runs[TUNED])
    decision = decide_in_engine(
        _list_runs(by_name[TUNED], workloads), _list_runs(by_name[DEFAULT], workloads), thresholds, refused
    )
    predictions = {(of.workload.name, item.name): item.prediction for of in workloads for item in of.lists}
    notes = notes_of(records, comparison, predictions, engine, options)
    return Evidence(lists, workloads, decision, notes)


def _refusal(records: Sequence[StartRecord]) -> str | None:
    """Why the engine does not start with a list, where it never did; a worker that was lost says nothing of it."""
    failures = [record.failure for record in records]
    own = [failure.sentence for failure in failures if failure is not None and failure.kind != "worker_lost"]
    return own[0] if own and None not in failures else None


def _list_runs(item: ListEvidence, workloads: Sequence[WorkloadEvidence]) -> ListRuns:
    columns = {}
    for of in workloads:
        own = next(on for on in of.lists if on.name == item.name)
        columns[of.workload.name] = dict(own.columns)
        if "fallback_rate" not in own.columns and "fallback" in own.by_rule:
            # This engine counts none: our rule, on the replay.
            columns[of.workload.name]["fallback_rate"] = [BlockValue(own.by_rule["fallback"])]
    return ListRuns(item.list_length, item.starts, item.columns, columns)


def _on_workload(
    name: str,
    asked: Mapping[str, tuple[int, ...]] | None,
    good: Sequence[StartRecord],
    workload: ComparedWorkload,
    profile: CostProfile,
    engine: Engine,
    options: Any,
    target_share: float,
) -> ListOnWorkload:
    columns = workload_columns(good, workload)
    predicted = predicted_steps(asked, workload.steps, profile, engine, options)
    case_ms = {StepCase(of.rows, of.context_tokens): of.step_ms.mean for of in _sizes(good)}
    step_ms = [item.value for item in columns.get("mean_step_ms", ())]
    held = prediction_of(predicted, step_ms, case_ms, target_share)
    return ListOnWorkload(name, columns, rates_of(predicted), mean_ms_of(predicted), held)


def _list_evidence(
    name: str,
    asked: Mapping[str, tuple[int, ...]] | None,
    records: Sequence[StartRecord],
    profile: CostProfile,
    engine: Engine,
    options: Any,
) -> ListEvidence:
    good = [record for record in records if record.failure is None]
    rules = engine.effective(asked or engine.default_lists(options), options)
    effective = next((record.effective for record in good if record.effective), None)
    if effective is None:
        effective = asked or engine.default_lists(options)
    regret, at_size = worst_regret(asked, profile, engine, options)
    return ListEvidence(
        name=name,
        asked=asked,
        effective=effective,
        list_length=len(effective.get(engine.list_names[0], ())),
        graphs=rules.graphs,
        starts=len(good),
        columns=start_columns(good),
        sizes=_sizes(good),
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


def _means(columns: Columns) -> dict[str, Interval]:
    found = ((name, interval([item.value for item in values])) for name, values in columns.items())
    return {name: mean for name, mean in found if mean is not None}
