"""What every engine knows about its capture lists: the interface behind `--engine name@version`.

An engine object is immutable and belongs to one version. Options are the engine's own argument names, parsed once
into a frozen dataclass; everything else is a pure function of (lists, options).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from packaging.version import Version

from tuner.dispatch import DispatchTable
from tuner.engines.facts import Facts
from tuner.engines.given import Given, sizes_in
from tuner.engines.kv import GraphMemory, KvTokens
from workloads.serving.limits import PolicyName, SchedulerLimits

Lists = Mapping[str, tuple[int, ...]]
"""list name -> sizes, increasing. Names are the engine's own: vLLM `capture`; SGLang `decode`, `prefill`;
TensorRT-LLM `decode`. The first of `Engine.list_names` is the one that decode steps use."""

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class SizeChange:
    """One size that will not be captured as asked.

    Attributes:
        requested: the size asked for; None where the engine adds one.
        effective: the size captured instead; None where it is dropped.
    """

    list_name: str
    requested: int | None
    effective: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Effective:
    """What an engine captures when asked for some lists.

    Attributes:
        families: graph family -> sizes captured, increasing.
        graphs: number of graphs over all families and variants.
        changes: every dropped, rounded or added size, with its reason.
        refused: the engine's reason for not starting with these lists; None where it starts.
    """

    families: Mapping[str, tuple[int, ...]]
    graphs: int
    changes: tuple[SizeChange, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One lint finding; `fix` is a ready value (a list, a flag) where there is one."""

    code: str
    message: str
    severity: Severity
    fix: Any = None


@dataclass(frozen=True, slots=True)
class AllowedSizes:
    """Which sizes a list may hold so that the engine captures them as asked.

    Attributes:
        largest: largest size that the engine keeps.
        multiple_of: every size must be a multiple of this.
        required: sizes that the engine adds anyway; they belong to every list.
        reachable: largest step size that the scheduler can produce in the list's decode family.
        max_length: most sizes the engine can hold; None is unlimited.
    """

    largest: int
    reachable: int
    multiple_of: int = 1
    required: tuple[int, ...] = ()
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """Paste-ready configuration.

    Attributes:
        text: what to paste (command-line arguments or a YAML fragment), with a header comment.
        files: file name -> content: arguments, environment, the engine's own file, Kubernetes, Helm and compose.
        watch: the counter or log line that shows it working, and how to go back.
        loss: what the engine cannot express, where the exported list is only the nearest one.
    """

    text: str
    watch: str
    files: Mapping[str, str] = field(default_factory=dict)
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where exported lists come from; printed in the header comment of every export."""

    recommendation_id: str | None = None
    digest: str | None = None
    created_at: str | None = None


class Engine(ABC):
    """One engine at one version. Implementations are stateless and safe to share between threads."""

    name: ClassVar[str]
    latest: ClassVar[str]  # newest version whose rules are known
    oldest: ClassVar[str]  # oldest version with option names known here
    list_names: ClassVar[tuple[str, ...]]
    list_families: ClassVar[Mapping[str, tuple[str, ...]]]  # list name -> graph families that it feeds
    decode_family: ClassVar[str] = "decode_full"
    policy: ClassVar[PolicyName]
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # list name -> arguments that carry it as sizes
    facts: ClassVar[Facts]  # flags by version, rules and traps; fills docs/engines.md

    def __init__(self, version: Version, notes: tuple[str, ...] = ()) -> None:
        self.version = version
        self.notes = notes  # e.g. "0.34.0 is not known here; answered with the rules of 0.33.0"

    @property
    def spec(self) -> str:
        return f"{self.name}@{self.version}"

    @abstractmethod
    def options(self, raw: Mapping[str, str]) -> Any:
        """Parse `--set` pairs into this engine's frozen options dataclass; absent ones take the engine's defaults.

        Raises:
            BadUsage: an unknown key, or a value that the engine would refuse.
        """

    @abstractmethod
    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        """Those of the options a log shows that `options` understands, by their canonical names."""

    @abstractmethod
    def default_lists(self, options: Any) -> Lists:
        """The lists the engine makes by itself with these options (before its final filter)."""

    @abstractmethod
    def effective(self, lists: Lists, options: Any) -> Effective:
        """The engine's own normalisation: what is captured when `lists` are asked for. Missing lists are defaults."""

    @abstractmethod
    def dispatch(self, effective: Effective, options: Any) -> DispatchTable:
        """How steps find their bucket among the captured families."""

    @abstractmethod
    def allowed(self, options: Any) -> AllowedSizes:
        """Constraints on the decode list."""

    @abstractmethod
    def limits(self, options: Any) -> SchedulerLimits:
        """Scheduler limits for the simulation."""

    @abstractmethod
    def lint(self, lists: Lists, options: Any) -> tuple[Problem, ...]:
        """Everything wrong or suspicious about asking this engine for these lists."""

    @abstractmethod
    def export(self, lists: Lists, options: Any, provenance: Provenance) -> Export:
        """Configuration that makes the engine capture exactly `effective(lists)`."""

    def step_tokens_per_request(self, options: Any) -> int:
        """Size units of one running request in a decode step: 1, or 1 + draft tokens where lists count tokens."""
        return 1

    def draft_tokens(self, options: Any) -> int:
        """Draft tokens that a decode step verifies of each request; 0 without speculation."""
        return self.step_tokens_per_request(options) - 1

    def attention_ranks(self, options: Any) -> int:
        """Data-parallel attention ranks of one engine instance; `limits` are those of one rank."""
        return 1

    def read_given(self, given: Given) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """Options this engine knows and the lists asked for, out of what somebody runs.

        Raises:
            BadUsage: sizes that are none.
        """
        lists: dict[str, tuple[int, ...]] = {}
        flat = given.flat()
        for list_name, names in self.list_arguments.items():
            for name in names:
                if name in given.arguments:
                    lists[list_name] = sizes_in(given.arguments[name], name)
                elif name in flat:
                    lists[list_name] = sizes_in((flat[name],), name)
        return self.known_options(flat), lists

    def reserved_mib(self, lists: Lists, options: Any, memory: GraphMemory | None = None) -> float | None:
        """MiB that this engine keeps away from the KV cache for these graphs, before it captures them.

        By the engine's own formula (SGLang: by largest size), or by its estimate from measured graphs (vLLM), which is
        None without `memory`. 0.0 where graphs are captured outside of the KV budget.
        """
        return 0.0

    def kv_tokens(self, lists: Lists, options: Any, memory: GraphMemory | None = None) -> KvTokens:
        """The KV cache that these lists leave, and whether a list moves it at all.

        Facts come from options: `gpu_memory_gib`, `weights_gib` and `kv_bytes_per_token` of one GPU, and the engine's
        own share (`gpu_memory_utilization`, `mem_fraction_static`, `free_gpu_memory_fraction`).
        """
        known: int | None = self.limits(options).kv_tokens
        return KvTokens(known, False, f"No rule of {self.name} is known here: its KV cache is taken as given.", "")
