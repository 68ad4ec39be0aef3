"""What a scheduler may do: the limits an engine's options impose on the simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from workloads.errors import BadUsage

PolicyName = Literal["vllm", "sglang", "decode"]
UNLIMITED = int(np.iinfo(np.int64).max)
"""KV tokens where nothing limits them."""


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """Limits of one engine instance.

    Attributes:
        max_running_requests: most requests that run at once.
        token_budget: most tokens one step may process (vLLM max_num_batched_tokens; SGLang max_prefill_tokens).
        chunked_prefill_tokens: longest prefill chunk of one step; None prefills a prompt in one piece.
        kv_tokens: KV cache in tokens; None is unlimited.
    """

    max_running_requests: int
    token_budget: int = 8192
    chunked_prefill_tokens: int | None = 8192
    kv_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_running_requests", "token_budget", "chunked_prefill_tokens", "kv_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadUsage(f"must be at least 1, not {value}", field=name)
