"""EngineEvidenceModel: lists compared inside a real engine, over all starts that were recorded so far."""

from __future__ import annotations

from typing import Any

from services.contract.plain import Answer
from services.contract.scorecard import ListsModel
from tuner.recommendation import Verdict


class IntervalModel(Answer):
    """A mean over starts with its two-sided 95 % interval; null with a single start."""

    mean: float
    low: float | None
    high: float | None
    values: int


class SizeEvidenceModel(Answer):
    """A replayed step size at one context."""

    rows: int
    context_tokens: int
    step_ms: IntervalModel


class PredictionModel(Answer):
    """A profile held to its word; see `services.capture.probes.prediction.Prediction`."""

    step_ms: float
    measured_ms: float
    error_share: float
    band_share: float | None
    tolerated_share: float
    mostly: str = ""
    held: bool


class ListOnWorkloadModel(Answer):
    """What one list did for one workload.

    Attributes:
        figures: mean_step_ms, ttft_ms, ttft_p99_ms, tpot_ms, tpot_p99_ms, throughput_tokens_per_s, failed_rate,
            drain_s; preemptions, exact_rate, padded_rate, fallback_rate and padding_waste of the served requests where
            the engine counts them. What was not measured is absent.
        by_rule: exact, padded and fallback share of the replayed steps by the dispatch rule.
    """

    name: str
    figures: dict[str, IntervalModel]
    by_rule: dict[str, float]
    predicted_step_ms: float | None
    prediction: PredictionModel | None


class WorkloadEvidenceModel(Answer):
    """One workload under every list.

    Attributes:
        load_share: offered / sustainable token rate by the simulation; null where steps were recorded.
        changes: figure -> the tuned list against the default, as a share.
    """

    name: str
    load: float
    load_share: float | None
    overloaded: bool
    lists: tuple[ListOnWorkloadModel, ...]
    changes: dict[str, IntervalModel]


class ListEvidenceModel(Answer):
    """One list; see `services.capture.probes.evidence.ListEvidence`.

    Attributes:
        asked: null where the choice was left to the engine.
        effective: what the engine's log says it captured.
        list_length: captured sizes of the list that decode steps use.
        figures: startup_s (of starts that did not compile), setup_s, capture_s, recording_s, graph_memory_mib,
            kv_tokens; with a single workload also those of `ListOnWorkloadModel`, as are by_rule and
            predicted_step_ms.
    """

    name: str
    asked: ListsModel | None
    effective: ListsModel
    list_length: int
    graphs: int
    starts: int
    figures: dict[str, IntervalModel]
    sizes: tuple[SizeEvidenceModel, ...]
    by_rule: dict[str, float]
    predicted_step_ms: float | None
    worst_regret: float | None
    worst_regret_size: int | None
    failures: tuple[str, ...]


class EngineEvidenceModel(Answer):
    """What `captune verify --in-engine` answers.

    Attributes:
        workload: names of all workloads; load: null where there are several.
        profile: name; null while it is not complete.
        requested_by: where the tuned list is from.
        workloads: what every list did for each.
        lists: default, tuned, powers of two; empty before the first of them started.
        changes: figure -> the tuned list against the default, as a share; with a single workload also those of it.
        thresholds: as written down before the first start.
        command: that the experiment was begun with.
        starts_left: that a time limit left undone; the same command goes on with them.
        recommendation_id: the stored recommendation that carries this verdict; null where none was stored.
    """

    engine: str
    way: str
    model: str
    device: str | None
    workload: str
    load: float | None
    records: str
    profile: str | None
    requested_by: str | None = None
    verdict: Verdict
    reasons: tuple[str, ...]
    workloads: tuple[WorkloadEvidenceModel, ...]
    lists: tuple[ListEvidenceModel, ...]
    changes: dict[str, IntervalModel]
    thresholds: dict[str, Any]
    notes: tuple[str, ...]
    command: str | None = None
    starts_left: int = 0
    recommendation_id: str | None = None
