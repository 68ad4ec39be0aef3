"""Which parameter of a sweep moved its objective."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.context import InStore
from services.contract.trial import ImportanceModel
from services.views import trial_view
from tuner.importance import MOST_TRIALS, importance

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

MOST_READ = 5_000
"""Recorded trials looked at; the sample is taken from these."""


@router.get("/{sweep_id}/importance")
def show(store: InStore, sweep_id: str) -> ImportanceModel:
    """Shares of the sampled parameters, from recorded trials; empty where too few were sampled."""
    objective = "mean_step_ms" if store.sweeps.get(sweep_id).objective == "step" else "tpot_ms"
    trials = [trial_view(stored) for stored in store.sweeps.trials(sweep_id, limit=MOST_READ)]
    tried = [(trial.params, value) for trial in trials if (value := trial.values.get(objective)) is not None]
    return ImportanceModel(objective=objective, shares=importance(tried), at_most=MOST_TRIALS)
