"""Which parameter of a study moved its objective, computed by PED-ANOVA on a bounded sample of recorded trials.

PED-ANOVA (Watanabe et al. 2023) compares where the better trials lie with where all trials lie, parameter by
parameter. It needs no model of the objective, and so no further library.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.trial import create_trial

MOST_TRIALS = 400
LEAST_TRIALS = 8
"""With fewer, the better part is too small to say where it lies."""


def importance(tried: Sequence[tuple[Mapping[str, Any], float]]) -> dict[str, float]:
    """Share of every parameter in what moved the objective, adding up to 1; empty with too few trials to say.

    Args:
        tried: (parameters, objective) of trials; those without parameters are left out, of many an even sample is
            taken. Parameters that one of them lacks are left out too.
    """
    usable = [(params, value) for params, value in tried if params]
    usable = usable[:: max(1, -(-len(usable) // MOST_TRIALS))]
    names = sorted(set.intersection(*(set(params) for params, _ in usable))) if usable else []
    space = {name: _range([params[name] for params, _ in usable]) for name in names}
    moved = {name: distribution for name, distribution in space.items() if not distribution.single()}
    if len(usable) < LEAST_TRIALS or not moved:
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize")
    for params, value in usable:
        own = {name: params[name] for name in moved}
        study.add_trial(create_trial(params=own, distributions=moved, value=float(value)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # PED-ANOVA is marked so in Optuna 5
        shares = PedAnovaImportanceEvaluator().evaluate(study)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total > 0 else {}


def _range(values: Sequence[float]) -> BaseDistribution:
    if all(isinstance(value, int) for value in values):
        return IntDistribution(int(min(values)), int(max(values)))
    return FloatDistribution(float(min(values)), float(max(values)))
