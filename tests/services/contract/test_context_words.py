"""What contexts cost, in sentences: of the shipped profiles, and of one that prices none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.contract.context_words import context_words


@pytest.mark.parametrize(
    ("name", "family", "told"),
    [
        (
            "h200-llama-3.1-8b-flashinfer",
            "decode_full",
            ("From 33 rows on a step waits", "that of 1,536 included here"),
        ),
        (
            "h200-qwen3-30b-a3b-flashinfer",
            "decode_full",
            ("Beyond that, 128 real rows cost 16.7 ms more than 2.", "counts as one more"),
        ),
        ("h200-vllm-0.23-llama-3.1-8b", "decode_full", ("Full steps at 1,536 tokens a row.", "µs a real row")),
        ("h200-llama-3.1-8b", "decode_full", ("Contexts cost 51.0 ms per million KV tokens.",)),
    ],
)
def test_shipped_profiles_say_what_contexts_cost(
    name: str, family: str, told: tuple[str, ...], repository: Path
) -> None:
    document = json.loads((repository / "profiles" / f"{name}.json").read_text())
    words = context_words(document["families"][family])
    assert all(part in words for part in told), words


def test_a_family_without_prices_says_nothing() -> None:
    assert context_words({"points": []}) == ""
