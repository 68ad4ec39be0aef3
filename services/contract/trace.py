"""TraceModel: a recorded file that was understood."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from services.contract.plain import Answer, Request, plain, shown
from workloads.histogram import Origin, StepHistogram, Unit
from workloads.traces.records import Kind, ReadResult, RequestTrace

Tag = Annotated[str, Field(min_length=1, max_length=40, examples=["production"])]


class ObservationModel(Answer):
    """What a log says of the engine that wrote it."""

    engine: str | None = None
    version: str | None = None
    lists: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    options: dict[str, str] = Field(default_factory=dict)
    capture_s: float | None = None
    graph_memory_mib: float | None = None
    kv_tokens: int | None = None
    memory_by_size_mib: dict[int, float] = Field(default_factory=dict)


class TraceModel(Answer):
    """The keys of `captune trace inspect`; `id`, `name`, `created_at` and `tags` are set when it is stored.

    `origin` is what kind of evidence recorded steps are; null for requests, whose steps are simulated.
    """

    id: str | None = None
    name: str | None = None
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    origin: Origin | None = None
    format: str
    kind: Kind
    rows_read: int
    rows_kept: int
    dropped: dict[str, int]
    first_dropped_line: dict[str, int] = Field(default_factory=dict)
    span_s: float | None
    notes: tuple[str, ...] = ()
    observation: ObservationModel | None = None
    summary: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_domain(cls, read: ReadResult, *, name: str | None = None) -> Self:
        return cls.model_validate(
            {
                "name": name,
                "format": read.format,
                "kind": read.kind,
                "rows_read": read.rows.read,
                "rows_kept": read.rows.kept,
                "dropped": dict(read.rows.dropped),
                "first_dropped_line": dict(read.rows.first_line),
                "span_s": plain(read.traffic.span_s),
                "notes": list(read.notes),
                "observation": plain(read.observation),
                "summary": summary_of(read),
            }
        )


class TraceChange(Request):
    """What may change about a stored trace: what is left out stays. `tags` replaces all of them."""

    model_config = shown({"name": "conversations, Monday", "tags": ["production"]})

    name: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    tags: Annotated[list[Tag], Field(max_length=20)] | None = None


class TracesModel(Answer):
    """One page of traces, newest first."""

    items: tuple[TraceModel, ...]
    next_after: str | None = None


class FamilyHistogramModel(Answer):
    """Counts per size of one family."""

    unit: Unit
    origin: Origin
    mean_size: float
    counts: dict[int, float]

    @classmethod
    def from_domain(cls, histogram: StepHistogram) -> Self:
        return cls(
            unit=histogram.unit, origin=histogram.origin, mean_size=histogram.mean_size, counts=histogram.counts()
        )


def families_of(histograms: Mapping[str, StepHistogram]) -> dict[str, FamilyHistogramModel]:
    """Every family's histogram by name."""
    return {name: FamilyHistogramModel.from_domain(histogram) for name, histogram in histograms.items()}


def summary_of(read: ReadResult) -> dict[str, Any]:
    """A few figures that tell a person whether this is the file they meant."""
    traffic = read.traffic
    if isinstance(traffic, RequestTrace):
        return {
            "requests": len(traffic),
            "rate_per_s": len(traffic) / traffic.span_s if traffic.span_s > 0 else None,
            "input_tokens_mean": float(traffic.input_tokens.mean()),
            "input_tokens_max": int(traffic.input_tokens.max()),
            "output_tokens_mean": float(traffic.output_tokens.mean()),
            "output_tokens_max": int(traffic.output_tokens.max()),
            "decode_tokens": traffic.decode_tokens,
        }
    families = {
        name: {
            "unit": histogram.unit,
            "origin": histogram.origin,
            "steps": histogram.total_steps,
            "mean_size": histogram.mean_size,
            "largest": histogram.largest,
        }
        for name, histogram in traffic.histograms().items()
    }
    return {
        "steps": traffic.total_steps,
        "origin": traffic.origin,
        "sample_every_steps": traffic.sample_every_steps,
        "sample_every_s": traffic.sample_every_s,
        "fallbacks_seen": traffic.fallbacks_seen,
        "families": families,
    }
