"""What `capture_h200.py` measures of a profile by replaying steps in another start; each part returns plain values."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.capture_parts import Bench
from services.capture.context_terms import without_context
from services.capture.pool import replay_lists
from services.capture.readings import DeviceSample
from services.capture.replay_job import ReplayJob, ReplayReport, ReplayStep, ReplayWindow, plain_list
from services.capture.start_notes import clocks_by_start
from services.capture.verification import Compared, Spread, compare, compare_capture
from tuner.cost_profile import CostProfile, FamilyCost

LISTS = {
    "powers of two": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    "sparse": (8, 64, 256, 512),
    "every 32": (1, 8, *range(32, 129, 32), *range(160, 321, 32), 352, 384, 416, 448, 480, 512),
    "tuned-like": (12, 24, 48, 80, 112, 144, 176, 208, 240, 272, 320, 384, 512),
    "top only": (512,),
    "low dense": (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 128, 256, 512),
}
FEWER_LISTS = ("powers of two", "sparse", "tuned-like", "top only")
UNSEEN = {
    "vLLM's ladder": (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)),
    "twelve unseen sizes": (3, 10, 22, 36, 60, 100, 136, 200, 264, 336, 424, 512),
}
ALONE = "length one"
CPU_SHRINK = 16  # a CPU has neither the memory nor the time for the recorded steps


def recorded_windows(shrink: int = 1) -> tuple[ReplayWindow, ...]:
    """The recorded decode windows; `shrink` divides rows and contexts."""
    document = json.loads((Path(__file__).parent / "decode_windows.json").read_text())
    return tuple(
        ReplayWindow(
            name,
            tuple(
                ReplayStep(rows // shrink or 1, tokens // shrink**2 or 1, weight)
                if shrink > 1
                else ReplayStep(rows, tokens, weight)
                for rows, tokens, weight in steps
            ),
        )
        for name, steps in document["windows"].items()
    )


def on_measured_sizes(sizes: Iterable[int], cost: FamilyCost) -> tuple[int, ...]:
    """The list with every size moved to the nearest one that the profile measured: only those are ever chosen."""
    known = [int(size) for size in cost.sizes]
    return tuple(sorted({min(known, key=lambda one: abs(one - size)) for size in sizes}))


def predict_part(bench: Bench, profile: CostProfile, names: Sequence[str]) -> dict[str, Any]:
    """Lists on recorded windows in another start than the profile's, and a few of its length-one steps there."""
    cost = profile.family("decode_full")
    lists = {name: on_measured_sizes(LISTS[name], cost) for name in names}
    shared = on_measured_sizes(LISTS["sparse"], cost)
    alone = ReplayWindow(ALONE, tuple(ReplayStep(size, size) for size in shared))
    windows = recorded_windows(CPU_SHRINK if bench.device == "cpu" else 1)
    job = ReplayJob(
        bench.replay_spec,
        tuple(plain_list(name, sizes) for name, sizes in lists.items()),
        (*windows, alone),
        # An odd number: of two rounds a median is a mean, and has what the host does now and then.
        repeats=3,
    )
    report = replay_lists(job, bench.tell, use_ray=bench.use_ray)
    compared = compare(job.lists, job.windows, report.cases, report.measured_ms(), cost)
    return {
        "lists": {name: list(sizes) for name, sizes in lists.items()},
        **errors_of([pair for pair in compared if pair.window != ALONE]),
        "attention": report.software.get("attention"),
        **starts_apart(report, profile),
        "cases": [dataclasses.asdict(case) for case in report.cases],
        "replay_s": report.replay_s,
        "start_s": report.seconds,
        "phase_s": dict(report.phase_s),
        "clocks": clocks_told(report.device_log),
        "lists_per_minute": 60 * len(report.pairs) / report.replay_s,
        "clipped_share": report.clipped_share,
        "capture_of_union": compare_capture(job.sizes, report, cost),
        "failures": [dataclasses.asdict(failure) for failure in report.failures],
    }


def errors_of(compared: Sequence[Compared]) -> dict[str, Any]:
    """Every pair, and how far predictions are off."""
    return {
        "pairs": [dataclasses.asdict(pair) | {"error": pair.error} for pair in compared],
        "errors": dataclasses.asdict(Spread.of([pair.error for pair in compared])),
        "worst_by_window": _worst_by_window(compared),
    }


def _worst_by_window(compared: Sequence[Compared]) -> dict[str, float]:
    by_window: dict[str, list[float]] = {}
    for pair in compared:
        by_window.setdefault(pair.window, []).append(pair.error)
    return {name: max(values, key=abs) for name, values in by_window.items()}


def starts_apart(report: ReplayReport, profile: CostProfile) -> dict[str, Any]:
    """The replay's length-one steps that fill a measured size, against the profile's: `this_start` whole steps,
    `this_start_runs` replays alone, which leave the host's work out. What any real context costs is part of the
    profile's points, so it is taken out again; None where nothing can be compared."""
    cost = without_context(profile.family("decode_full"), constant_ms(profile))
    at = {int(size): i for i, size in enumerate(cost.sizes)}
    alone = [case for case in report.cases if case.bucket == case.rows == case.kv_tokens and case.bucket in at]
    steps = [case.step_ms / float(cost.step_ms[at[case.bucket]]) - 1 for case in alone]
    runs = [case.run_ms / float(cost.replay_ms[at[case.bucket]]) - 1 for case in alone]
    return {"this_start": _spread(steps), "this_start_runs": _spread(runs)}


def _spread(shares: Sequence[float]) -> dict[str, Any] | None:
    known = [share for share in shares if math.isfinite(share)]
    return dataclasses.asdict(Spread.of(known)) if known else None


def clocks_told(samples: Sequence[DeviceSample]) -> list[str]:
    """At which clocks a replay ran; empty where the device does not tell."""
    return [clocks.told() for clocks in clocks_by_start([dataclasses.asdict(sample) for sample in samples])]


def constant_ms(profile: CostProfile) -> float:
    """The constant of the step model that is inside the points of a profile."""
    measurement: Any = (profile.software or {}).get("measurement", {})
    return statistics.median([fit.get("constant_ms", 0.0) for fit in measurement.get("step_model", [])] or [0.0])


def start_spread_part(bench: Bench, profile: CostProfile) -> dict[str, Any]:
    """Every measured size of the profile, of length one and every row real, in another start."""
    cost = profile.family("decode_full")
    pure = ReplayWindow(ALONE, tuple(ReplayStep(int(size), int(size)) for size in cost.sizes))
    job = ReplayJob(bench.replay_spec, (plain_list("all", cost.sizes.tolist()),), (pure,), repeats=5)
    report = replay_lists(job, bench.tell, use_ray=bench.use_ray)
    apart = starts_apart(report, profile)
    return {
        "errors": apart["this_start"],
        "runs": apart["this_start_runs"],
        "clocks": clocks_told(report.device_log),
        "phase_s": dict(report.phase_s),
        "step_ms": {case.bucket: case.step_ms for case in report.cases},
    }


def unseen_part(bench: Bench, profile: CostProfile) -> dict[str, Any]:
    """Lists with sizes that the profile never captured, each in a start of its own: capture seconds and memory."""
    cost = profile.family("decode_full")
    found: dict[str, Any] = {}
    for name, sizes in UNSEEN.items():
        window = ReplayWindow("one step", (ReplayStep(sizes[0], sizes[0] * 64),))
        job = ReplayJob(bench.replay_spec, (plain_list(name, sizes),), (window,), repeats=1)
        report = replay_lists(job, bench.tell, use_ray=bench.use_ray)
        found[name] = dict(compare_capture(sizes, report, cost)) | {"sizes": len(sizes), "size_s": report.size_s}
        found[name]["size_mib"] = report.size_mib
    return found
