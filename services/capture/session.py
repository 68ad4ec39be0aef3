"""CaptureSession: one fresh process measures one model, from building it to the last prefill.

The session is a generator: it yields `Progress` and returns a `StartReport`. A size that fails is a record in the
report and costs only itself; a lost device ends the session.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial

import torch

from services.capture.context_points import step_model
from services.capture.few_probes import probe
from services.capture.gpu_busy import busy_ms, spread_out
from services.capture.memory import MIB, split_first
from services.capture.prefill import PrefillBench
from services.capture.process import Group, Process
from services.capture.provenance import device_facts, model_facts, software_facts
from services.capture.readings import (
    BusyReading,
    PrefillReading,
    Probing,
    Progress,
    SizeReading,
    StartReport,
    StepModel,
    Timing,
)
from services.capture.step import Step
from services.capture.strategies.eager import EagerStrategy

MOST_FALLBACK_SIZES, MOST_FALLBACK_SIZES_ABOVE = 16, 3
MOST_BUSY_SIZES = 5  # the share that the GPU works changes slowly, and a profiler takes a second to start and to read
PREFILL_REPEATS = 3
MOST_PREFIXED_TOKENS = 4096  # what a token pays for a cached one is a slope, which longer prompts do not show better


class CaptureSession(Process):
    """State of one start. Use once: `report = yield from CaptureSession(spec).run()`."""

    def run(self) -> Generator[Progress, None, StartReport]:
        """Measure everything of the spec: the ladder (capture, check, probe, time), the step model, sizes above the
        ladder, prefill, and last the share that the GPU works.

        Raises:
            BadInput: the model cannot be built.
            MeasurementFailed: the device was lost, or no size could be measured.
        """
        spec = self.spec
        yield from self.build()
        ladder = self.group(spec.sizes)
        step, owner = ladder.step, dict.fromkeys(spec.sizes, ladder.strategy)
        yield from self.capture(owner, sorted(spec.sizes, reverse=True))
        yield from self.check(step, owner, sorted(self.prepared))
        probing = yield from probe(self, step, owner, ladder.strategy)
        timings = yield from self.time("time", step, owner, spec.repeats)
        fallback = yield from self._fallback(step, timings, MOST_FALLBACK_SIZES)
        model = yield from step_model(self, timings)
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
        yield self.progress("done", 1, 1)
        return report

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
        result = yield from self.time("fallback", step, dict.fromkeys(sizes, eager), repeats, sizes)
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
        self.free()
        group = self.group(sizes)
        owner = dict.fromkeys(sizes, group.strategy)
        yield from self.capture(owner, sorted(sizes, reverse=True))
        yield from self.check(group.step, owner, [size for size in sizes if size in self.prepared])
        checked = [size for size in sizes if size in self.checks]
        found = yield from self.time("time", group.step, owner, self.spec.repeats, checked)
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
            yield self.progress("profile", done, len(sizes), size)
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

    def _prefill(self) -> Generator[Progress, None, tuple[PrefillReading, ...]]:
        """In the first start only: no list is chosen by it, and the long ones take as long as a whole decode ladder."""
        spec = self.spec
        if not spec.prefill_tokens or self.start > 0:
            return ()
        self.phases.enter("prefill")
        self.free()
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
                yield self.progress("prefill", done, total, tokens)
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
