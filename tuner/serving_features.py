"""From serving options and an engine's own options to what the simulation adds to plain batching."""

from __future__ import annotations

from typing import Any

from tuner.engines.base import Engine
from tuner.recommendation import ServingOptions
from workloads.errors import BadUsage
from workloads.serving.features import Features, Speculation


def features_of(engine: Engine | None, options: Any, serving: ServingOptions) -> Features:
    """Preemption, prefix cache, speculation and attention ranks of a simulation.

    Draft tokens and attention ranks are the engine's own where its options name them.

    Raises:
        BadUsage: an acceptance without draft tokens, draft tokens without an acceptance, or two that disagree.
    """
    ranks = serving.dp_attention or (1 if engine is None else engine.attention_ranks(options))
    return Features(
        preempt=serving.preempt or serving.prefix_cache,
        prefix_cache=serving.prefix_cache,
        speculation=_speculation(engine, options, serving),
        attention_ranks=ranks,
    )


def unknown_acceptance(engine: Engine | None, options: Any, serving: ServingOptions) -> str | None:
    """What to say where an engine speculates and nobody says how well; None where there is nothing to say."""
    drafts = 0 if engine is None else engine.draft_tokens(options)
    if drafts == 0 or serving.acceptance is not None:
        return None
    return (
        f"the engine drafts {drafts} tokens a step and nobody says how many are accepted, so every request gains one "
        "token a step; give --acceptance"
    )


def _speculation(engine: Engine | None, options: Any, serving: ServingOptions) -> Speculation | None:
    own = 0 if engine is None else engine.draft_tokens(options)
    asked = serving.spec_tokens
    if engine is not None and asked is not None and asked != own:
        raise BadUsage(
            f"is {asked}, but the options of {engine.name} draft {own} tokens a step; set the engine's own option "
            "(vLLM num_speculative_tokens, SGLang speculative_algorithm and speculative_num_draft_tokens)",
            field="spec_tokens",
        )
    drafts = asked or own
    if serving.acceptance is None:
        if asked is not None:
            raise BadUsage("needs an acceptance: how often a draft token is accepted", field="spec_tokens")
        return None
    if drafts == 0:
        raise BadUsage(
            "needs draft tokens: spec_tokens, or the engine's own option for speculative decoding", field="acceptance"
        )
    return Speculation(drafts, serving.acceptance)
