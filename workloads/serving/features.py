"""What a simulation may add to plain continuous batching: preemption, prefix cache, speculation, attention ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

from workloads.errors import BadUsage


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding by chains of drafts, as rejection sampling sees them.

    Attributes:
        draft_tokens: k; a decode step verifies q = 1 + k tokens of every request.
        acceptance: chance that a draft token is accepted when all before it were. A step accepts the drafts before
            the first rejection, at most k, and makes one token more: P(at least j accepted) = acceptance^j.
        seed: of the draws. Draw number v of request r depends on (seed, r, v) only, so that every list that is
            compared meets the same luck.
    """

    draft_tokens: int
    acceptance: float
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draft_tokens < 1:
            raise BadUsage(f"must be at least 1, not {self.draft_tokens}", field="spec_tokens")
        if not 0 <= self.acceptance <= 1:
            raise BadUsage(f"is a share from 0 to 1, not {self.acceptance}", field="acceptance")

    @property
    def query_tokens(self) -> int:
        return 1 + self.draft_tokens

    @property
    def mean_tokens(self) -> float:
        """Tokens that a request gains in a step on average, before the end of its output cuts the last step."""
        return sum(self.acceptance**accepted for accepted in range(self.query_tokens))


@dataclass(frozen=True, slots=True)
class SglangKvRule:
    """Numbers of SGLang's KV estimate; the defaults are those of 0.5.23 (`environ.py:646-650`, decode nodes'
    `num_reserved_decode_tokens`).

    Attributes:
        initial_ratio: share of its remaining output that a running request is expected to make yet, at first.
        least_ratio_factor: the ratio falls to this share of `initial_ratio`.
        decay_steps: decode steps from the one to the other.
        retract_steps: steps of room that retraction wants for every request it leaves.
        clip_tokens: most output tokens of one request that the estimate counts.
        reserved_decode_tokens: room that a decode node keeps for every running request.
    """

    initial_ratio: float = 0.7
    least_ratio_factor: float = 0.14
    decay_steps: int = 600
    retract_steps: int = 20
    clip_tokens: int = 4096
    reserved_decode_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Features:
    """Additions to plain continuous batching; all off by default.

    Attributes:
        preempt: admit and preempt by the engine's own KV rule; off, a request is admitted when its whole input and
            output fit, and nothing is preempted.
        prefix_cache: reuse the KV blocks of shared prompt prefixes; needs a trace with block hashes, and `preempt`,
            because cached blocks live in the blocks that the engine's rule leaves free.
        speculation: None decodes one token a step.
        attention_ranks: data-parallel attention ranks of one engine instance, in lockstep; limits hold for each.
    """

    preempt: bool = False
    prefix_cache: bool = False
    speculation: Speculation | None = None
    attention_ranks: int = 1
    sglang_kv_rule: SglangKvRule = field(default_factory=SglangKvRule)

    def __post_init__(self) -> None:
        if self.attention_ranks < 1:
            raise BadUsage(f"must be at least 1, not {self.attention_ranks}", field="dp_attention")
        if self.prefix_cache and not self.preempt:
            raise BadUsage(
                "needs preempt: cached blocks live in the KV room of the engine's own rule", field="prefix_cache"
            )

    @property
    def plain(self) -> bool:
        return not (self.preempt or self.prefix_cache or self.speculation) and self.attention_ranks == 1
