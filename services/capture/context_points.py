"""Context points: steps with real contexts in a few buckets, each over a KV cache of its own, and a fit to them."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import torch

from services.capture.attention.kv_cache import PAGE_TOKENS, rounded
from services.capture.failures import TORCH_ERRORS, failure_of
from services.capture.process import Process
from services.capture.readings import Progress, StepModel, Timing
from services.capture.replay_job import LENGTH_SPREAD, ReplayStep
from services.capture.step_model import ContextReading, curve_point, fills_of, fit, plan_points
from services.capture.strategies.choose import make_strategy


def step_model(process: Process, timings: dict[int, Timing]) -> Generator[Progress, None, StepModel | None]:
    """Steps with real context in a few buckets, each over a KV cache of its own."""
    spec = process.spec
    if spec.family == "prefill":
        return None  # its context is the prompt itself, and `prefixes` say what a longer one costs
    process.phases.enter("step_model")
    process.free()
    budget_bytes = min(spec.max_kv_gib * 2**30, 0.6 * process.meter.free_mib() * 2**20)
    ladder = [size for size in spec.sizes if size in timings]
    points = plan_points(ladder, spec.contexts, bytes_per_token=_kv_bytes(process), budget_bytes=budget_bytes)
    curved = curve_point(points) if process.decoder.config.experts is not None else None
    measured: list[ContextReading] = []
    for done, (context, bucket) in enumerate(points):
        yield process.progress("step_model", done, len(points), bucket)
        try:
            rows = {max(1, round(fill * bucket)) for fill in spec.fills}
            if (context, bucket) == curved:
                rows.update(fills_of(bucket))
            measured += _context_point(process, context, bucket, sorted(rows, reverse=True))
        except TORCH_ERRORS as error:
            process.failures.append(failure_of(bucket, error))
        process.free()
    if not measured:
        return None
    # A draft's rows have branches of one context, and its step several forwards: not what the kernel's rule is about.
    unsplit_rows = (
        None if spec.draft is not None else process.backend.unsplit_rows(process.decoder.config, process.device)
    )
    return fit(measured, unsplit_rows)


def _context_point(process: Process, context: int, bucket: int, rows: Sequence[int]) -> list[ContextReading]:
    """One bucket filled with so many rows of different lengths each, beside the bucket alone."""
    lengths = {n: torch.from_numpy(ReplayStep(n, n * context).lengths()) for n in rows}
    longest = max(int(of.max()) for of in lengths.values())
    step = process.rows_step(bucket, rounded(longest), tokens=bucket * (context + 2 * PAGE_TOKENS))
    strategy = make_strategy(process.spec.strategy, step, process.device, warmup=process.spec.warmup)
    alone = 0  # key of the full bucket of length-one rows, among numbers of real rows
    try:
        strategy.prepare(bucket)
        batches = {n: step.batch_of(of, seed=n) for n, of in lengths.items()} | {alone: step.full(bucket)}

        def measure(n: int) -> list[tuple[float, float]]:
            return process.iterate(step, strategy, batches[n], bucket)

        timings = _drain(process.rounds("step_model", tuple(batches), measure, process.spec.repeats))
    finally:
        strategy.close()
    alone_ms = timings[alone].step_ms
    return [ContextReading(bucket, n, context, timings[n].step_ms, alone_ms) for n in rows]


def _kv_bytes(process: Process) -> int:
    """KV cache of one token of a request."""
    config, draft = process.decoder.config, process.spec.draft
    target = config.kv_values_per_token * process.dtype.itemsize
    if draft is None:
        return target
    return math.ceil(target / config.layers * draft.topk * LENGTH_SPREAD[1])  # every branch has its longest row's


def _drain(timed: Generator[Progress, None, dict[int, Timing]]) -> dict[int, Timing]:
    while True:
        try:
            next(timed)
        except StopIteration as finished:
            result: dict[int, Timing] = finished.value
            return result
