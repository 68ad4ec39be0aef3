"""Goodput: requests per second that met what their users were promised."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from workloads.arrays import I64, Bool
from workloads.errors import BadUsage
from workloads.serving.outcome import RequestTimes
from workloads.serving.report import ServingReport


@dataclass(frozen=True, slots=True)
class Slo:
    """A service-level objective of every single request; None promises nothing.

    Attributes:
        ttft_ms: arrival to first token. On a decode node behind separate prefill: to the first token made there.
        tpot_ms: (last - first token) / (output tokens - 1); a request of one token has none.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "tpot_ms"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadUsage("must be above 0", field=f"slo_{name}")

    @property
    def promises(self) -> bool:
        return self.ttft_ms is not None or self.tpot_ms is not None


def with_goodput(
    report: ServingReport, slo: Slo, requests: RequestTimes, output_tokens: I64, *, decode_only: bool
) -> ServingReport:
    """The report with its share of requests within `slo` and its goodput; unchanged where nothing is promised.

    Args:
        requests, output_tokens: of every request [N]; one that was rejected met nothing.
        decode_only: a decode node, where a request's tokens begin when it is scheduled.
    """
    if not slo.promises:
        return report
    within = int(met(slo, requests, output_tokens, decode_only=decode_only).sum())
    return replace(
        report, slo_share=within / len(output_tokens), goodput_requests_per_s=within / max(report.makespan_s, 1e-9)
    )


def met(slo: Slo, requests: RequestTimes, output_tokens: I64, *, decode_only: bool) -> Bool:
    """Which requests met the objective: bool [N]."""
    begin_s = requests.scheduled_s if decode_only else requests.first_token_s
    # A decode node has nothing to do for a request of one token: its first and last token was made elsewhere.
    elsewhere = (output_tokens <= 1) & decode_only
    good = np.isfinite(requests.finish_s) | elsewhere
    if slo.ttft_ms is not None:
        good &= (requests.first_token_s - requests.arrival_s <= slo.ttft_ms * 1e-3) | elsewhere
    if slo.tpot_ms is not None:
        decoded_s = (requests.finish_s - begin_s) / np.maximum(output_tokens - 1, 1)
        good &= (decoded_s <= slo.tpot_ms * 1e-3) | (output_tokens <= 1)
    return good
