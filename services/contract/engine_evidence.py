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


class ListEvidenceModel(Answer):
    """One list; see `services.capture.probes.evidence.ListEvidence`.

    Attributes:
        asked: null where the choice was left to the engine.
        effective: what the engine's log says it captured.
        list_length: captured sizes of the list that decode steps use.
        figures: startup_s, capture_s, graph_memory_mib, kv_tokens, mean_step_ms, ttft_ms, ttft_p99_ms, tpot_ms,
            tpot_p99_ms, throughput_tokens_per_s, failed_rate; exact_rate, padded_rate, fallback_rate and
            padding_waste of the served requests where the engine counts them. What was not measured is absent.
        by_rule: exact, padded and fallback share of the replayed steps by the dispatch rule.
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
        lists: default, tuned, powers of two.
        changes: figure -> the tuned list against the default, as a share.
        thresholds: as written down before the first start.
        recommendation_id: the stored recommendation that carries this verdict; null where none was stored.
    """

    engine: str
    way: str
    model: str
    device: str | None
    workload: str
    load: float
    records: str
    profile: str
    verdict: Verdict
    reasons: tuple[str, ...]
    lists: tuple[ListEvidenceModel, ...]
    changes: dict[str, IntervalModel]
    thresholds: dict[str, Any]
    notes: tuple[str, ...]
    recommendation_id: str | None = None
