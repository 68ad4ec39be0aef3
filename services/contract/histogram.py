"""HistogramModel: the steps of a workload per family, and the simulated service they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field

from services.contract.plain import Answer
from services.contract.scorecard import ListsModel
from services.contract.serving import ServingReportModel
from services.contract.trace import FamilyHistogramModel, families_of
from tuner.engines.base import Lists
from workloads.histogram import StepHistogram
from workloads.serving.report import ServingReport


class HistogramModel(Answer):
    """The keys of `captune histogram`; `serving` is null for a recording of steps.

    `step_times_from` names the profile of the simulation, `lists` are the capture lists that it ran with.
    """

    source: str
    step_times_from: str | None = None
    families: dict[str, FamilyHistogramModel]
    serving: ServingReportModel | None = None
    lists: ListsModel = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        source: str,
        histograms: Mapping[str, StepHistogram],
        report: ServingReport | None,
        *,
        step_times_from: str | None,
        lists: Lists | None = None,
        notes: tuple[str, ...] = (),
    ) -> Self:
        return cls(
            source=source,
            step_times_from=step_times_from,
            families=families_of(histograms),
            serving=None if report is None else ServingReportModel.from_domain(report),
            lists={name: tuple(sizes) for name, sizes in (lists or {}).items()},
            notes=notes,
        )
