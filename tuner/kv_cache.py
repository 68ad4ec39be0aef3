"""The KV cache under a list, by the engine's own rule, from the graph memory that a profile measured."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuner.cost_profile import CostProfile
from tuner.engines.base import Engine, Lists
from tuner.engines.kv import GraphMemory, KvTokens


def graph_memory(profile: CostProfile, decode_family: str) -> GraphMemory | None:
    """What every measured graph takes; None where the profile does not say it of the decode family.

    The decode family comes first, so that families that were not measured cost what it does.
    """
    order = sorted(profile.families, key=lambda name: name != decode_family)
    known = {}
    for name in order:
        cost = profile.families[name]
        at = np.flatnonzero(np.isfinite(cost.memory_mib))
        if len(at):
            known[name] = {int(cost.sizes[i]): float(cost.memory_mib[i]) for i in at}
    if decode_family not in known:
        return None
    return GraphMemory(known, profile.families[decode_family].pool_mib)


def kv_cache(engine: Engine, options: Any, profile: CostProfile, lists: Lists) -> KvTokens:
    """What `lists` leave for the KV cache; `tokens` is None where a fact is missing, and `reason` says which."""
    return engine.kv_tokens(lists, options, graph_memory(profile, engine.decode_family))
