"""What clients do while services are killed: sweeps, uploads, and notes of everything that was acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx

from tests.reliability.processes import House

TRIALS = 12
MODEL = "tiny-llama"
ENDED = ("complete", "failed", "cancelled")
PATIENCE_S = 120.0


def histogram(seed: int) -> bytes:
    """A small upload that differs by its seed."""
    rows = (f"{size},{(seed * size) % 9973 + 1}\n" for size in range(1, 65))
    return ("size,count\n" + "".join(rows)).encode()


def patiently(ask: Any, *arguments: Any, **named: Any) -> httpx.Response:
    """Ask again while the services are down: a key makes that safe for what creates something.

    Raises:
        TimeoutError: no answer below 500 in `PATIENCE_S`.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            answer: httpx.Response = ask(*arguments, **named)
            if answer.status_code < 500 and answer.status_code != 429:
                return answer
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise TimeoutError(f"no answer to {arguments[0]} in {PATIENCE_S:g} s")


class Book:
    """What the services acknowledged. Two threads keep asking while somebody kills; `end` joins them."""

    def __init__(self, house: House) -> None:
        self.uploads: list[str] = []
        self.modelled: list[str] = []
        self.measured: list[str] = []
        self.trials: dict[str, dict[int, Any]] = {}
        self.contradictions: list[str] = []
        self.unanswered: list[str] = []
        self._http = house.client()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._upload, daemon=True),
            threading.Thread(target=self._watch, daemon=True),
        ]
        self.trace_id = str(upload(self._http, 1).json()["id"])
        self.uploads.append(self.trace_id)

    @property
    def sweeps(self) -> list[str]:
        return [*self.modelled, *self.measured]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Nobody asks by himself any more."""
        self._done.set()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        self._http.close()

    def queue(self, *, measured: bool = False, trials: int = TRIALS) -> str:
        """One more sweep: modelled ones are all alike, so that their results can be compared."""
        body: dict[str, Any] = {"trace_id": self.trace_id, "engine": "vllm@0.33.0", "trials": trials, "seed": 7}
        body["options"] = {"max_num_seqs": "32" if measured else "64"}
        body["profile"] = "measure" if measured else "h200-qwen3-0.6b"
        if measured:
            body |= {"model": MODEL, "worker": {"device": "cpu"}}
        key = {"Idempotency-Key": f"sweep-{len(self.sweeps)}"}
        answer = patiently(self._http.post, "/sweeps", json=body, headers=key)
        answer.raise_for_status()
        (self.measured if measured else self.modelled).append(str(answer.json()["id"]))
        return str(answer.json()["id"])

    def state(self, sweep_id: str) -> dict[str, Any]:
        return dict(patiently(self._http.get, f"/sweeps/{sweep_id}").json())

    def wait_ended(self, sweep_ids: list[str], limit_s: float) -> dict[str, dict[str, Any]]:
        """The sweeps as they stand when all have ended, or after `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while True:
            found = {each: self.state(each) for each in sweep_ids}
            if all(each["state"] in ENDED for each in found.values()) or time.monotonic() > deadline_s:
                return found
            time.sleep(0.3)

    def wait_complete(self, sweep_id: str, limit_s: float) -> dict[str, Any]:
        """A sweep that nobody disturbs, when it has ended.

        Raises:
            RuntimeError: it has not ended well.
        """
        found = self.wait_ended([sweep_id], limit_s)[sweep_id]
        if found["state"] != "complete":
            raise RuntimeError(f"a sweep that nobody disturbed is {found['state']}: {found['error']}")
        return found

    def recommendation(self, sweep_id: str) -> dict[str, Any]:
        """What a sweep recommends, without what differs between two runs of the same: identity and seconds taken."""
        result = self.state(sweep_id)["recommendation_id"]
        document = patiently(self._http.get, f"/recommendations/{result}").json()
        for name in ("id", "sweep_id", "created_at"):
            document.pop(name)
        document["evidence"]["solver"].pop("solve_ms", None)
        return dict(document)

    def look_at_trials(self, sweep_id: str) -> None:
        """Note the trials that a sweep has; one that was seen before must be there still, unchanged."""
        items = patiently(self._http.get, f"/sweeps/{sweep_id}/trials", params={"limit": 1000}).json()["items"]
        numbers = [trial["number"] for trial in items]
        if numbers != list(range(len(numbers))):
            self.contradictions.append(f"sweep {sweep_id} lists trials {numbers}")
        now = {trial["number"]: trial for trial in items}
        for number, trial in self.trials.get(sweep_id, {}).items():
            if now.get(number) != trial:
                self.contradictions.append(f"sweep {sweep_id}: trial {number} was seen, and is gone or another one")
        self.trials[sweep_id] = now

    def _upload(self) -> None:
        seed = 1
        while not self._done.wait(1.0):
            seed += 1
            try:
                answer = upload(self._http, seed)
            except TimeoutError as error:
                self.unanswered.append(str(error))
                continue
            if answer.status_code == 201:
                self.uploads.append(str(answer.json()["id"]))
            else:
                self.contradictions.append(f"an upload was answered by {answer.status_code}: {answer.text[:200]}")

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            for sweep_id in self.sweeps:
                try:
                    self.look_at_trials(sweep_id)
                except TimeoutError as error:
                    self.unanswered.append(str(error))


def upload(http: httpx.Client, seed: int) -> httpx.Response:
    """Hand in a histogram until it is acknowledged or refused."""
    files = {"file": (f"{seed}.csv", histogram(seed))}
    return patiently(http.post, "/traces", files=files, headers={"Idempotency-Key": f"upload-{seed}"})


def listed(http: httpx.Client, path: str) -> list[str]:
    """Ids in a list, over all of its pages."""
    ids: list[str] = []
    after: Mapping[str, str] = {}
    while True:
        page = patiently(http.get, path, params={"limit": 500, **after}).json()
        ids += [str(item["id"]) for item in page["items"]]
        if page["next_after"] is None:
            return ids
        after = {"after": page["next_after"]}


def differences(one: Any, two: Any, path: str = "") -> list[str]:
    """Where two documents differ, with both values."""
    if isinstance(one, dict) and isinstance(two, dict):
        keys = sorted({*one, *two})
        return [text for key in keys for text in differences(one.get(key), two.get(key), f"{path}.{key}")]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        pairs = enumerate(zip(one, two, strict=True))
        return [text for at, (left, right) in pairs for text in differences(left, right, f"{path}[{at}]")]
    return [] if one == two else [f"{path}: {one!r} and {two!r}"]
