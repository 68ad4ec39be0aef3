"""ReplaySession: one fresh process captures lists in the engine's order and runs recorded steps through dispatch,
static buffers, plan, replay and slices."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import torch

from services.capture.attention.kv_cache import rounded
from services.capture.decode_step import DecodeStep
from services.capture.failures import TORCH_ERRORS, failure_of
from services.capture.process import Process
from services.capture.provenance import device_facts, model_facts, software_facts
from services.capture.readings import Progress
from services.capture.replay_job import CaseReading, ReplayJob, ReplayReport, ReplayStep, pair_of
from services.capture.spec import list_spec
from services.capture.strategies.base import Strategy
from services.capture.strategies.choose import make_strategy
from services.capture.strategies.eager import EagerStrategy
from workloads.errors import MeasurementFailed

_TOLERANCE = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-8, torch.float32: 1e-4}
_FREE_SHARE = 0.75  # of the memory left after the weights; graphs and logits need the rest

Case = tuple[int, ReplayStep]


class ReplaySession:
    """State of one replay. Use once: `report = yield from ReplaySession(job).run()`."""

    def __init__(self, job: ReplayJob) -> None:
        self.job = job
        self.lengths = {step: torch.from_numpy(step.lengths()) for step in job.steps}
        longest = max(int(lengths.max()) for lengths in self.lengths.values())
        spec = replace(list_spec(job.spec, job.sizes), contexts=(rounded(longest),), repeats=job.repeats)
        self.session = Process(spec)

    def run(self) -> Generator[Progress, None, ReplayReport]:
        """Capture, compare every bucket with eager once, replay.

        Raises:
            BadInput: the model cannot be built.
            MeasurementFailed: the device was lost, or nothing could be captured.
        """
        session, spec = self.session, self.session.spec
        yield from session.build()
        step, clipped_share = self._step()
        graphs = make_strategy(spec.strategy, step, session.device, warmup=spec.warmup)
        eager = EagerStrategy(step)
        before_mib = session.meter.used_mib()
        yield from session.capture(dict.fromkeys(spec.sizes, graphs), sorted(spec.sizes, reverse=True))
        memory_mib = session.meter.used_mib() - before_mib
        if not session.prepared:
            reasons = "; ".join(f"{failure.size}: {failure.message}" for failure in session.failures[:3])
            raise MeasurementFailed(f"no size could be captured ({reasons})")
        session.phases.enter("check")
        cases = self._runnable(step, graphs, eager)
        session.phases.enter("replay")
        readings = yield from self._replay(step, cases)
        session.phases.enter("done")
        graphs.close()
        eager.close()
        size_s = {size: prepared[0].capture_s for size, prepared in session.prepared.items()}
        asked_ms = {(c.bucket, s.rows, s.kv_tokens): c.step_ms for c, s in readings}
        report = ReplayReport(
            pairs=tuple(pair_of(item, window, asked_ms) for item in self.job.lists for window in self.job.windows),
            cases=tuple(reading for reading, _ in readings),
            size_s=size_s,
            size_mib={size: prepared[1] for size, prepared in session.prepared.items()},
            capture_s=sum(size_s.values()),
            memory_mib=memory_mib,
            clipped_share=clipped_share,
            failures=tuple(session.failures),
            device=device_facts(session.device, session.log),
            model=model_facts(spec.model, session.decoder),
            software=software_facts(session.device, session.log, session.backend.name),
            replay_s=session.phases.phase_s["replay"],
            seconds=session.phases.seconds,
            phase_s=session.phases.phase_s,
            device_log=tuple(session.log.samples),
        )
        session.log.close()
        yield Progress("done", 1, 1)
        return report

    def _step(self) -> tuple[DecodeStep, float]:
        """A step whose KV pool holds the longest recorded step, or as much of it as fits: then contexts are cut."""
        session, job = self.session, self.job
        rows = max(*job.sizes, *(step.rows for step in job.steps))
        needed = {step: sum(rounded(int(n)) for n in lengths) for step, lengths in self.lengths.items()}
        padding = 16 * rows
        token_bytes = session.decoder.config.kv_values_per_token * session.dtype.itemsize
        free_bytes = min(session.meter.free_mib() * 2**20 * _FREE_SHARE, job.spec.max_kv_gib * 2**30)
        room = max(int(free_bytes // token_bytes) - 2 * padding, 16 * rows)
        clipped = [step for step, tokens in needed.items() if tokens > room]
        for step in clipped:
            share = room / needed[step]
            self.lengths[step] = (self.lengths[step] * share).long().clamp(min=1)
        capacity = max(rounded(int(lengths.max())) for lengths in self.lengths.values())
        pool = min(max(needed.values()), room) + padding  # a context that is cut ends in pages that are not full
        return session.decode_step(rows, capacity, tokens=pool), len(clipped) / len(self.lengths)

    def _runnable(self, step: DecodeStep, graphs: Strategy, eager: Strategy) -> list[tuple[Case, Strategy]]:
        """Cases whose bucket was captured and equals eager; the others are records."""
        session = self.session
        first: dict[int, ReplayStep] = {}
        for bucket, recorded in self.job.cases():
            first.setdefault(bucket or -recorded.rows, recorded)
        good: set[int] = set()
        for size, recorded in first.items():
            try:
                eager.prepare(abs(size))
                if size > 0 and size in session.prepared:
                    self._compare(step, graphs, eager, size, recorded)
                good.add(size)
            except TORCH_ERRORS as error:
                session.failures.append(failure_of(abs(size), error))
        kept = []
        for bucket, recorded in self.job.cases():
            if (bucket or -recorded.rows) in good and (not bucket or bucket in session.prepared):
                kept.append(((bucket, recorded), graphs if bucket else eager))
        return kept

    @torch.inference_mode()
    def _compare(self, step: DecodeStep, graphs: Strategy, eager: Strategy, size: int, recorded: ReplayStep) -> None:
        logits = []
        for strategy in (graphs, eager):
            step.load(step.batch_of(self.lengths[recorded], seed=recorded.kv_tokens), size)
            strategy.run(size)
            logits.append(step.logits(recorded.rows).clone())
        tolerance = _TOLERANCE[step.decoder.dtype] * float(logits[1].abs().max())
        worst = float((logits[0].float() - logits[1].float()).abs().max())
        if not worst <= tolerance:
            raise MeasurementFailed(f"size {size}: differs from eager by {worst:.3g}", field=f"size {size}")

    def _replay(
        self, step: DecodeStep, cases: list[tuple[Case, Strategy]]
    ) -> Generator[Progress, None, list[tuple[CaseReading, ReplayStep]]]:
        session = self.session
        batches = {
            recorded: step.batch_of(self.lengths[recorded], seed=recorded.kv_tokens) for (_, recorded), _ in cases
        }

        def measure(index: int) -> list[tuple[float, float]]:
            (bucket, recorded), strategy = cases[index]
            return session.iterate(step, strategy, batches[recorded], bucket or recorded.rows)

        if not cases:
            return []
        timings = yield from session.rounds("replay", range(len(cases)), measure, self.job.repeats)
        readings = []
        for index, timing in timings.items():
            bucket, recorded = cases[index][0]
            kv_tokens = int(self.lengths[recorded].sum())
            reading = CaseReading(bucket, recorded.rows, kv_tokens, timing.step_ms, timing.run_ms, timing.spread_ms)
            readings.append((reading, recorded))
        return readings
