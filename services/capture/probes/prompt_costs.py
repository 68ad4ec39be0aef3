"""What prompts cost, from starts that timed them: the prefill curve, and the family of mixed steps."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from services.capture.probes.prompt_time import mixed_family
from services.capture.probes.readings import captured_by, measured, median_ms, spread_ms
from services.capture.probes.records import StartRecord
from tuner.cost_profile import FamilyCost, PrefillCost
from tuner.engines.base import Engine

MIXED_MEASUREMENT = (
    "a mixed step is one prompt of as many tokens as the size, sent to an idle engine, the client included; without a "
    "graph it is read in the first start. A list is captured as a whole, so seconds and memory of both graphs of a "
    "size are counted with decode steps, and are 0 here. A decode step that has no FULL graph is taken to last as long "
    "as the prompt, which errs on the long side by the client"
)

Keep = Callable[[StartRecord, int], bool]


def prefill_cost(starts: Sequence[StartRecord]) -> PrefillCost | None:
    """Prompts as the engine's default list serves them: in graphs up to the last captured size, above it without.

    None where no start timed a prompt.
    """
    in_graph = _medians(measured(starts, "profile"))
    last = max(in_graph, default=0)
    times_ms = in_graph | _medians(measured(starts, "steps"), lambda start, n: n > last)
    if not times_ms:
        return None
    tokens = sorted(times_ms)
    return PrefillCost(
        tokens=np.array(tokens, dtype=np.float64),
        prefix_tokens=np.zeros(len(tokens)),
        step_ms=np.array([median_ms(times_ms[n]) for n in tokens]),
    )


def mixed_cost(starts: Sequence[StartRecord], engine: Engine) -> Mapping[str, FamilyCost]:
    """The family of mixed steps by its name.

    Times are whole steps of that many tokens, so nothing is priced by row or KV token. Capturing costs nothing here:
    an engine reports what a whole list took, for both families, and that is counted with decode steps.

    Empty where the engine has no such family, or no start read it in graphs and without: mixed steps may be longer than
    any list, and no list can be chosen for steps of unknown time.
    """
    name = mixed_family(engine)
    in_graph = _medians(measured(starts, "profile"), lambda start, n: n in captured_by(start, engine))
    without = _medians(measured(starts, "steps"), lambda start, n: n > max(captured_by(start, engine), default=0))
    sizes = sorted(in_graph)
    if name is None or without.keys().isdisjoint(sizes):
        return {}
    nothing = np.zeros(len(sizes))
    cost = FamilyCost(
        unit="tokens",
        sizes=np.array(sizes, dtype=np.int64),
        step_ms=np.array([median_ms(in_graph[n]) for n in sizes]),
        replay_ms=np.full(len(sizes), np.nan),
        fallback_ms=np.array([median_ms(without[n]) if n in without else np.nan for n in sizes]),
        spread_ms=np.array([spread_ms(in_graph[n]) for n in sizes]),
        capture_s=nothing,
        memory_mib=nothing,
        starts=np.array([len(in_graph[n]) for n in sizes], dtype=np.int64),
    )
    return {name: cost}


def _medians(starts: Sequence[StartRecord], keep: Keep = lambda start, tokens: True) -> dict[int, list[float]]:
    """Tokens of the prompt -> the median of each start that read it, in milliseconds."""
    found: dict[int, list[float]] = {}
    for start in starts:
        for timing in start.prefill:
            if keep(start, timing.tokens):
                found.setdefault(timing.tokens, []).append(statistics.median(timing.readings_ms))
    return found
