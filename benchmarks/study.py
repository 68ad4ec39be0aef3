"""What the exact decoder is worth: equal trials with it, and over raw subsets of the sizes.

    python -m benchmarks.study [--trials 60] [--seeds 3]

The bundled sample's steps, taken as recorded, are a problem whose optimum the recurrence proves; both searches are
Optuna's TPE with the same seeds and constraints: at most 17 sizes (a third of the default's), first with a regret of at
most 0.10 for every reachable size, then without that promise. A raw trial picks 17 measured sizes one by one.
"""

from __future__ import annotations

import argparse
import math
from statistics import median

import optuna
from optuna.trial import Trial as OptunaTrial

from services.catalog import DEFAULT_PROFILE, find_profile
from tuner.budget import Budget
from tuner.case import Case
from tuner.engines.registry import engine
from tuner.recommendation import ServingOptions, Trial
from tuner.samplers import sampler_of
from tuner.study import exact_bound_ms, run_study
from tuner.traffic import Observed
from workloads.samples.bundled import sample_path
from workloads.traces.read import read

RAW = {"max_num_seqs": "256"}
MOST_SIZES = 17


def recorded_case(regret: float) -> tuple[Case, Observed]:
    """The bundled sample under the engine's default, its steps from here on taken as given."""
    vllm = engine("vllm@0.33.0")
    serving = ServingOptions(policy="decode")
    budget = Budget(regret=regret, max_length=MOST_SIZES)
    case = Case(vllm, vllm.options(RAW), find_profile(DEFAULT_PROFILE), serving, budget, "step")
    return case, case.observe(read(sample_path()).traffic, case.default_lists())


def decoded_ms(case: Case, seen: Observed, trials: int, seed: int) -> float:
    """Best mean step time of the study's own trials that meet every constraint."""
    made = run_study(case, seen.steps, seen, trials=trials, seed=seed)
    return least_ms([trial for trial in made if trial.source == "study"])


def least_ms(trials: list[Trial]) -> float:
    return min((trial.values["mean_step_ms"] for trial in trials if trial.state == "complete"), default=math.inf)


def raw_ms(case: Case, seen: Observed, trials: int, seed: int) -> tuple[float, int]:
    """Best mean step time of raw subsets that meet every constraint, and how many of them do."""
    cost = case.profile.family(seen.decode_family)
    required = case.allowed.required
    sizes = [int(size) for size in cost.sizes if size <= case.allowed.largest]
    kept: list[float] = []

    def objective(trial: OptunaTrial) -> float:
        picked = {sizes[trial.suggest_int(f"size_{n}", 0, len(sizes) - 1)] for n in range(MOST_SIZES - len(required))}
        card = case.score(case.lists_of(tuple(sorted(picked.union(required)))), seen)
        assert card.mean_step_ms is not None and card.worst_regret is not None
        trial.set_constraint("regret", min(card.worst_regret - case.budget.regret, 1e9))
        if card.worst_regret <= case.budget.regret:
            kept.append(card.mean_step_ms)
        return card.mean_step_ms

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler_of("tpe", seed))
    study.optimize(objective, n_trials=trials)
    return min(kept, default=math.inf), len(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for regret in (0.10, math.inf):
        compare(regret, arguments.trials, arguments.seeds)


def compare(regret: float, trials: int, seeds: int) -> None:
    """One block of the output; figures are medians over the seeds."""
    case, seen = recorded_case(regret)
    bound_ms = exact_bound_ms(case, seen.steps, seen)
    assert bound_ms is not None
    print(f"at most {MOST_SIZES} sizes, regret {regret:g}: proven least {bound_ms:.4f} ms a step")
    for count in (trials, 10 * trials):
        raw = [raw_ms(case, seen, count, seed) for seed in range(seeds)]
        within = sum(number for _, number in raw) / len(raw)
        best_ms = median(ms for ms, _ in raw)
        print(f"  raw subsets, {count:4d} trials: {_above(best_ms, bound_ms)}; {within:.0f} trials within the promise")
    best_ms = median(decoded_ms(case, seen, trials, seed) for seed in range(seeds))
    print(f"  exact decoder, {trials:2d} trials: {_above(best_ms, bound_ms)}")


def _above(ms: float, bound_ms: float) -> str:
    return (
        "nothing within the constraints" if math.isinf(ms) else f"{ms:.4f} ms, {ms / bound_ms - 1:7.3%} above the least"
    )


if __name__ == "__main__":
    main()
