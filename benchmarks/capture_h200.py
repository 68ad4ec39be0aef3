"""What the capture worker promises, measured on this GPU: one table, and JSON files in a folder.

    python benchmarks/capture_h200.py --out DIR [--model llama-3.1-8b] [--profile FILE] [--parts ..]

1. A profile from 40 captured sizes, in a start of its own; or the one that `--profile` names.
2. Six lists x eight windows of recorded steps (`decode_windows.json`), replayed in another start: predicted against
   measured expected decode step time, start-to-start spread, lists scored per minute.
3. Two lists with sizes that the profile never captured, each in a start of its own: capture seconds and memory.
4. A replayed step against a hand-written capture and replay of the same forward.
Parts that would begin after `--budget-s` are left out and named.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.handwritten import overhead  # noqa: E402
from services.capture.pool import measure, replay_lists  # noqa: E402
from services.capture.readings import Progress  # noqa: E402
from services.capture.replay_job import ReplayJob, ReplayStep, ReplayWindow, plain_list  # noqa: E402
from services.capture.spec import MeasureSpec  # noqa: E402
from services.capture.verification import Spread, compare, compare_capture  # noqa: E402
from tuner.cost_profile import CostProfile  # noqa: E402
from tuner.profile_file import dump_profile, read_profile  # noqa: E402
from workloads.errors import CaptuneError  # noqa: E402

PROFILED = (*(1, 2, 4, 8), *range(12, 33, 4), *range(40, 129, 8), *range(144, 321, 16), *range(352, 513, 32))
LISTS = {
    "powers of two": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    "sparse": (8, 64, 256, 512),
    "every 32": (1, 8, *range(32, 129, 32), *range(160, 321, 32), 352, 384, 416, 448, 480, 512),
    "tuned-like": (12, 24, 48, 80, 112, 144, 176, 208, 240, 272, 320, 384, 512),
    "top only": (512,),
    "low dense": (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 128, 256, 512),
}
UNSEEN = {
    "vLLM's ladder": (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)),
    "twelve unseen sizes": (3, 10, 22, 36, 60, 100, 136, 200, 264, 336, 424, 512),
}


class Run:
    """Results so far, written after every part, so that a run that is cut short leaves what it had."""

    def __init__(self, out: Path, budget_s: float) -> None:
        self.out, self.budget_s, self.began_s = out, budget_s, time.monotonic()
        self.results: dict[str, Any] = {}
        out.mkdir(parents=True, exist_ok=True)

    def part(self, name: str, needs_s: float, work: Callable[[], dict[str, Any]]) -> None:
        began_s = time.monotonic()
        if began_s - self.began_s + needs_s > self.budget_s:
            self.results[name] = {"left_out": f"{self.budget_s:g} s of budget would not be enough"}
        else:
            try:
                self.results[name] = work()
            except (CaptuneError, RuntimeError) as error:
                self.results[name] = {"failed": f"{type(error).__name__}: {error}"}
            self.results[name]["seconds"] = round(time.monotonic() - began_s, 1)
        self.write()
        print(f"[{time.monotonic() - self.began_s:5.0f} s] {name}", file=sys.stderr, flush=True)

    def write(self) -> None:
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1, default=float) + "\n")


def tell(progress: Progress) -> None:
    if progress.phase in ("build", "done") or progress.done == 0:
        print(f"    {progress.phase} {progress.size or ''}", file=sys.stderr, flush=True)


def spec_of(model: str) -> MeasureSpec:
    return MeasureSpec(
        model,
        sizes=PROFILED,
        contexts=(512, 1024, 2048, 4096),
        fills=(1.0, 0.5),
        starts=1,
        repeats=5,
        iterations=2,
        device="cuda",
        measure_fallback=False,
        max_kv_gib=92.0,
    )


def profile_part(run: Run, model: str, made: list[CostProfile]) -> dict[str, Any]:
    measurement = measure(dataclasses.replace(spec_of(model), max_kv_gib=48.0), tell)
    made.append(measurement.profile)
    (run.out / "profile.json").write_text(dump_profile(measurement.profile))
    cost, report = measurement.profile.family("decode_full"), measurement.reports[0]
    model_fit = report.step_model
    return {
        "attention": report.attention,
        "sizes": len(cost.sizes),
        "start_s": report.seconds,
        "attention_ms_per_mtoken": cost.attention_ms_per_mtoken,
        "row_ms": cost.row_ms,
        "constant_ms": None if model_fit is None else model_fit.constant_ms,
        "median_residual_share": None if model_fit is None else model_fit.median_residual_share,
        "worst_residual_share": None if model_fit is None else model_fit.worst_residual_share,
        "points": [] if model_fit is None else [dataclasses.asdict(point) for point in model_fit.points],
        "failures": [dataclasses.asdict(failure) for failure in measurement.failures],
    }


def recorded_windows() -> tuple[ReplayWindow, ...]:
    document = json.loads((Path(__file__).parent / "decode_windows.json").read_text())
    return tuple(
        ReplayWindow(name, tuple(ReplayStep(rows, tokens, weight) for rows, tokens, weight in steps))
        for name, steps in document["windows"].items()
    )


def predict_part(run: Run, model: str, profile: CostProfile) -> dict[str, Any]:
    cost = profile.family("decode_full")
    job = ReplayJob(
        spec_of(model), tuple(plain_list(name, sizes) for name, sizes in LISTS.items()), recorded_windows(), repeats=2
    )
    report = replay_lists(job, tell)
    compared = compare(job, report, cost)
    errors = Spread.of([pair.error for pair in compared])
    by_window: dict[str, list[float]] = {}
    for pair in compared:
        by_window.setdefault(pair.window, []).append(pair.error)
    return {
        "pairs": [dataclasses.asdict(pair) | {"error": pair.error} for pair in compared],
        "errors": dataclasses.asdict(errors),
        "worst_by_window": {name: max(values, key=abs) for name, values in by_window.items()},
        "cases": [dataclasses.asdict(case) for case in report.cases],
        "replay_s": report.replay_s,
        "start_s": report.seconds,
        "lists_per_minute": 60 * len(report.pairs) / report.replay_s,
        "clipped_share": report.clipped_share,
        "capture_of_union": compare_capture(job.sizes, report, cost),
        "failures": [dataclasses.asdict(failure) for failure in report.failures],
    }


def start_spread_part(model: str, profile: CostProfile) -> dict[str, Any]:
    """The profile's own points (length one, every row real) in another start. What any real context costs is part of
    the profile's points, so it is taken out again."""
    cost = profile.family("decode_full")
    pure = ReplayWindow("length one", tuple(ReplayStep(int(size), int(size)) for size in cost.sizes))
    job = ReplayJob(spec_of(model), (plain_list("all", cost.sizes.tolist()),), (pure,), repeats=5)
    report = replay_lists(job, tell)
    step_ms = {case.bucket: case.step_ms for case in report.cases}
    fits = (profile.software or {}).get("measurement", {}).get("step_model", [])
    constant_ms = statistics.median([fit.get("constant_ms", 0.0) for fit in fits] or [0.0])
    shares = [step_ms[int(n)] / (ms - constant_ms) - 1 for n, ms in zip(cost.sizes, cost.step_ms, strict=True)]
    return {"errors": dataclasses.asdict(Spread.of(shares)), "step_ms": step_ms}


def unseen_part(model: str, profile: CostProfile) -> dict[str, Any]:
    cost = profile.family("decode_full")
    found: dict[str, Any] = {}
    for name, sizes in UNSEEN.items():
        window = ReplayWindow("one step", (ReplayStep(sizes[0], sizes[0] * 64),))
        report = replay_lists(ReplayJob(spec_of(model), (plain_list(name, sizes),), (window,), repeats=1), tell)
        found[name] = dict(compare_capture(sizes, report, cost)) | {"sizes": len(sizes), "size_s": report.size_s}
        found[name]["size_mib"] = report.size_mib
    return found


def draw(results: dict[str, Any]) -> None:
    def line(label: str, text: str) -> None:
        print(f"{label:<46} {text}")

    for name, part in results.items():
        if "failed" in part or "left_out" in part:
            line(name, part.get("failed") or part["left_out"])
    if "errors" in (predicted := results.get("prediction", {})):
        errors = predicted["errors"]
        shares = f"median {errors['median']:.2%}, p95 {errors['p95']:.2%}, bias {errors['bias']:+.2%}"
        line("predicted against measured step", f"{errors['pairs']} pairs: {shares}")
        for window, worst in predicted["worst_by_window"].items():
            line(f"  worst on {window}", f"{worst:+.2%}")
        line("lists scored per GPU-minute (16 steps each)", f"{predicted['lists_per_minute']:.0f}")
    if "errors" in (again := results.get("start to start", {})):
        line(
            "start-to-start, length-one steps",
            f"median {again['errors']['median']:.2%}, p95 {again['errors']['p95']:.2%}",
        )
    if "sizes" in (profile := results.get("profile", {})):
        line("profile", f"{profile['sizes']} sizes, one start {profile['start_s']:.0f} s, {profile['attention']}")
        line(
            "  a, h, constant; median and worst residual",
            f"{profile['attention_ms_per_mtoken']:.2f} ms/Mtoken, {profile['row_ms']:.5f} ms, "
            f"{profile['constant_ms']:.3f} ms; {profile['median_residual_share']:.1%}, "
            f"{profile['worst_residual_share']:.1%}",
        )
    for name, found in results.get("unseen lists", {}).items():
        if isinstance(found, dict) and found.get("error_s") is not None:
            line(
                f"capture of {name}",
                f"{found['measured_s']:.2f} s ({found['error_s']:+.1%}), "
                f"{found['measured_mib']:.0f} MiB ({found['error_mib'] or 0:+.1%})",
            )
    for size, found in results.get("overhead", {}).get("sizes", {}).items():
        line(f"own step / hand-written step at {size}", f"{found['ratio']:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="llama-3.1-8b")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--parts", default="prediction,unseen lists,overhead,start to start")
    parser.add_argument("--budget-s", type=float, default=280.0)
    arguments = parser.parse_args()
    run, made = Run(arguments.out, arguments.budget_s), list[CostProfile]()
    if arguments.profile is not None:
        made.append(read_profile(arguments.profile))
        run.results["given"] = {"profile": made[0].name, "starts": made[0].starts, "recorded_at": made[0].recorded_at}
    else:
        run.part("profile", 50, lambda: profile_part(run, arguments.model, made))
    if made:
        profile = made[0]
        works: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {
            "prediction": (50, lambda: predict_part(run, arguments.model, profile)),
            "unseen lists": (30, lambda: unseen_part(arguments.model, profile)),
            "overhead": (10, lambda: overhead(arguments.model)),
            "start to start": (20, lambda: start_spread_part(arguments.model, profile)),
        }
        for name in arguments.parts.split(","):
            run.part(name, *works[name])
    draw(run.results)


if __name__ == "__main__":
    main()
