"""All readers, and which of them takes a file."""

from __future__ import annotations

from workloads.errors import BadUsage
from workloads.traces.azure import Azure2023, Azure2024, AzureMultimodal
from workloads.traces.base import Probe, Reader
from workloads.traces.bench_results import GuideLlm, SglangBench, VllmBench
from workloads.traces.forward_pass_file import ForwardPassFile
from workloads.traces.generic import GenericRequests
from workloads.traces.histogram_csv import HistogramCsv
from workloads.traces.mooncake import Bailian, Mooncake
from workloads.traces.otlp import OtlpGenAi
from workloads.traces.prometheus import PrometheusRange, PrometheusText
from workloads.traces.public_traces import AiBrix, BurstGpt, ServingSimSessions, Swissai, TraceLab
from workloads.traces.request_exports import AiPerf, SglangRequestLog, SglangRequestMetrics
from workloads.traces.servegen import ServeGen
from workloads.traces.serving_ticks import ServingTicks
from workloads.traces.sglang_log import SglangLog
from workloads.traces.source import Source
from workloads.traces.step_record import StepRecord
from workloads.traces.trtllm_log import TrtllmIterations
from workloads.traces.trtllm_stats import TrtllmStats
from workloads.traces.vllm_log import VllmBatchSizes, VllmGraphTable, VllmIterations, VllmStats

READERS: tuple[Reader, ...] = (
    Azure2023(),
    Azure2024(),
    AzureMultimodal(),
    BurstGpt(),
    Mooncake(),
    Bailian(),
    Swissai(),
    AiBrix(),
    TraceLab(),
    ServingSimSessions(),
    ServeGen(),
    SglangRequestMetrics(),
    SglangRequestLog(),
    VllmBench(),
    SglangBench(),
    AiPerf(),
    GuideLlm(),
    OtlpGenAi(),
    HistogramCsv(),
    GenericRequests(),
    StepRecord(),
    ServingTicks(),
    TrtllmStats(),
    PrometheusText(),
    PrometheusRange(),
    ForwardPassFile(),
    SglangLog(),
    VllmIterations(),
    TrtllmIterations(),
    VllmGraphTable(),
    VllmBatchSizes(),
    VllmStats(),
)

CERTAIN = 50
"""A table reader this sure has all its columns; no log reader is as sure."""


def reader_named(name: str) -> Reader:
    """The reader of a format.

    Raises:
        BadUsage: no such format; the message lists them.
    """
    for reader in READERS:
        if reader.name == name:
            return reader
    raise BadUsage(f"'{name}' is not a format; use one of {', '.join(r.name for r in READERS)}", field="format")


def probe(source: Source) -> Probe:
    """What the readers are shown of a file."""
    return Probe(source, [marker for reader in READERS for marker in reader.markers])


def recognise(probed: Probe) -> Reader:
    """The surest reader.

    Raises:
        BadInput: none knows the file, or two are equally sure.
    """
    readers = [reader for reader in READERS if not reader.markers]
    scores = [reader.recognise(probed) for reader in readers]
    if max(scores) < CERTAIN:  # only now are the lines searched for what engines log
        readers = list(READERS)
        scores = [reader.recognise(probed) for reader in readers]
    best = max(scores)
    if best == 0:
        raise _unknown(probed)
    chosen = [reader for reader, score in zip(readers, scores, strict=True) if score == best]
    if len(chosen) > 1:
        names = " or ".join(reader.name for reader in chosen)
        raise probed.source.bad(f"this could be {names}; say which with the format option")
    return chosen[0]


def _unknown(probed: Probe) -> Exception:
    source = probed.source
    if source.is_tar:
        return source.bad("this is an archive, and not one of ServeGen clients; unpack it and name one trace file")
    if probed.document is not None and probed.table is None:
        return probed.document.bad()
    first = next((line for line in source.head.splitlines() if line.strip()), "")
    if not first:
        return source.bad("the file has only blank lines")
    if not source.is_parquet and "�" in source.head:
        for _ in source.blocks():  # names the line that is not UTF-8
            break
    if probed.table is not None:
        listing = ", ".join(name[:40] for name in probed.table.names[:20])
        return source.bad(f"no known request or histogram columns; the file has {listing}", line=1)
    return source.bad(f"not a trace or log that Captune knows; it begins with {first[:60]!r}", line=1)
