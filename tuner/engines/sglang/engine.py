"""SGLang: a decode list in requests and a prefill list in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes, Effective, Engine, Export, Lists, Problem, Provenance
from tuner.engines.facts import Facts
from tuner.engines.given import Given
from tuner.engines.kv import GraphMemory, KvTokens
from tuner.engines.memory_lint import memory_problems
from tuner.engines.options import known_options
from tuner.engines.sglang import export, importing, kv, ladder, lint, normalise
from tuner.engines.sglang.alignment import decode_multiple, largest_usable
from tuner.engines.sglang.facts import FACTS, PADDING_FACTOR
from tuner.engines.sglang.options import ALIASES, SglangOptions, parse
from tuner.engines.sizes import check_names, requested
from workloads.errors import BadUsage
from workloads.serving.limits import PolicyName, SchedulerLimits


class Sglang(Engine):
    """SGLang 0.5.3 to 0.5.23; `facts` says what changed when.

    With speculation `decode_full` is the target's verify graph; its size still counts requests.
    """

    name: ClassVar[str] = "sglang"
    latest: ClassVar[str] = "0.5.23"
    oldest: ClassVar[str] = "0.5.3"
    facts: ClassVar[Facts] = FACTS
    list_names: ClassVar[tuple[str, ...]] = ("decode", "prefill")
    list_families: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "decode": ("decode_full", "target_verify", "draft", "draft_extend"),
        "prefill": ("prefill_breakable",),
    }
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = importing.LIST_ARGUMENTS
    policy: ClassVar[PolicyName] = "sglang"

    def options(self, raw: Mapping[str, str]) -> SglangOptions:
        return parse(raw, self.version)

    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        return known_options(SglangOptions, raw, ALIASES)

    def default_lists(self, options: SglangOptions) -> Lists:
        prefill_off = options.prefill_off is not None or not options.enable_piecewise_cuda_graph
        return {
            "decode": () if options.decode_off else ladder.default_decode(options, self.version),
            "prefill": () if prefill_off else ladder.default_prefill(options, self.version),
        }

    def effective(self, lists: Lists, options: SglangOptions) -> Effective:
        check_names(lists, self.list_names, self.name)
        return normalise.effective(requested(lists, "decode"), requested(lists, "prefill"), options, self.version)

    def dispatch(self, effective: Effective, options: SglangOptions) -> DispatchTable:
        """Smallest bucket that is large enough; prefill gives up beyond twice the step, no padding means exact only."""
        rules: dict[str, FamilyDispatch] = {}
        for family, sizes in effective.families.items():
            buckets = np.array(sizes, dtype=np.int64)
            if family.startswith("prefill"):
                factor = float(lint.PADDING_FACTOR) if PADDING_FACTOR.holds(self.version) else None
                rules[family] = FamilyDispatch(buckets, max_padding_factor=factor)
            else:
                rules[family] = FamilyDispatch(buckets, exact_only=options.disable_cuda_graph_padding)
        if "decode_full" in rules:
            rules["target_verify"] = rules["decode_full"]
        return DispatchTable(rules)

    def allowed(self, options: SglangOptions) -> AllowedSizes:
        """Decode sizes of one attention-DP rank. Nothing is added to a list that stays within the request pool."""
        return AllowedSizes(
            largest=largest_usable(options, self.version),
            reachable=options.pool_requests,
            multiple_of=decode_multiple(options, self.version),
        )

    def limits(self, options: SglangOptions) -> SchedulerLimits:
        chunk = options.chunked_prefill_size
        return SchedulerLimits(
            max_running_requests=options.pool_requests,
            token_budget=options.max_prefill_tokens,
            chunked_prefill_tokens=None if chunk == -1 else chunk,
            kv_tokens=options.max_total_tokens,
        )

    def lint(self, lists: Lists, options: SglangOptions) -> tuple[Problem, ...]:
        check_names(lists, self.list_names, self.name)
        notes = [Problem("VERSION_NOTE", f"{note}.", "info") for note in self.notes]
        memory = memory_problems(self, lists, options, options.context_length)
        return (*memory, *lint.problems(lists, options, self.version), *notes)

    def export(self, lists: Lists, options: SglangOptions, provenance: Provenance) -> Export:
        """Arguments for `sglang.launch_server`; lists that are not given stay with the engine.

        Raises:
            BadUsage: SGLang refuses these lists, or this version has no flag for them.
        """
        check_names(lists, self.list_names, self.name)
        outcome = self.effective(lists, options)
        if outcome.refused is not None:
            raise BadUsage(f"SGLang would not start with this list: {outcome.refused}", field="decode")
        captured = {
            "decode": outcome.families.get("decode_full", ()),
            "prefill": outcome.families.get("prefill_breakable", ()),
        }
        asked = {name: captured[name] for name in self.list_names if name in lists}
        return export.write(asked or {"decode": captured["decode"]}, options, self.version, provenance)

    def draft_tokens(self, options: SglangOptions) -> int:
        return options.verify_tokens - 1

    def attention_ranks(self, options: SglangOptions) -> int:
        return options.attention_dp

    def read_given(self, given: Given) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """Also phases that are switched off, and the maxima and backends of --cuda-graph-config."""
        raw, lists = super().read_given(given)
        return importing.options_of(raw, lists, given.flat())

    def reserved_mib(self, lists: Lists, options: SglangOptions, memory: GraphMemory | None = None) -> float | None:
        """By SGLang's own formula; 0 where mem_fraction_static fixes the KV cache, or where capture comes first."""
        if options.mem_fraction_static is not None or options.max_total_tokens is not None:
            return 0.0
        if options.post_capture_kv_sizing:
            return self._captured_mib(lists, options, memory)
        return kv.reserved_mib(lists, options, self.version)

    def kv_tokens(self, lists: Lists, options: SglangOptions, memory: GraphMemory | None = None) -> KvTokens:
        check_names(lists, self.list_names, self.name)
        return kv.kv_tokens(lists, options, self.version, self._captured_mib(lists, options, memory))

    def _captured_mib(self, lists: Lists, options: SglangOptions, memory: GraphMemory | None) -> float | None:
        if memory is None:
            return None
        effective = self.effective(lists, options)
        return memory.total_mib(effective.families, effective.graphs)
