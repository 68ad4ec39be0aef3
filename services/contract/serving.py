"""How a workload is served: the options asked for, and what the simulation saw."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from services.contract.plain import Answer, Request, plain
from tuner.recommendation import ServingOptions
from workloads.serving.goodput import Slo
from workloads.serving.limits import PolicyName
from workloads.serving.report import ServingReport

Milliseconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


class ServingOptionsModel(Request):
    """See `tuner.recommendation.ServingOptions`."""

    policy: PolicyName | None = None
    load: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    engines: Annotated[int, Field(ge=1, le=100_000)] = 1
    max_running: Count | None = None
    kv_tokens: Count | None = None
    slo_ttft_ms: Milliseconds | None = None
    slo_tpot_ms: Milliseconds | None = None
    preempt: bool = False
    prefix_cache: bool = False
    acceptance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    spec_tokens: Annotated[int, Field(ge=1, le=1_000)] | None = None
    dp_attention: Annotated[int, Field(ge=1, le=4_096)] | None = None

    def to_domain(self) -> ServingOptions:
        values = self.model_dump()
        slo = Slo(values.pop("slo_ttft_ms"), values.pop("slo_tpot_ms"))
        return ServingOptions(**values, slo=slo)


class ServingReportModel(Answer):
    """See `workloads.serving.report.ServingReport`."""

    load_share: float | None
    overloaded: bool
    queue_wait_p50_s: float | None
    queue_wait_p99_s: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tpot_mean_ms: float | None
    share_at_cap: float | None
    mean_running: float | None
    peak_running: int
    throughput_tokens_per_s: float | None
    utilisation: float | None
    completed: int
    rejected: int
    makespan_s: float | None
    slo_share: float | None = None
    goodput_requests_per_s: float | None = None
    preemptions: int = 0
    recomputed_tokens: int = 0
    prefix_hit_share: float | None = None
    tokens_per_step: float | None = None
    rank_padding: float | None = None

    @classmethod
    def from_domain(cls, report: ServingReport) -> Self:
        return cls.model_validate(plain(report))
