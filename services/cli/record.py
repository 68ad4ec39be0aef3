"""`captune record`: write a step trace from a running engine until stopped."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.context import output
from services.cli.options import Json
from services.cli.output import stderr_console
from services.record.following import follow as follow_log
from services.record.forward_passes import subscribe
from services.record.polling import Stop, poll
from services.record.recorder import Recorder
from workloads.errors import BadUsage


def record(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The step record to write; must not exist.")],
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Prometheus text of an engine.")] = None,
    follow: Annotated[
        Path | None, typer.Option("--follow", metavar="FILE", help="A growing engine log; rotation is followed.")
    ] = None,
    zmq: Annotated[
        str | None, typer.Option("--zmq", metavar="ENDPOINT", help="Forward-pass metrics of SGLang.")
    ] = None,
    every_s: Annotated[float, typer.Option("--every", metavar="S", min=0.05, help="Seconds between scrapes.")] = 5.0,
    for_s: Annotated[float | None, typer.Option("--for", metavar="S", min=0, help="Stop after S seconds.")] = None,
    as_json: Json = False,
) -> None:
    """Record steps of a running engine until Ctrl-C (or SIGTERM, or --for); the file reads like any trace."""
    if sum(source is not None for source in (url, follow, zmq)) != 1:
        raise BadUsage("takes exactly one of --url, --follow and --zmq")
    started = time.monotonic()
    with _stopping(for_s) as stop:
        try:
            with Recorder(out) as recorder:
                stderr_console().print(f"recording to {out}; Ctrl-C stops", markup=False)
                _run(recorder, stop, url, follow, zmq, every_s)
        finally:
            if out.exists() and not out.stat().st_size:
                out.unlink()  # nothing was seen: leave no empty file behind
    written = recorder.written
    document: dict[str, Any] = {
        "out": str(out) if out.exists() else None,
        "rows": written.rows,
        "steps": written.steps,
        "gaps": written.gaps,
        "gap_s": written.gap_s,
        "seconds": time.monotonic() - started,
    }
    output(as_json).emit(
        document,
        lambda console: console.print(
            f"{written.rows:,} rows ({written.steps:,} steps), {written.gaps} gaps of {written.gap_s:.1f} s: {out}",
            markup=False,
        ),
    )


def _run(recorder: Recorder, stop: Stop, url: str | None, follow: Path | None, zmq: str | None, every_s: float) -> None:
    if url is not None:
        poll(url, recorder, stop, every_s=every_s)
    elif follow is not None:
        follow_log(follow, recorder, stop)
    elif zmq is not None:
        subscribe(zmq, recorder, stop)


@contextmanager
def _stopping(for_s: float | None) -> Iterator[Stop]:
    """A wait that ends early on SIGINT and SIGTERM, and for good after `for_s` seconds."""
    told = threading.Event()
    ends = None if for_s is None else time.monotonic() + for_s

    def wait(seconds: float) -> bool:
        left = seconds if ends is None else min(seconds, ends - time.monotonic())
        return told.wait(max(left, 0.0)) or (ends is not None and time.monotonic() >= ends)

    before = {number: signal.signal(number, lambda *_: told.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
