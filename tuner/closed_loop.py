"""A slow step makes a bigger batch: what a list does to the very histogram that it was chosen for."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.traffic import Observed
from workloads.errors import Infeasible
from workloads.traces.records import RequestTrace

ROUNDS = 4
SAME_MEAN_SHARE = 0.005
"""Mean step sizes that differ by less than this count as the same histogram."""


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


def _solve(case: Case, seen: Observed, length: int) -> tuple[int, ...] | None:
    try:
        point = case.front(seen).at(length)
    except Infeasible:
        return None
    return None if point is None else point.sizes
