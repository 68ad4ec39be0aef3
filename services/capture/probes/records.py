"""The folder of an experiment: what was planned before anything started, and one file a start, never changed again.

    plan.json             what is measured how, and the thresholds of the verdict; written before the first start
    profile.json          the engine's cost profile, once its starts are there
    lists.json            the lists compared and the steps replayed of each workload; written before any start compares
    start-NNNN.json       one start each
    start-NNNN.log        what the engine printed

A run that was killed goes on where the files end. More starts later are more evidence for the same question. Several
commands, one a GPU, may add starts at the same time (`claims`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from services.capture.probes.claims import Claim, HeldClaim, Purpose, claims_in
from services.capture.probes.compile_cache import CacheState
from services.capture.probes.failures import EngineFailure
from services.capture.probes.serving import Served
from services.capture.probes.step_time import StepCase, StepProtocol, StepTiming
from tuner.engine_verdict import EngineThresholds
from workloads.errors import BadInput, BadUsage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """Recorded traffic that the list is to serve.

    Attributes:
        name: tells it from the other workloads of the experiment.
        digest: of its content.
        load: arrival times are divided by it.
        fit_share: first part of the traffic, in time, that lists are chosen on; the rest is what they are compared on.
            1 does both on all of it: traffic without an order in time.
    """

    name: str
    digest: str
    load: float
    fit_share: float


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """Everything that the figures of one folder have in common. Two plans that differ are two experiments.

    Attributes:
        way: how the engine is reached, `server` or `offline`.
        workloads: what one list is to serve; every start serves all of them.
        serve_s: seconds of arrivals that are sent, of each workload; 0 replays step sizes only.
        context_tokens: context at which sizes are profiled, that of the workloads.
        replay_steps: most distinct recorded steps that are replayed, of each workload.
        max_length, regret: bounds of the list that is chosen here; None leaves the length open, or allows any regret.
        lists: given lists in place of tuned ones, with where they are from; None tunes on the engine's own profile.
        written_at: set when the plan is first written; no part of the comparison.
    """

    engine: str
    options: Mapping[str, str]
    way: str
    model: str
    dummy_weights: bool
    workloads: tuple[PlannedWorkload, ...]
    serve_s: float
    context_tokens: int
    replay_steps: int
    protocol: StepProtocol
    thresholds: EngineThresholds
    max_length: int | None = None
    regret: float | None = None
    lists: Mapping[str, tuple[int, ...]] | None = None
    lists_from: str | None = None
    written_at: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A recorded decode step that stands for `weight` steps like it."""

    rows: int
    context_tokens: int
    weight: float


@dataclass(frozen=True, slots=True)
class ComparedWorkload:
    """What is replayed of a workload, and whether the engine can keep up with it.

    Attributes:
        load_share: offered / sustainable token rate by the simulation; None where steps were recorded.
        overloaded: by the simulation the queue grows without end.
    """

    name: str
    steps: tuple[ReplayedStep, ...]
    load_share: float | None = None
    overloaded: bool = False

    @property
    def overload_note(self) -> str | None:
        """What an overload does to the figures."""
        if not self.overloaded:
            return None
        share = "" if self.load_share is None else f" ({self.load_share:.0%} of what it sustains)"
        return (
            f"{self.name}: by the simulation the load is beyond what this engine can serve{share}: its figures of "
            "served requests are about the queue and not about the list"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, fixed before the first comparing start.

    Attributes:
        lists: name (`default`, `tuned`, `powers of two`) -> list name -> sizes, as the engine is asked for them; None
            leaves the choice to the engine.
        requested_by: where the tuned list is from.
        verdict_before: what the profile alone said of it.
        profile_digest: of the profile that chose it; None where it was given.
    """

    lists: Mapping[str, Mapping[str, tuple[int, ...]] | None]
    workloads: tuple[ComparedWorkload, ...]
    requested_by: str
    verdict_before: str | None = None
    profile_digest: str | None = None

    @property
    def cases(self) -> tuple[StepCase, ...]:
        """Every replayed step of any workload, once."""
        found = {StepCase(step.rows, step.context_tokens) for of in self.workloads for step in of.steps}
        return tuple(sorted(found, key=lambda case: (case.rows, case.context_tokens)))


@dataclass(frozen=True, slots=True)
class PrefillTiming:
    """Time to the only token of one new prompt, in milliseconds, in the order they were taken."""

    tokens: int
    readings_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Census:
    """Steps of the served requests as the engine itself logged them, decode and mixed; shares of steps."""

    steps: int
    exact: float
    padded: float
    fallback: float
    padding_waste: float


@dataclass(frozen=True, slots=True)
class WorkloadRun:
    """The requests of one workload as one start served them.

    Attributes:
        census: None where the engine logs no steps.
        census_unread: why the steps that it logged could not be counted.
        clipped_requests: asked for more than the longest that the engine takes, and were cut to it.
        preemptions: times that a running request lost its KV cache; None where the engine does not count them.
    """

    served: Served
    census: Census | None
    clipped_requests: int
    preemptions: int | None
    census_unread: str | None = None


@dataclass(frozen=True, slots=True)
class StartRecord:
    """One start of the engine, whatever became of it.

    Attributes:
        name: of the list that was compared, or of the purpose.
        lists: what was asked for; None is the engine's default.
        effective: what its log says was captured.
        gpu: which one of several alike it ran on.
        setup_s, capture_s, recording_s, graph_memory_mib, kv_tokens: see `workloads.traces.records.EngineObservation`.
        compile_cache: whether compiled code was there; a cold start compiles first. None where nothing is known of it.
        steps: step times by size and context.
        failed_cases: steps of which no reading came out.
        runs: by workload.
        part_s: seconds by part of the start.
    """

    purpose: Purpose
    name: str
    number: int
    started_at: str
    lists: Mapping[str, tuple[int, ...]] | None
    failure: EngineFailure | None = None
    version: str | None = None
    effective: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    startup_s: float | None = None
    setup_s: float | None = None
    capture_s: float | None = None
    recording_s: float | None = None
    graph_memory_mib: float | None = None
    kv_tokens: int | None = None
    device: str | None = None
    gpu: str | None = None
    compile_cache: CacheState | None = None
    steps: tuple[StepTiming, ...] = ()
    failed_cases: tuple[StepCase, ...] = ()
    prefill: tuple[PrefillTiming, ...] = ()
    runs: Mapping[str, WorkloadRun] = field(default_factory=dict)
    part_s: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None


class Folder:
    """Reads and writes the files; every file appears whole or not at all.

    Raises:
        BadUsage: the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadUsage(f"cannot be made: {error.strerror}", file=str(path), field="--records") from None

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """One command at a time decides what is done next, and writes what all of them share."""
        with (self.path / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def claims(self) -> tuple[Claim, ...]:
        """Starts that run now, or were recorded just now; call it while `deciding`."""
        return claims_in(self.path)

    def claim(self, purpose: Purpose, name: str, gpu: str | None) -> HeldClaim:
        """Begin a start; call it while `deciding`.

        Raises:
            BadUsage: another start runs on the same GPU.
        """
        running = self.claims()
        if any(other.gpu == gpu for other in running):
            raise BadUsage(
                "another run adds to this folder now, on the same GPU; give each its own by CUDA_VISIBLE_DEVICES",
                file=str(self.path),
                field="--records",
            )
        last = max([record.number for record in self.starts()] + [other.number for other in running], default=0)
        return HeldClaim(self.path, Claim(last + 1, purpose, name, gpu))

    def agree(self, plan: ExperimentPlan) -> ExperimentPlan:
        """The plan of this folder: `plan`, written now, or the one that stands there and says the same.

        Raises:
            BadUsage: another experiment was recorded here.
        """
        stored = self.read("plan.json", ExperimentPlan)
        if stored is None:
            dated = replace(plan, written_at=now())
            self.write("plan.json", ExperimentPlan, dated)
            return dated
        neutral = {"written_at": None, "command": None}
        ours, theirs = replace(plan, **neutral), replace(stored, **neutral)  # type: ignore[arg-type]
        differs = [
            item.name for item in fields(ExperimentPlan) if getattr(ours, item.name) != getattr(theirs, item.name)
        ]
        if differs:
            name = differs[0]
            raise BadUsage(
                f"holds another experiment: {name} was {getattr(theirs, name)}, is {getattr(ours, name)}; "
                "give another folder",
                file=str(self.path),
                field="--records",
            )
        return stored

    def starts(self) -> tuple[StartRecord, ...]:
        """Every recorded start, in order."""
        found = [self.read(path.name, StartRecord) for path in sorted(self.path.glob("start-*.json"))]
        return tuple(record for record in found if record is not None)

    def log_path(self, number: int) -> Path:
        return self.path / f"start-{number:04d}.log"

    def add(self, record: StartRecord) -> None:
        self.write(f"start-{record.number:04d}.json", StartRecord, record)

    def read(self, name: str, kind: type[T]) -> T | None:
        """A file's content; None where there is none.

        Raises:
            BadInput: it is not what this version writes.
        """
        path = self.path / name
        if not path.is_file():
            return None
        try:
            found: T = TypeAdapter(kind).validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"is no record of this version: {first['msg']}", file=str(path), field=where) from None
        return found

    def write(self, name: str, kind: type[T], value: T) -> None:
        self.write_text(name, TypeAdapter(kind).dump_json(value, indent=1).decode() + "\n")

    def write_text(self, name: str, text: str) -> None:
        part = self.path / f".{name}.part"
        with part.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.path / name)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain_lists(lists: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """List name -> sizes as whole numbers of Python."""
    return {name: tuple(int(size) for size in sizes) for name, sizes in lists.items()}
