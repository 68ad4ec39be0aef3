"""Process: one fresh process with a model, and what every measurement in it does: capture, check and time sizes.

What is measured in which order is for others to say: `CaptureSession`, `ReplaySession`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from services.capture.attention.base import DecodeAttention
from services.capture.attention.choose import choose_attention
from services.capture.attention.kv_cache import PAGE_TOKENS, rounded
from services.capture.correctness import check_size
from services.capture.decode_step import DecodeStep
from services.capture.device_log import DeviceLog
from services.capture.draft_correctness import check_draft
from services.capture.draft_step import DraftStep
from services.capture.failures import TORCH_ERRORS, failure_of
from services.capture.gpu_busy import spread_out
from services.capture.memory import make_meter
from services.capture.phases import PhaseLog
from services.capture.prefill_correctness import check_prefill
from services.capture.prefill_step import PrefillStep
from services.capture.readings import Check, Phase, Preparation, Progress, SizeFailure, Timing
from services.capture.spec import MeasureSpec
from services.capture.step import ContextStep, Step
from services.capture.strategies.base import Strategy
from services.capture.strategies.choose import make_strategy
from services.capture.timing import Measure, make_clock, reading, synchronize
from services.capture.timing import rounds as random_rounds
from workloads.errors import MeasurementFailed, Unavailable
from workloads.models.decoder import Decoder
from workloads.models.weights import build_decoder

Steps = Generator[Progress, None, None]

QUIET_S = 0.25  # between two reports while timing: telling costs host time, which eager steps would feel
MOST_REFERENCE_SIZES = 5  # a reference reads all weights three times over; sizes that differ from eager get one anyway
BASE_CAPACITY = PAGE_TOKENS  # tokens per row while g is measured: rows have length one, checks use all of it


def resolve_device(name: str) -> torch.device:
    """The device of a spec.

    Raises:
        Unavailable: CUDA is asked for and absent.
    """
    cuda = torch.cuda.is_available()
    if name == "cuda" and not cuda:
        raise Unavailable("no CUDA device here; use --device cpu for a small CPU profile", field="device")
    return torch.device("cuda", torch.cuda.current_device()) if cuda and name != "cpu" else torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Group:
    """Sizes up to `largest` that share static buffers and a memory pool."""

    step: Step
    strategy: Strategy
    largest: int


class Process:
    """A device, and the model on it once `build` has run; failures, preparations and checks of its sizes so far."""

    decoder: Decoder
    backend: type[DecodeAttention]

    def __init__(self, spec: MeasureSpec, *, start: int = 0) -> None:
        self.spec, self.start = spec, start
        self.device = resolve_device(spec.device)
        self.log = DeviceLog(self.device)
        self.phases = PhaseLog(self.log)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        if self.device.type == "cuda":
            torch.backends.cuda.enable_cudnn_sdp(False)  # it builds a plan per shape, which would count as capture
        self.meter = make_meter(self.device)
        self.clock = make_clock(self.device)
        self.failures: list[SizeFailure] = []
        self.prepared: dict[int, tuple[Preparation, float, float]] = {}
        self.checks: dict[int, Check] = {}

    def build(self) -> Steps:
        """The model, and the attention that works for it here.

        Raises:
            BadInput: the model cannot be built.
        """
        spec = self.spec
        yield self.progress("build", 0, 1)
        self.decoder = build_decoder(
            spec.model, positions=spec.positions, device=self.device, dtype=self.dtype, seed=spec.seed
        )
        self.phases.enter("attention")
        yield self.progress("attention", 0, 1)
        self.backend = choose_attention(
            self.decoder.config, self.dtype, self.device, spec.attention, tokens_per_row=spec.tokens_per_request
        )
        self.phases.enter("build")

    def group(self, sizes: Sequence[int]) -> Group:
        """Sizes on the shortest contexts there are."""
        step = self._base_step(max(sizes))
        return Group(step, make_strategy(self.spec.strategy, step, self.device, warmup=self.spec.warmup), max(sizes))

    def _base_step(self, rows: int) -> Step:
        if self.spec.family == "prefill":
            return PrefillStep(self.decoder, self.backend, rows=rows, seed=self.spec.seed)
        capacity = rounded(max(BASE_CAPACITY, self.spec.tokens_per_request))
        # Rows of one page lie the same in a pool, and laying pages out is work that paged engines do in every step.
        return self.rows_step(rows, capacity, tokens=rows * capacity if capacity == PAGE_TOKENS else None)

    def rows_step(self, rows: int, capacity: int, tokens: int | None) -> ContextStep:
        """A step of the spec's family on this process's decoder; `tokens` as in `decode_step`, where rows can share."""
        spec = self.spec
        if spec.draft is None:
            return self.decode_step(rows, capacity, tokens)
        room = rounded(capacity + spec.draft.forwards - 1)
        return DraftStep(self.decoder, self.backend, spec.draft, rows=rows, capacity=room, seed=spec.seed)

    def decode_step(self, rows: int, capacity: int, tokens: int | None = None) -> DecodeStep:
        """A step on this process's decoder; see `DecodeStep`."""
        return DecodeStep(
            self.decoder,
            self.backend,
            rows=rows,
            capacity=capacity,
            lm_head_in_graph=self.spec.lm_head_in_graph,
            seed=self.spec.seed,
            tokens=tokens,
            tokens_per_row=self.spec.tokens_per_request,
        )

    def capture(self, owner: dict[int, Strategy], order: Sequence[int]) -> Steps:
        """Prepare sizes in this order; a size that fails is a record."""
        self.phases.enter("capture")
        for done, size in enumerate(order):
            yield self.progress("capture", done, len(order), size)
            before_mib, before_reserved_mib = self.meter.used_mib(), self.meter.reserved_mib()
            try:
                preparation = owner[size].prepare(size)
            except TORCH_ERRORS as error:
                self.failures.append(failure_of(size, error))
                continue
            memory_mib = self.meter.used_mib() - before_mib
            self.prepared[size] = (preparation, memory_mib, self.meter.reserved_mib() - before_reserved_mib)
            finished = self.progress("capture", done + 1, len(order), size)
            yield replace(finished, seconds=preparation.capture_s, memory_mib=memory_mib)

    def check(self, step: Step, owner: dict[int, Strategy], sizes: Sequence[int]) -> Steps:
        self.phases.enter("check")
        dear = spread_out(self.spec.all_sizes, MOST_REFERENCE_SIZES)
        for done, size in enumerate(sizes):
            yield self.progress("check", done, len(sizes), size)
            try:
                self.checks[size] = _checked(step, owner[size], size, self.spec.seed, reference=size in dear)
            except TORCH_ERRORS as error:
                self.failures.append(failure_of(size, error))
        if not self.checks:
            reasons = "; ".join(f"{failure.size}: {failure.message}" for failure in self.failures[:3])
            raise MeasurementFailed(f"no size could be measured ({reasons})")

    def time(
        self,
        phase: Phase,
        step: Step,
        owner: dict[int, Strategy],
        repeats: int,
        only: Sequence[int] | None = None,
    ) -> Generator[Progress, None, dict[int, Timing]]:
        """Whole steps with every row real and of length one: pure g. Every checked size unless told otherwise."""
        sizes = sorted(self.checks if only is None else only)
        batches = {size: step.full(size, seed=size) for size in sizes}

        def measure(size: int) -> list[tuple[float, float]]:
            return self.iterate(step, owner[size], batches[size], size)

        self.phases.enter(phase)
        return (yield from self.rounds(phase, sizes, measure, repeats))

    def rounds(
        self, phase: Phase, keys: Sequence[int], measure: Measure, repeats: int
    ) -> Generator[Progress, None, dict[int, Timing]]:
        """Rounds over keys in random order, telling progress now and then."""
        timed = random_rounds(keys, measure, repeats=repeats, seed=self.spec.seed + self.start)
        done, told_s = 0, 0.0
        while True:
            try:
                key = next(timed)
            except StopIteration as finished:
                result: dict[int, Timing] = finished.value
                return result
            if time.monotonic() - told_s > QUIET_S:
                yield self.progress(phase, done, repeats * len(keys), key)
                self.phases.within()
                told_s = time.monotonic()
            done += 1

    @torch.inference_mode()
    def iterate(self, step: Step, strategy: Strategy, batch: Any, size: int) -> list[tuple[float, float]]:
        """(step_ms, run_ms) of the timed steps of one reading, the device idle before each; see `timing.reading`."""

        def one() -> tuple[float, float]:
            synchronize(self.device)
            self.clock.mark(0)
            step.load(batch, size)
            self.clock.mark(1)
            strategy.run(size)
            self.clock.mark(2)
            step.finish(len(batch))
            self.clock.mark(3)
            return self.clock.read()

        return reading(one, self.spec.iterations)

    def progress(self, phase: Phase, done: int, total: int, size: int | None = None) -> Progress:
        return Progress(phase, done, total, size, self.start, self.spec.starts)

    def free(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _checked(step: Step, strategy: Strategy, size: int, seed: int, *, reference: bool) -> Check:
    if isinstance(step, PrefillStep):
        return check_prefill(step, strategy, size, seed=seed)
    if isinstance(step, DraftStep):
        return check_draft(step, strategy, size, seed=seed)
    assert isinstance(step, DecodeStep)
    return check_size(step, strategy, size, seed=seed, reference=reference)
