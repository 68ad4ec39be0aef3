"""What `capture_h200.py` measures of a model, one function a part; each returns plain values for `results.json`."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from services.capture.attention.choose import choose_attention
from services.capture.job import plan_job
from services.capture.pool import OnProgress, measure
from services.capture.process import resolve_device
from services.capture.readings import StepModel
from services.capture.spec import AttentionChoice, Device, DraftShape, MeasureSpec, Strategy, default_sizes, family_spec
from services.capture.start_notes import notes
from services.capture.verification import Spread
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.probe_plan import ProbePlan, first_probes
from tuner.probing import advise
from tuner.profile_file import dump_profile
from workloads.errors import BadInput
from workloads.models.config import load_config

STRATEGY_SIZES = (1, 4, 16, 64, 128, 256, 384, 512)
COMPILED_SIZES = (16, 256)  # every size compiles the whole decoder
ATTENTION: dict[str, AttentionChoice] = {
    "flashinfer-paged-decode": "flashinfer",
    "torch-flash-varlen": "flash",
    "torch-sdpa-dense": "dense",
}
DRAFT = DraftShape(topk=4, num_steps=3)


@dataclass(frozen=True, slots=True)
class Bench:
    """One model on one device.

    Attributes:
        use_ray: False runs everything in this process: no start is fresh then, and none waits for Ray.
        attention: that of the profile where one is given, so that like is compared with like.
        command: what the person typed.
    """

    model: str
    out: Path
    tell: OnProgress
    device: Device = "cuda"
    use_ray: bool = True
    attention: AttentionChoice = "auto"
    command: str = ""

    def against(self, profile: CostProfile) -> Bench:
        """The same model with the attention that the profile was measured with.

        Raises:
            BadInput: an attention that this worker does not have, as inside an engine.
        """
        software: Any = profile.software or {}
        name = software.get("attention")
        if name not in ATTENTION:
            raise BadInput(f"profile {profile.name} was measured with attention '{name}', which the worker has not")
        return replace(self, attention=ATTENTION[name])

    @property
    def job(self) -> MeasureSpec:
        """What `captune profile measure` does with this model."""
        return replace(plan_job(self.model, device=self.device), attention=self.attention)

    def small_job(self, sizes: Sequence[int]) -> MeasureSpec:
        """Sizes alone: no prefill, no contexts, no eager steps, one start."""
        ends = self.job.sizes[-1]
        job = plan_job(self.model, device=self.device, sizes=tuple(size for size in sizes if size <= ends))
        return replace(job, attention=self.attention, starts=1, prefill_tokens=(), contexts=(), measure_fallback=False)

    @property
    def replay_spec(self) -> MeasureSpec:
        """Protocol of replays; the recorded steps may take all the memory that is left."""
        return replace(self.job, probing=None, max_kv_gib=92.0 if self.device != "cpu" else 0.25)


def kernels_part(bench: Bench, *, solver: bool) -> dict[str, Any]:
    """Compile, once a machine, what no start should be charged for: attention's kernels, and the solver of probes
    where a profile comes after."""
    device = resolve_device(bench.device)
    began_s = time.perf_counter()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    backend = choose_attention(load_config(bench.model), dtype, device, bench.attention)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # this process goes on, and what it keeps cached no worker can use
    chosen_s = time.perf_counter()
    if solver:
        plan = ProbePlan(candidates=default_sizes())
        advise({size: 1.0 + size / 100 for size in first_probes(plan.candidates[-1])}, plan)
    return {
        "attention": backend.name,
        "attention_s": chosen_s - began_s,
        "solver_s": time.perf_counter() - chosen_s,
    }


def profile_part(bench: Bench, starts: int, made: list[CostProfile]) -> dict[str, Any]:
    """A profile as the product makes it, written at once; the new profile is appended to `made`."""
    target = bench.out / "profile.json"
    measured = f"captune profile measure --model {bench.model} --starts {starts}"
    command = f"{bench.command} (of its parts: {measured})" if bench.command else measured
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
        "phase_s": [dict(report.phase_s) for report in reports],
        "notes": notes((measurement.profile.software or {})["measurement"]),  # type: ignore[arg-type]
        "known_within": None if probing is None else probing.mean_ms / probing.bound_ms - 1,
        **prices_of(cost),
        **fits_of([report.step_model for report in reports if report.step_model is not None]),
        "between_starts": between_starts([report.step_ms() for report in reports]),
        "failures": [dataclasses.asdict(failure) for failure in measurement.failures],
    }


def prices_of(cost: FamilyCost) -> dict[str, float]:
    """What real rows and their contexts cost, by the profile."""
    return {
        "attention_ms_per_mtoken": cost.attention_ms_per_mtoken,
        "row_ms": cost.row_ms,
        "longest_row_ms_per_ktoken": cost.longest_row.ms_per_ktoken,
    }


def fits_of(models: Sequence[StepModel]) -> dict[str, Any]:
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


def strategy_part(bench: Bench, strategy: Strategy) -> dict[str, Any]:
    """A few sizes with one way of running them: step, capture and memory; no claim beyond these sizes."""
    spec = replace(bench.small_job(COMPILED_SIZES if strategy == "compiled" else STRATEGY_SIZES), strategy=strategy)
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
        "phase_s": dict(report.phase_s),
        "size_step_ms": dict(zip(cost.sizes.tolist(), cost.step_ms.tolist(), strict=True)),
        "size_fallback_ms": dict(zip(cost.sizes.tolist(), cost.fallback_ms.tolist(), strict=True)),
        "capture_s": cost.capture_fixed_s + float(cost.capture_s.sum()),
        "memory_mib": cost.pool_mib + float(cost.memory_mib.sum()),
        "same_as_eager_share": statistics.mean(reading.check.same_as_eager for reading in report.readings),
        "failures": [dataclasses.asdict(failure) for failure in measurement.failures],
    }
