"""ShapeModel: how a workload looks over time, binned for drawing."""

from __future__ import annotations

from typing import Self

from services.contract.plain import Answer, plain
from workloads.shape import Binned, Drift, HeatMap


class BinnedModel(Answer):
    """See `workloads.shape.Binned`; quantiles are the median, 90th and 99th percentile and the maximum."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    quantiles: tuple[float, ...]

    @classmethod
    def from_domain(cls, binned: Binned) -> Self:
        return cls.model_validate(plain(binned))


class HeatMapModel(Answer):
    """See `workloads.shape.HeatMap`; `steps[t][s]`."""

    time_edges_s: tuple[float, ...]
    size_edges: tuple[float, ...]
    steps: tuple[tuple[float, ...], ...]

    @classmethod
    def from_domain(cls, heat: HeatMap) -> Self:
        return cls.model_validate(plain(heat))


class DriftModel(Answer):
    """See `workloads.shape.Drift`; pairs are (first window, second window)."""

    span_s: float
    windows_s: tuple[tuple[float, float], tuple[float, float]]
    distance: float
    steps: tuple[float, float]
    mean_size: tuple[float, float]
    p99_size: tuple[float, float]

    @classmethod
    def from_domain(cls, drift: Drift) -> Self:
        return cls.model_validate(plain(drift))


class ShapeModel(Answer):
    """Parts that the source cannot tell are null: a histogram has no time, a log of steps no requests.

    `step_ms` is what a step of each decode size costs under the list; `ceilings` maps every engine to the largest
    size of its default list and the share of the decode steps above it.
    """

    family: str
    start_epoch_s: float | None
    arrivals: BinnedModel | None
    input_tokens: BinnedModel | None
    output_tokens: BinnedModel | None
    heat_map: HeatMapModel | None
    drift: DriftModel | None
    step_ms: dict[int, float]
    ceilings: dict[str, tuple[int, float]]
