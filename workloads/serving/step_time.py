"""How long a step takes: the step model of the simulation.

decode step = decode_ms[n] + attention_ms_per_token x real KV tokens + row_ms x real rows
prefill     = curve(new tokens) + prefix_ms_per_token2 x new tokens x prefix tokens
mixed step  = curve(all tokens of the step) + the prefix term + the decode rows' attention and row terms
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.arrays import F64, frozen
from workloads.errors import BadInput


@dataclass(frozen=True, slots=True)
class StepTime:
    """Step times of one engine instance with one capture list.

    Attributes:
        decode_ms: float64 [S + 1]; index n is g(bucket of n), or the fallback time of n, for a decode step of n
            requests, with all that follows n and is no price per row. Index 0 is unused. S is at least the scheduler's
            max running requests.
        attention_ms_per_token: milliseconds per real KV token that a step attends to.
        row_ms: milliseconds per real row.
        prefill_tokens, prefill_ms: float64 [P], the measured prefill curve without prefix, tokens increasing;
            linear between points, the first point's time below it, last slope above the last. Empty where unknown:
            then only the decode policy can run.
        prefix_ms_per_token2: milliseconds per (new token x prefix token).
    """

    decode_ms: F64
    attention_ms_per_token: float
    row_ms: float
    prefill_tokens: F64
    prefill_ms: F64
    prefix_ms_per_token2: float = 0.0

    def __post_init__(self) -> None:
        if len(self.decode_ms) < 2 or np.any(~(self.decode_ms[1:] > 0)) or not np.all(np.isfinite(self.decode_ms[1:])):
            raise BadInput("every decode step size needs a positive time", field="decode_ms")
        if len(self.prefill_tokens) != len(self.prefill_ms) or np.any(np.diff(self.prefill_tokens) <= 0):
            raise BadInput("prefill points must increase in tokens", field="prefill")
        for column in (self.decode_ms, self.prefill_tokens, self.prefill_ms):
            frozen(column)

    @property
    def knows_prefill(self) -> bool:
        return len(self.prefill_tokens) > 0
