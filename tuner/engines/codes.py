"""Lint codes: stable names, each with what it means. Every finding of every engine is one of these."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, str] = {
    "ABOVE_LIMIT": "Sizes above the request pool or token budget: dropped, or never used.",
    "AUTODEPLOY_TOP": "AutoDeploy asserts without max_batch_size in the list.",
    "BELOW_QUERY": "Sizes smaller than one request's tokens are skipped.",
    "DUPLICATE": "A size is named more than once.",
    "EMPTY_AFTER_FILTER": "The engine's filters leave no size; it does not start.",
    "EMPTY_LIST": "The list is empty; the engine does not start.",
    "EXACT_ONLY": "Padding is off: only exactly captured sizes replay.",
    "FLAG_ABSENT": "This version has no such flag.",
    "GRAPHS_OFF": "Graphs are switched off.",
    "GRAPH_SLOTS": "More graphs than the hardware has room for; the list is thinned.",
    "KV_BELOW_ONE_REQUEST": "The KV cache does not hold one request of the longest length.",
    "MAMBA_BLOCKS": "FULL graphs need one Mamba cache block a request.",
    "MAX_MISMATCH": "A list and a maximum that is not its last size exclude each other.",
    "MEMORY_ABOVE_BUDGET": "Weights and what is set aside for graphs leave no memory for a KV cache.",
    "MIXED_TAIL_UNCOVERED": "Mixed steps lose graphs that the default gives them.",
    "NOT_EXPRESSIBLE": "The engine takes no list; the nearest ladder is used.",
    "NOT_MULTIPLE": "Sizes that are no multiple of q, TP or attention TP: dropped, rounded or unsafe.",
    "NO_BUCKET": "A batch finds no bucket and the engine stops.",
    "PLATFORM_QUIRK": "A size that is known to fail on this platform.",
    "PREFILL_ABOVE_LIMIT": "Prefill sizes that no batch can fill.",
    "PREFILL_EMPTY": "No prefill size is left; prefill graphs are disabled.",
    "PREFILL_GAP": "Prefill steps between far sizes run eager.",
    "PREFILL_NOT_MULTIPLE": "Prefill sizes that attention TP does not divide.",
    "PREFILL_OFF": "Another option switches prefill graphs off.",
    "SINGLE_SIZE_IS_MAX": "One value is read as a maximum.",
    "TIER_NOT_COVERED": "A tier of dynamic speculation reaches steps without a graph.",
    "TOP_FALLS_TO_PIECEWISE": "The largest decode steps have no FULL graph.",
    "TOP_NOT_COVERED": "The largest decode steps have no graph at all.",
    "TRUNCATED": "A maximum off the ladder is silently lowered.",
    "UNREACHABLE_SIZE": "Sizes that no step can ever reach.",
    "UNSORTED": "The list is not in order.",
    "VERSION_NOTE": "Rules of another version answer.",
}
