"""What a simulated service looked like to its users and its operator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServingReport:
    """Outcome of one simulation; times in seconds unless named otherwise.

    Attributes:
        load_share: offered token rate / sustainable token rate of one engine; above 1 the queue grows without end.
            The sustainable rate is stated in `workloads.serving.simulate`.
        overloaded: load_share >= 1, or the queue had grown over the second half of the trace and took more than a
            twentieth of the arrivals' span to work off after the last of them.
        queue_wait_p50_s, queue_wait_p99_s: arrival to first scheduled.
        ttft_p50_s, ttft_p99_s: arrival to first token.
        tpot_mean_ms: mean over requests with at least two tokens of (last - first token) / (output - 1).
        share_at_cap: share of decode steps that ran at max_running_requests.
        mean_running, peak_running: decode batch over steps.
        throughput_tokens_per_s: decode tokens / makespan.
        utilisation: busy share of the makespan.
        completed, rejected: requests; rejected ones need more KV than the engine has, or prefill
            longer than its unchunked step.
        makespan_s: first arrival to last token.
        preemptions: times that a running request lost its KV cache to others (vLLM preemption, SGLang retraction).
        recomputed_tokens: prefill tokens computed again for that reason.
        prefix_hit_share: share of prompt tokens found in the prefix cache at first admission; None without one.
        tokens_per_step: tokens that a request gained in a decode step on average; None without speculation.
        rank_padding: share of decode rows that pad a rank to the largest one; None with a single rank.
        slo_share, goodput_requests_per_s: requests within the user's objective, as a share of all and per second of
            the makespan; None where none was stated (`workloads.serving.goodput`).
    """

    load_share: float
    overloaded: bool
    queue_wait_p50_s: float
    queue_wait_p99_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    tpot_mean_ms: float
    share_at_cap: float
    mean_running: float
    peak_running: int
    throughput_tokens_per_s: float
    utilisation: float
    completed: int
    rejected: int
    makespan_s: float
    preemptions: int = 0
    recomputed_tokens: int = 0
    prefix_hit_share: float | None = None
    tokens_per_step: float | None = None
    rank_padding: float | None = None
    slo_share: float | None = None
    goodput_requests_per_s: float | None = None
