"""Live recording: a real HTTP server, a real growing file, real messages; what was missed is shown."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import zmq

from services.cli.main import run
from services.record.following import follow
from services.record.forward_passes import PassStream
from services.record.polling import poll
from services.record.recorder import Recorder
from tests.workloads.traces.step_examples import forward_message, scrape
from workloads.errors import BadUsage, Unavailable
from workloads.traces.read import read
from workloads.traces.records import StepTrace


class Engine:
    """Answers /metrics with what `text` says; 503 while it is None."""

    def __init__(self) -> None:
        self.text: str | None = scrape(8)
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if engine.text is not None else 503)
                self.end_headers()
                self.wfile.write((engine.text or "").encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    thread = threading.Thread(target=engine.server.serve_forever, daemon=True)
    thread.start()
    yield engine
    engine.server.shutdown()
    engine.server.server_close()
    thread.join()


def script(*actions: Callable[[], object]) -> Callable[[float], bool]:
    """A wait that does one thing each time it is asked to, then stops."""
    left = list(actions)

    def stop(_: float) -> bool:
        if not left:
            return True
        left.pop(0)()
        return False

    return stop


def steps_of(path: Path) -> StepTrace:
    traffic = read(path).traffic
    assert isinstance(traffic, StepTrace)
    return traffic


def test_scrapes_become_a_sample_and_a_silent_engine_a_gap(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "steps.jsonl"

    def says(text: str | None) -> Callable[[], None]:
        return lambda: setattr(engine, "text", text)

    with Recorder(out) as recorder:
        poll(engine.url, recorder, script(says(scrape(0)), says(None), says(None), says(scrape(9))), every_s=0.01)
    result = read(out)
    assert (result.format, steps_of(out).origin, steps_of(out).size.tolist()) == ("captune-steps", "sample", [8, 9])
    assert recorder.written.gaps == 1
    assert any(("1 gaps" in note and "503" in note) or "Service Unavailable" in note for note in result.notes)
    assert result.observation is not None
    assert result.observation.engine == "vllm"


def test_graph_pass_counters_are_recorded_as_steps(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "steps.jsonl"
    engine.text = scrape(8, passes=(100, 0))
    after = scrape(8, passes=(140, 3))
    with Recorder(out) as recorder:
        poll(engine.url, recorder, script(lambda: setattr(engine, "text", after)), every_s=0.01)
    steps = steps_of(out)
    assert (steps.origin, steps.steps.tolist(), steps.fallback.tolist()) == ("reconstruction", [40, 3], [0, 1])


def test_an_address_without_an_engine_is_refused_at_once(engine: Engine, tmp_path: Path) -> None:
    with Recorder(tmp_path / "a") as recorder:
        with pytest.raises(BadUsage, match="http"):
            poll("file:///etc/passwd", recorder, script())
        with pytest.raises(Unavailable):
            poll("http://127.0.0.1:1/metrics", recorder, script())
        engine.text = "up 1\n"
        with pytest.raises(BadUsage, match="no gauge"):
            poll(engine.url, recorder, script())


def line(second: int, running: int, rate: float = 800.0) -> str:
    return (
        f"[2026-01-01 10:00:{second:02d} TP0] Decode batch, #running-req: {running}, #token: 100, cuda graph: True, "
        f"gen throughput (token/s): {rate}, #queue-req: 0\n"
    )


def test_a_growing_log_is_followed_across_rotation_and_truncation(tmp_path: Path) -> None:
    log, out = tmp_path / "engine.log", tmp_path / "steps.jsonl"
    log.write_text("[2026-01-01 09:59:00 TP0] Capture cuda graph bs [1, 2, 4, 8]\n" + line(1, 8) + line(2, 8))

    def append(text: str) -> None:
        with log.open("a") as file:
            file.write(text)

    def rotate() -> None:
        append(line(4, 5))  # still to the old file, just before it is renamed
        os.rename(log, tmp_path / "engine.log.1")
        log.write_text(line(5, 6))

    with Recorder(out) as recorder:
        actions = (
            lambda: append(line(3, 8)[:40]),
            lambda: append(line(3, 8)[40:]),
            rotate,
            lambda: None,
            lambda: append("noise without steps that makes the file longer than what comes after it is cut\n" * 4),
            lambda: log.write_text(line(6, 7)),
            lambda: None,
        )
        follow(log, recorder, script(*actions))
    result, steps = read(out), steps_of(out)
    assert steps.size.tolist() == [8, 8, 8, 5, 6, 7]
    assert steps.step_ms[1] == steps.step_ms[2] == 10.0
    assert (steps.origin, steps.sample_every_steps) == ("sample", 40)
    assert any("1 gaps" in note and "cut" in note for note in result.notes)
    assert result.observation is not None
    assert result.observation.lists == {"decode": (1, 2, 4, 8)}


def test_following_reads_what_reading_the_finished_log_reads(tmp_path: Path) -> None:
    log, out = tmp_path / "engine.log", tmp_path / "steps.jsonl"
    text = "".join(line(i % 60, 4 + i % 3, 100.0 + i) for i in range(150))
    log.write_text("")

    def append(part: int) -> Callable[[], None]:
        def add() -> None:
            with log.open("a") as file:
                file.write(text[part * 700 : (part + 1) * 700])

        return add

    with Recorder(out) as recorder:
        follow(log, recorder, script(*(append(part) for part in range(len(text) // 700 + 1))))
    live, finished = steps_of(out), steps_of(log)
    assert live.size.tolist() == finished.size.tolist()
    assert live.step_ms == pytest.approx(finished.step_ms, nan_ok=True)


def test_forward_passes_are_recorded_and_lost_messages_are_a_gap(tmp_path: Path) -> None:
    out = tmp_path / "steps.jsonl"
    with Recorder(out) as recorder:
        stream = PassStream("ipc:///tmp/x", recorder)
        for number, size in ((1, 8), (2, 0), (5, 9)):
            stream.take([b"", number.to_bytes(8, "big"), forward_message(number, size)])
        stream.take([b"", (6).to_bytes(8, "big"), b"\xc1"])
        stream.take([b"not three frames"])
    assert steps_of(out).size.tolist() == [8, 9]
    assert steps_of(out).origin == "census"
    assert any("2 messages were lost" in note for note in read(out).notes)


def test_the_command_writes_a_file_that_every_command_reads(
    engine: Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "steps.jsonl"
    assert run(["record", "--url", engine.url, "--out", str(out), "--every", "0.05", "--for", "0.3", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["rows"] == len(steps_of(out)) >= 2
    assert run(["record", "--url", engine.url, "--out", str(out)]) == 2
    assert "exists" in capfd.readouterr().err
    assert run(["record", "--out", str(tmp_path / "b")]) == 2
    assert "exactly one" in capfd.readouterr().err
    assert run(["record", "--follow", str(tmp_path / "none.log"), "--out", str(tmp_path / "c")]) == 2
    assert not (tmp_path / "c").exists()


class Publisher:
    """An engine's socket: publishes once somebody listens, and ends the recording once all of it is on disk."""

    def __init__(self, messages: Sequence[Sequence[bytes]], out: Path, lines: int, number: int) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.XPUB)
        self.endpoint = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._thread = threading.Thread(target=self._publish, args=(messages, out, lines, number))
        self._thread.start()

    def _publish(self, messages: Sequence[Sequence[bytes]], out: Path, lines: int, number: int) -> None:
        if not self._socket.poll(20_000):
            return
        assert self._socket.recv() == b"\x01"  # subscribed to everything; the command's signal handlers stand by now
        for message in messages:
            self._socket.send_multipart(message)
        ends = time.monotonic() + 20
        while time.monotonic() < ends and out.read_text().count("\n") < lines:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    def close(self) -> None:
        self._thread.join()
        self._socket.close(linger=0)
        self._context.term()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_socket_is_recorded_until_a_signal_with_its_gap(
    number: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "steps.jsonl"
    sent = [(b"", n.to_bytes(8, "big"), forward_message(n, size)) for n, size in ((1, 8), (2, 16), (7, 9), (8, 0))]
    publisher = Publisher([*sent[:2], (b"", b"short", b""), *sent[2:]], out, 5, number)  # head, three rows, a gap
    try:
        assert run(["record", "--zmq", publisher.endpoint, "--out", str(out), "--json"]) == 0
    finally:
        publisher.close()
    document = json.loads(capfd.readouterr().out)
    assert (document["rows"], document["steps"], document["gaps"]) == (3, 3, 1)
    assert steps_of(out).size.tolist() == [8, 16, 9]
    assert any("4 messages were lost" in note for note in read(out).notes)


def test_an_endpoint_that_is_none_is_refused_and_leaves_no_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["record", "--zmq", "nonsense", "--out", str(tmp_path / "z")]) == 2
    assert "cannot connect to 'nonsense'" in capfd.readouterr().err
    assert not (tmp_path / "z").exists()


def test_without_pyzmq_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    assert run(["record", "--zmq", "tcp://127.0.0.1:1", "--out", str(tmp_path / "z")]) == 1
    told = capfd.readouterr().err.splitlines()[-1]
    assert told == "captune: Recording from a ZMQ socket needs the extra 'record': pip install 'captune[record]'"
    assert not (tmp_path / "z").exists()
