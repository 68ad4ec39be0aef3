"""Well-known column names of request tables, and what their time is counted in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workloads.traces.mapping import TimeUnit


@dataclass(frozen=True, slots=True)
class Convention:
    """The three names one tool uses; `time_unit` where its documentation fixes it."""

    tool: str
    arrival: str
    input_tokens: str
    output_tokens: str
    time_unit: TimeUnit | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        return (self.arrival, self.input_tokens, self.output_tokens)


CONVENTIONS = (
    Convention("Azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    Convention("Vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", "s"),
    Convention("Captune", "arrival_s", "input_tokens", "output_tokens", "s"),
    Convention("Mooncake", "timestamp", "input_length", "output_length"),
    Convention("BurstGPT", "Timestamp", "Request tokens", "Response tokens", "s"),
    Convention("LLMServingSim", "arrival_time_ns", "input_toks", "output_toks", "ns"),
    Convention("LLMServingSim", "arrival_time", "input_toks", "output_toks"),
    Convention("SGLang", "request_received_ts", "prompt_tokens", "completion_tokens", "s"),
    Convention("splitwise-sim", "arrival_timestamp", "prompt_size", "token_size", "s"),
    Convention("Baseten", "timestamp_start_unix_ms", "input_tokens", "output_tokens", "ms"),
    Convention("OpenAI", "timestamp", "prompt_tokens", "completion_tokens"),
)
SYNONYMS = {
    "arrival": (
        *("arrival_s", "arrival_ms", "arrival_us", "arrival_ns", "arrival", "arrival_time", "arrival_time_s"),
        *("arrival_time_ms", "arrival_time_ns", "arrived_at", "timestamp", "timestamp_ms", "timestamp_s", "time"),
        *("timestamp_start_unix_ms", "start_time", "created_at", "request_received_ts"),
    ),
    "input tokens": (
        *("input_tokens", "input_length", "input_len", "input_toks", "prompt_tokens", "prompt_len", "prompt_length"),
        *("num_prefill_tokens", "contexttokens", "context_tokens", "request tokens", "request_tokens"),
    ),
    "output tokens": (
        *("output_tokens", "output_length", "output_len", "output_toks", "completion_tokens", "generated_tokens"),
        *("num_decode_tokens", "generatedtokens", "generation_tokens", "response tokens", "response_tokens"),
    ),
}
_SUFFIX = re.compile(r"_(s|ms|us|ns)$")


def convention_of(names: Sequence[str]) -> Convention | None:
    """The convention whose three names are all there."""
    present = set(names)
    return next((known for known in CONVENTIONS if present.issuperset(known.names)), None)


def nearest_convention(names: Sequence[str]) -> Convention | None:
    """The convention with most of its names there, for the message about the one that is missing."""
    present = set(names)
    best = max(CONVENTIONS, key=lambda known: len(present.intersection(known.names)))
    return best if present.intersection(best.names) else None


def synonym(names: Sequence[str], role: str) -> str | None:
    """The column that plays `role` by a name in common use, whatever its case."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in SYNONYMS[role] if name in by_lower), None)


def unit_in_name(name: str) -> TimeUnit | None:
    """`s`, `ms`, `us` or `ns` where the column name ends in it (`arrival_ms`)."""
    match = _SUFFIX.search(name.lower())
    unit: TimeUnit | None = match.group(1) if match else None  # type: ignore[assignment]
    return unit
