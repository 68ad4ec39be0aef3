"""A ladder's card says what changes against the engine's default, and what of that is noise."""

from __future__ import annotations

from typing import Any

from dashboard.ladders import Ladder, card_words
from dashboard.text import NBSP
from services.contract.kv import KvTokensModel
from services.contract.scorecard import ScorecardModel


def ladder(label: str, ms: float, capture_s: float | None, tokens: int | None) -> Ladder:
    figures: dict[str, Any] = dict.fromkeys(("tpot_ms", "p99_step_ms", "worst_regret"))
    figures |= {"lists": {}, "list_length": 2, "graphs": 2, "exact_hit_rate": 0.5, "hit_rate": 1.0, "memory_mib": 232.0}
    figures |= {"padding_waste": 0.1, "mean_step_ms": ms, "capture_s": capture_s, "fallback_rate": 0.0}
    kv = KvTokensModel(tokens=tokens, moves=True, reason="", knob="")
    return Ladder(label, (1, 2), ScorecardModel.model_validate(figures), "", kv)


def test_a_card_holds_time_start_up_memory_with_its_kv_cache_and_steps_without_a_graph() -> None:
    base = ladder("vLLM default", 10.0, 3.0, 900_000)
    lines = card_words(ladder("Tuned", 9.0, 1.5, 905_000), base, 0.015).replace(NBSP, " ").split("  \n")
    assert lines == [
        "**Tuned**",
        "2 sizes",
        "Step **9.00 ms** ▼ 10.0 %",
        "Start-up 1.50 s ▼ 50.0 %",
        "Graphs 232 MiB",
        "KV 905.0 k tokens (+5.0 k)",
        "Without a graph 0 %",
    ]


def test_a_change_within_the_band_is_called_noise_and_what_is_unknown_unknown() -> None:
    base = ladder("vLLM default", 10.0, 3.0, None)
    said = card_words(ladder("Tuned", 9.9, None, None), base, 0.015).replace(NBSP, " ")
    assert "▼ 1.0 %, noise" in said and "Start-up unknown" in said and "KV unknown" in said
    assert card_words(Ladder("X", (1,), None, "too large", None), base, None).endswith("too large")
