"""Every service of docker-compose.yml runs by its own command, and the main job goes through all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.compose import postgres_image
from tests.compose.stage import Stage, Unset, compose_file, filled_in
from workloads.samples.bundled import sample_path

SECRETS = {"POSTGRES_PASSWORD": "pg-s3cret", "CAPTUNE_API_TOKEN": "api-s3cret", "RAY_AUTH_TOKEN": "cd" * 32}


@pytest.fixture
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="cap-"))
    made = Stage(folder, SECRETS)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def start_postgres(stage: Stage) -> None:
    environment = stage.environment("postgres")
    stage.start("postgres", *postgres_image.prepare(stage.folder, environment))
    stage.up("postgres")
    postgres_image.create_database(environment)


def ended(api: httpx.Client, path: str, within_s: float = 120.0) -> dict[str, Any]:
    """A job once it is over."""
    deadline_s = time.monotonic() + within_s
    while (job := api.get(path).raise_for_status().json())["state"] in ("queued", "running"):
        assert time.monotonic() < deadline_s, job
        time.sleep(0.1)
    return dict(job)


def wait_for_nodes(stage: Stage, count: int, within_s: float = 60.0) -> None:
    """The worker's health check asks the head; that it has joined is seen a moment later."""
    command = [str(Path(sys.executable).with_name("ray")), "status", "--address", f"127.0.0.1:{stage.ports[6379]}"]
    deadline_s = time.monotonic() + within_s
    while True:
        told = subprocess.run(command, env=stage.environment("ray-head"), capture_output=True, text=True, timeout=30)
        if told.stdout.partition("Pending:")[0].count("1 node_") >= count:
            return
        assert time.monotonic() < deadline_s, told.stdout + told.stderr
        time.sleep(0.5)


@pytest.mark.slow
def test_the_main_job_goes_through_every_service(stage: Stage) -> None:
    start_postgres(stage)
    stage.up("migrate", "api", "runner", "ray-head", "ray-worker", "dashboard")
    assert stage.started[:2] == ["postgres", "migrate"] and stage.ended == {"migrate": 0}
    wait_for_nodes(stage, 2)  # ray-head and ray-worker
    address = f"http://127.0.0.1:{stage.ports[8321]}/api/v1"
    assert httpx.get(f"{address}/traces").status_code == 401
    token = {"Authorization": f"Bearer {SECRETS['CAPTUNE_API_TOKEN']}"}
    with httpx.Client(base_url=address, headers=token, timeout=60) as api, sample_path().open("rb") as sample:
        measuring = api.post(
            "/profiles/measure", json={"model": "tiny-llama", "name": "here", "worker": {"device": "cpu"}}
        )
        trace = api.post("/traces", files={"file": (sample_path().name, sample)})
        assert (measuring.status_code, trace.status_code) == (202, 201), measuring.text + trace.text
        job = {"trace_id": trace.json()["id"], "engine": "vllm@0.33.0", "profile": "h200-llama-3.1-8b", "trials": 4}
        sweep = api.post("/sweeps", json=job).raise_for_status().json()
        done = ended(api, f"/sweeps/{sweep['id']}")
        assert (done["state"], done["trials_done"]) == ("complete", 4), stage.log("runner")
        result = api.get(f"/recommendations/{done['recommendation_id']}").raise_for_status().json()
        text = api.get(f"/recommendations/{result['id']}/export", params={"format": "text"}).raise_for_status().text
        assert all(str(size) in text for size in result["lists"]["capture"])
        assert ended(api, measuring.headers["location"].removeprefix("/api/v1"))["state"] == "complete"
        workers = api.get("/workers").json()["items"]
        assert len(workers) == 2 and {worker["state"] for worker in workers} == {"idle"}  # ray-head and ray-worker
    health = httpx.get(f"http://127.0.0.1:{stage.ports[8501]}/_stcore/health")
    assert (health.status_code, health.text) == (200, "ok")
    assert all(stage.healthy(name) for name in ("api", "runner", "dashboard", "ray-head", "ray-worker"))


def test_nothing_starts_without_its_secrets() -> None:
    for name in SECRETS:
        with pytest.raises(Unset, match=f"set {name}"):
            filled_in(compose_file(), {key: value for key, value in SECRETS.items() if key != name})


@pytest.mark.parametrize(("password", "code"), [("", 1), ("s3cret", 0)])
def test_grafana_has_no_default_password(password: str, code: int) -> None:
    service = filled_in(compose_file(), SECRETS | {"GRAFANA_PASSWORD": password})["services"]["grafana"]
    *entrypoint, program = service["entrypoint"]
    assert program == "/run.sh"
    ran = subprocess.run([*entrypoint, "/bin/true"], env=service["environment"], capture_output=True, text=True)
    assert ran.returncode == code
    assert ("set GRAFANA_PASSWORD" in ran.stderr) is (code == 1)
