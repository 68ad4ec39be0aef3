"""Which attention rank a request goes to.

- sglang and decode: in turn (SGLang 0.5.23 `serving_hook.py:217-233`: `auto` is round_robin outside of prefill nodes;
  `data_parallel_controller.py:880`).
- vllm: the rank with the fewest requests, waiting and running; of equals the next one from a start that moves on by
  one with every request (vLLM 0.33.0 `v1/engine/core_client.py:1751-1812`). Left out: the penalty for a queue on a rank
  whose KV cache is more than half full, and counts that are up to 100 ms old.

A request that arrives during a step is dealt by the counts from before the step's end.
"""

from __future__ import annotations

from workloads.arrays import F64
from workloads.compiled import compiled
from workloads.serving.lockstep.policies import VLLM
from workloads.serving.lockstep.queue import push_back
from workloads.serving.lockstep.state import LIVE, WAITING, Rules, State


@compiled
def deal(state: State, rules: Rules, arrival_ms: F64, head: int, now_ms: float) -> int:
    """Put every request that has arrived by now into the queue of its rank; gives back the next one to arrive."""
    ranks = len(state.rank)
    while head < len(arrival_ms) and arrival_ms[head] <= now_ms:
        chosen = head % ranks
        if rules.policy == VLLM:
            for i in range(1, ranks):
                other = (head + i) % ranks
                if state.rank[other, LIVE] < state.rank[chosen, LIVE]:
                    chosen = other
        push_back(state, chosen, WAITING, head)
        state.rank[chosen, LIVE] += 1
        head += 1
    return head
