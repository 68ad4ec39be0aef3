"""What users and operator get under a list: the KV cache that it leaves, and the service simulated with that.

Lists whose step sizes moved cannot be compared on mean step time: a list that admits more requests makes larger, slower
steps and serves more. They are compared here.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.case import Case
from tuner.engines.base import Lists
from tuner.engines.kv import KvTokens
from tuner.recommendation import Scorecard
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


@dataclass(frozen=True, slots=True)
class KvChange:
    """The KV cache under a tuned list and under the engine's default.

    Attributes:
        set_aside_mib: what the engine keeps away from the KV cache for the graphs of each, tuned first; None unknown.
        saved_mib: measured graph memory of the default minus that of the tuned list; None where unknown.
    """

    tuned: KvTokens
    default: KvTokens
    set_aside_mib: tuple[float | None, float | None]
    saved_mib: float | None

    @classmethod
    def of(cls, case: Case, tuned: Scorecard, default: Scorecard) -> KvChange:
        saved_mib = None
        if tuned.memory_mib is not None and default.memory_mib is not None:
            saved_mib = default.memory_mib - tuned.memory_mib
        aside = (case.set_aside_mib(tuned.lists), case.set_aside_mib(default.lists))
        return cls(case.kv(tuned.lists), case.kv(default.lists), aside, saved_mib)

    @property
    def moved(self) -> bool:
        """Whether the two lists leave different KV caches, as far as is known."""
        new, old = self.tuned.tokens, self.default.tokens
        return new is not None and old is not None and new != old

    @property
    def sentence(self) -> str:
        """What the list does to the KV cache, and the knob that would turn saved graph memory into it."""
        new, old = self.tuned.tokens, self.default.tokens
        if self.moved and new and old:
            return (
                f"KV cache: {new:,} tokens instead of {old:,} ({new / old - 1:+.1%}), followed into admission, "
                f"queueing and step sizes. {self.tuned.reason}"
            )
        mine, its = self.set_aside_mib
        if self.tuned.moves and new is None and mine != its:
            by = "" if mine is None or its is None else f": {mine:,.0f} MiB are kept from it instead of {its:,.0f}"
            return f"The KV cache may change with this list{by}; this was not simulated. {self.tuned.reason}"
        return f"The KV cache stays the same with this list. {self.tuned.reason}{self._knob()}"

    def _knob(self) -> str:
        if not self.tuned.knob:
            return ""
        if self.tuned.knob.startswith("nothing"):
            return f" There is {self.tuned.knob}."
        saved = "graph memory" if not self.saved_mib or self.saved_mib < 0 else f"the {self.saved_mib:.0f} MiB saved"
        return f" To turn {saved} into KV cache: {self.tuned.knob}."
