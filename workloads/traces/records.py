"""What a recorded file becomes: requests or steps as columns, and the count of rows that did not make it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from workloads.arrays import F64, I8, I64, Bool, frozen
from workloads.errors import BadInput
from workloads.histogram import Origin, StepHistogram, Unit
from workloads.traces.prefix_blocks import PrefixBlocks


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in order of arrival, as columns of one length N.

    Attributes:
        arrival_s: float64 [N], seconds since the first request; non-decreasing, starts at 0.
        input_tokens: int64 [N], prompt tokens, at least 1.
        output_tokens: int64 [N], generated tokens, at least 1. The first comes from prefill, so a request
            takes part in `output_tokens - 1` decode steps.
        start_epoch_s: Unix time of the first arrival where the file gives one.
        prefix_blocks: block ids of every request where the file gives them.
    """

    arrival_s: F64
    input_tokens: I64
    output_tokens: I64
    start_epoch_s: float | None = None
    prefix_blocks: PrefixBlocks | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.arrival_s), len(self.input_tokens), len(self.output_tokens)}
        if self.prefix_blocks is not None:
            lengths.add(len(self.prefix_blocks))
        if len(lengths) != 1 or lengths == {0}:
            raise BadInput("a request trace needs at least one request and columns of one length")
        if not np.all(np.isfinite(self.arrival_s)) or np.any(np.diff(self.arrival_s) < 0):
            raise BadInput("arrival times must be finite and sorted", field="arrival_s")
        for name in ("input_tokens", "output_tokens"):
            if int(getattr(self, name).min()) < 1:
                raise BadInput("token counts must be at least 1", field=name)
        for column in (self.arrival_s, self.input_tokens, self.output_tokens):
            frozen(column)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last arrival."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def decode_tokens(self) -> int:
        """Tokens that decode steps generate: all but the first of every request."""
        return int(self.output_tokens.sum()) - len(self)

    def window(self, first: int, last: int) -> RequestTrace:
        """Requests first..last-1 as a trace of their own, starting at 0."""
        arrival_s = self.arrival_s[first:last]
        if len(arrival_s) == 0:
            raise BadInput(f"the window {first}:{last} of {len(self)} requests is empty")
        start = None if self.start_epoch_s is None else self.start_epoch_s + float(arrival_s[0])
        blocks = self.prefix_blocks
        if blocks is not None:
            blocks = blocks.of(np.arange(len(self), dtype=np.int64)[first:last])
        tokens = (self.input_tokens[first:last], self.output_tokens[first:last])
        return RequestTrace(arrival_s - arrival_s[0], *tokens, start, blocks)

    def digest(self) -> str:
        """SHA-256 of the columns: the content address of the trace."""
        columns = (self.arrival_s, self.input_tokens, self.output_tokens)
        if self.prefix_blocks is None:
            return _digest("requests", *columns)
        blocks = self.prefix_blocks
        return _digest(f"requests|blocks of {blocks.block_tokens}", *columns, blocks.ids, blocks.starts)


@dataclass(frozen=True, slots=True)
class StepTrace:
    """Engine steps as columns of one length M; a row stands for `steps` equal steps in a row.

    Attributes:
        size: int64 [M], the step's size in the unit of its family.
        steps: int64 [M], how many steps the row stands for (1 for a log line, a count for a table row).
        family_index: int8 [M], index into `families`.
        start_s: float64 [M], seconds since the first row; nan where the source has no time.
        step_ms: float64 [M], mean duration of one of the row's steps; nan where unknown.
        kv_tokens: float64 [M], mean real KV tokens that one step attends to; nan where unknown.
        padded_size: int64 [M], the bucket the engine used where the source says so, else 0.
        fallback: int8 [M], 1 ran without a graph, 0 ran with one, -1 the source does not say.
        families: names of graph families, `units[i]` is the unit of `families[i]`.
        origin: what kind of evidence the rows are (of the first family, where `family_origins` tells them apart).
        sample_every_steps: for `sample`, one row per so many steps where known.
        sample_every_s: for `sample`, one row per so many seconds where known.
        family_origins: the evidence of each family, where they differ (SGLang logs every prefill step and one decode
            step in forty); None where `origin` holds for all.
    """

    size: I64
    steps: I64
    family_index: I8
    start_s: F64
    step_ms: F64
    kv_tokens: F64
    padded_size: I64
    fallback: I8
    families: tuple[str, ...]
    units: tuple[Unit, ...]
    origin: Origin
    sample_every_steps: int | None = None
    sample_every_s: float | None = None
    family_origins: tuple[Origin, ...] | None = None

    def __post_init__(self) -> None:
        columns = (
            self.size,
            self.steps,
            self.family_index,
            self.start_s,
            self.step_ms,
            self.kv_tokens,
            self.padded_size,
            self.fallback,
        )
        if len({len(column) for column in columns}) != 1 or len(self.size) == 0:
            raise BadInput("a step trace needs at least one row and columns of one length")
        if len(self.families) != len(self.units):
            raise BadInput("every family needs its unit", field="units")
        if self.family_origins is not None and len(self.family_origins) != len(self.families):
            raise BadInput("every family needs its origin", field="family_origins")
        if int(self.size.min()) < 1 or int(self.steps.min()) < 1:
            raise BadInput("step sizes and counts must be at least 1", field="size")
        for column in columns:
            frozen(column)

    def __len__(self) -> int:
        return len(self.size)

    @property
    def total_steps(self) -> int:
        return int(self.steps.sum())

    def origin_of(self, family: str) -> Origin:
        """What kind of evidence the rows of one family are."""
        return self.origin if self.family_origins is None else self.family_origins[self.families.index(family)]

    @property
    def fallbacks_seen(self) -> bool | None:
        """Whether a step ran without a graph; None where no row says how it ran."""
        told = self.fallback >= 0
        return bool((self.fallback == 1).any()) if told.any() else None

    @property
    def span_s(self) -> float | None:
        """Seconds between the first and the last row with a time; None where no row has one."""
        known = self.start_s[np.isfinite(self.start_s)]
        return float(known.max() - known.min()) if len(known) else None

    def histogram(self, family: str) -> StepHistogram:
        """Counts per size of one family.

        Raises:
            BadInput: the trace has no step of that family.
        """
        if family not in self.families:
            raise BadInput(f"no steps of family '{family}' here, only {', '.join(self.families)}")
        index = self.families.index(family)
        rows = self.family_index == index
        if not rows.any():
            raise BadInput(f"no steps of family '{family}' here")
        sizes, inverse = np.unique(self.size[rows], return_inverse=True)
        steps = np.bincount(inverse, weights=self.steps[rows].astype(np.float64))
        kv = self.kv_tokens[rows]
        known = np.isfinite(kv)
        weight = np.where(known, self.steps[rows], 0).astype(np.float64)
        kv_sum = np.bincount(inverse, weights=weight * np.where(known, kv, 0.0))
        kv_steps = np.bincount(inverse, weights=weight)
        with np.errstate(invalid="ignore", divide="ignore"):
            kv_tokens = np.where(kv_steps > 0, kv_sum / kv_steps, np.nan)
        return StepHistogram(
            family,
            self.units[index],
            self.origin_of(family),
            sizes.astype(np.int64),
            steps.astype(np.float64),
            kv_tokens,
        )

    def histograms(self) -> dict[str, StepHistogram]:
        """Every family that has steps, by name."""
        present = [name for i, name in enumerate(self.families) if (self.family_index == i).any()]
        return {name: self.histogram(name) for name in present}

    def window(self, first: int, last: int) -> StepTrace:
        """Rows first..last-1, same families and origin."""
        if not 0 <= first < last <= len(self):
            raise BadInput(f"the window {first}:{last} of {len(self)} step rows is empty")
        return self.select(slice(first, last))

    def select(self, rows: slice | Bool) -> StepTrace:
        """These rows, same families and origin; a mask is bool [len(self)]."""
        return replace(
            self,
            size=self.size[rows],
            steps=self.steps[rows],
            family_index=self.family_index[rows],
            start_s=self.start_s[rows],
            step_ms=self.step_ms[rows],
            kv_tokens=self.kv_tokens[rows],
            padded_size=self.padded_size[rows],
            fallback=self.fallback[rows],
        )

    def digest(self) -> str:
        """SHA-256 of the columns: the content address of the trace."""
        names = "|".join(f"{family}:{unit}" for family, unit in zip(self.families, self.units, strict=True))
        head = f"steps|{names}|{self.origin}|{self.sample_every_steps}"
        if self.sample_every_s is not None or self.family_origins is not None:
            head += f"|{self.sample_every_s}|{self.family_origins}"
        timing = (self.start_s, self.step_ms, self.kv_tokens)
        return _digest(head, self.size, self.steps, self.family_index, *timing, self.padded_size, self.fallback)


@dataclass(frozen=True, slots=True)
class RowCount:
    """`read == kept + sum(dropped.values())`, always; the first bad line per reason is kept for the message."""

    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    first_line: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.read != self.kept + sum(self.dropped.values()):
            raise BadInput(f"row counts do not add up: {self.read} read, {self.kept} kept, {dict(self.dropped)}")


@dataclass(frozen=True, slots=True)
class EngineObservation:
    """What a log says of the engine that wrote it; everything unknown is None or empty.

    Attributes:
        engine: `vllm`, `sglang`, `tensorrt-llm`, or None.
        version: as the log prints it.
        lists: list name -> sizes, named as `tuner.engines` names that engine's lists.
        options: engine argument name -> value as text.
        capture_s / graph_memory_mib: seconds and MiB that capture took, summed over phases.
        setup_s: seconds from loaded weights to ready without compiling: memory profiling, KV cache, capture, warm-up.
            Lists differ in capture alone, and some engines tell `capture_s` in whole seconds.
        recording_s: the part of `capture_s` in which graphs are recorded one after the other, by the rates of the
            progress bars: finer than whole seconds, without what surrounds it.
        kv_tokens: size of the KV cache in tokens.
        memory_by_size_mib: MiB that capturing each decode size took, as far as the progress output shows free memory
            before and after it; the largest size includes the shared pool.
    """

    engine: str | None = None
    version: str | None = None
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    capture_s: float | None = None
    graph_memory_mib: float | None = None
    kv_tokens: int | None = None
    memory_by_size_mib: Mapping[int, float] = field(default_factory=dict)
    setup_s: float | None = None
    recording_s: float | None = None


Kind = Literal["requests", "steps", "histogram"]
Traffic = RequestTrace | StepTrace


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A file that was understood.

    Attributes:
        format: the reader's name, e.g. `azure-2023`.
        kind: `requests`, `steps`, or `histogram` (a `size,count` file, carried as a StepTrace without times).
        notes: sentences about what was assumed or is odd (a quantised clock, a time zone taken as UTC).
    """

    format: str
    kind: Kind
    rows: RowCount
    traffic: Traffic
    observation: EngineObservation | None = None
    notes: tuple[str, ...] = ()


def _digest(head: str, *columns: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    digest = hashlib.sha256(head.encode())
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
