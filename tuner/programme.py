"""Problem: which capture list is best, as data; and Programme: the same as the arrays that the kernels run on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tuner.exact_kernels import TIE, window_starts
from tuner.regret import best_by_size
from workloads.arrays import F64, I32, I64, Bool
from workloads.errors import BadInput


def no_sizes() -> I64:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Resource:
    """One hard budget.

    Attributes:
        name: for messages, with its unit: `graph memory (MiB)`.
        used: float64 [N], what each candidate takes; finite.
        fixed: what any list takes before its first size.
        limit: the most that fixed + chosen may take.
    """

    name: str
    used: F64
    fixed: float
    limit: float


@dataclass(frozen=True, slots=True)
class Shared:
    """Steps of another family that run in graphs of the same list: vLLM's PIECEWISE beside FULL, SGLang's draft.

    Attributes:
        sizes, weights: int64 / float64 [M], as in `Problem`, on the same scale.
        bucket_ms: float64 [N], g of each candidate in this family.
        fallback_ms: float64 [S], by size up to at least the largest of `sizes`; nan where unknown.
    """

    sizes: I64
    weights: F64
    bucket_ms: F64
    fallback_ms: F64

    def weighed(self, weights: F64) -> Shared:
        """The same steps with other weights: float64 [M]. Sizes without any are left out."""
        used = weights > 0
        return replace(self, sizes=self.sizes[used], weights=weights[used])

    def step_ms(self, candidates: I64, chosen: I64) -> F64:
        """Time of a step of each of `sizes` under a list of candidates: float64 [M], nan where it is unknown."""
        at = np.searchsorted(chosen, self.sizes)
        bucket = chosen[np.minimum(at, len(chosen) - 1)]
        ms = self.bucket_ms[np.searchsorted(candidates, bucket)]
        return np.where(at == len(chosen), self.fallback_ms[self.sizes], ms)


@dataclass(frozen=True, slots=True)
class Problem:
    """Find capture lists of least weighted step time.

    Attributes:
        sizes, weights: int64 / float64 [M], step sizes (increasing) and their positive weights.
        candidates, bucket_ms: int64 / float64 [N], sizes that may be captured (increasing), and g of each.
        fallback_ms: float64 [L + 1], by size up to the largest of `sizes`, `reachable` and `wide_reachable`: time of
            a step without a graph, nan where unknown. A list must not leave a size of `sizes` to an unknown time.
        reachable, regret: sizes 1..reachable may run at most (1 + regret) x the best time that a reference size could
            give them; inf lifts this.
        wide_reachable, wide_regret: the same promise, looser, for sizes above `reachable` up to this one.
        reference_sizes, reference_ms: what regret is measured against; sizes above the last have no regret.
        promised_ms: float64 [N], g of each candidate as the regret bound sees it; None is `bucket_ms`. They differ
            where lists are chosen on a more cautious curve than the one that the promise is about.
        required: candidates that belong to every list.
        price_ms: float64 [N], added to the mean once per chosen candidate; None is free.
        exact_only: a bucket serves its own size only.
        max_padding_factor: a bucket larger than this times the step is not used.
        resources: at most two hard budgets.
        most_tail_share: most of the weight that may lie above the last bucket and run without a graph.
        shared: other families on the same list; their time is added per step of this one. The promise is not theirs.
    """

    sizes: I64
    weights: F64
    candidates: I64
    bucket_ms: F64
    fallback_ms: F64
    reachable: int
    reference_sizes: I64
    reference_ms: F64
    regret: float = math.inf
    promised_ms: F64 | None = None
    required: I64 = field(default_factory=no_sizes)
    price_ms: F64 | None = None
    exact_only: bool = False
    max_padding_factor: float | None = None
    resources: tuple[Resource, ...] = ()
    wide_reachable: int = 0
    wide_regret: float = math.inf
    most_tail_share: float = 1.0
    shared: tuple[Shared, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether only lengths constrain the list, so that the hull path answers."""
        free = self.regret == math.inf and len(self.required) == 0 and not self.resources and not self.shared
        return free and not self.exact_only and self.max_padding_factor is None

    def served_from(self) -> I64:
        """Smallest size that the engine lets each candidate serve: int64 [N]."""
        if self.exact_only:
            return self.candidates.copy()
        if self.max_padding_factor is not None:
            return np.ceil(self.candidates / self.max_padding_factor).astype(np.int64)
        return np.ones(len(self.candidates), dtype=np.int64)

    def best_ms(self) -> F64:
        """Best time that a reference size could give every size 0..L: float64 [L + 1], inf where there is none."""
        return best_by_size(
            self.reference_sizes,
            self.reference_ms,
            len(self.fallback_ms) - 1,
            exact_only=self.exact_only,
            max_padding_factor=self.max_padding_factor,
        )


@dataclass(frozen=True)
class Programme:
    """A problem in positions (see `tuner.exact_kernels`); weights sum to 1, so costs are mean milliseconds.

    Attributes:
        positions: int64 [N + 1], 0 and the candidates.
        weight, bucket_ms, promised_ms, price_ms, tail_ms: float64 [N + 1]. tail_ms[0] is inf: a list holds at least
            one size.
        limit_ms, tail_forbidden: by size 0..L, see `window_starts`.
        shared_ms, shared_weight: float64 [F, N + 1], see `general_layers`.
    """

    problem: Problem
    positions: I64
    weight: F64
    bucket_ms: F64
    promised_ms: F64
    price_ms: F64
    tail_ms: F64
    served_from: I64
    floor: I64
    limit_ms: F64
    tail_forbidden: Bool
    unserved_weight: F64
    unserved_ms: F64
    spent_ms: F64
    shared_ms: F64
    shared_weight: F64

    @cached_property
    def start(self) -> I64:
        """Smallest admissible position before every bucket: int64 [N + 1]."""
        return window_starts(
            self.positions, self.promised_ms, self.limit_ms, self.tail_forbidden, self.served_from, self.floor
        )

    def general(self, price_ms: F64) -> tuple[F64, F64, F64, F64, I64, F64, F64, F64, F64, F64]:
        """Arguments that `general_layers`, `least_ms` and `label_search` share."""
        return (
            self.weight,
            self.bucket_ms,
            price_ms,
            self.tail_ms,
            self.start,
            self.unserved_weight,
            self.unserved_ms,
            self.spent_ms,
            self.shared_ms,
            self.shared_weight,
        )

    def free(self) -> Programme:
        """The same lists at no cost: every interval and every admissible end is free, so that only prices add up."""
        none = np.zeros_like(self.weight)
        ends: F64 = np.where(np.isfinite(self.tail_ms), 0.0, np.inf)
        return replace(
            self, weight=none, unserved_ms=none, shared_weight=np.zeros_like(self.shared_weight), tail_ms=ends
        )

    def intervals_ms(self) -> F64:
        """Mean time of bucket j serving what lies above position i: float64 [N + 1, N + 1], of use where i < j."""
        served = self.weight[:, None] - np.maximum(self.weight[None, :], self.unserved_weight[:, None])
        alone = np.maximum(self.unserved_ms[:, None] - self.spent_ms[None, :], 0.0)
        shared = self.shared_weight[:, :, None] - self.shared_weight[:, None, :]
        made: F64 = self.bucket_ms[:, None] * served + alone + (self.shared_ms[:, :, None] * shared).sum(axis=0)
        return made

    def cost_ms(self, chosen: list[int]) -> float:
        """Mean step time of a list of positions (increasing), prices left out, by definition."""
        total, i = 0.0, 0
        for j in chosen:
            served = self.weight[j] - max(self.weight[i], self.unserved_weight[j])
            total += self.bucket_ms[j] * served + max(self.unserved_ms[j] - self.spent_ms[i], 0.0)
            total += float(self.shared_ms[:, j] @ (self.shared_weight[:, j] - self.shared_weight[:, i]))
            i = j
        return float(total + self.tail_ms[i])


def compile_problem(problem: Problem) -> Programme:
    """Turn sizes into positions.

    Raises:
        BadInput: a step is larger than every candidate and its time without a graph is unknown.
    """
    positions = np.concatenate(([0], problem.candidates)).astype(np.int64)
    count = len(problem.fallback_ms)
    by_size = np.zeros(count)
    by_size[problem.sizes] = problem.weights / problem.weights.sum()
    unknown = np.isnan(problem.fallback_ms)
    _check_top(problem, unknown)
    fallback = np.where(unknown, 0.0, problem.fallback_ms)
    limit_ms, tail_forbidden = _regret(problem, fallback, unknown)
    tail_forbidden |= unknown & (by_size > 0)
    cumulated = np.cumsum(by_size)
    spent = np.cumsum(by_size * fallback)
    clipped = np.minimum(positions, count - 1)
    served_from = np.concatenate(([1], problem.served_from()))
    below = np.minimum(served_from - 1, count - 1)
    floor = _floor(positions, problem.required)
    forbidden = np.nonzero(tail_forbidden)[0]
    last_needed = max(int(forbidden[-1]) if len(forbidden) else 1, int(problem.required.max(initial=1)))
    tail_ms = np.where(positions >= last_needed, spent[-1] - spent[clipped], np.inf)
    tail_ms[1.0 - cumulated[clipped] > problem.most_tail_share + TIE] = np.inf
    shared = [_share(problem, family, positions) for family in problem.shared]
    price_ms = np.zeros(len(positions)) if problem.price_ms is None else np.concatenate(([0.0], problem.price_ms))
    return Programme(
        problem,
        positions,
        weight=cumulated[clipped],
        bucket_ms=np.concatenate(([0.0], problem.bucket_ms)),
        promised_ms=np.concatenate(([0.0], problem.bucket_ms if problem.promised_ms is None else problem.promised_ms)),
        price_ms=price_ms,
        tail_ms=tail_ms + sum(tail for _, _, tail in shared),
        served_from=served_from,
        floor=floor,
        limit_ms=limit_ms,
        tail_forbidden=tail_forbidden,
        unserved_weight=cumulated[below],
        unserved_ms=spent[below],
        spent_ms=spent[clipped],
        shared_ms=np.array([ms for ms, _, _ in shared]).reshape(-1, len(positions)),
        shared_weight=np.array([weight for _, weight, _ in shared]).reshape(-1, len(positions)),
    )


def _share(problem: Problem, family: Shared, positions: I64) -> tuple[F64, F64, F64]:
    """Of another family, all float64 [N + 1]: g by position, cumulated weight, and the time above each position."""
    weights = family.weights / problem.weights.sum()
    below = np.searchsorted(family.sizes, positions, side="right")
    cumulated = np.concatenate(([0.0], np.cumsum(weights)))[below]
    fallback = family.fallback_ms[family.sizes]
    alone = np.cumsum(np.where(np.isnan(fallback), np.inf, weights * fallback)[::-1])[::-1]
    return np.concatenate(([0.0], family.bucket_ms)), cumulated, np.append(alone, 0.0)[below]


def _check_top(problem: Problem, unknown: Bool) -> None:
    top = int(problem.sizes[-1])
    last = int(problem.candidates[-1])
    if top > last and unknown[top]:
        kind = "measured point" if last in problem.reference_sizes[-1:] else "size that may be captured"
        raise BadInput(f"size {top} is above the last {kind} {last} and the profile has no fallback_ms", field="size")


def _regret(problem: Problem, fallback: F64, unknown: Bool) -> tuple[F64, Bool]:
    """What every size tolerates (float64 [L + 1]), and which sizes must have a graph (bool [L + 1])."""
    count = len(fallback)
    if problem.regret == math.inf:
        return np.full(count, np.inf), np.zeros(count, dtype=np.bool_)
    regret = np.full(count, np.inf)
    regret[problem.reachable + 1 : problem.wide_reachable + 1] = problem.wide_regret
    regret[: problem.reachable + 1] = problem.regret
    limit_ms = (1.0 + regret) * problem.best_ms() * (1.0 + TIE)
    limit_ms[0] = np.inf
    return limit_ms, np.isfinite(limit_ms) & (unknown | (fallback > limit_ms))


def _floor(positions: I64, required: I64) -> I64:
    """The last required position strictly below each position: int64 [N + 1]."""
    if len(required) == 0:
        return np.zeros(len(positions), dtype=np.int64)
    at = np.searchsorted(positions, required)
    before = np.searchsorted(at, np.arange(len(positions)))
    floor: I64 = np.where(before > 0, at[np.maximum(before - 1, 0)], 0).astype(np.int64)
    return floor


def follow(choice: I32, layers: int) -> list[int]:
    """Positions that `general_layers` chose from position 0 with at most `layers` buckets."""
    chosen: list[int] = []
    i = 0
    for r in range(layers, 0, -1):
        j = int(choice[r, i])
        if j >= 0:
            chosen.append(j)
            i = j
    return chosen
