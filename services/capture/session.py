"""CaptureSession: one fresh process measures one model, from building it to the last prefill.

The session is a generator: it yields `Progress` and returns a `StartReport`. A size that fails is a record in the
report and costs only itself; a lost device ends the session.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from services.capture.gpu_busy import busy_ms, spread_out
from services.capture.memory import MIB, make_meter, split_first
from services.capture.phases import PhaseLog
from services.capture.prefill import PrefillBench
from services.capture.prefill_correctness import check_prefill
from services.capture.prefill_step import PrefillStep
from services.capture.provenance import device_facts, model_facts, software_facts
from services.capture.readings import (
    BusyReading,
    Check,
    Phase,
    PrefillReading,
    Preparation,
    Probing,
    Progress,
    SizeFailure,
    SizeReading,
    StartReport,
    StepModel,
    Timing,
)
from services.capture.replay_job import LENGTH_SPREAD, ReplayStep
from services.capture.spec import MeasureSpec
from services.capture.step import ContextStep, Step
from services.capture.step_model import ContextReading, fit, plan_points
from services.capture.strategies.base import Strategy
from services.capture.strategies.choose import make_strategy
from services.capture.strategies.eager import EagerStrategy
from services.capture.timing import Measure, make_clock, reading, synchronize
from services.capture.timing import rounds as random_rounds
from workloads.errors import MeasurementFailed, Unavailable
from workloads.models.weights import build_decoder

Steps = Generator[Progress, None, None]

QUIET_S = 0.25  # between two reports while timing: telling costs host time, which eager steps would feel
MOST_FALLBACK_SIZES, MOST_FALLBACK_SIZES_ABOVE = 16, 3
MOST_BUSY_SIZES = 5  # the share that the GPU works changes slowly, and a profiler takes a second to start and to read
MOST_REFERENCE_SIZES = 5  # a reference reads all weights three times over; sizes that differ from eager get one anyway
PROBING_S = 12.0
PREFILL_REPEATS = 3
MOST_PREFIXED_TOKENS = 4096  # what a token pays for a cached one is a slope, which longer prompts do not show better
PROBE_REPEATS = 2  # replays differ by a per mille, and what is chosen by them is timed again
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


class CaptureSession:
    """State of one start. Use once: `report = yield from CaptureSession(spec).run()`."""

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

    def run(self) -> Generator[Progress, None, StartReport]:
        """Measure everything of the spec: the ladder (capture, check, probe, time), the step model, sizes above the
        ladder, prefill, and last the share that the GPU works.

        Raises:
            BadInput: the model cannot be built.
            MeasurementFailed: the device was lost, or no size could be measured.
        """
        spec = self.spec
        yield self._progress("build", 0, 1)
        self.decoder = build_decoder(
            spec.model, positions=spec.positions, device=self.device, dtype=self.dtype, seed=spec.seed
        )
        self.phases.enter("attention")
        yield self._progress("attention", 0, 1)
        self.backend: type[DecodeAttention] = choose_attention(
            self.decoder.config, self.dtype, self.device, spec.attention, tokens_per_row=spec.tokens_per_request
        )
        self.phases.enter("build")
        ladder = self._group(spec.sizes)
        step, owner = ladder.step, dict.fromkeys(spec.sizes, ladder.strategy)
        yield from self.capture(owner, sorted(spec.sizes, reverse=True))
        yield from self._check(step, owner, sorted(self.prepared))
        probing = yield from self._probe(step, owner, ladder.strategy)
        timings = yield from self._time("time", step, owner, spec.repeats)
        fallback = yield from self._fallback(step, timings, MOST_FALLBACK_SIZES)
        model = yield from self._step_model(timings)
        above = yield from self._above(timings, fallback)
        prefill = yield from self._prefill()
        busy = yield from self._busy((ladder, *above), timings, fallback)
        outputs_mib = step.output_bytes / MIB
        for group in (ladder, *above):
            group.strategy.close()
        self.phases.enter("done")
        report = self._report(
            timings,
            fallback,
            step_model=model,
            prefill=prefill,
            probing=probing,
            busy=busy,
            outputs_mib=outputs_mib,
        )
        self.log.close()
        yield self._progress("done", 1, 1)
        return report

    def _group(self, sizes: Sequence[int]) -> Group:
        """Sizes on the shortest contexts there are."""
        step = self._base_step(max(sizes))
        return Group(step, make_strategy(self.spec.strategy, step, self.device, warmup=self.spec.warmup), max(sizes))

    def _base_step(self, rows: int) -> Step:
        if self.spec.family == "prefill":
            return PrefillStep(self.decoder, self.backend, rows=rows, seed=self.spec.seed)
        capacity = rounded(max(BASE_CAPACITY, self.spec.tokens_per_request))
        # Rows of one page lie the same in a pool, and laying pages out is work that paged engines do in every step.
        return self._rows_step(rows, capacity, tokens=rows * capacity if capacity == PAGE_TOKENS else None)

    def _rows_step(self, rows: int, capacity: int, tokens: int | None) -> ContextStep:
        """A step of the spec's family on this session's decoder; `tokens` as in `decode_step`, where rows can share."""
        spec = self.spec
        if spec.draft is None:
            return self.decode_step(rows, capacity, tokens)
        room = rounded(capacity + spec.draft.forwards - 1)
        return DraftStep(self.decoder, self.backend, spec.draft, rows=rows, capacity=room, seed=spec.seed)

    def _kv_bytes(self) -> int:
        """KV cache of one token of a request."""
        config, draft = self.decoder.config, self.spec.draft
        target = config.kv_values_per_token * self.dtype.itemsize
        if draft is None:
            return target
        return math.ceil(target / config.layers * draft.topk * LENGTH_SPREAD[1])  # every branch has its longest row's

    def decode_step(self, rows: int, capacity: int, tokens: int | None = None) -> DecodeStep:
        """A step on this session's decoder; see `DecodeStep`."""
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
            yield self._progress("capture", done, len(order), size)
            before_mib, before_reserved_mib = self.meter.used_mib(), self.meter.reserved_mib()
            try:
                preparation = owner[size].prepare(size)
            except TORCH_ERRORS as error:
                self.failures.append(failure_of(size, error))
                continue
            memory_mib = self.meter.used_mib() - before_mib
            self.prepared[size] = (preparation, memory_mib, self.meter.reserved_mib() - before_reserved_mib)
            finished = self._progress("capture", done + 1, len(order), size)
            yield replace(finished, seconds=preparation.capture_s, memory_mib=memory_mib)

    def _check(self, step: Step, owner: dict[int, Strategy], sizes: Sequence[int]) -> Steps:
        self.phases.enter("check")
        dear = spread_out(self.spec.all_sizes, MOST_REFERENCE_SIZES)
        for done, size in enumerate(sizes):
            yield self._progress("check", done, len(sizes), size)
            try:
                self.checks[size] = _checked(step, owner[size], size, self.spec.seed, reference=size in dear)
            except TORCH_ERRORS as error:
                self.failures.append(failure_of(size, error))
        if not self.checks:
            reasons = "; ".join(f"{failure.size}: {failure.message}" for failure in self.failures[:3])
            raise MeasurementFailed(f"no size could be measured ({reasons})")

    def _probe(
        self, step: Step, owner: dict[int, Strategy], ladder: Strategy
    ) -> Generator[Progress, None, Probing | None]:
        """Go on to where another reading could change the best list; quick readings choose, they are timed again after.
        Ends with what is known after `PROBING_S`: sizes of a large model are dear, and the last per mille takes many.

        Sizes are captured as they come, so their memory is that of a pool that others have grown already: a later
        start, which knows them all, tells what they cost in an engine's order.
        """
        plan = self.spec.probing
        if plan is None:
            return None
        from tuner.probing import advise  # compiled code that other jobs need not load

        asked = [size for size in self.spec.sizes if size in self.checks]
        if not asked or asked[-1] != plan.candidates[-1]:
            raise MeasurementFailed(f"size {plan.candidates[-1]} could not be measured, and the curve must end there")
        read_ms: dict[int, float] = {}
        refused: set[int] = set()
        rounds, until_s = 0, math.inf
        while True:
            timings = yield from self._time("probe", step, owner, PROBE_REPEATS, asked)
            # What surrounds the run is the host's and the real rows', no bucket's, and its noise would ask for probes.
            read_ms |= {size: timing.run_ms for size, timing in timings.items()}
            self.phases.enter("plan")
            open_plan = replace(plan, candidates=tuple(n for n in plan.candidates if n not in refused))
            advice = advise(read_ms, open_plan)
            probing = Probing(tuple(sorted(read_ms)), rounds, advice.sizes, advice.mean_ms, advice.bound_ms)
            if rounds == 0:  # the first thought compiles the solver, once a machine
                until_s = time.monotonic() + PROBING_S
            if not advice.probes or time.monotonic() > until_s:
                return probing
            rounds += 1
            owner |= dict.fromkeys(advice.probes, ladder)
            yield from self.capture(owner, sorted(advice.probes, reverse=True))
            yield from self._check(step, owner, [size for size in advice.probes if size in self.prepared])
            asked = [size for size in advice.probes if size in self.checks]
            refused |= set(advice.probes) - set(asked)

    def _time(
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

    def _fallback(
        self, step: Step, timings: dict[int, Timing], most: int
    ) -> Generator[Progress, None, dict[int, Timing]]:
        """Eager steps on the same scope, at no more than `most` sizes spread over all: they take the host's time, the
        same at any size, until the GPU fills them. Fewer rounds, since they are slow and their spread is the host's."""
        if not self.spec.measure_fallback:
            return {}
        if self.spec.strategy == "eager":
            return timings
        self.phases.enter("fallback")
        eager, sizes = EagerStrategy(step), spread_out(sorted(timings), most)
        for size in reversed(sizes):
            eager.prepare(size)
        repeats = max(3, self.spec.repeats // 2)
        result = yield from self._time("fallback", step, dict.fromkeys(sizes, eager), repeats, sizes)
        eager.close()
        return result

    def _above(
        self, timings: dict[int, Timing], fallback: dict[int, Timing]
    ) -> Generator[Progress, None, tuple[Group, ...]]:
        """Sizes above the ladder, added to what was timed: after all that lists are chosen by, on a step of their own.

        Once a second strategy has captured graphs in a process, on a stream and in a pool of its own, every graph of
        the process is slower, whatever its size: by 0.2 ms on an H200, a tenth of a step of Qwen3-0.6B. A ladder that
        holds the same sizes itself does not show that.
        """
        sizes = self.spec.fallback_sizes
        if not sizes:
            return ()
        self._free()
        group = self._group(sizes)
        owner = dict.fromkeys(sizes, group.strategy)
        yield from self.capture(owner, sorted(sizes, reverse=True))
        yield from self._check(group.step, owner, [size for size in sizes if size in self.prepared])
        checked = [size for size in sizes if size in self.checks]
        found = yield from self._time("time", group.step, owner, self.spec.repeats, checked)
        timings |= found
        fallback |= yield from self._fallback(group.step, found, MOST_FALLBACK_SIZES_ABOVE)
        return (group,)

    @torch.inference_mode()
    def _busy(
        self, groups: Sequence[Group], timings: dict[int, Timing], fallback: dict[int, Timing]
    ) -> Generator[Progress, None, tuple[BusyReading, ...]]:
        """GPU-busy time of a few sizes, in the first start only: it is the kernels', and they do not change.

        Comes last: a process that was profiled launches every graph slower from then on (by 0.3 ms on an H200).
        """
        if self.start > 0 or not fallback or self.device.type != "cuda":
            return ()
        self.phases.enter("profile")
        readings = []
        sizes = spread_out(sorted(fallback), MOST_BUSY_SIZES)
        for done, size in enumerate(sizes):
            yield self._progress("profile", done, len(sizes), size)
            group = next(group for group in groups if size <= group.largest)
            eager = EagerStrategy(group.step)
            group.step.load(group.step.full(size, seed=size), size)
            eager.prepare(size)
            graph_ms = busy_ms(partial(group.strategy.run, size), self.device)
            eager_ms = busy_ms(partial(eager.run, size), self.device)
            if graph_ms is not None and eager_ms is not None:
                readings.append(BusyReading(size, graph_ms, eager_ms, timings[size].run_ms, fallback[size].step_ms))
            eager.close()
        return tuple(readings)

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
                yield self._progress(phase, done, repeats * len(keys), key)
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

    def _step_model(self, timings: dict[int, Timing]) -> Generator[Progress, None, StepModel | None]:
        """Steps with real context in a few buckets, each over a KV cache of its own."""
        spec = self.spec
        if spec.family == "prefill":
            return None  # its context is the prompt itself, and `prefixes` say what a longer one costs
        self.phases.enter("step_model")
        self._free()
        budget_bytes = min(spec.max_kv_gib * 2**30, 0.6 * self.meter.free_mib() * 2**20)
        ladder = [size for size in spec.sizes if size in timings]
        points = plan_points(ladder, spec.contexts, bytes_per_token=self._kv_bytes(), budget_bytes=budget_bytes)
        measured: list[ContextReading] = []
        for done, (context, bucket) in enumerate(points):
            yield self._progress("step_model", done, len(points), bucket)
            try:
                measured += self._context_point(context, bucket)
            except TORCH_ERRORS as error:
                self.failures.append(failure_of(bucket, error))
            self._free()
        if not measured:
            return None
        return fit(measured)

    def _context_point(self, context: int, bucket: int) -> list[ContextReading]:
        """Every fill of one bucket with rows of different lengths, beside the bucket alone."""
        rows = dict.fromkeys(max(1, round(fill * bucket)) for fill in self.spec.fills)
        lengths = {n: torch.from_numpy(ReplayStep(n, n * context).lengths()) for n in rows}
        longest = max(int(of.max()) for of in lengths.values())
        step = self._rows_step(bucket, rounded(longest), tokens=bucket * (context + 2 * PAGE_TOKENS))
        strategy = make_strategy(self.spec.strategy, step, self.device, warmup=self.spec.warmup)
        alone = 0  # key of the full bucket of length-one rows, among numbers of real rows
        try:
            strategy.prepare(bucket)
            batches = {n: step.batch_of(of, seed=n) for n, of in lengths.items()} | {alone: step.full(bucket)}

            def measure(n: int) -> list[tuple[float, float]]:
                return self.iterate(step, strategy, batches[n], bucket)

            timings = _drain(self.rounds("step_model", tuple(batches), measure, self.spec.repeats))
        finally:
            strategy.close()
        alone_ms = timings[alone].step_ms
        return [ContextReading(bucket, n, context, timings[n].step_ms, alone_ms) for n in rows]

    def _prefill(self) -> Generator[Progress, None, tuple[PrefillReading, ...]]:
        """In the first start only: no list is chosen by it, and the long ones take as long as a whole decode ladder."""
        spec = self.spec
        if not spec.prefill_tokens or self.start > 0:
            return ()
        self.phases.enter("prefill")
        self._free()
        longest = max(spec.prefill_tokens) + max(spec.prefixes)
        bench = PrefillBench(self.decoder, self.backend, longest=longest)
        readings: list[PrefillReading] = []
        counts = {
            prefix: tuple(n for n in spec.prefill_tokens if not prefix or n <= MOST_PREFIXED_TOKENS)
            for prefix in spec.prefixes
        }
        total = sum(map(len, counts.values())) * PREFILL_REPEATS
        done = 0
        for prefix, tokens_each in counts.items():
            if not tokens_each:
                continue
            timed = bench.time(tokens_each, prefix, repeats=PREFILL_REPEATS, seed=spec.seed)
            while True:
                try:
                    tokens = next(timed)
                except StopIteration as finished:
                    found, failed = finished.value
                    readings += found
                    self.failures += failed
                    break
                yield self._progress("prefill", done, total, tokens)
                done += 1
        return tuple(readings)

    def _report(
        self,
        timings: dict[int, Timing],
        fallback: dict[int, Timing],
        *,
        step_model: StepModel | None,
        prefill: tuple[PrefillReading, ...],
        probing: Probing | None,
        busy: tuple[BusyReading, ...],
        outputs_mib: float,
    ) -> StartReport:
        order = [size for size in sorted(self.spec.sizes, reverse=True) if size in self.prepared]
        pool_mib, marginal_mib = split_first([self.prepared[size][1] for size in order])
        fixed_s, marginal_s = split_first([self.prepared[size][0].capture_s for size in order])
        fallback_sizes = [size for size in self.spec.fallback_sizes if size in self.prepared]
        others = [size for size in self.prepared if size not in order]
        return StartReport(
            readings=tuple(
                SizeReading(size, *self.prepared[size], timings[size], fallback.get(size), self.checks[size])
                for size in sorted(timings)
            ),
            failures=tuple(self.failures),
            pool_mib=pool_mib,
            fixed_s=fixed_s,
            marginal_mib=dict(zip(order, marginal_mib, strict=True)) | {n: self.prepared[n][1] for n in fallback_sizes},
            marginal_s=dict(zip(order, marginal_s, strict=True)) | {n: self.prepared[n][0].capture_s for n in others},
            device=device_facts(self.device, self.log),
            model=model_facts(self.spec.model, self.decoder),
            software=software_facts(self.device, self.log, self.backend.name),
            attention=self.backend.name,
            device_log=tuple(self.log.samples),
            step_model=step_model,
            prefill=prefill,
            probing=probing,
            busy=busy,
            outputs_mib=outputs_mib,
            seconds=self.phases.seconds,
            phase_s=self.phases.phase_s,
        )

    def _progress(self, phase: Phase, done: int, total: int, size: int | None = None) -> Progress:
        return Progress(phase, done, total, size, self.start, self.spec.starts)

    def _free(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _drain(timed: Generator[Progress, None, dict[int, Timing]]) -> dict[int, Timing]:
    while True:
        try:
            next(timed)
        except StopIteration as finished:
            result: dict[int, Timing] = finished.value
            return result


def _checked(step: Step, strategy: Strategy, size: int, seed: int, *, reference: bool) -> Check:
    if isinstance(step, PrefillStep):
        return check_prefill(step, strategy, size, seed=seed)
    if isinstance(step, DraftStep):
        return check_draft(step, strategy, size, seed=seed)
    assert isinstance(step, DecodeStep)
    return check_size(step, strategy, size, seed=seed, reference=reference)
