"""A real Ray cluster of several nodes on one machine: GPUs of two types (in name: the work runs on the CPU), jobs on
several of them at once, a node killed in mid-sweep, foreign versions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from db.records import NewMeasurement
from db.store import Store
from services.capture.cluster import ray_cluster
from services.capture.fleet import Fleet
from services.capture.inventory import DeviceReport, living_nodes, look, mismatch
from services.capture.placement import MEMORY_LABEL, Wish, find_place, wish_of
from services.capture.pool import capture_lists, measure
from services.capture.readings import Progress, StartReport, WorkerId
from services.capture.spec import MeasureSpec
from services.sweeps.job import run_sweep
from workloads.errors import BadInput, Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SPEC = MeasureSpec("tiny-llama", sizes=(1, 2, 4), starts=2, repeats=2, iterations=1, warmup=1, device="cpu")
FAST_NOTICE = {"initial_delay_ms": 1000, "period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3}


def add_node(cluster: Any, kind: str, mib: int) -> None:
    cluster.add_node(num_cpus=1, num_gpus=1, resources={f"accelerator_type:{kind}": 1}, labels={MEMORY_LABEL: str(mib)})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs for actors, two nodes with an H200 each and one with an A100."""
    changes = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32, "CAPTUNE_GPU_TYPE": ""}
    changes |= {f"RAY_health_check_{name}": str(value) for name, value in FAST_NOTICE.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        patch.setenv("RAY_ADDRESS", made.address)
        for kind, mib in (("H200", 143_771), ("A100", 40_960), ("H200", 143_771)):
            add_node(made, kind, mib)
        yield made
        made.shutdown()


@pytest.mark.usefixtures("cluster")
def test_every_node_is_looked_at() -> None:
    with ray_cluster() as ray:
        devices = look(ray)
        assert len({device.node_id for device in devices}) == 4
        assert all(device.refused is None and device.python and device.ray for device in devices)


@pytest.mark.usefixtures("cluster")
def test_a_job_goes_to_the_gpus_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with ray_cluster() as ray:
        nodes = ray.nodes()
        kinds = {node["NodeID"]: "H200" if "accelerator_type:H200" in node["Resources"] else "A100" for node in nodes}

        def found(wish: Wish) -> tuple[set[str], int]:
            place = find_place(nodes, [], wish)
            return {kinds[node_id] for node_id in place.node_ids}, place.slots

        assert found(Wish("cuda")) == ({"H200"}, 2)  # never two types in one job; these are the most
        assert found(Wish("cuda", "A100")) == ({"A100"}, 1)
        assert found(Wish("auto", memory_mib=100 * 1024)) == ({"H200"}, 2)
        assert find_place(nodes, [], Wish("cpu")).slots == 3
        refused = [
            DeviceReport(node_id, "x", "cpu", refused="old") for node_id, kind in kinds.items() if kind == "H200"
        ]
        assert find_place(nodes, refused, Wish("cuda")).slots == 1
        monkeypatch.setenv("CAPTUNE_GPU_TYPE", "A100")
        assert wish_of("cuda") == Wish("cuda", "A100") and wish_of("cuda", "H200").gpu == "H200"
        assert wish_of("cpu") == Wish("cpu")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("wish", "field", "message"),
    [
        (Wish("cuda", "B200"), "worker.gpu", "no GPU of type 'B200'; it has: A100 (40 GiB), H200 (140 GiB)"),
        (Wish("auto", None, 200 * 1024), "worker.memory_gib", "no GPU with at least 200 GiB; it has: A100"),
        (Wish("cuda", "A100", 80 * 1024), "worker.memory_gib", "no GPU of type 'A100' with at least 80 GiB; it has"),
    ],
)
def test_a_gpu_that_no_node_has_is_refused_in_one_sentence(wish: Wish, field: str, message: str) -> None:
    with ray_cluster() as ray, pytest.raises(Unavailable) as raised:
        Fleet(ray, wish)
    assert raised.value.field == field and message in raised.value.message and "\n" not in raised.value.message


@pytest.mark.usefixtures("cluster")
def test_parts_of_a_job_run_on_all_its_gpus_at_once_and_come_back_in_order() -> None:
    told: list[Progress] = []
    with ray_cluster() as ray:
        fleet = Fleet(ray, Wish("cuda", "H200"))
        parts = [partial(last_event, fleet, replace(SPEC, starts=3), start) for start in range(3)]
        reports = fleet.in_parallel(parts, told.append)
        h200 = {node["NodeID"] for node in ray.nodes() if "accelerator_type:H200" in node["Resources"]}
    assert all(isinstance(report, StartReport) for report in reports)
    assert {each.worker for each in told} == {WorkerId(node_id, 0) for node_id in h200}
    assert [max(each.done for each in told if each.start == start) > 0 for start in range(3)] == [True] * 3
    first_end = next(index for index, each in enumerate(told) if each.phase == "done")
    assert {each.start for each in told[:first_end]} == {0, 1}, "two starts at once, the third when a GPU is free"


def last_event(fleet: Fleet, spec: MeasureSpec, start: int, on_progress: Any) -> Any:
    event = None
    for event in fleet.run(spec, start):
        if isinstance(event, Progress):
            on_progress(event)
    return event


@pytest.mark.usefixtures("cluster")
def test_finalist_lists_are_captured_side_by_side() -> None:
    told: list[Progress] = []
    lists = [(1, 4), (2,), (3, 1)]
    reports = capture_lists(SPEC, lists, told.append, wish=Wish("cpu"))
    assert [set(report.step_ms()) for report in reports] == [set(sizes) for sizes in lists]
    assert len({each.worker for each in told}) == 3


@pytest.mark.usefixtures("cluster")
def test_a_part_that_fails_ends_the_others() -> None:
    def fail(_: Any) -> Any:
        raise BadInput("no")

    with ray_cluster() as ray:
        fleet = Fleet(ray, Wish("cuda", "H200"))
        endless = partial(last_event, fleet, replace(SPEC, repeats=100_000), 0)
        with pytest.raises(BadInput, match="no"):
            fleet.in_parallel([endless, fail], lambda _: None)


@pytest.mark.usefixtures("cluster")
def test_a_callback_that_raises_ends_every_worker() -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == "time":
            raise KeyError("enough")

    with ray_cluster() as ray:
        with pytest.raises(KeyError, match="enough"):
            measure(replace(SPEC, repeats=1000, iterations=20), stop)
        deadline_s = time.monotonic() + 30.0
        while ray.available_resources().get("CPU") != ray.cluster_resources()["CPU"]:
            assert time.monotonic() < deadline_s, "a worker still holds its core"
            time.sleep(0.1)


@pytest.mark.usefixtures("cluster")
def test_our_code_goes_with_the_job_and_nothing_else_does() -> None:
    def shipped() -> tuple[str, list[str]]:
        import services
        import services.capture.session as session

        folder = Path(services.__file__).parent
        return session.__file__, sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))

    with ray_cluster() as ray:
        module, files = ray.get(ray.remote(num_cpus=1)(shipped).remote())
    assert "/runtime_resources/" in module, "not from this checkout"
    assert "capture/session.py" in files
    assert not [name for name in files if name.startswith(("api/", "cli/", "sweeps/")) or "samples" in name]


@pytest.mark.usefixtures("cluster")
def test_a_measurement_over_the_cluster_is_followed_in_the_inventory(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'captune.db'}", tmp_path) as store:
        new = NewMeasurement("tiny-llama", "mine", worker={"device": "cpu"})
        job, _ = store.sweeps.create_once(new, None)
        claim = store.queue.claim("test", 600.0)
        assert claim is not None
        busy: set[str] = set()

        def look_in() -> bool:
            busy.update(worker.id for worker in store.workers.list() if worker.state == "busy")
            return False

        run_sweep(store, claim, look_in)
        assert store.sweeps.get(job.id).state == "complete"
        assert store.profiles.load("mine").families["decode_full"].sizes[-1] >= 32
        assert len(busy) == 2, "a start on each of two nodes"
        assert {worker.state for worker in store.workers.list()} == {"idle"}
        assert len(store.workers.list()) == 4


def test_a_node_killed_in_mid_sweep_costs_its_start_and_no_size(cluster: Any) -> None:
    killed: list[str] = []
    unharmed: list[str] = []

    def kill_once(progress: Progress) -> None:
        assert progress.worker is not None
        if progress.phase == "capture" and progress.size == 2 and progress.start == 0 and not killed:
            killed.append(progress.worker.node_id)
            node = next(node for node in cluster.worker_nodes if node.node_id == killed[0])
            cluster.remove_node(node, allow_graceful=False)
        elif progress.start == 1:
            unharmed.append(progress.worker.node_id)

    with ray_cluster() as ray:
        measurement = measure(SPEC, kill_once)
        assert len(killed) == 1 and killed[0] not in living_nodes(ray)
        assert measurement.failures == ()
        assert measurement.profile.family("decode_full").sizes.tolist() == [1, 2, 4]
        assert measurement.profile.starts == 2
        assert len(set(unharmed)) == 1, "the other start stayed where it was"


@pytest.mark.usefixtures("cluster")
def test_a_cluster_of_another_python_is_refused_in_one_sentence() -> None:
    with ray_cluster() as ray:
        store = ray._private.worker.global_worker.gcs_client
        space = b"cluster"
        key = next(key for key in store.internal_kv_keys(b"", space) if b"METADATA" in key.upper())
        kept = store.internal_kv_get(key, space)
        store.internal_kv_put(key, json.dumps(json.loads(kept) | {"python_version": "3.99.1"}).encode(), True, space)
    with pytest.raises(Unavailable) as raised, ray_cluster():
        pass
    assert "on Python 3.99.1, and this process Ray" in raised.value.message and "\n" not in raised.value.message


def test_a_node_of_another_release_is_refused_in_one_sentence() -> None:
    node = DeviceReport("id", "node-1", "cpu", python="3.12.1", ray="2.60.0")
    assert mismatch(node, "3.12.9", "2.60.0") is None
    assert mismatch(node, "3.11.2", "2.60.0") == (
        "node-1 has Python 3.12.1 and this process 3.11.2; install the same minor release"
    )
    assert "Ray 2.60.0 and this process 2.61.0" in str(mismatch(node, "3.12.1", "2.61.0"))
