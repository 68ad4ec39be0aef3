"""An experiment on the GPUs of a Ray cluster: as many engines at a time as asked for, all adding to one folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from services.capture.cluster import ray_cluster
from services.capture.inventory import look
from services.capture.placement import Place, find_place, wish_of
from services.capture.probes.base import Launch
from services.capture.probes.experiment import Experiment, Outcome
from services.capture.probes.failures import EngineFailed
from services.capture.probes.records import ExperimentPlan
from services.capture.probes.remote import RemoteProbe
from workloads.errors import Unavailable

MOST_LOST = 3
"""Workers that one loop may lose in starts that nothing goes on without, before it gives up."""

_INTERRUPTED_S = 0.2  # Ctrl-C may reach a thread of Ray: a wait without an end would not notice

_ONE_GPU_EACH = ("tensor_parallel_size", "tp_size")


def run_on_ray(experiment: Experiment, gpus: int) -> Outcome:
    """Run it with `gpus` engines at a time, each in a loop of its own; what one claims no other starts.

    Args:
        experiment: its starter's probe is what runs on the nodes.
        gpus: engines at a time; an engine of several GPUs counts once.

    Raises:
        Unavailable: the cluster cannot be reached, or has not that many GPUs of one type.
        Whatever `Experiment.run` does: the first such error ends all engines.
    """
    with ray_cluster() as ray, _probes(ray, experiment, gpus) as probes:
        loops = [partial(_loop, experiment, probe) for probe in probes]
        outcomes = [outcome for outcome in _all(loops, probes) if outcome is not None]
    if not outcomes:
        raise Unavailable("every worker was lost and there is no other; the same command goes on", field="--ray")
    # Whoever ended first may have left what others had begun.
    return min(outcomes, key=lambda outcome: (outcome.profile is None, len(outcome.left)))


def _loop(experiment: Experiment, probe: RemoteProbe) -> Outcome | None:
    """Everything that this probe finds to do; its GPUs are free then, for one that lost its own. None where it lost
    them and there are no others: what is left is done elsewhere.

    A profile that fails ends an experiment, as the next start would fail in the same way; but not where its worker was
    lost.
    """
    try:
        while True:
            before = probe.lost
            try:
                return replace(experiment, starter=replace(experiment.starter, probe=probe)).run()
            except EngineFailed:
                if not before < probe.lost <= MOST_LOST:
                    raise
    except Unavailable:
        if not probe.lost:
            raise
        return None
    finally:
        probe.close()


def experiment_key(plan: ExperimentPlan, launch: Launch) -> str:
    """What two experiments share that may use the same compiled code: the plan and the model's config."""
    neutral = replace(plan, written_at=None, command=None)
    text = TypeAdapter(ExperimentPlan).dump_json(neutral) + (launch.model / "config.json").read_bytes()
    return hashlib.sha256(text).hexdigest()[:16]


def gpus_of(launch: Launch) -> int:
    """GPUs that one engine spreads over."""
    given = (getattr(launch.options, name, None) for name in _ONE_GPU_EACH)
    return next((int(count) for count in given if count), 1)


@contextmanager
def _probes(ray: Any, experiment: Experiment, count: int) -> Iterator[list[RemoteProbe]]:
    """A probe for each engine at a time; in the end no actor is left."""
    starter = experiment.starter
    each, nodes = gpus_of(starter.launch), ray.nodes()
    place = find_place(nodes, look(ray, nodes), wish_of("auto"))
    _check(place, nodes, each, count)
    options = place.options(frozenset()) | ({"num_gpus": each} if place.cuda else {})
    key = experiment_key(experiment.plan, starter.launch)
    probes = [RemoteProbe(ray, starter.probe, key, options) for _ in range(count)]
    try:
        yield probes
    finally:
        for probe in probes:
            probe.close()


def _check(place: Place, nodes: Sequence[Mapping[str, Any]], each: int, count: int) -> None:
    """An engine's GPUs are those of one node.

    Raises:
        Unavailable: there is no room for `count` engines.
    """
    there = [int(node["Resources"].get("GPU", 0)) for node in nodes if node["NodeID"] in place.node_ids]
    room = sum(gpus // each for gpus in there) if place.cuda else 1
    if room < count:
        kind = "GPUs of one type" if place.cuda else "GPUs (it would run one engine on a CPU)"
        have = sum(there) if place.cuda else "no"
        wanted = f"{count} engines of {each} GPU{'s' if each > 1 else ''}"
        raise Unavailable(f"the cluster has {have} {kind}, too few for {wanted} at a time; lower it", field="--gpus")


def _all(loops: Sequence[Callable[[], Outcome | None]], probes: Sequence[RemoteProbe]) -> list[Outcome | None]:
    """Run all at once.

    Raises:
        What the first that failed did, or an interrupt; every engine is ended then.
    """
    with ThreadPoolExecutor(len(loops), thread_name_prefix="engine") as pool:
        futures = [pool.submit(copy_context().run, loop) for loop in loops]
        try:
            running = set(futures)
            while running:
                done, running = wait(running, _INTERRUPTED_S, FIRST_EXCEPTION)
                for future in done:
                    future.result()
        except BaseException:
            for probe in probes:
                probe.close()
            raise
        return [future.result() for future in futures]
