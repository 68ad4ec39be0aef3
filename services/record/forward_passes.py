"""Recording forward-pass metrics from an engine's ZMQ socket (SGLang `--enable-forward-pass-metrics`)."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from typing import Any

from services.record.polling import Stop
from services.record.recorder import Recorder
from workloads.errors import BadInput, BadUsage, MissingExtra
from workloads.traces.forward_pass import FAMILIES, forward_pass, unpack, unpacker
from workloads.traces.step_record import RecordHead

WAIT_MS = 500


def subscribe(endpoint: str, recorder: Recorder, stop: Stop) -> None:
    """Record what `endpoint` publishes until told to stop.

    Raises:
        MissingExtra: pyzmq or msgpack is not installed.
        BadUsage: not an endpoint.
        BadInput: messages of another version.
    """
    try:
        zmq = importlib.import_module("zmq")
    except ImportError:
        raise MissingExtra.of("record", "Recording from a ZMQ socket") from None
    unpacker()  # names the extra before anything is waited for
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    try:
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise BadUsage(f"cannot connect to '{endpoint}': {error}", field="--zmq") from None
        passes = PassStream(endpoint, recorder)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        while not stop(0.0):
            if socket.poll(WAIT_MS):
                passes.take(socket.recv_multipart())
    finally:
        socket.close(linger=0)
        context.term()


class PassStream:
    """Multipart messages (topic, 8-byte big-endian number, msgpack) to rows; missing numbers are a gap."""

    def __init__(self, endpoint: str, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last: int | None = None
        self._last_s = time.time()
        recorder.head(RecordHead(endpoint, FAMILIES, ("requests", "tokens"), "census"))

    def take(self, frames: Sequence[bytes]) -> None:
        """One message; one of another shape is passed over."""
        if len(frames) != 3 or len(frames[1]) != 8:
            return
        number, now_s = int.from_bytes(frames[1], "big"), time.time()
        if self._last is not None and number != self._last + 1:
            missing = number - self._last - 1
            reason = f"{missing} messages were lost" if missing > 0 else "the engine started again"
            self._recorder.gap(self._last_s, now_s, reason)
        self._last, self._last_s = number, now_s
        self._recorder.rows(row | {"time_s": now_s} for row in self._rows(frames[2]))

    def _rows(self, payload: bytes) -> list[dict[str, Any]]:
        try:
            messages = list(unpack(unpacker(), payload))
        except BadInput:
            return []  # one damaged message is no reason to stop recording
        found = [forward_pass(message) for message in messages]
        rows = [one.row() for one in found if one is not None]
        return [row for row in rows if row["reason"] is None]
