"""CostProfile: what each size costs on one (model, GPU, software, strategy), as measured.

Only measured sizes can be buckets. Times between them are estimates for scoring lists we did not choose (an
engine's default list, a user's list), and every use of one is counted so that it can be said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import NO_CURVE, RowCurve
from workloads.arrays import F64, I64, Bool, frozen
from workloads.errors import BadInput, NotFound
from workloads.histogram import Unit

_ROUNDING_MS = 1e-9


@dataclass(frozen=True, slots=True)
class FamilyCost:
    """Cost per captured size of one graph family; columns of one length N, nan where the profile does not say.

    Attributes:
        sizes: int64 [N], increasing.
        step_ms: float64 [N], a whole step in that bucket: g + the a and h terms at `context_tokens`.
        replay_ms, fallback_ms, spread_ms, capture_s, memory_mib: float64 [N] or nan. `fallback_ms` is a step of that
            many real rows without a graph, on the same scope as step_ms. `spread_ms` is the standard deviation of
            the per-start medians. `memory_mib` is marginal, in capture order, without the pool.
        starts: int64 [N], fresh processes that measured the point.
        context_tokens: context length of every row while step_ms was measured; 1 means step_ms is g and the curve.
        attention_ms_per_mtoken: a, milliseconds per million real KV tokens.
        row_ms: h, milliseconds per real row.
        row_curve: what that many real rows cost beyond h x rows.
        longest_row: what steps wait for their longest row; at its own context, the wait is part of every time here.
        pool_mib, capture_fixed_s: what capturing costs before the first marginal size.
        lm_head_in_graph: whether the output head is part of the graph; None where unknown.
    """

    unit: Unit
    sizes: I64
    step_ms: F64
    replay_ms: F64
    fallback_ms: F64
    spread_ms: F64
    capture_s: F64
    memory_mib: F64
    starts: I64
    context_tokens: float = 1.0
    attention_ms_per_mtoken: float = 0.0
    row_ms: float = 0.0
    row_curve: RowCurve = NO_CURVE
    longest_row: LongestRow = NO_WAIT
    pool_mib: float = 0.0
    capture_fixed_s: float = 0.0
    lm_head_in_graph: bool | None = None

    def __post_init__(self) -> None:
        if len(self.sizes) == 0:
            raise BadInput("a family needs at least one point", field="points")
        if int(self.sizes[0]) < 1 or np.any(np.diff(self.sizes) <= 0):
            raise BadInput("sizes must be positive, increasing and without duplicates", field="points")
        if not np.all(np.isfinite(self.step_ms)) or np.any(self.step_ms <= 0):
            raise BadInput("step_ms must be positive at every point", field="step_ms")
        if np.any(self.rows_ms(self.row_curve.rows) < -_ROUNDING_MS):
            raise BadInput("real rows cannot make a step shorter: row_ms x rows + rows_ms is below 0", field="rows_ms")
        if np.any(self.bucket_ms() <= 0):
            raise BadInput("attention and row terms exceed the measured step", field="attention_ms_per_mtoken")
        for column in (
            self.sizes,
            self.step_ms,
            self.replay_ms,
            self.fallback_ms,
            self.spread_ms,
            self.capture_s,
            self.memory_mib,
            self.starts,
        ):
            frozen(column)

    def bucket_ms(self) -> F64:
        """g at every measured size: float64 [N]. The only term that a capture list can change."""
        return self.step_ms - self._terms_ms()

    def extra_ms(self, rows: I64, kv_tokens: I64 | F64) -> F64:
        """What real rows and the real KV tokens of all of them add to g, whatever the bucket: float64, same shape."""
        return self.attention_ms_per_mtoken * 1e-6 * kv_tokens + self.rows_ms(rows)

    def in_bucket_ms(self, bucket: I64, rows: I64, kv_tokens: I64 | F64, size: I64 | None = None) -> F64:
        """A step of these real rows in each bucket, or without a graph where that is 0 (nan where unknown): float64,
        same shape. The one figure that knows what padding adds, and how long a step of its own context waits for its
        longest row; `extra_ms` has rows alone and the wait at one context.

        Args:
            size: tokens of each step, where a row has several; None where it has one.
        """
        own = rows if size is None else size
        in_graph, runs_as = bucket > 0, np.where(bucket > 0, bucket, own)
        g_ms = np.where(in_graph, self.bucket_ms_at(runs_as), self.fallback_ms_at(own))
        padding_ms = self.row_curve.in_bucket(rows, runs_as) - self.row_curve.at(rows)
        beyond_ms = self.longest_row.beyond_ms(runs_as, kv_tokens / np.maximum(rows, 1))
        return g_ms + self.extra_ms(rows, kv_tokens) + padding_ms + beyond_ms

    def at_context(self, context_tokens: float) -> FamilyCost:
        """The same cost with the wait for the longest row of such contexts in its times; `in_bucket_ms` stays."""
        if self.longest_row == NO_WAIT:
            return self
        added_ms = self.longest_row.beyond_ms(self.sizes, np.full(len(self.sizes), context_tokens))
        return replace(
            self,
            step_ms=self.step_ms + added_ms,
            replay_ms=self.replay_ms + added_ms,
            fallback_ms=self.fallback_ms + added_ms,
            longest_row=replace(self.longest_row, at_tokens=context_tokens),
        )

    def rows_ms(self, rows: I64) -> F64:
        """The part of `extra_ms` that follows the number of rows: float64, same shape."""
        return self.row_ms * rows + self.row_curve.at(rows)

    def _terms_ms(self) -> F64:
        """What rows and KV tokens added to every full step while it was measured: float64 [N]. A row of length one
        adds no context, and h is the price of one with a context; it is a real row all the same."""
        if self.context_tokens <= 1:
            return self.row_curve.at(self.sizes)
        return self.extra_ms(self.sizes, self.sizes.astype(np.float64) * self.context_tokens)

    @property
    def eager_only(self) -> Bool:
        """Sizes whose only reading is that of a step without a graph, in a profile made from a log: bool [N].

        Such a point has its eager time in both columns. They bend the fallback curve and are no buckets. A profile
        where that holds for every size says nothing of the kind.
        """
        only: Bool = np.isnan(self.replay_ms) & (self.step_ms == self.fallback_ms)
        return only & (not bool(only.all()))

    @property
    def captured_with_another(self) -> bool:
        """Whether capturing costs nothing here: another family on the same list counts it for both."""
        parts = (self.capture_s, self.memory_mib, self.capture_fixed_s, self.pool_mib)
        return all(bool(np.all(part == 0)) for part in parts)

    def measured(self, sizes: I64) -> Bool:
        """Which of `sizes` are measured points: bool, same shape."""
        return np.isin(sizes, self.sizes)

    def bucket_ms_at(self, sizes: I64) -> F64:
        """g at any size. Measured points are exact; between them linear; outside, the nearest end's value is scaled
        by nothing below the first point (a smaller bucket is assumed to cost as much) and by the last slope above.
        Check `measured` before calling a value measured."""
        return _line(self.sizes.astype(np.float64), self.bucket_ms(), sizes)

    @property
    def knows_fallback(self) -> bool:
        return bool(np.isfinite(self.fallback_ms).any())

    def fallback_ms_at(self, sizes: I64) -> F64:
        """g of a step without a graph at any size: linear between measured points, last slope (never falling) above,
        first value below; all nan where the profile has no fallback. As of `bucket_ms_at`, terms are taken off."""
        known = np.isfinite(self.fallback_ms)
        if not known.any():
            return np.full(len(sizes), np.nan)
        g_ms = np.maximum(self.fallback_ms - self._terms_ms(), 0.0)
        return _line(self.sizes[known].astype(np.float64), g_ms[known], sizes)


@dataclass(frozen=True, slots=True)
class PrefillCost:
    """Measured prefill: columns of one length P, in no order.

    Attributes:
        tokens, prefix_tokens, step_ms: float64 [P]; new tokens, tokens already in the KV cache, milliseconds.
    """

    tokens: F64
    prefix_tokens: F64
    step_ms: F64

    def curve(self) -> tuple[F64, F64]:
        """(tokens, ms) of the points with the shortest prefix at each token count, tokens increasing."""
        order = np.lexsort((self.prefix_tokens, self.tokens))
        tokens, first = np.unique(self.tokens[order], return_index=True)
        return tokens, self.step_ms[order][first]

    def prefix_ms_per_token2(self) -> float:
        """Least-squares price of attending from one new token to one prefix token; 0 with one prefix length."""
        tokens, base = self.curve()
        extra = self.step_ms - np.interp(self.tokens, tokens, base)
        work = self.tokens * self.prefix_tokens
        norm = float(work @ work)
        return max(0.0, float(work @ extra) / norm) if norm > 0 else 0.0


@dataclass(frozen=True, slots=True)
class CostProfile:
    """A measured profile with its provenance; see `tuner.profile_file` for the file."""

    name: str
    families: Mapping[str, FamilyCost]
    prefill: PrefillCost | None = None
    device: Mapping[str, object] | None = None
    model: Mapping[str, object] | None = None
    software: Mapping[str, object] | None = None
    recorded_at: str | None = None
    command: str | None = None
    starts: int | None = None

    def digest(self) -> str:
        """Of everything that a choice of lists rests on: SHA-256 as hex digits."""
        digest = hashlib.sha256(self.name.encode())
        for name, cost in sorted(self.families.items()):
            digest.update(name.encode())
            for column in (cost.sizes, cost.step_ms, cost.fallback_ms, cost.spread_ms, cost.capture_s, cost.memory_mib):
                digest.update(column.tobytes())
            for column in (cost.row_curve.rows, cost.row_curve.rows_ms):  # g follows from step_ms by them
                digest.update(column.tobytes())
        return digest.hexdigest()

    def at_context(self, context_tokens: float) -> CostProfile:
        """The same profile with times as steps of such contexts have them; see `FamilyCost.at_context`."""
        return replace(self, families={name: cost.at_context(context_tokens) for name, cost in self.families.items()})

    def family(self, name: str) -> FamilyCost:
        """The cost of a family.

        Raises:
            NotFound: the profile did not measure it.
        """
        if name not in self.families:
            raise NotFound(
                f"profile '{self.name}' has no family '{name}', only {', '.join(self.families)}", field="families"
            )
        return self.families[name]


def _line(x: F64, y: F64, sizes: I64) -> F64:
    """Linear interpolation; constant below, last slope (at least 0) above."""
    at = sizes.astype(np.float64)
    inside: F64 = np.interp(at, x, y)
    if len(x) < 2:
        return inside
    slope = max(0.0, float(y[-1] - y[-2]) / float(x[-1] - x[-2]))
    above: F64 = y[-1] + slope * (at - x[-1])
    return np.where(at > x[-1], above, inside)
