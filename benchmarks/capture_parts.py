"""What `capture_h200.py` measures of a model, one function a part; each returns plain values for `results.json`."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from services.capture.job import plan_job
from services.capture.pool import OnProgress, measure, replay_lists
from services.capture.readings import StepModel
from services.capture.replay_job import ReplayJob, ReplayReport, ReplayStep, ReplayWindow, plain_list
from services.capture.spec import Device, DraftShape, MeasureSpec, Strategy, family_spec
from services.capture.verification import Compared, Spread, compare, compare_capture
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.profile_file import dump_profile

LISTS = {
    "powers of two": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    "sparse": (8, 64, 256, 512),
    "every 32": (1, 8, *range(32, 129, 32), *range(160, 321, 32), 352, 384, 416, 448, 480, 512),
    "tuned-like": (12, 24, 48, 80, 112, 144, 176, 208, 240, 272, 320, 384, 512),
    "top only": (512,),
    "low dense": (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 128, 256, 512),
}
FEWER_LISTS = ("powers of two", "tuned-like", "top only")
UNSEEN = {
    "vLLM's ladder": (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)),
    "twelve unseen sizes": (3, 10, 22, 36, 60, 100, 136, 200, 264, 336, 424, 512),
}
STRATEGY_SIZES = (1, 4, 16, 64, 128, 256, 384, 512)
DRAFT = DraftShape(topk=4, num_steps=3)
ALONE = "length one"
CPU_SHRINK = 16  # a CPU has neither the memory nor the time for the recorded steps


@dataclass(frozen=True, slots=True)
class Bench:
    """One model on one device.

    Attributes:
        use_ray: False runs everything in this process, to try the script: no start is fresh then.
    """

    model: str
    out: Path
    tell: OnProgress
    device: Device = "cuda"
    use_ray: bool = True

    @property
    def job(self) -> MeasureSpec:
        """What `captune profile measure` does with this model."""
        return plan_job(self.model, device=self.device)

    def small_job(self, sizes: Sequence[int]) -> MeasureSpec:
        """Sizes alone: no prefill, no contexts, no eager steps, one start."""
        ends = self.job.sizes[-1]
        job = plan_job(self.model, device=self.device, sizes=tuple(size for size in sizes if size <= ends))
        return replace(job, starts=1, prefill_tokens=(), contexts=(), measure_fallback=False)

    @property
    def replay_spec(self) -> MeasureSpec:
        """Protocol of replays; the recorded steps may take all the memory that is left."""
        return replace(self.job, probing=None, max_kv_gib=92.0 if self.device != "cpu" else 0.25)


def profile_part(bench: Bench, starts: int, made: list[CostProfile]) -> dict[str, Any]:
    """A profile as the product makes it, written at once; the new profile is appended to `made`."""
    target = bench.out / "profile.json"
    command = f"captune profile measure --model {bench.model} --starts {starts} --out FILE"
    measurement = measure(replace(bench.job, starts=starts), bench.tell, use_ray=bench.use_ray, command=command)
    made.append(measurement.profile)
    target.write_text(dump_profile(measurement.profile))
    cost, reports = measurement.profile.family("decode_full"), measurement.reports
    probing = reports[0].probing
    return {
        "attention": reports[0].attention,
        "sizes": len(cost.sizes),
        "starts": len(reports),
        "start_s": reports[0].seconds,
        "seconds_per_start": [report.seconds for report in reports],
        "known_within": None if probing is None else probing.mean_ms / probing.bound_ms - 1,
        "attention_ms_per_mtoken": cost.attention_ms_per_mtoken,
        "row_ms": cost.row_ms,
        **_fits([report.step_model for report in reports if report.step_model is not None]),
        "between_starts": between_starts([report.step_ms() for report in reports]),
        "failures": [dataclasses.asdict(failure) for failure in measurement.failures],
    }


def _fits(models: Sequence[StepModel]) -> dict[str, Any]:
    """Of all starts; a share is the worst start's."""
    return {
        "constant_ms": statistics.median([model.constant_ms for model in models]) if models else None,
        "trusted": all(model.trusted for model in models),
        "median_residual_share": max((model.median_residual_share for model in models), default=None),
        "worst_residual_share": max((model.worst_residual_share for model in models), default=None),
        "points": [dataclasses.asdict(point) for model in models for point in model.points],
    }


def between_starts(step_ms: Sequence[dict[int, float]]) -> dict[str, Any] | None:
    """The length-one steps of the second start against the first one's; None with one start."""
    if len(step_ms) < 2:
        return None
    first, second = step_ms[:2]
    return dataclasses.asdict(Spread.of([second[size] / first[size] - 1 for size in sorted(first.keys() & second)]))


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
    shrink = CPU_SHRINK if bench.device == "cpu" else 1
    lists = {name: on_measured_sizes(LISTS[name], cost) for name in names}
    shared = on_measured_sizes(LISTS["sparse"], cost)
    alone = ReplayWindow(ALONE, tuple(ReplayStep(size, size) for size in shared))
    job = ReplayJob(
        bench.replay_spec,
        tuple(plain_list(name, sizes) for name, sizes in lists.items()),
        (*recorded_windows(shrink), alone),
        repeats=2,
    )
    report = replay_lists(job, bench.tell, use_ray=bench.use_ray)
    compared = [pair for pair in compare(job, report, cost) if pair.window != ALONE]
    return {
        "lists": {name: list(sizes) for name, sizes in lists.items()},
        "pairs": [dataclasses.asdict(pair) | {"error": pair.error} for pair in compared],
        "errors": dataclasses.asdict(Spread.of([pair.error for pair in compared])),
        "worst_by_window": _worst_by_window(compared),
        "attention": report.software.get("attention"),
        "this_start": this_start(report, profile),
        "cases": [dataclasses.asdict(case) for case in report.cases],
        "replay_s": report.replay_s,
        "start_s": report.seconds,
        "lists_per_minute": 60 * len(report.pairs) / report.replay_s,
        "clipped_share": report.clipped_share,
        "capture_of_union": compare_capture(job.sizes, report, cost),
        "failures": [dataclasses.asdict(failure) for failure in report.failures],
    }


def _worst_by_window(compared: Sequence[Compared]) -> dict[str, float]:
    by_window: dict[str, list[float]] = {}
    for pair in compared:
        by_window.setdefault(pair.window, []).append(pair.error)
    return {name: max(values, key=abs) for name, values in by_window.items()}


def this_start(report: ReplayReport, profile: CostProfile) -> dict[str, Any] | None:
    """The replay's length-one steps that fill a measured size, against the profile's: how far the two starts are
    apart. What any real context costs is part of the profile's points, so it is taken out again."""
    cost = profile.family("decode_full")
    g_ms = dict(zip(cost.sizes.tolist(), (cost.step_ms - constant_ms(profile)).tolist(), strict=True))
    shares = [
        case.step_ms / g_ms[case.bucket] - 1
        for case in report.cases
        if case.bucket == case.rows == case.kv_tokens and case.bucket in g_ms
    ]
    return dataclasses.asdict(Spread.of(shares)) if shares else None


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
    return {"errors": this_start(report, profile), "step_ms": {case.bucket: case.step_ms for case in report.cases}}


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


def strategy_part(bench: Bench, strategy: Strategy) -> dict[str, Any]:
    """A few sizes with one way of running them: step, capture and memory; no claim beyond these sizes."""
    spec = replace(bench.small_job(STRATEGY_SIZES), strategy=strategy)
    return _sizes_part(bench, spec, f"profile-{strategy}.json", f"--strategy {strategy}")


def draft_part(bench: Bench) -> dict[str, Any]:
    """A few sizes of a draft, with its eager steps."""
    job = replace(bench.small_job(STRATEGY_SIZES), measure_fallback=True)
    options = f"--family draft --topk {DRAFT.topk} --num-steps {DRAFT.num_steps}"
    return _sizes_part(bench, family_spec(job, "draft", draft=DRAFT), "profile-draft.json", options)


def _sizes_part(bench: Bench, spec: MeasureSpec, file: str, options: str) -> dict[str, Any]:
    command = f"captune profile measure --model {bench.model} --sizes {','.join(map(str, spec.sizes))} {options}"
    measurement = measure(spec, bench.tell, use_ray=bench.use_ray, command=f"{command} (step, capture and memory only)")
    (bench.out / file).write_text(dump_profile(measurement.profile))
    (family, cost), report = next(iter(measurement.profile.families.items())), measurement.reports[0]
    return {
        "family": family,
        "attention": report.attention,
        "start_s": report.seconds,
        "size_step_ms": dict(zip(cost.sizes.tolist(), cost.step_ms.tolist(), strict=True)),
        "size_fallback_ms": dict(zip(cost.sizes.tolist(), cost.fallback_ms.tolist(), strict=True)),
        "capture_s": cost.capture_fixed_s + float(cost.capture_s.sum()),
        "memory_mib": cost.pool_mib + float(cost.memory_mib.sum()),
        "same_as_eager_share": statistics.mean(reading.check.same_as_eager for reading in report.readings),
        "failures": [dataclasses.asdict(failure) for failure in measurement.failures],
    }
