"""One list for several recordings: the least worst regret over them.

The regret of a recording is what the list takes more than the best list of the same length for that recording alone.
The largest of several sums is not a sum, so the recurrence does not answer for it; but for any mixture of recordings it
does, and the best list of the mixture is a lower bound on the worst regret of every list (weak duality). Mixtures are
moved towards the recording that fares worst, the best list that comes up is kept, and the gap to the bound is stated.

What a list takes includes steps of other families that run in its graphs (vLLM's mixed steps), where the profile
measured them; see `tuner.mixture`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.case import Case
from tuner.choice import NEAR_BEST_SHARE
from tuner.front import length_bound
from tuner.mixture import Mixture
from tuner.traffic import Observed
from workloads.arrays import F64
from workloads.errors import BadUsage, Infeasible

ROUNDS = 200
PROVEN = 1e-9
"""A gap below this share is rounding."""


@dataclass(frozen=True, slots=True)
class OfTrace:
    """One recording under the list.

    Attributes:
        figure_ms, default_ms: mean time of a decode step (or token) of the list, and of the engine's default, as the
            profile read it, plus what steps of other families on the list take per decode step (or token), but for
            those above every size that a list may hold. inf where it is unknown.
        best_sizes, best_ms: the best list of that length for this recording alone, and its figure.
        regret: figure_ms / best_ms - 1.
    """

    name: str
    figure_ms: float
    default_ms: float
    best_sizes: tuple[int, ...]
    best_ms: float
    regret: float


@dataclass(frozen=True, slots=True)
class Robust:
    """The list.

    Attributes:
        worst_regret: largest of the traces' regrets, on the curve that lists are chosen on (`tuner.confidence`).
        bound: no list of that length has a smaller one.
        gap: worst_regret - bound.
        size_regret: largest regret of any reachable size, as everywhere else.
    """

    sizes: tuple[int, ...]
    worst_regret: float
    bound: float
    gap: float
    size_regret: float | None
    traces: tuple[OfTrace, ...]

    @property
    def optimal(self) -> bool:
        return self.gap <= PROVEN


def robust_list(case: Case, observed: Mapping[str, Observed], length: int) -> Robust:
    """The list of at most `length` sizes whose worst regret over the recordings is least, as far as is proven.

    Args:
        observed: name -> the recording under the engine's default lists; at least two.

    Raises:
        BadUsage: fewer than two recordings.
        BadInput, Infeasible: see `tuner.front.best_front`.
    """
    return _of_length(case, observed, _mixture(case, observed), length)


def _mixture(case: Case, observed: Mapping[str, Observed]) -> Mixture:
    if len(observed) < 2:
        raise BadUsage("a robust list needs two recordings or more", field="--also")
    return Mixture.of(case, list(observed.values()))


def _of_length(case: Case, observed: Mapping[str, Observed], mixed: Mixture, length: int) -> Robust:
    length = min(length, length_bound(case.budget, case.allowed))
    alone = [mixed.best_sizes(row, length) for row in np.eye(len(observed))]
    least_ms = np.array([mixed.means_ms(sizes)[t] for t, sizes in enumerate(alone)])
    sizes, worst, bound = least_worst(mixed, least_ms, length, alone)
    return Robust(
        sizes,
        worst - 1.0,
        bound - 1.0,
        worst - bound,
        case.score(case.lists_of(sizes), max(observed.values(), key=lambda seen: seen.reachable)).worst_regret,
        tuple(
            _of_trace(case, name, seen, sizes, best) for (name, seen), best in zip(observed.items(), alone, strict=True)
        ),
    )


def shortest_robust(case: Case, observed: Mapping[str, Observed], length: int) -> Robust:
    """The shortest list that takes within `NEAR_BEST_SHARE` of what the robust list of at most `length` sizes takes, on
    every recording, and is no slower than the default on any, unless that one is.

    Raises:
        BadUsage, BadInput, Infeasible: as `robust_list`.
    """
    mixed = _mixture(case, observed)
    longest = _of_length(case, observed, mixed, length)
    most_ms = [max(of.figure_ms, min(of.default_ms, of.figure_ms * (1 + NEAR_BEST_SHARE))) for of in longest.traces]
    for shorter in range(1, len(longest.sizes)):
        with contextlib.suppress(Infeasible):
            found = _of_length(case, observed, mixed, shorter)
            if all(of.figure_ms <= ms for of, ms in zip(found.traces, most_ms, strict=True)):
                return found
    return longest


def least_worst(
    mixed: Mixture, least_ms: F64, length: int, known: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], float, float]:
    """Best list found, its largest figure / least_ms over the recordings, and the least that any list can have.

    Multiplicative weights: a recording that fares worse than another gains weight, less so in every later round.

    Args:
        known: lists to begin with; one that leaves a step of some recording to an unknown time is passed over.

    Raises:
        Infeasible: no list meets the constraints for all recordings.
    """
    even = mixed.best_sizes(1.0 / least_ms, length)
    ratios = {sizes: mixed.means_ms(sizes) / least_ms for sizes in (*known, even)}
    lists = {sizes: ratio for sizes, ratio in ratios.items() if np.isfinite(ratio).all()}
    bound = max(1.0, float(ratios[even].mean()))
    lead = np.zeros(len(least_ms))
    spread = max(float(np.ptp(ratio)) for ratio in lists.values())
    for turn in range(ROUNDS):
        best = min(float(ratio.max()) for ratio in lists.values())
        if best - bound <= PROVEN or spread == 0.0:
            break
        share = np.exp(lead - lead.max())
        share /= share.sum()
        sizes = mixed.best_sizes(share / least_ms, length)
        ratio = lists.setdefault(sizes, mixed.means_ms(sizes) / least_ms)
        bound = max(bound, float(share @ ratio))
        lead += (ratio - ratio.mean()) / spread * 4.0 / np.sqrt(turn + 1.0)
    sizes = min(lists, key=lambda sizes: float(lists[sizes].max()))
    worst = float(lists[sizes].max())
    return sizes, worst, min(bound, worst)


def _of_trace(case: Case, name: str, seen: Observed, sizes: tuple[int, ...], best: tuple[int, ...]) -> OfTrace:
    of_list, of_best, of_default = (
        case.figure_ms(lists, seen) for lists in (case.lists_of(sizes), case.lists_of(best), case.default_lists())
    )
    return OfTrace(name, of_list, of_default, best, of_best, of_list / of_best - 1.0)
