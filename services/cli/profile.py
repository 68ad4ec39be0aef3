"""`captune profile`: measure what capture sizes cost on this GPU, take it from a log, or look at profiles.

Measuring must run on a GPU node that has torch, Ray and little else, so the other commands import their parts late.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from services.capture import start_notes
from services.capture.spec import Device, DraftShape, Family, Strategy, family_spec
from services.cli.context import output
from services.cli.output import number, progress, table
from services.contract.context_words import context_words
from tuner.cost_profile import CostProfile
from tuner.probe_plan import ProbePlan
from tuner.profile_file import dump_profile, family_document
from workloads.errors import BadInput, BadUsage

app = typer.Typer(help="Measure, record, list and show cost profiles.", no_args_is_help=True)

_MOST_LISTED = 500

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
Reference = Annotated[str, typer.Argument(metavar="P", help="A shipped or stored profile name, or a file.")]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is measured of a model; see `services.capture.spec.family_spec`."""

    family: Family = "decode"
    tokens_per_request: int = 1
    draft: DraftShape | None = None
    strategy: Strategy | None = None


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """How the sizes of a measurement are chosen: named, all of a dense grid, or probed (for a workload or for all)."""

    sizes: str | None = None
    dense: bool = False
    workload: str | None = None

    def __post_init__(self) -> None:
        if sum((self.sizes is not None, self.dense, self.workload is not None)) > 1:
            raise BadUsage("one of --sizes, --dense and --for, not two", field="--sizes")

    def plan(self) -> ProbePlan | None:
        """What probes aim at; None leaves that to the default.

        Raises:
            BadInput: the workload cannot be read, or is of requests.
        """
        return None if self.workload is None else _plan_for(self.workload)


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Where to measure: a device, and among GPUs the type and the least memory; None takes any."""

    device: Device = "auto"
    gpu: str | None = None
    memory_gib: float | None = None


@app.command("measure")
def measure(
    model: Annotated[str, typer.Option("--model", metavar="M", help="A built-in shape or a folder or config.json.")],
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="1-64,72", help="Exactly these decode sizes, no probing.")
    ] = None,
    dense: Annotated[bool, typer.Option("--dense", help="Every size of a dense grid instead of few probes.")] = False,
    workload: Annotated[
        str | None,
        typer.Option("--for", metavar="SOURCE", help="Probe for the step sizes of this histogram, log or record."),
    ] = None,
    family: Annotated[
        Family, typer.Option("--family", help="What a size counts: requests that decode, verify or draft; tokens.")
    ] = "decode",
    tokens_per_request: Annotated[
        int, typer.Option("--tokens-per-request", metavar="Q", help="With target_verify: drafts and one more.")
    ] = 1,
    topk: Annotated[
        int | None, typer.Option("--topk", metavar="K", help="With draft: branches a request, and candidates of each.")
    ] = None,
    num_steps: Annotated[
        int | None, typer.Option("--num-steps", metavar="N", help="With draft: levels of the tree, 3 by default.")
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option("--strategy", help="How a step is run: full, and piecewise for prefill.")
    ] = None,
    device: Annotated[Device, typer.Option("--device", help="auto takes the GPU where there is one.")] = "auto",
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="TYPE", help="Only GPUs of this type, as Ray calls it (H200).")
    ] = None,
    gpu_memory_gib: Annotated[
        float | None, typer.Option("--gpu-memory-gib", metavar="N", min=0, help="Only GPUs with so much memory.")
    ] = None,
    starts: Annotated[int, typer.Option("--starts", metavar="N", help="Fresh worker processes to repeat in.")] = 2,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Readings a size and start.")] = 5,
    name: Annotated[str | None, typer.Option("--name", help="Name of the profile.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the profile here; no database is touched.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Capture and time sizes on this machine's GPU (or CPU) through a Ray worker.

    The first start goes from a coarse grid to wherever another reading could still change the best capture list, until
    that list's expected step is known within 1 %; the other starts measure all these sizes again.
    """
    tree = None
    if (topk, num_steps) != (None, None):
        default = DraftShape()
        tree = DraftShape(default.topk if topk is None else topk, default.num_steps if num_steps is None else num_steps)
    kind = Kind(family, tokens_per_request, tree, strategy)
    chosen = SizeChoice(sizes, dense, workload)
    profile = measure_here(
        model,
        kind=kind,
        chosen=chosen,
        where=GpuChoice(device, gpu, gpu_memory_gib),
        starts=starts,
        repeats=repeats,
        name=name,
    )
    if out is not None:
        _write(out, dump_profile(profile))
    else:
        _store(profile)
    output(as_json).emit(json.loads(dump_profile(profile)), lambda console: _draw(console, profile))


def measure_here(
    model: str,
    *,
    kind: Kind | None = None,
    chosen: SizeChoice | None = None,
    where: GpuChoice | None = None,
    starts: int = 2,
    repeats: int = 5,
    name: str | None = None,
) -> CostProfile:
    """Measure with a progress bar.

    Raises:
        BadUsage: `chosen` contradicts itself, or the family cannot be run that way.
        MissingExtra, Unavailable, MeasurementFailed: see `services.capture.pool.measure`.
    """
    from services.capture.forecast import Forecast
    from services.capture.job import describe, plan_job
    from services.capture.placement import device_of, wish_of

    chosen, kind, where = chosen or SizeChoice(), kind or Kind(), where or GpuChoice()
    sizes = _sizes(chosen.sizes)
    device = device_of(where.device, where.gpu, where.memory_gib)
    base = plan_job(model, device=device, sizes=sizes, dense=chosen.dense, plan=chosen.plan())
    spec = family_spec(
        replace(base, starts=starts, repeats=repeats),
        kind.family,
        tokens_per_request=kind.tokens_per_request,
        draft=kind.draft,
        strategy=kind.strategy,
        sizes=sizes,
    )
    from services.capture.pool import measure_profile

    wish = wish_of(spec.device, where.gpu, where.memory_gib)
    forecast = Forecast()
    with progress(f"measuring {model}") as advance:
        profile = measure_profile(
            spec, lambda at: advance(at.done, describe(at, forecast), at.total), command=_own_command(), wish=wish
        )
    return replace(profile, name=name) if name is not None else profile


@app.command("from-log")
def from_log(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An engine's log, or a record with step times.")],
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME@VERSION", help="Default: the engine that the log names.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An argument of the engine. Repeatable.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="1,2,4", help="What was captured, where the log does not show it.")
    ] = None,
    min_readings: Annotated[
        int, typer.Option("--min-readings", metavar="N", min=1, help="Readings that a size needs.")
    ] = 5,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="The GPU that the log is from.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model, if the log is silent.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the profile.")] = None,
    format: Annotated[str | None, typer.Option("--format", help="Read FILE as this format.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the profile here; no database is touched.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn the step times that an engine reported into a profile of that engine."""
    from services.cli.recorded import RecordedLog, profile_of

    asked = RecordedLog(file, engine, tuple(sets or ()), sizes, min_readings, device, model, name, format)
    recorded = profile_of(asked, command=_own_command())
    if out is not None:
        _write(out, dump_profile(recorded.profile))
    else:
        _store(recorded.profile)
    coverage = recorded.coverage
    document = json.loads(dump_profile(recorded.profile)) | {
        "coverage": {
            "readings": coverage.readings,
            "step_share": coverage.step_share,
            "too_few": {str(size): count for size, count in coverage.too_few.items()},
            "eager_only": list(coverage.eager_only),
        },
        "notes": list(recorded.notes),
    }

    def draw(console: Console) -> None:
        _draw(console, recorded.profile)
        console.print(
            f"recorded: {coverage.readings:,} step times; the points cover {coverage.step_share:.1%} of steps"
        )
        if coverage.too_few:
            console.print(f"unknown: {len(coverage.too_few)} sizes with fewer than {min_readings} readings")
        for note in recorded.notes:
            console.print(f"note: {note}", markup=False)

    output(as_json).emit(document, draw)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Profiles that ship with Captune and those in the database."""
    from services.catalog import shipped_profiles
    from services.cli.stored import local_store

    with local_store() as store:
        stored = store.profiles.page(limit=_MOST_LISTED).items
    columns = ("name", "from", "device", "model", "recorded_at")
    cells = [(p.name, "shipped", _of(p.device), _of(p.model), p.recorded_at) for p in shipped_profiles()]
    cells += [(p.name, "stored", p.device, p.model, p.recorded_at) for p in stored]
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    output(as_json).emit(
        {"profiles": rows},
        lambda console: console.print(table("", columns, cells)),
    )


@app.command("show")
def show(reference: Reference, as_json: Json = False) -> None:
    """One profile: provenance and the measured curve."""
    from services.cli.workload import open_profile

    profile = open_profile(reference)
    output(as_json).emit(json.loads(dump_profile(profile)), lambda console: _draw(console, profile))


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    from services.cli.options import parse_sizes

    return parse_sizes(text)


def _plan_for(source: str) -> ProbePlan:
    from services.capture.spec import default_sizes
    from services.cli.workload import Asked

    workload = Asked(source).open()
    if workload.needs_simulation:
        raise BadInput(
            "holds requests, whose steps a profile must simulate; give a log, a step record or a size,count file",
            file=source,
        )
    histogram = workload.observe(None).decode
    end = default_sizes()[-1]
    covered = histogram.sizes <= end
    sizes, weights = histogram.sizes[covered].tolist(), histogram.steps[covered].tolist()
    return ProbePlan(default_sizes(), tuple(sizes), tuple(weights))


def _own_command() -> str:
    return shlex.join(["captune", *sys.argv[1:]])


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise BadUsage(f"cannot write {path}: {error.strerror}", field="--out") from None


def _store(profile: CostProfile) -> None:
    from services.cli.stored import local_store

    with local_store() as store:
        store.profiles.add(profile)


def _of(facts: Any) -> str | None:
    return str(facts.get("name")) if facts else None


def _draw(console: Console, profile: CostProfile) -> None:
    console.print(f"[bold]{profile.name}[/bold]: {_of(profile.model)} on {_of(profile.device)}, {profile.recorded_at}")
    if profile.command:
        console.print(f"made by: {profile.command}", markup=False)
    software: Any = profile.software or {}
    for note in start_notes.notes(software.get("measurement") or {}):
        console.print(note, markup=False)
    for family, cost in profile.families.items():
        if words := context_words(family_document(cost)):
            console.print(f"{family}: {words}", markup=False)
        rows = [
            (
                size,
                number(step_ms),
                number(fallback_ms),
                number(spread_ms),
                number(capture_s),
                number(memory_mib, 1),
            )
            for size, step_ms, fallback_ms, spread_ms, capture_s, memory_mib in zip(
                cost.sizes,
                cost.step_ms,
                cost.fallback_ms,
                cost.spread_ms,
                cost.capture_s,
                cost.memory_mib,
                strict=True,
            )
        ]
        columns = ("size", "step ms", "fallback ms", "spread ms", "capture s", "MiB")
        console.print(table(f"{family} (sizes in {cost.unit})", columns, rows))
