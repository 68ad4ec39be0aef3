"""Few probes: the first start goes on from a coarse grid to where another reading could change the best list."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import replace

from services.capture.process import Process
from services.capture.readings import Probing, Progress
from services.capture.step import Step
from services.capture.strategies.base import Strategy
from workloads.errors import MeasurementFailed

PROBING_S = 12.0
PROBE_REPEATS = 2  # replays differ by a per mille, and what is chosen by them is timed again


def probe(
    process: Process, step: Step, owner: dict[int, Strategy], ladder: Strategy
) -> Generator[Progress, None, Probing | None]:
    """Go on to where another reading could change the best list; quick readings choose, they are timed again after.
    Ends with what is known after `PROBING_S`: sizes of a large model are dear, and the last per mille takes many.

    Sizes are captured as they come, so their memory is that of a pool that others have grown already: a later
    start, which knows them all, tells what they cost in an engine's order.
    """
    plan = process.spec.probing
    if plan is None:
        return None
    from tuner.probing import advise  # compiled code that other jobs need not load

    asked = [size for size in process.spec.sizes if size in process.checks]
    if not asked or asked[-1] != plan.candidates[-1]:
        raise MeasurementFailed(f"size {plan.candidates[-1]} could not be measured, and the curve must end there")
    read_ms: dict[int, float] = {}
    refused: set[int] = set()
    rounds, until_s = 0, math.inf
    while True:
        timings = yield from process.time("probe", step, owner, PROBE_REPEATS, asked)
        # What surrounds the run is the host's and the real rows', no bucket's, and its noise would ask for probes.
        read_ms |= {size: timing.run_ms for size, timing in timings.items()}
        process.phases.enter("plan")
        open_plan = replace(plan, candidates=tuple(n for n in plan.candidates if n not in refused))
        advice = advise(read_ms, open_plan)
        probing = Probing(tuple(sorted(read_ms)), rounds, advice.sizes, advice.mean_ms, advice.bound_ms)
        if rounds == 0:  # the first thought compiles the solver, once a machine
            until_s = time.monotonic() + PROBING_S
        if not advice.probes or time.monotonic() > until_s:
            return probing
        rounds += 1
        owner |= dict.fromkeys(advice.probes, ladder)
        yield from process.capture(owner, sorted(advice.probes, reverse=True))
        yield from process.check(step, owner, [size for size in advice.probes if size in process.prepared])
        asked = [size for size in advice.probes if size in process.checks]
        refused |= set(advice.probes) - set(asked)
