"""Kills and crowds: API and runner are killed at random while sweeps run, then many clients ask at once.

    python tests/reliability/run.py --kills 100 --clients 200 --seconds 120

Figures go to docs/reliability.md. Runs on SQLite and modelled sweeps. Every acknowledged upload and sweep must be there
afterwards, once, and complete.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"api": "services.api.main", "runner": "services.sweeps.runner"}
sys.path.insert(0, str(ROOT))


@dataclass
class Services:
    """API and runner as processes that can be killed and started again."""

    environment: dict[str, str]
    url: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, part: str) -> None:
        command = [sys.executable, "-m", PARTS[part]]
        quiet = subprocess.DEVNULL
        self.processes[part] = subprocess.Popen(command, env=self.environment, cwd=ROOT, stderr=quiet, stdout=quiet)

    def kill(self, part: str) -> None:
        self.processes[part].kill()
        self.processes[part].wait()
        self.start(part)

    def wait_ready(self) -> None:
        for _ in range(300):
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise SystemExit("the API did not come up")

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(30)


@dataclass
class Seen:
    """What clients were told."""

    statuses: Counter[int] = field(default_factory=Counter)
    reads_ms: list[float] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, answer: httpx.Response, started_s: float) -> None:
        with self.lock:
            self.statuses[answer.status_code] += 1
            if answer.request.method == "GET":
                self.reads_ms.append(1000 * (time.monotonic() - started_s))


def histogram(seed: int) -> bytes:
    return ("size,count\n" + "".join(f"{size},{(seed * size) % 97 + 1}\n" for size in range(1, 65))).encode()


def client(url: str, number: int, until_s: float, seen: Seen) -> None:
    """One person: a request, a second of thought; one request in a hundred is an upload."""
    dice = random.Random(number)
    with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as http:
        while time.monotonic() < until_s:
            started_s = time.monotonic()
            if dice.random() < 0.01:
                content = histogram(number * 1000 + dice.randrange(1000))
                answer = http.post("/traces", files={"file": (f"{number}.csv", content)})
                if answer.status_code == 201:
                    with seen.lock:
                        seen.uploads.append(answer.json()["id"])
            else:
                answer = http.get(dice.choice(["/traces", "/sweeps", "/engines", "/recommendations"]))
            seen.note(answer, started_s)
            time.sleep(1.0)


def crowd(services: Services, clients: int, seconds: float) -> Seen:
    seen = Seen()
    until_s = time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(services.url, n, until_s, seen)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def sweep(http: httpx.Client, trace_id: str, number: int, trials: int) -> str:
    body = {"trace_id": trace_id, "engine": "vllm@0.33.0", "profile": "h200-qwen3-0.6b", "trials": trials}
    key = {"Idempotency-Key": f"sweep-{number}"}
    for _ in range(100):  # the API may be dead just now: the key makes trying again safe
        try:
            answer = http.post("/sweeps", json={**body, "options": {"max_num_seqs": "64"}}, headers=key)
            answer.raise_for_status()
            return str(answer.json()["id"])
        except httpx.TransportError:
            time.sleep(0.2)
    raise SystemExit("no sweep could be queued")


def kills(services: Services, count: int, trials: int) -> dict[str, object]:
    dice = random.Random(1)
    with httpx.Client(base_url=f"{services.url}/api/v1", timeout=30) as http:
        trace_id = http.post("/traces", files={"file": ("kills.csv", histogram(5))}).json()["id"]
        ids, done = [], Counter[str]()
        for number in range(count):
            if number % 5 == 0:
                ids.append(sweep(http, trace_id, number, trials))
            part = dice.choice(list(PARTS))
            time.sleep(dice.uniform(0.2, 2.0))
            services.kill(part)
            done[part] += 1
        services.wait_ready()
        deadline_s = time.monotonic() + 120
        while time.monotonic() < deadline_s:
            found = [http.get(f"/sweeps/{sweep_id}").json() for sweep_id in ids]
            if all(each["state"] in ("complete", "failed") for each in found):
                break
            time.sleep(0.5)
        listed = [each["id"] for each in http.get("/sweeps", params={"limit": 500}).json()["items"]]
        numbers = [
            [trial["number"] for trial in http.get(f"/sweeps/{i}/trials", params={"limit": 1000}).json()["items"]]
            for i in ids
        ]
    return {
        "killed": dict(done),
        "sweeps": len(ids),
        "complete": sum(each["state"] == "complete" for each in found),
        "listed once": sorted(listed) == sorted(ids),
        "trials once": all(each == list(range(trials)) for each in numbers),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    asked = parser.parse_args()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CAPTUNE_DATA_DIR": folder, "CAPTUNE_API_PORT": str(port), "CAPTUNE_LEASE_S": "3"}
        services = Services(environment, f"http://127.0.0.1:{port}")
        for part in PARTS:
            services.start(part)
        services.wait_ready()
        try:
            killed = kills(services, asked.kills, trials=12)
            seen = crowd(services, asked.clients, asked.seconds)
            stored = httpx.get(f"{services.url}/api/v1/traces", params={"limit": 500}).json()["items"]
        finally:
            services.stop()
    report(asked, killed, seen, lost=len(set(seen.uploads) - {each["id"] for each in stored}))


def report(asked: argparse.Namespace, killed: dict[str, object], seen: Seen, lost: int) -> None:
    reads = sorted(seen.reads_ms)
    p95 = reads[int(0.95 * (len(reads) - 1))] if reads else float("nan")
    lines = [
        "# Reliability",
        "",
        f"Written by `python tests/reliability/run.py --kills {asked.kills} --clients {asked.clients} "
        f"--seconds {asked.seconds:g}` on SQLite, {os.cpu_count()} cores. `make reliability` runs it at full length.",
        "",
        f"- SIGKILL at random moments: {killed['killed']}; sweeps {killed['sweeps']}, complete {killed['complete']}; "
        f"each listed once: {killed['listed once']}; each trial once and in order: {killed['trials once']}.",
        f"- {asked.clients} clients for {asked.seconds:g} s: answers {dict(sorted(seen.statuses.items()))}, "
        f"p95 of {len(reads)} reads {p95:.0f} ms, {len(seen.uploads)} uploads acknowledged, {lost} lost.",
        "",
    ]
    (ROOT / "docs" / "reliability.md").write_text("\n".join(lines))
    sys.stdout.write("\n".join(lines))
    well = killed["complete"] == killed["sweeps"] and killed["listed once"] and killed["trials once"]
    sys.exit(0 if well and not lost and not any(status >= 500 for status in seen.statuses) else 1)


if __name__ == "__main__":
    main()
