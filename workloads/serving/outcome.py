"""What a simulation hands back, and how its report is summed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads.arrays import F64, I64, Bool, frozen
from workloads.serving.features import Features
from workloads.serving.lockstep import state
from workloads.serving.report import ServingReport
from workloads.serving.rows import DECODE_ROWS, STEP_MS, STEPS
from workloads.traces.records import StepTrace

# A queue that holds this share of the second half's requests more at its end than at its start has grown; below it
# lies the jitter of requests that merely wait for the next step boundary.
QUEUE_GROWTH_SHARE = 0.01
# Nor has one that is worked off in this share of the arrivals' span: it is a burst that happened to come last.
BACKLOG_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Per request of the trace, in its order: float64 [N], seconds since the first arrival, after the load factor.

    nan where a request was rejected, and, in the decode policy, where it had no token left to decode.

    Attributes:
        arrival_s: never nan.
        scheduled_s: the step boundary at which it was admitted.
        first_token_s: end of the step that made its first token; in the decode policy the first made on this node.
        finish_s: end of the step that made its last token.
    """

    arrival_s: F64
    scheduled_s: F64
    first_token_s: F64
    finish_s: F64

    def __post_init__(self) -> None:
        for column in (self.arrival_s, self.scheduled_s, self.first_token_s, self.finish_s):
            frozen(column)


@dataclass(frozen=True, slots=True)
class Tally:
    """What the features did, summed over engines; see the fields of the same names in `ServingReport`."""

    preemptions: int
    recomputed_tokens: int
    prefilled_tokens: int
    made_tokens: int
    row_steps: int
    prefix_hit_share: float | None
    tokens_per_step: float | None
    rank_padding: float | None

    @classmethod
    def of(cls, totals: I64, features: Features) -> Tally:
        """From the totals of `workloads.serving.lockstep.state`."""
        count = [int(total) for total in totals]
        prompts, row_steps = max(1, count[state.PROMPT_TOKENS]), max(1, count[state.ROW_STEPS])
        padded_to = max(1, count[state.LARGEST_ROW_STEPS])
        return cls(
            count[state.PREEMPTIONS],
            count[state.RECOMPUTED_TOKENS],
            count[state.PREFILLED_TOKENS],
            count[state.MADE_TOKENS],
            count[state.ROW_STEPS],
            count[state.HIT_TOKENS] / prompts if features.prefix_cache else None,
            count[state.ROW_TOKENS] / row_steps if features.speculation else None,
            1 - count[state.ROW_STEPS] / padded_to if features.attention_ranks > 1 else None,
        )


@dataclass(frozen=True, slots=True)
class Simulation:
    """Outcome of `workloads.serving.simulate.simulate`; `tally` is None where no feature was on."""

    steps: StepTrace
    report: ServingReport
    requests: RequestTimes
    tally: Tally | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Raw material of a report: `counts` and `times` as in `workloads.serving.rows`, all engines one after another.

    Attributes:
        ran: bool [N], the request took part in steps.
        decode_from_schedule: the node decodes only; a request's decoding begins when it is scheduled.
        tally: None where no feature was on.
    """

    counts: I64
    times: F64
    requests: RequestTimes
    ran: Bool
    output_tokens: I64
    rejected: int
    engines: int
    max_running_requests: int
    decode_from_schedule: bool
    tally: Tally | None = None


def summarise(run: Run, load_share: float) -> ServingReport:
    """The report of a run; `load_share` comes from `workloads.serving.capacity`."""
    steps, decode_rows = run.counts[:, STEPS], run.counts[:, DECODE_ROWS]
    decode_steps = max(1, int(steps[decode_rows > 0].sum()))
    makespan_s = float(np.nanmax(run.requests.finish_s))
    busy_s = float(steps @ run.times[:, STEP_MS]) * 1e-3
    arrival_s = run.requests.arrival_s[run.ran]
    scheduled_s = run.requests.scheduled_s[run.ran]
    wait_p50_s, wait_p99_s = np.percentile(scheduled_s - arrival_s, (50, 99))
    ttft_p50_s, ttft_p99_s = np.percentile(run.requests.first_token_s[run.ran] - arrival_s, (50, 99))
    return ServingReport(
        load_share=load_share,
        overloaded=load_share >= 1 or queue_grew(arrival_s, scheduled_s),
        queue_wait_p50_s=float(wait_p50_s),
        queue_wait_p99_s=float(wait_p99_s),
        ttft_p50_s=float(ttft_p50_s),
        ttft_p99_s=float(ttft_p99_s),
        tpot_mean_ms=_tpot_mean_ms(run),
        share_at_cap=float(steps[decode_rows == run.max_running_requests].sum()) / decode_steps,
        mean_running=float(steps @ decode_rows) / decode_steps,
        peak_running=int(decode_rows.max()),
        throughput_tokens_per_s=float((run.output_tokens[run.ran] - 1).sum()) / makespan_s,
        utilisation=busy_s / (makespan_s * run.engines),
        completed=len(run.ran) - run.rejected,
        rejected=run.rejected,
        makespan_s=makespan_s,
        **_featured(run.tally),
    )


def _featured(tally: Tally | None) -> dict[str, Any]:
    names = ("preemptions", "recomputed_tokens", "prefix_hit_share", "tokens_per_step", "rank_padding")
    return {} if tally is None else {name: getattr(tally, name) for name in names}


def queue_grew(arrival_s: F64, scheduled_s: F64) -> bool:
    """Whether clearly more requests waited at the last arrival than at half of the arrivals' span, and it took long
    to work them off."""
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    half_s = 0.5 * (first_s + last_s)

    def waiting(at_s: float) -> int:
        return int(np.count_nonzero((arrival_s <= at_s) & (scheduled_s > at_s)))

    second_half = int(np.count_nonzero(arrival_s > half_s))
    grew = waiting(last_s) - waiting(half_s) > max(1.0, QUEUE_GROWTH_SHARE * second_half)
    return grew and float(scheduled_s.max()) - last_s > BACKLOG_SHARE * (last_s - first_s)


def _tpot_mean_ms(run: Run) -> float:
    several = run.ran & (run.output_tokens > 1)
    if not several.any():
        return 0.0
    times = run.requests
    begin_s = times.scheduled_s if run.decode_from_schedule else times.first_token_s
    tokens = run.output_tokens[several] - 1
    return float(np.mean((times.finish_s[several] - begin_s[several]) / tokens)) * 1e3
