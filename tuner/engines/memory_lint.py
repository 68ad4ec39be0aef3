"""Findings about memory that hold for every engine with a KV rule."""

from __future__ import annotations

from typing import Any

from tuner.engines.base import Engine, Lists, Problem


def memory_problems(engine: Engine, lists: Lists, options: Any, longest_tokens: int | None) -> list[Problem]:
    """No room for a KV cache, or for one request of `longest_tokens`; silent where facts are missing."""
    kv = engine.kv_tokens(lists, options)
    if kv.tokens is None:
        return []
    if kv.tokens == 0:
        message = f"Nothing is left for the KV cache: {kv.reason}"
        return [Problem("MEMORY_ABOVE_BUDGET", message, "error")]
    if longest_tokens is None or kv.tokens >= longest_tokens:
        return []
    message = f"The KV cache holds {kv.tokens} tokens, less than one request of {longest_tokens}."
    return [Problem("KV_BELOW_ONE_REQUEST", message, "error", kv.tokens)]
