"""RequestTrace -> StepTrace + ServingReport: continuous batching under one of three scheduler policies.

Each policy has its own file (`decode`, `sglang`, `vllm`) with its exact rules and a compiled kernel that jumps from
event to event. What `features` add (preemption by the engine's own KV rule, prefix cache, speculation, attention ranks)
runs in another one, `lockstep`, which takes the same steps where no feature is on. What they share:

- A request that arrives during a step can be admitted at the next step boundary; an idle engine wakes on arrival.
- Admission is first come, first served and, unless `features.preempt`, conservative: a request is admitted only when
  its whole input + output tokens fit into the KV cache beside those that the running ones reserved, so nothing is
  ever preempted. A request that does not fit into an empty cache is rejected and counted; so is, under the vllm
  policy without chunks, a prompt longer than the token budget, as these engines refuse it.
- Prefill makes the first token; output_tokens - 1 decode steps follow.
- Times are those of `StepTime`: decode_ms[n] + a x KV + h x n for n decode rows; prefill curve + prefix term for a
  prefill step; for a mixed step the curve over all its tokens + prefix term + a x KV + h x n of its decode rows.
- A row's kv_tokens are the real KV tokens that its decode rows attend to, what the `a` term prices (0 for a step that
  only prefills).
"""

from __future__ import annotations

import math

import numpy as np

from workloads.arrays import F64, I64, Bool
from workloads.errors import BadInput, BadUsage
from workloads.histogram import Unit
from workloads.serving.capacity import engine_ms_per_request
from workloads.serving.decode import decode_kernel
from workloads.serving.features import Features
from workloads.serving.limits import UNLIMITED, PolicyName, SchedulerLimits
from workloads.serving.lockstep.run import fits_alone, run_lockstep
from workloads.serving.lockstep.state import RANK_COLUMNS
from workloads.serving.outcome import RequestTimes, Run, Simulation, Tally, summarise
from workloads.serving.rows import FAMILY, KV_TOKENS, SIZE, START_MS, STEP_MS, STEPS
from workloads.serving.sglang import sglang_kernel
from workloads.serving.step_time import StepTime
from workloads.serving.vllm import vllm_kernel
from workloads.traces.records import RequestTrace, StepTrace

__all__ = ["Simulation", "simulate"]

FAMILIES: dict[PolicyName, tuple[tuple[str, ...], tuple[Unit, ...]]] = {
    "decode": (("decode_full",), ("requests",)),
    "sglang": (("decode_full", "prefill_breakable"), ("requests", "tokens")),
    "vllm": (("decode_full", "decode_piecewise"), ("tokens", "tokens")),
}
PLAIN = Features()


def simulate(
    trace: RequestTrace,
    policy: PolicyName,
    limits: SchedulerLimits,
    step_time: StepTime,
    *,
    load: float = 1.0,
    engines: int = 1,
    features: Features = PLAIN,
) -> Simulation:
    """Run the requests of a trace through engine instances of one kind.

    Args:
        trace: requests in order of arrival.
        policy: the scheduler; see the file of that name.
        limits: of one engine instance.
        step_time: of one engine instance with one capture list; known up to `limits.max_running_requests`.
        load: arrival times are divided by this.
        engines: request i goes to instance i % engines; each is simulated alone, and their step rows stand one after
            the other (so `start_s`, seconds since the first arrival, restarts with every instance). The report is
            over all of them: token rates are summed, `utilisation` and `load_share` are per instance.
        features: see `workloads.serving.features`; with attention ranks `limits` hold for each rank, and step sizes
            are those of the largest.

    Returns:
        steps (one row per stretch of equal decode steps, one per step with prefill), report and request times. A
        request with one output token takes no step on a decode node: it counts as completed at once there.

    Raises:
        BadUsage: unknown policy, load or engines out of range, or limits that the engine itself refuses.
        BadInput: step times that do not reach max_running_requests, are negative, or lack the prefill that the policy
            needs; or a trace of which no request takes part in a step.
    """
    _check(policy, limits, step_time, load, engines)
    _check_features(trace, policy, limits, features)
    arrival_ms = trace.arrival_s * 1000.0 / load
    fits = admissible(trace, policy, limits, features)
    ran = fits & (trace.output_tokens > 1) if policy == "decode" else fits
    if not ran.any():
        raise BadInput(_no_step(len(trace), int(len(trace) - fits.sum())))
    counts, times, per_request, totals = _run_engines(
        trace, arrival_ms, ran, policy, limits, step_time, engines, features
    )
    seconds = per_request * 1e-3
    requests = RequestTimes(arrival_ms * 1e-3, seconds[0], seconds[1], seconds[2])
    run = Run(
        counts,
        times,
        requests,
        ran,
        trace.output_tokens,
        rejected=int(len(trace) - fits.sum()),
        engines=engines,
        max_running_requests=limits.max_running_requests,
        decode_from_schedule=policy == "decode",
        tally=None if features.plain else Tally.of(totals, features),
    )
    span_ms = float(arrival_ms[-1] - arrival_ms[0]) or float(np.nanmax(per_request[2]))
    report = summarise(
        run, int(fits.sum()) / engines / span_ms * _need_ms(trace, fits, policy, limits, step_time, run, features)
    )
    return Simulation(_step_trace(counts, times, policy), report, requests, run.tally)


def admissible(trace: RequestTrace, policy: PolicyName, limits: SchedulerLimits, features: Features = PLAIN) -> Bool:
    """Which requests the engine takes at all: bool [N]."""
    fits = fits_alone(trace.input_tokens, trace.output_tokens, policy, limits, features)
    if policy == "vllm" and limits.chunked_prefill_tokens is None:
        # TensorRT-LLM without chunked context, and vLLM without chunked prefill, refuse longer prompts. One that is
        # preempted comes back with its output as prompt.
        longest = trace.input_tokens + trace.output_tokens if features.preempt else trace.input_tokens
        fits &= longest <= limits.token_budget
    return fits


def _need_ms(
    trace: RequestTrace,
    fits: Bool,
    policy: PolicyName,
    limits: SchedulerLimits,
    step_time: StepTime,
    run: Run,
    features: Features,
) -> float:
    """Engine milliseconds per mean request; ranks work side by side, cached prompt tokens cost nothing."""
    tokens_per_step = 1.0 if features.speculation is None else features.speculation.mean_tokens
    hit_share = 0.0 if run.tally is None else run.tally.prefix_hit_share or 0.0
    need_ms = engine_ms_per_request(
        trace.input_tokens[fits],
        trace.output_tokens[fits],
        policy,
        limits,
        step_time,
        tokens_per_step=tokens_per_step,
        computed_share=1.0 - hit_share,
    )
    return need_ms / features.attention_ranks


def _check_features(trace: RequestTrace, policy: PolicyName, limits: SchedulerLimits, features: Features) -> None:
    if features.prefix_cache:
        if policy == "decode":
            raise BadUsage(
                "the decode policy computes no prompt, so a prefix cache has nothing to save; take vllm or sglang",
                field="prefix_cache",
            )
        if trace.prefix_blocks is None:
            raise BadInput(
                "this trace has no block hashes, so shared prefixes are unknown; a Mooncake or Bailian trace has them "
                "(hash_ids)",
                field="prefix_cache",
            )
    speculation = features.speculation
    if policy == "vllm" and speculation is not None and limits.token_budget < speculation.query_tokens:
        raise BadUsage(
            f"must hold one decode step of {speculation.query_tokens} tokens, not {limits.token_budget}",
            field="token_budget",
        )


def _check(policy: PolicyName, limits: SchedulerLimits, step_time: StepTime, load: float, engines: int) -> None:
    if policy not in FAMILIES:
        raise BadUsage(f"'{policy}' is no scheduler policy; take one of {', '.join(FAMILIES)}", field="policy")
    if not 0 < load < math.inf:
        raise BadUsage(f"must be above 0, not {load}", field="load")
    if engines < 1:
        raise BadUsage(f"must be at least 1, not {engines}", field="engines")
    known = len(step_time.decode_ms) - 1
    if limits.max_running_requests > known:
        raise BadInput(
            f"step times are known up to {known} requests, but the scheduler runs up to "
            f"{limits.max_running_requests}; lower max_running_requests or give times up to there",
            field="decode_ms",
        )
    for name in ("attention_ms_per_token", "row_ms", "prefix_ms_per_token2"):
        if not 0 <= getattr(step_time, name) < math.inf:
            raise BadInput(f"must be 0 or more, not {getattr(step_time, name)}", field=name)
    if policy != "decode" and not step_time.knows_prefill:
        raise BadInput(
            f"the {policy} policy needs prefill times and the profile has none; "
            "use the decode policy or a profile with prefill points",
            field="prefill",
        )
    if policy != "decode" and not (np.all(step_time.prefill_tokens > 0) and np.all(step_time.prefill_ms > 0)):
        raise BadInput("prefill points need positive tokens and times", field="prefill")
    if policy == "vllm" and limits.token_budget < limits.max_running_requests:
        raise BadUsage(
            f"vLLM refuses max_num_batched_tokens ({limits.token_budget}) below max_num_seqs "
            f"({limits.max_running_requests}); raise the one or lower the other",
            field="token_budget",
        )


def _no_step(requests: int, rejected: int) -> str:
    if rejected == requests:
        return (
            f"no request fits: all {requests} were rejected; raise kv_tokens, or the token budget of unchunked prefill"
        )
    return (
        f"no request takes part in a decode step: {requests - rejected} of {requests} have one output token, "
        f"{rejected} were rejected"
    )


def _run_engines(
    trace: RequestTrace,
    arrival_ms: F64,
    ran: Bool,
    policy: PolicyName,
    limits: SchedulerLimits,
    step_time: StepTime,
    engines: int,
    features: Features,
) -> tuple[I64, F64, F64, I64]:
    """counts and times of all engines' rows; [3, N] per request: scheduled, first and last token in ms, or nan; and
    the sum of their totals as in `lockstep.state`, which stay zero where no feature is on."""
    per_request = np.full((3, len(trace)), np.nan)
    totals = np.zeros(RANK_COLUMNS, np.int64)
    chosen = np.flatnonzero(ran)
    all_counts, all_times = [], []
    for engine in range(engines):
        own = chosen[chosen % engines == engine]
        if len(own) == 0:
            continue
        # Copies keep one array type for the kernels: a read-only column would compile them a second time.
        requests = (arrival_ms[own], trace.input_tokens[own], trace.output_tokens[own])
        outcome: tuple[F64, F64, F64]
        if features.plain:
            counts, times, scheduled_ms, first_ms, finish_ms = _run_one(requests, policy, limits, step_time)
            outcome = (scheduled_ms, first_ms, finish_ms)
        else:
            blocks = None if trace.prefix_blocks is None else trace.prefix_blocks.of(own)
            ended = run_lockstep(own, *requests, policy, limits, step_time, features, blocks)
            counts, times = ended.counts, ended.times
            outcome = (ended.times_ms[0], ended.times_ms[1], ended.times_ms[2])
            totals += ended.totals
        all_counts.append(counts)
        all_times.append(times)
        for row, column in zip(per_request, outcome, strict=True):
            row[own] = column
    return np.concatenate(all_counts), np.concatenate(all_times), per_request, totals


def _run_one(
    requests: tuple[F64, I64, I64], policy: PolicyName, limits: SchedulerLimits, step_time: StepTime
) -> tuple[I64, F64, F64, F64, F64]:
    arrival_ms, input_tokens, output_tokens = requests
    decode_ms = step_time.decode_ms.astype(np.float64)
    attention_ms, row_ms = float(step_time.attention_ms_per_token), float(step_time.row_ms)
    max_running, kv_capacity = limits.max_running_requests, limits.kv_tokens or UNLIMITED
    if policy == "decode":
        return decode_kernel(
            arrival_ms, input_tokens, output_tokens, decode_ms, attention_ms, row_ms, max_running, kv_capacity
        )
    costs = (
        decode_ms,
        attention_ms,
        row_ms,
        step_time.prefill_tokens.astype(np.float64),
        step_time.prefill_ms.astype(np.float64),
        float(step_time.prefix_ms_per_token2),
    )
    chunked = limits.chunked_prefill_tokens is not None
    chunk_tokens = min(limits.chunked_prefill_tokens or limits.token_budget, limits.token_budget)
    head = (arrival_ms, input_tokens, output_tokens, *costs, max_running, kv_capacity)
    if policy == "sglang":
        return sglang_kernel(*head, chunk_tokens, chunked)
    return vllm_kernel(*head, limits.token_budget, chunk_tokens, chunked)


def _step_trace(counts: I64, times: F64, policy: PolicyName) -> StepTrace:
    families, units = FAMILIES[policy]
    rows = len(counts)
    return StepTrace(
        size=counts[:, SIZE].copy(),
        steps=counts[:, STEPS].copy(),
        family_index=counts[:, FAMILY].astype(np.int8),
        start_s=times[:, START_MS] * 1e-3,
        step_ms=times[:, STEP_MS].copy(),
        kv_tokens=times[:, KV_TOKENS].copy(),
        padded_size=np.zeros(rows, np.int64),
        fallback=np.full(rows, -1, np.int8),
        families=families,
        units=units,
        origin="simulation",
    )
