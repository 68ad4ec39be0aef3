"""What a comparing start is for: every workload's recorded requests, then every workload's recorded step sizes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from services.capture.probes.base import Batch, RunningEngine
from services.capture.probes.census import census_of
from services.capture.probes.failures import EngineFailed
from services.capture.probes.records import Census, WorkloadRun
from services.capture.probes.serving import Schedule, summarise
from services.capture.probes.step_time import StepCase, StepProtocol, failed_cases, time_steps
from services.capture.probes.tasks import OnStep
from workloads.errors import CaptuneError

REPLAY_PART, SERVE_PART = "replay", "serve"
LOG_SETTLES_S = 1.5
"""Engines log a table of graphs once a second here."""

# Short, because the engine may count its few steps among those of the workload.
_WARM_UP = Batch(rows=4, prompt_tokens=64, output_tokens=4, seed=800_000_000)


def compare_list(
    engine: RunningEngine,
    engine_name: str,
    cases: Sequence[StepCase],
    schedules: Mapping[str, Schedule],
    protocol: StepProtocol,
    told: OnStep,
    log_settles_s: float = LOG_SETTLES_S,
    largest_captured: int = 0,
) -> dict[str, Any]:
    """Fields of the record. Requests come first: the cache holds no prompt of the step times then.

    Args:
        cases: the steps of all workloads, each read once a start, or more often where there are few.
        schedules: workload -> its requests.
        largest_captured: see `serving.summarise`.
    """
    part_s, runs = dict[str, float](), dict[str, WorkloadRun]()
    for name, schedule in schedules.items():
        begin_s = time.monotonic()
        runs[name] = _served(engine, engine_name, name, schedule, told, log_settles_s, largest_captured)
        part_s[f"{SERVE_PART} {name}"] = round(time.monotonic() - begin_s, 1)
    begin_s = time.monotonic()
    timed = time_steps(engine, cases, protocol.of_replay(len(cases)), lambda case: told(f"replay of {case.rows} rows"))
    part_s[REPLAY_PART] = round(time.monotonic() - begin_s, 1)
    return {"runs": runs, "steps": timed, "failed_cases": failed_cases(cases, timed), "part_s": part_s}


def _served(
    engine: RunningEngine,
    engine_name: str,
    name: str,
    schedule: Schedule,
    told: OnStep,
    log_settles_s: float,
    largest_captured: int,
) -> WorkloadRun:
    requests = schedule.requests
    # What an engine does once, at its first requests, is no user's time to first token.
    engine.batch_s(_WARM_UP)
    begin, preempted = engine.log.stat().st_size, _preemptions(engine)
    timings = engine.serve(requests, lambda done: told(f"{name}: {done} of {len(requests)} requests"))
    after = _preemptions(engine)
    time.sleep(log_settles_s)
    census, unread = _census(engine, begin, engine_name)
    return WorkloadRun(
        served=summarise(requests, timings, largest_captured),
        census=census,
        census_unread=unread,
        clipped_requests=schedule.clipped,
        preemptions=None if preempted is None or after is None else int(after - preempted),
    )


def _preemptions(engine: RunningEngine) -> float | None:
    """None where the engine does not answer; an engine that has ended fails the start at the next request."""
    with contextlib.suppress(EngineFailed):
        return engine.metrics().get("preemptions")
    return None


def _census(engine: RunningEngine, begin: int, engine_name: str) -> tuple[Census | None, str | None]:
    """(what the log counts, why it could not be read): a log in a form of its own costs no start its measured times."""
    try:
        return census_of(engine.log, begin, engine_name), None
    except CaptuneError as error:
        return None, str(error)
