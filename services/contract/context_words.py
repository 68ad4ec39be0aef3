"""What contexts and real rows cost by a profile, in sentences: the terms that no capture list changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NO_CONTEXT = 1.0


def context_words(family: Mapping[str, Any]) -> str:
    """Of one family of a profile's document; empty where it prices neither."""
    return " ".join(_sentences(family))


def _sentences(family: Mapping[str, Any]) -> Iterator[str]:
    a, h = float(family.get("attention_ms_per_mtoken", 0.0)), float(family.get("row_ms", 0.0))
    wait, curve = family.get("longest_row") or {}, family.get("row_curve") or {}
    at_tokens = float(family.get("context_tokens", _NO_CONTEXT))
    if at_tokens > _NO_CONTEXT:
        yield f"Full steps at {at_tokens:,.0f} tokens a row."
    if a or h:
        row = f" and {h * 1e3:,.1f} µs a real row" if h * 1e3 >= 0.05 else ""
        yield f"Contexts cost {a:.1f} ms per million KV tokens{row}."
    if wait.get("ms_per_ktoken"):
        yield (
            f"From {wait['unsplit_rows']} rows on a step waits for its longest one: {wait['ms_per_ktoken']:.2f} ms per "
            f"1,000 tokens of mean context, that of {wait['at_tokens']:,.0f} included here."
        )
    if curve.get("rows"):
        rows, ms = curve["rows"], curve["rows_ms"]
        low, high = ms.index(min(ms)), ms.index(max(ms))
        padding = " All padding counts as one more." if curve.get("padding_rows") else ""
        more = f"{max(ms) - min(ms):.1f} ms more than {rows[low]:,}"
        yield f"Beyond that, {rows[high]:,} real rows cost {more}.{padding}"
