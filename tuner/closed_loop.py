"""A slow step makes a bigger batch: what a list does to the very histogram that it was chosen for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tuner.branches import Branches, branches, sustained_load
from tuner.case import Case
from tuner.engines.base import Lists
from tuner.scorecard import admitted
from tuner.serving_features import features_of
from tuner.traffic import Observed, dispatch_of, limits_of, step_time_of
from workloads.arrays import F64
from workloads.errors import BadInput, Infeasible
from workloads.serving.capacity import mean_request
from workloads.traces.records import RequestTrace

ROUNDS = 4
SAME_MEAN_SHARE = 0.005
"""Mean step sizes that differ by less than this count as the same histogram."""

Outcome = Literal["fixed", "cycle", "open"]


@dataclass(frozen=True, slots=True)
class Settled:
    """Where solving and simulating in turn ends from one starting list.

    Attributes:
        start: name of the starting list: `chosen`, `every_size`, `largest_only`.
        sizes: the list at the fixed point; on a cycle, and where the rounds ran out, the best of those seen.
        outcome: `fixed`: the list is the optimum for the traffic that it makes; `cycle`: lists take turns.
        mean_size, tpot_ms: of the traffic under `sizes`.
    """

    start: str
    sizes: tuple[int, ...]
    outcome: Outcome
    rounds: int
    mean_size: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Solve and simulate in turn, starting from the list that was chosen.

    Attributes:
        first: traffic as the chosen list makes it; its report compares with the default's on TPOT and throughput.
        mean_sizes: mean decode step size under the default lists, then under the list of every round.
        sizes: the decode list of every round, the chosen one first.
        converged: the last round gave a list that had been there, or a histogram of the same mean size.
    """

    first: Observed
    mean_sizes: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]
    converged: bool

    @property
    def shift(self) -> float:
        """Relative change of the mean step size from the default lists to the chosen one."""
        return self.mean_sizes[1] / self.mean_sizes[0] - 1.0

    @property
    def moved(self) -> bool:
        """Whether the chosen list makes another histogram than the default lists do."""
        return abs(self.shift) >= SAME_MEAN_SHARE


def check(case: Case, trace: RequestTrace, chosen: Lists, before: Observed) -> ClosedLoop:
    """Simulate under `chosen`, solve for the same length on what comes out, and repeat until it settles.

    Args:
        before: the traffic under the engine's default lists.
    """
    first = case.observe(trace, chosen)
    sizes = [case.sizes_of(chosen)]
    means = [before.decode.mean_size, first.decode.mean_size]
    seen, converged = first, False
    for _ in range(ROUNDS - 1):
        following = _solve(case, seen, len(sizes[0]))
        converged = following is None or following in sizes
        if following is None or converged:
            break
        sizes.append(following)
        seen = case.observe(trace, case.lists_of(following))
        means.append(seen.decode.mean_size)
        converged = abs(means[-1] / means[-2] - 1.0) < SAME_MEAN_SHARE
        if converged:
            break
    return ClosedLoop(first, tuple(means), tuple(sizes), converged)


def settle(case: Case, trace: RequestTrace, chosen: Lists) -> tuple[Settled, ...]:
    """Iterate from several starting lists; one whose step times the profile does not know is left out.

    The closed loop may have more than one fixed point: a sparse list makes large batches, and large batches ask for
    large sizes.
    """
    cost = case.profile.family(case.engine.decode_family)
    measured = tuple(int(size) for size in cost.sizes[admitted(cost, case.allowed)])
    length = len(case.sizes_of(chosen))
    made = []
    for name, sizes in (("chosen", case.sizes_of(chosen)), ("every_size", measured), ("largest_only", measured[-1:])):
        try:
            made.append(_iterate(case, trace, name, sizes, length))
        except BadInput:
            continue
    return tuple(made)


def _iterate(case: Case, trace: RequestTrace, name: str, sizes: tuple[int, ...], length: int) -> Settled:
    seen = case.observe(trace, case.lists_of(sizes))
    visited: list[tuple[tuple[int, ...], Observed]] = [(sizes, seen)] if len(sizes) == length else []
    outcome: Outcome = "open"
    rounds = 0
    while rounds < ROUNDS and outcome == "open":
        following = _solve(case, seen, length)
        known = [held for held, _ in visited]
        if following is None or (known and following == known[-1]):
            outcome = "fixed"
        elif following in known:
            outcome, visited = "cycle", visited[known.index(following) :]
        else:
            seen = case.observe(trace, case.lists_of(following))
            visited.append((following, seen))
            rounds += 1
    held, under = visited[-1] if outcome == "fixed" and visited else min(visited, key=lambda item: _tpot_ms(item[1]))
    return Settled(name, held, outcome, rounds, under.decode.mean_size, _tpot_ms(under))


def _tpot_ms(seen: Observed) -> float:
    return float("inf") if seen.report is None else seen.report.tpot_mean_ms


@dataclass(frozen=True, slots=True)
class Rise:
    """The traffic's mean rate and mean request under one list; prefill is left out.

    Attributes:
        step_ms: float64 [N + 1], the whole step of n rows; index 0 is unused.
        requests_per_s: arrival rate at one engine.
        decode_tokens: decode steps of a mean request.
    """

    step_ms: F64
    requests_per_s: float
    decode_tokens: float

    def branches(self) -> Branches:
        return branches(self.step_ms, self.requests_per_s, self.decode_tokens)

    def sustained_load(self) -> F64:
        """The multiple of this load that a batch of n rows keeps up with, n = 1..N: float64 [N]."""
        return sustained_load(self.step_ms, self.requests_per_s, self.decode_tokens)


def rise_of(case: Case, trace: RequestTrace, lists: Lists) -> Rise:
    """What the settled batches under `lists` follow from."""
    asked = {name: sizes for name, sizes in lists.items() if sizes}
    limits = limits_of(case.engine, case.options, case.serving, case.profile, asked)
    dispatch = dispatch_of(case.engine, case.options, case.profile, asked)
    per_request = case.engine.step_tokens_per_request(case.options)
    most = limits.max_running_requests
    times = step_time_of(case.profile, dispatch, case.engine.decode_family, most, tokens_per_request=per_request)
    mean = mean_request(trace.input_tokens, trace.output_tokens)
    row_ms = times.attention_ms_per_token * mean.kv_tokens + times.row_ms
    step_ms = times.decode_ms + row_ms * np.arange(len(times.decode_ms), dtype=np.float64)
    features = features_of(case.engine, case.options, case.serving)
    batches = case.serving.engines * features.attention_ranks
    rate = len(trace) * case.serving.load / max(trace.span_s, 1e-9) / batches
    tokens_per_step = 1.0 if features.speculation is None else features.speculation.mean_tokens
    return Rise(step_ms, rate, mean.decode_tokens / tokens_per_step)


def branches_of(case: Case, trace: RequestTrace, lists: Lists) -> Branches:
    """Settled decode batches under `lists` for the trace's mean rate and mean request."""
    return rise_of(case, trace, lists).branches()


def _solve(case: Case, seen: Observed, length: int) -> tuple[int, ...] | None:
    try:
        point = case.front(seen, replace(case.budget, max_length=length)).at(length)
    except Infeasible:
        return None
    return None if point is None else point.sizes
