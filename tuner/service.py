"""What users and operator get under a list: the KV cache that it leaves, and the service simulated with that.

Lists whose step sizes moved cannot be compared on mean step time: a list that admits more requests makes larger, slower
steps and serves more. They are compared here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.engines.kv import KvTokens
from tuner.traffic import limits_of
from workloads.serving.capacity import mean_request
from workloads.serving.report import ServingReport
from workloads.traces.records import RequestTrace


@dataclass(frozen=True, slots=True)
class Service:
    """One list in service.

    Attributes:
        kv: the engine's rule for this list; `kv.tokens` is None where a fact is missing.
        kv_tokens: KV cache that the simulation ran with; None is unlimited.
        admitted_requests: requests of mean length that run at once at most, by KV cache and scheduler.
        report: of the simulation under this list.
    """

    kv: KvTokens
    kv_tokens: int | None
    admitted_requests: int
    report: ServingReport


def service_of(case: Case, trace: RequestTrace, lists: Lists, report: ServingReport) -> Service:
    """`report` is that of the trace under `lists`."""
    limits = limits_of(case.engine, case.options, case.serving, case.profile, lists)
    held = mean_request(trace.input_tokens, trace.output_tokens).reserved_tokens
    admitted = limits.max_running_requests
    if limits.kv_tokens is not None and held > 0:
        admitted = min(admitted, int(limits.kv_tokens / held))
    return Service(case.kv(lists), limits.kv_tokens, admitted, report)


def kv_moved(tuned: KvTokens, default: KvTokens) -> bool:
    """Whether the two lists leave different KV caches, as far as is known."""
    return tuned.tokens is not None and default.tokens is not None and tuned.tokens != default.tokens


def kv_sentence(tuned: KvTokens, default: KvTokens, saved_mib: float | None) -> str:
    """What the list does to the KV cache, and the knob that would turn saved graph memory into it.

    Args:
        saved_mib: graph memory of the default minus that of the tuned list; None where unknown.
    """
    if kv_moved(tuned, default) and tuned.tokens and default.tokens:
        change = tuned.tokens / default.tokens - 1.0
        return (
            f"KV cache: {tuned.tokens:,} tokens instead of {default.tokens:,} ({change:+.1%}), followed into "
            f"admission, queueing and step sizes. {tuned.reason}"
        )
    saved = (
        "graph memory" if saved_mib is None or saved_mib <= 0 else f"the {saved_mib:.0f} MiB of graphs that it saves"
    )
    knob = f" To turn {saved} into KV cache: {tuned.knob}." if tuned.knob else ""
    if tuned.moves and tuned.tokens is None:
        return f"The KV cache may change with this list, which was not simulated. {tuned.reason}{knob}"
    return f"The KV cache stays the same with this list. {tuned.reason}{knob}"
