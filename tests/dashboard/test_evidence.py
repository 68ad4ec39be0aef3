"""The verdict as a sentence, and what it is said to rest on."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.evidence import basis, flat, verdict_sentence
from dashboard.text import NBSP
from services.contract.recommendation import RecommendationModel

CARD = {
    "lists": {},
    "graphs": 20,
    "exact_hit_rate": 0.1,
    "hit_rate": 1.0,
    "fallback_rate": 0.0,
    "padding_waste": 0.1,
    "tpot_ms": None,
    "p99_step_ms": None,
    "worst_regret": None,
}


def card(list_length: int, step_ms: float, capture_s: float | None, memory_mib: float | None) -> dict[str, Any]:
    figures = {"list_length": list_length, "mean_step_ms": step_ms, "capture_s": capture_s, "memory_mib": memory_mib}
    return CARD | figures


def result(verdict: str, new: dict[str, Any], evidence: dict[str, Any] | None = None) -> RecommendationModel:
    document = {
        "engine": "vllm@0.33.0",
        "options": {},
        "lists": {"capture": [1, 2]},
        "scorecard": new,
        "default": {"lists": {}, "scorecard": card(51, 10.0, 6.0, 1000.0)},
        "verdict": verdict,
        "reasons": [],
        "holdout": None,
        "evidence": evidence or {"profile": {"name": "p", "device": {"name": "NVIDIA H200"}}},
        "front": [],
        "histogram": {},
        "serving": None,
    }
    return RecommendationModel.model_validate(document)


def said(model: RecommendationModel) -> str:
    return verdict_sentence(model).replace(NBSP, " ")


def test_a_better_list_names_every_gain() -> None:
    assert said(result("try", card(10, 9.0, 3.0, 500.0))) == (
        "Try these 10 sizes instead of 51 in vLLM 0.33.0 for 10.0 % faster steps, 50.0 % less capture time and "
        "50.0 % less graph memory."
    )


def test_what_a_list_costs_is_not_hidden_behind_what_it_gains() -> None:
    assert said(result("adopt", card(10, 10.1, 3.0, None))) == (
        "Use these 10 sizes instead of 51 in vLLM 0.33.0 for 50.0 % less capture time, "
        "at the price of 1.0 % slower steps."
    )


def test_steps_within_noise_are_neither_a_gain_nor_a_price() -> None:
    evidence = {"profile": {"name": "p"}, "noise_share": 0.013}
    assert said(result("try", card(10, 9.95, 3.0, 500.0), evidence)) == (
        "Try these 10 sizes instead of 51 in vLLM 0.33.0 for 50.0 % less capture time and 50.0 % less graph memory, "
        "steps the same within noise."
    )


def test_no_gain_is_said_as_such() -> None:
    assert said(result("keep_default", card(10, 10.0, 3.0, 500.0))) == (
        "Keep the 51 sizes of vLLM 0.33.0: nothing found is materially better."
    )
    assert said(result("inconclusive", card(10, 10.0, 3.0, 500.0))).startswith("Undecided")


@pytest.mark.parametrize(
    ("verdict", "device", "badge"),
    [
        ("try", {"name": "NVIDIA H200"}, "recorded profile, NVIDIA H200, not measured here"),
        ("try", {"name": "cpu"}, "measured on a CPU; says nothing binding about a GPU"),
        ("try", None, "modelled: the profile names no device and no time"),
        ("adopt", {"name": "NVIDIA H200"}, "measured in vLLM 0.33.0 on NVIDIA H200"),
    ],
)
def test_the_badge_says_where_the_times_come_from(verdict: str, device: dict[str, str] | None, badge: str) -> None:
    evidence = {"profile": {"name": "p", "device": device}}
    assert basis(result(verdict, card(10, 9.0, 3.0, 500.0), evidence)) == badge


def test_a_sweep_that_measured_its_profile_says_so() -> None:
    evidence = {"profile": {"name": "measured-s1", "device": {"name": "NVIDIA H200"}}}
    own = result("try", card(10, 9.0, 3.0, 500.0), evidence).model_copy(update={"sweep_id": "s1"})
    assert basis(own) == "measured on this NVIDIA H200, not in vLLM 0.33.0"
    assert basis(own.model_copy(update={"sweep_id": "s2"})).startswith("recorded profile")


def test_evidence_becomes_words_without_its_logs() -> None:
    rows = flat({"trace": {"rows": 19366}, "noise_share": 0.0123456, "log": [{"at": 1}], "left_out": ["a", "b"]})
    assert rows == [("Trace, rows", "19,366"), ("Noise share", "0.0123"), ("Left out", "a, b")]
