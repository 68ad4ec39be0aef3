"""Where a sweep's costs come from: a recorded profile, or a model that is measured on a worker first."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from dashboard import text
from dashboard.pickers import pick_profile, profile_label
from dashboard.state import api, pick
from dashboard.worker_picker import pick_worker, worker_words
from services.contract.model import ModelSummary
from services.contract.sweep import MEASURE
from services.contract.worker_wish import WorkerWish

RECORDED, MEASURED = "recorded", "measured"
_SOURCES = {RECORDED: "A recorded cost profile", MEASURED: "Measure a model here first"}


@dataclass(frozen=True, slots=True)
class CostsChoice:
    """`profile`, `model` and `worker` as a sweep takes them; `words` for a sentence; `problem` was said at its field.

    A sweep that measures nothing has no wish for a worker.
    """

    profile: str
    model: str | None
    words: str
    worker: WorkerWish | None = None
    problem: str | None = None


def pick_costs() -> CostsChoice | None:
    """None where there is no profile to choose, which is then said."""
    left, right = st.columns(2)
    source = pick(left, "Costs come from", list(_SOURCES), "costs", show=_SOURCES.__getitem__)
    with right:
        if source == MEASURED:
            return _measured()
        profile = pick_profile()
    return None if profile is None else CostsChoice(profile.ref, None, f"by the costs of **{profile_label(profile)}**")


def _measured() -> CostsChoice:
    model = pick_model()
    worker = pick_worker()
    words = f"by the costs of **{model}**, which is measured here first on {worker_words(worker.wish)}"
    return CostsChoice(MEASURE, model, words, worker.wish, worker.problem)


def pick_model() -> str:
    """A built-in model shape by name."""
    models = {model.name: model for model in api().models().items}
    return pick(st.container(), "Model", list(models), "model", show=lambda name: model_label(models[name]))


def model_label(model: ModelSummary) -> str:
    """`llama-3.1-8b · 8.03 billion weights`"""
    units = ((1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
    unit, words = next((found for found in units if model.parameters >= found[0]), units[-1])
    experts = "" if model.experts is None else f", {model.experts} experts"
    return f"{model.name} · {text.digits(model.parameters / unit)} {words} weights{experts}"
