"""The samplers that a study may use, each seeded for one trial."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from tuner.recommendation import SamplerName
from workloads.errors import BadUsage, MissingExtra

SAMPLERS: tuple[SamplerName, ...] = get_args(SamplerName)
POPULATION = 12
"""Of NSGA-II: several generations must fit into some dozens of trials."""
STARTUP_TRIALS = 10
"""Random trials before a model is fitted; the fixed first trials count as some of them."""


def sampler_of(name: SamplerName, seed: int) -> BaseSampler:
    """A fresh sampler; what it knows of earlier trials it reads from the study.

    Raises:
        BadUsage: there is no such sampler.
        MissingExtra: Gaussian processes without torch and SciPy.
    """
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
    if name == "nsgaii":
        return optuna.samplers.NSGAIISampler(seed=seed, population_size=POPULATION)
    if name != "gp":
        raise BadUsage(f"the samplers are {', '.join(SAMPLERS)}, not '{name}'", field="sampler")
    if find_spec("torch") is None or find_spec("scipy") is None:
        raise MissingExtra.of("gp", "the Gaussian process sampler")
    # Its matrices are small: more threads wait for each other longer than they compute.
    import_module("torch").set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS, deterministic_objective=True)


class Fixed(BaseSampler):
    """Gives the values it was made with: for trials that are decided before the study."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = dict(params)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._params[param_name]
