"""Recorded requests with their real arrivals, and what the client saw of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.capture.probes.base import ProbeRequest, RequestTiming
from services.capture.probes.failures import EngineFailed, EngineFailure
from workloads.errors import BadInput
from workloads.traces.records import RequestTrace

_LEAST_UNCAPTURED = 10
"""Fewer prompts say nothing of how a start fared apart from its list."""
_SEED = 500_000_000  # away from the prompts that step times are read with
_STREAM_STRIDE = 5_000_000  # more requests than any stream has


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is sent. `clipped` requests asked for more than the longest the engine takes and were cut to it."""

    requests: tuple[ProbeRequest, ...]
    clipped: int

    @property
    def span_s(self) -> float:
        return self.requests[-1].at_s


@dataclass(frozen=True, slots=True)
class Served:
    """One run. Milliseconds over requests; throughput over the time from the first arrival to the last token.

    Attributes:
        drain_s: from the last arrival to the last token.
        uncaptured_requests, uncaptured_ttft_ms: of prompts longer than the largest size of every list that is compared,
            whose steps have no graph under any; the mean is None where they are few.
    """

    requests: int
    failed: int
    first_error: str | None
    ttft_mean_ms: float
    ttft_p99_ms: float
    tpot_mean_ms: float
    tpot_p99_ms: float
    throughput_tokens_per_s: float
    span_s: float
    drain_s: float
    uncaptured_requests: int = 0
    uncaptured_ttft_ms: float | None = None


def schedule(trace: RequestTrace, *, load: float, within_s: float, longest_tokens: int, stream: int = 0) -> Schedule:
    """The requests that arrive in the first `within_s` seconds once arrival times are divided by `load`.

    Args:
        stream: number of the workload; prompts of two of them share no prefix.

    Raises:
        BadInput: fewer than two requests arrive in that time.
    """
    at_s = trace.arrival_s / load
    count = int(np.searchsorted(at_s, within_s, side="right"))
    if count < 2:
        raise BadInput(f"fewer than two requests arrive within {within_s:g} s at load {load:g}; serve for longer")
    inputs, outputs = trace.input_tokens[:count], trace.output_tokens[:count]
    kept_in = np.minimum(inputs, longest_tokens - 1)
    kept_out = np.minimum(outputs, longest_tokens - kept_in)
    requests = tuple(
        ProbeRequest(float(at), int(prompt), int(output), _SEED + stream * _STREAM_STRIDE + i)
        for i, (at, prompt, output) in enumerate(zip(at_s[:count], kept_in, kept_out, strict=True))
    )
    return Schedule(requests, int(((kept_in < inputs) | (kept_out < outputs)).sum()))


def summarise(requests: Sequence[ProbeRequest], timings: Sequence[RequestTiming], largest_captured: int) -> Served:
    """What the run comes down to.

    Args:
        timings: in the order of `requests`.
        largest_captured: most tokens of a step that has a graph under any list; 0 where prompts never have one.

    Raises:
        EngineFailed: no request was answered with two tokens.
    """
    good = [timing for timing in timings if timing.error is None]
    errors = [timing.error for timing in timings if timing.error is not None]
    tpot_ms = [value for timing in good if (value := timing.tpot_ms) is not None]
    if not tpot_ms:
        sentence = errors[0] if errors else "no request asked for two output tokens"
        raise EngineFailed(EngineFailure("refused", f"no request was answered: {sentence}"))
    ttft_ms = [timing.ttft_ms for timing in good]
    pairs = zip(requests, timings, strict=True)
    long_ms = [t.ttft_ms for of, t in pairs if t.error is None and of.prompt_tokens > largest_captured]
    end_s = max(timing.last_s for timing in good)
    span_s = end_s - min(timing.sent_s for timing in good)
    return Served(
        requests=len(timings),
        failed=len(errors),
        first_error=errors[0] if errors else None,
        ttft_mean_ms=statistics.fmean(ttft_ms),
        ttft_p99_ms=float(np.percentile(ttft_ms, 99)),
        tpot_mean_ms=statistics.fmean(tpot_ms),
        tpot_p99_ms=float(np.percentile(tpot_ms, 99)),
        throughput_tokens_per_s=sum(timing.output_tokens for timing in good) / span_s,
        span_s=span_s,
        drain_s=max(0.0, end_s - max(timing.sent_s for timing in timings)),
        uncaptured_requests=len(long_ms),
        uncaptured_ttft_ms=statistics.fmean(long_ms) if len(long_ms) >= _LEAST_UNCAPTURED else None,
    )
