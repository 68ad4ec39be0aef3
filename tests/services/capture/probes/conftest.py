"""Launches of the stand-in engine, and whole experiments in an engine that takes no time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.capture.probes.base import Launch
from services.capture.probes.experiment import Experiment
from services.capture.probes.records import ExperimentPlan, Folder, PlannedWorkload
from services.capture.probes.starting import Starter
from services.capture.probes.step_time import StepProtocol
from services.capture.probes.workload import EngineWorkload, typical_context
from tests.services.capture.probes.virtual import Costs, VirtualProbe
from tuner.budget import Budget
from tuner.engine_verdict import EngineThresholds
from tuner.engines.base import Lists
from tuner.engines.registry import engine
from tuner.recommendation import ServingOptions
from workloads.models.config import load_config
from workloads.traces.records import RequestTrace

STUB = Path(__file__).with_name("stub_engine.py")

MakeLaunch = Callable[..., Launch]
MakeExperiment = Callable[..., Experiment]


@pytest.fixture
def launch(tmp_path: Path) -> MakeLaunch:
    """A launch of the stub; keyword arguments other than those of the function change the stub's CONFIG."""

    def make(
        lists: Lists | None = None,
        spec: str = "vllm@0.23.0",
        options: dict[str, str] | None = None,
        ready_s: float = 30.0,
        **stub: Any,
    ) -> Launch:
        seqs = "max_num_seqs" if spec.startswith("vllm") else "max_running_requests"
        return Launch(
            engine=engine(spec),
            raw_options={seqs: "16"} | (options or {}),
            lists=lists,
            model=tmp_path,
            vocabulary=1000,
            command=(sys.executable, str(STUB)),
            environment={"STUB": json.dumps(stub)},
            ready_s=ready_s,
        )

    return make


def requests(count: int = 1500, seed: int = 0) -> RequestTrace:
    draw = np.random.default_rng(seed)
    arrivals = np.concatenate(([0.0], np.cumsum(draw.exponential(0.04, count - 1))))
    return RequestTrace(arrivals, draw.integers(200, 1200, count), draw.integers(20, 200, count))


def workload(name: str, load: float, trace: RequestTrace) -> EngineWorkload:
    return EngineWorkload(PlannedWorkload(name, trace.digest(), load, 0.7), trace, ServingOptions(load=load))


@pytest.fixture
def experiment(launch: MakeLaunch, tmp_path: Path) -> MakeExperiment:
    def make(
        probe: VirtualProbe | None = None,
        starts: int = 1,
        load: float = 1.0,
        lists: dict[str, tuple[int, ...]] | None = None,
        also: tuple[EngineWorkload, ...] = (),
    ) -> Experiment:
        workloads = (workload("made up", load, requests()), *also)
        started = launch(options={"max_num_seqs": "64"})
        plan = ExperimentPlan(
            engine="vllm@0.23.0",
            options=started.raw_options,
            way="server",
            model="llama-3.1-8b",
            dummy_weights=True,
            workloads=tuple(of.plan for of in workloads),
            serve_s=5.0,
            context_tokens=typical_context([of.traffic for of in workloads]),
            replay_steps=8,
            protocol=StepProtocol(repeats=2),
            thresholds=EngineThresholds(),
            lists=lists,
        )
        folder = Folder(tmp_path / "records")
        return Experiment(
            plan=folder.agree(plan),
            starter=Starter(probe or VirtualProbe(Costs()), started, folder),
            engine=started.engine,
            options=started.options,
            model=load_config("llama-3.1-8b"),
            longest_tokens=131_072,
            workloads=workloads,
            budget=Budget(),
            starts=starts,
            profile_starts=2,
            trials=1,
            log_settles_s=0.0,
        )

    return make
