"""Traces of requests, sweeps, trials and captures for OpenTelemetry; off, and free, unless an endpoint is named.

The variables are OpenTelemetry's own: OTEL_EXPORTER_OTLP_ENDPOINT switches it on and says where spans go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workloads.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_provider: TracerProvider | None = None


def start(service: str, processor: SpanProcessor | None = None) -> None:
    """Send spans of this process as service `captune-SERVICE`, where the environment asks for it.

    Args:
        processor: where spans go instead; switches tracing on by itself.

    Raises:
        MissingExtra: an endpoint is named, and the OpenTelemetry packages are not installed.
    """
    global _provider
    wanted = any(os.environ.get(name) for name in SWITCHES) and os.environ.get("OTEL_SDK_DISABLED") != "true"
    if processor is None and not wanted:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingExtra.of("otel", f"sending traces ({SWITCHES[0]} is set)") from None
    _provider = TracerProvider(resource=Resource.create({"service.name": f"captune-{service}"}))
    _provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))


def stop() -> None:
    """Send what is left, and trace no more."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
    _provider = None


@contextmanager
def span(
    name: str, attributes: Mapping[str, str | int | None], carrier: Mapping[str, str] | None = None
) -> Iterator[Span | None]:
    """A span around some work; None where tracing is off. What the work raises is recorded in it.

    Args:
        carrier: headers of a request, whose trace the span then belongs to.
    """
    if _provider is None:
        yield None
        return
    tracer = _provider.get_tracer("captune")
    with tracer.start_as_current_span(name, context=_parent(carrier), attributes=_known(attributes)) as current:
        yield current


def begin(name: str, attributes: Mapping[str, str | int | None], at_ns: int | None = None) -> Span | None:
    """A span that is ended by hand, below the current one: for work that others interrupt, as a generator is.

    Args:
        at_ns: when the work began, as `time.time_ns` tells it; now by default.
    """
    if _provider is None:
        return None
    return _provider.get_tracer("captune").start_span(name, attributes=_known(attributes), start_time=at_ns)


def _known(attributes: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {name: value for name, value in attributes.items() if value is not None}


def _parent(carrier: Mapping[str, str] | None) -> Context | None:
    if carrier is None:
        return None
    from opentelemetry.propagate import extract

    return extract(carrier)
