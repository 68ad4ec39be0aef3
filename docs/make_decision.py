"""Rebuild the table of docs/decision.md that shows what choosing on readings costs, from a shipped profile.

.venv/bin/python docs/make_decision.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np

from tuner.budget import Budget
from tuner.confidence import Confidence
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.front import best_front
from tuner.profile_file import read_profile
from workloads.arrays import F64
from workloads.histogram import StepHistogram

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "decision.md"
BEGIN, END = "<!-- luck: made by docs/make_decision.py -->", "<!-- /luck -->"
PROFILE = "h200-llama-3.1-8b"
LARGEST, LENGTH, DRAWS, SEED = 512, 12, 40, 0
SPREAD_SHARE = 0.007
LUCKY_SHARE, LUCK = 0.05, 0.04
"""Of the readings, how many are off by how much in the noisy case: two starts of one engine differ by 3 to 5 % at
some sizes."""


@dataclass(frozen=True)
class Outcome:
    """Of one way to choose, over all draws: shares of the true mean step time."""

    missed: float  # predicted by the readings / true - 1
    lost: float  # true / true optimum - 1
    worst: float


def render() -> str:
    """The table as Markdown."""
    truth = _truth()
    lines = [
        "| readings | starts | chosen on | predicted against true | true against the optimum, mean | worst |",
        "|---|---|---|---|---|---|",
    ]
    for words, lucky_share in (("even noise", 0.0), ("some readings off", LUCKY_SHARE)):
        for starts in (1, 2, 3):
            plain, careful = _outcomes(truth, starts, lucky_share)
            for name, of in (("readings", plain), ("upper curve", careful)):
                lines.append(f"| {words} | {starts} | {name} | {of.missed:+.2%} | {of.lost:+.2%} | {of.worst:+.2%} |")
    return "\n".join(lines)


def _truth() -> FamilyCost:
    cost = read_profile(ROOT / "profiles" / f"{PROFILE}.json").family("decode_full")
    keep = cost.sizes <= LARGEST
    columns = ("sizes", "step_ms", "replay_ms", "fallback_ms", "spread_ms", "capture_s", "memory_mib", "starts")
    kept = {name: getattr(cost, name)[keep] for name in columns}
    kept["fallback_ms"] = np.full(int(keep.sum()), math.nan)  # every list covers every size
    return replace(cost, **kept)


def _outcomes(truth: FamilyCost, starts: int, lucky_share: float) -> tuple[Outcome, Outcome]:
    rng = np.random.default_rng(SEED)
    best_ms = _true_ms(truth, _list(truth, None))
    kept: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for _ in range(DRAWS):
        read = _measured(truth, starts, lucky_share, rng)
        for results, curve in zip(kept, (None, Confidence.of(read).read), strict=True):
            sizes = _list(read, curve)
            true_ms = _true_ms(truth, sizes)
            results.append((_true_ms(read, sizes) / true_ms - 1.0, true_ms / best_ms - 1.0))
    made = [Outcome(mean(m for m, _ in r), mean(x for _, x in r), max(x for _, x in r)) for r in kept]
    return made[0], made[1]


def _measured(truth: FamilyCost, starts: int, lucky_share: float, rng: np.random.Generator) -> FamilyCost:
    """A profile as a measurement would give it: medians and spread over starts."""
    shape = (starts, len(truth.sizes))
    noise = rng.normal(0.0, SPREAD_SHARE, shape)
    noise += np.where(rng.random(shape) < lucky_share, rng.choice((-LUCK, LUCK), shape), 0.0)
    readings: F64 = truth.step_ms * (1.0 + noise)
    spread = readings.std(axis=0, ddof=1) if starts > 1 else np.full(shape[1], math.nan)
    counts = np.full(shape[1], starts)
    return replace(truth, step_ms=np.median(readings, axis=0), spread_ms=spread, starts=counts)


def _list(cost: FamilyCost, read: FamilyCost | None) -> tuple[int, ...]:
    profile = CostProfile(PROFILE, {"decode_full": cost})
    front = best_front(_every(), profile, "decode_full", budget=Budget(math.inf, LENGTH), read=read)
    return front.points[-1].sizes


def _true_ms(cost: FamilyCost, sizes: tuple[int, ...]) -> float:
    buckets = np.array(sizes)
    every = np.arange(1, LARGEST + 1)
    ms: F64 = cost.bucket_ms_at(buckets[np.searchsorted(buckets, every)])
    return float(ms.mean())


def _every() -> StepHistogram:
    return StepHistogram.of_counts({size: 1.0 for size in range(1, LARGEST + 1)})


def main() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}")


if __name__ == "__main__":
    main()
