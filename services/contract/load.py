"""Load curves over HTTP: the service at rising load, for several lists."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from services.contract.coverage import EXAMPLE, MOST_SIZES, CaseRequest
from services.contract.lint import Size
from services.contract.plain import Answer, shown
from services.contract.serving import ServingReportModel
from tuner.load_curve import LoadCurve

Label = Annotated[str, Field(min_length=1, max_length=100)]


class LoadRequest(CaseRequest):
    """`lists` are decode lists by any label of yours; without one the engine's default alone is looked at."""

    model_config = shown({**EXAMPLE, "lists": {"tuned": [1, 8, 64, 256, 512]}, "points": 8})

    lists: Annotated[
        dict[Label, Annotated[list[Size], Field(min_length=1, max_length=MOST_SIZES)]], Field(max_length=4)
    ] = Field(default_factory=dict)
    points: Annotated[int, Field(ge=2, le=40)] = 14


class LoadCurveModel(Answer):
    """See `tuner.load_curve.LoadCurve`."""

    sizes: tuple[int, ...]
    reports: tuple[ServingReportModel, ...]
    tipping_load: float | None

    @classmethod
    def of(cls, sizes: tuple[int, ...], curve: LoadCurve) -> Self:
        reports = tuple(ServingReportModel.from_domain(report) for report in curve.reports)
        return cls(sizes=sizes, reports=reports, tipping_load=curve.tipping_load)


class LoadCurvesModel(Answer):
    """`loads` in units of the recorded rate, the same for every curve; the default's curve is called `default`."""

    loads: tuple[float, ...]
    curves: dict[str, LoadCurveModel]
