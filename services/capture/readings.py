"""What one start measured: plain values that cross processes. No torch here."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import NO_CURVE, RowCurve
from workloads.errors import CaptuneError

# `attention` chooses a backend and may compile its kernels; `plan` thinks probes over and may compile the solver.
Phase = Literal[
    "start",
    "build",
    "attention",
    "capture",
    "check",
    "probe",
    "plan",
    "time",
    "fallback",
    "profile",
    "step_model",
    "prefill",
    "replay",
    "done",
]

# Residuals of the step model stay below these, or it is called an estimate: of half the points, and of nine in ten.
CLAIMED_RESIDUAL_SHARE = 0.05
CLAIMED_RESIDUAL_SHARE_P90 = 0.1

LAUNCH_BOUND_SHARE = 0.9

FailureKind = Literal["out_of_memory", "refused", "wrong_result", "device_error", "worker_died"]


@dataclass(frozen=True, slots=True)
class WorkerId:
    """The device that a worker runs on: a Ray node, and the GPU's index there; None where the CPU is measured."""

    node_id: str
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of progress.

    Attributes:
        phase: what is being done; `done` of `total` units of this phase are finished.
        size: the size (or prefill tokens) that comes next or was just finished; None where none is concerned.
        start: 0-based start, of `starts`.
        seconds, memory_mib: of the finished size, in phase `capture`.
        worker: who tells it; None without Ray.
    """

    phase: Phase
    done: int
    total: int
    size: int | None = None
    start: int = 0
    starts: int = 1
    seconds: float | None = None
    memory_mib: float | None = None
    worker: WorkerId | None = None


@dataclass(frozen=True, slots=True)
class Preparation:
    """Seconds to make one size runnable.

    Attributes:
        record_s: the forward run once under capture (or tracing).
        first_launch_s: the run after it, which also uploads the graph; no part of `capture_s`.
        instantiate_s: from the recorded graph to one that can be launched; 0 where there is no graph of ours.
    """

    warmup_s: float
    record_s: float
    first_launch_s: float
    instantiate_s: float = 0.0

    @property
    def capture_s(self) -> float:
        """What an engine's start pays: warm-up, record and instantiation."""
        return self.warmup_s + self.record_s + self.instantiate_s


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians over rounds of medians over iterations.

    Attributes:
        step_ms: the whole step: copy inputs in, pad, plan, run, slice and sample.
        run_ms: the run alone (replay, or eager forward).
        spread_ms: standard deviation of step_ms over rounds.
    """

    step_ms: float
    run_ms: float
    spread_ms: float


@dataclass(frozen=True, slots=True)
class Check:
    """Outcome of the correctness check of one size.

    Attributes:
        rows: real rows; the rest was padding.
        same_as_eager: bitwise, at the same padded size.
        error, eager_error: largest absolute error of the logits against the higher-precision reference; None where the
            size is bitwise eager's, whose error is then its own, and the reference was left to other sizes.
    """

    rows: int
    same_as_eager: bool
    error: float | None
    eager_error: float | None


@dataclass(frozen=True, slots=True)
class SizeReading:
    """One size of one start. `memory_mib` is the driver's delta while this size was captured."""

    size: int
    preparation: Preparation
    memory_mib: float
    reserved_mib: float
    timing: Timing
    fallback: Timing | None
    check: Check


@dataclass(frozen=True, slots=True)
class SizeFailure:
    """A size without numbers, and why."""

    size: int
    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True)
class PrefillReading:
    tokens: int
    prefix_tokens: int
    step_ms: float
    spread_ms: float


@dataclass(frozen=True, slots=True)
class StepModelPoint:
    """One measured step with real context: `rows` of `bucket` rows real, each with `context_tokens`.

    Attributes:
        extra_ms: measured step minus the length-one step of the bucket.
        residual_ms: measured minus modelled step.
    """

    bucket: int
    rows: int
    context_tokens: int
    step_ms: float
    extra_ms: float
    residual_ms: float


@dataclass(frozen=True, slots=True)
class StepModel:
    """step = g(bucket) + a x KV tokens + h x rows + C(rows) + the wait for the longest row, by least squares; g =
    length-one step + constant - C(bucket). No price is below 0.

    Attributes:
        row_curve: C; nothing where only some degrees of filling were read.
        longest_row: the whole wait, none of it in g; none where the kernel is not known to wait.
    """

    attention_ms_per_mtoken: float
    row_ms: float
    points: tuple[StepModelPoint, ...]
    constant_ms: float = 0.0
    row_curve: RowCurve = NO_CURVE
    longest_row: LongestRow = NO_WAIT

    @property
    def trusted(self) -> bool:
        """Whether the fit explains what was measured as well as is claimed. Where it does not, its terms stay in the
        profile, since no context at all would be further off, and nothing measured may be claimed from them."""
        half = self.median_residual_share <= CLAIMED_RESIDUAL_SHARE
        return half and self.p90_residual_share <= CLAIMED_RESIDUAL_SHARE_P90

    @property
    def worst_residual_share(self) -> float:
        """Largest |residual| / measured step; 0 without points."""
        return max(self._residual_shares, default=0.0)

    @property
    def p90_residual_share(self) -> float:
        """|residual| / measured step that a tenth of the points exceed; 0 without points."""
        return float(np.quantile(self._residual_shares, 0.9)) if self.points else 0.0

    @property
    def median_residual_share(self) -> float:
        """Median |residual| / measured step; 0 without points."""
        return statistics.median(self._residual_shares) if self.points else 0.0

    @property
    def _residual_shares(self) -> list[float]:
        return [abs(point.residual_ms) / point.step_ms for point in self.points]


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """Clocks and power at one moment, as NVML reports them: where phase `ended` goes over into phase `at`; in the
    middle of a phase where both are the same."""

    at: Phase
    ended: Phase | None
    sm_mhz: int
    memory_mhz: int
    power_w: float
    temperature_c: int
    throttle_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BusyReading:
    """How long the GPU works during one run of a size, and what the run takes.

    Attributes:
        busy_ms, eager_busy_ms: at least one kernel or copy on the GPU, with the strategy and eagerly.
        run_ms: the run alone, with the strategy. eager_step_ms: a whole eager step.
    """

    size: int
    busy_ms: float
    eager_busy_ms: float
    run_ms: float
    eager_step_ms: float

    @property
    def launch_bound(self) -> bool:
        """Whether an eager step waits for the host: the GPU idles a tenth of it or more."""
        return self.eager_busy_ms < LAUNCH_BOUND_SHARE * self.eager_step_ms


@dataclass(frozen=True, slots=True)
class Probing:
    """How a start of few probes ended.

    Attributes:
        sizes: every size that was read.
        rounds: times that the plan was thought over after the first readings.
        best: the best list of these sizes by this start's quick readings.
        mean_ms: the expected run of a step with that list: the replay, without what surrounds it.
        bound_ms: no list does better, as `tuner.probing` bounds it.
    """

    sizes: tuple[int, ...]
    rounds: int
    best: tuple[int, ...]
    mean_ms: float
    bound_ms: float


@dataclass(frozen=True, slots=True)
class StartReport:
    """Everything one fresh process measured.

    Attributes:
        readings: by size, increasing.
        pool_mib, fixed_s: what the ladder's first capture cost beyond a marginal one.
        device, model, software: provenance as plain values.
        attention: backend of the decode attention.
        outputs_mib: the output buffer that all sizes share; allocated before the first capture, in no other figure.
        phase_s: seconds of every phase; `seconds` is their sum, without what comes before a session (process, imports).
    """

    readings: tuple[SizeReading, ...]
    failures: tuple[SizeFailure, ...]
    prefill: tuple[PrefillReading, ...]
    step_model: StepModel | None
    pool_mib: float
    fixed_s: float
    marginal_mib: Mapping[int, float]
    marginal_s: Mapping[int, float]
    device: Mapping[str, Any]
    model: Mapping[str, Any]
    software: Mapping[str, Any]
    attention: str
    seconds: float
    device_log: tuple[DeviceSample, ...] = field(default=())
    probing: Probing | None = None
    busy: tuple[BusyReading, ...] = ()
    outputs_mib: float = 0.0
    phase_s: Mapping[Phase, float] = field(default_factory=dict)

    def step_ms(self) -> dict[int, float]:
        """{size: whole step, ms}."""
        return {reading.size: reading.timing.step_ms for reading in self.readings}


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Why a worker ended without a report.

    Attributes:
        error: the error itself where it is one of ours.
        trace: the worker's traceback, for the log.
    """

    kind: FailureKind
    message: str
    error: CaptuneError | None = None
    trace: str = ""
