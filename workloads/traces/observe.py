"""What an engine's output says of the engine, without any step in it: for audits, imports and probes of real engines.

Log readers use the same observers while they read, so there is one place that knows what an engine prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from workloads.errors import BadUsage
from workloads.traces.log_lines import candidate_lines, pieces
from workloads.traces.observer import Observer
from workloads.traces.records import EngineObservation
from workloads.traces.sglang_observer import SglangObserver
from workloads.traces.source import Source
from workloads.traces.trtllm_observer import TrtllmObserver
from workloads.traces.vllm_observer import VllmObserver

OBSERVERS: dict[str, Callable[[], Observer]] = {
    "sglang": SglangObserver,
    "vllm": VllmObserver,
    "tensorrt-llm": TrtllmObserver,
}


def observe_lines(lines: Iterable[str], engine: str) -> EngineObservation:
    """What start-up lines say of an engine.

    Args:
        engine: `sglang`, `vllm` or `tensorrt-llm`.

    Raises:
        BadUsage: no observer knows that engine's output.
    """
    observer = _observer(engine)
    wanted = [line for line in lines if any(needle in line for needle in observer.needles)]
    observer.see(pl.DataFrame({"text": wanted}, schema={"text": pl.String}))
    return observer.result()


def observe_file(path: Path, engine: str) -> EngineObservation:
    """What a log says of the engine that wrote it, with or without steps in it.

    Raises:
        BadInput: the file cannot be read as text.
        BadUsage: no observer knows that engine's output.
    """
    observer = _observer(engine)
    for first_line, data in pieces(Source(path)):
        observer.see(candidate_lines(data, first_line, observer.needles))
    return observer.result()


def _observer(engine: str) -> Observer:
    if engine not in OBSERVERS:
        raise BadUsage(f"the output of '{engine}' is not known; use one of {', '.join(OBSERVERS)}", field="engine")
    return OBSERVERS[engine]()
