"""vLLM: one list in tokens that feeds PIECEWISE graphs for mixed steps and FULL graphs for uniform decode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes, Effective, Engine, Export, Lists, Problem, Provenance
from tuner.engines.facts import Facts
from tuner.engines.given import Given
from tuner.engines.kv import GraphMemory, KvTokens
from tuner.engines.memory_lint import memory_problems
from tuner.engines.options import known_options
from tuner.engines.sizes import check_names, requested, unique
from tuner.engines.vllm import export, importing, kv, ladder, lint, normalise
from tuner.engines.vllm.facts import FACTS
from tuner.engines.vllm.options import ALIASES, VllmOptions, parse
from workloads.errors import BadUsage
from workloads.serving.limits import PolicyName, SchedulerLimits


class Vllm(Engine):
    """vLLM 0.8.5 to 0.33.0; `facts` says what changed when."""

    name: ClassVar[str] = "vllm"
    latest: ClassVar[str] = "0.33.0"
    oldest: ClassVar[str] = "0.8.5"
    facts: ClassVar[Facts] = FACTS
    list_names: ClassVar[tuple[str, ...]] = ("capture",)
    list_families: ClassVar[Mapping[str, tuple[str, ...]]] = {"capture": ("decode_full", "decode_piecewise")}
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "capture": ("cuda_graph_sizes", "cudagraph_capture_sizes", *importing.LIST_PATHS)
    }
    policy: ClassVar[PolicyName] = "vllm"

    def options(self, raw: Mapping[str, str]) -> VllmOptions:
        return parse(raw, self.version)

    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        return known_options(VllmOptions, raw, ALIASES)

    def default_lists(self, options: VllmOptions) -> Lists:
        if options.mode == "NONE":
            return {"capture": ()}
        return {"capture": ladder.default_list(options, self.version)}

    def effective(self, lists: Lists, options: VllmOptions) -> Effective:
        check_names(lists, self.list_names, self.name)
        return normalise.effective(requested(lists, "capture"), options, self.version)

    def dispatch(self, effective: Effective, options: VllmOptions) -> DispatchTable:
        """FULL before PIECEWISE before eager (vLLM 0.33.0 `cudagraph_utils.py:380-400, 535-575`)."""
        full = effective.families.get("decode_full", ())
        every = effective.families.get("decode_piecewise", ())
        if options.mode == "FULL":
            every = full  # the same FULL graphs replay mixed steps
        rules = {
            "decode_full": FamilyDispatch(np.array(full, dtype=np.int64), otherwise="decode_piecewise"),
            "decode_piecewise": FamilyDispatch(np.array(every, dtype=np.int64)),
        }
        return DispatchTable(rules)

    def allowed(self, options: VllmOptions) -> AllowedSizes:
        """Sizes for decode steps; larger ones would serve mixed steps only.

        An explicit max_cudagraph_capture_size must be the last size, so it is required.
        """
        multiple = normalise.decode_multiple(options, self.version)
        top, explicit = options.top_decode_tokens, options.max_cudagraph_capture_size
        if explicit is None:
            return AllowedSizes(largest=top // multiple * multiple, reachable=top, multiple_of=multiple)
        largest = min(explicit, options.max_num_batched_tokens)
        required = (largest,) if largest % multiple == 0 else ()
        return AllowedSizes(largest, top, multiple, required)

    def limits(self, options: VllmOptions) -> SchedulerLimits:
        chunk = options.long_prefill_token_threshold or options.max_num_batched_tokens
        return SchedulerLimits(
            max_running_requests=options.max_num_seqs,
            token_budget=options.max_num_batched_tokens,
            chunked_prefill_tokens=min(chunk, options.max_num_batched_tokens),
            kv_tokens=options.kv_tokens,
        )

    def lint(self, lists: Lists, options: VllmOptions) -> tuple[Problem, ...]:
        check_names(lists, self.list_names, self.name)
        notes = [Problem("VERSION_NOTE", f"{note}.", "info") for note in self.notes]
        memory = memory_problems(self, lists, options, options.max_model_len)
        return (*memory, *lint.problems(lists, options, self.version), *notes)

    def export(self, lists: Lists, options: VllmOptions, provenance: Provenance) -> Export:
        """Arguments for `vllm serve`.

        Raises:
            BadUsage: vLLM refuses these lists, or this version would read them as something else.
        """
        check_names(lists, self.list_names, self.name)
        asked = requested(lists, "capture")
        if asked is not None and export.is_single_value_max(unique(asked), self.version):
            raise BadUsage(f"vLLM {self.version} reads a single size as a maximum; add a second size", field="capture")
        resolved = normalise.resolve(asked, options, self.version)
        if resolved.refused is not None:
            raise BadUsage(f"vLLM would not start with this list: {resolved.refused}", field="capture")
        return export.write(resolved.sizes, options, self.version, provenance, self.name, self.options)

    def step_tokens_per_request(self, options: Any) -> int:
        tokens: int = options.query_tokens
        return tokens

    def read_given(self, given: Given) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """Also the leaves of --compilation-config and --speculative-config."""
        raw, lists = super().read_given(given)
        return importing.options_of(raw, lists, given.flat(), self.known_options), lists

    def reserved_mib(self, lists: Lists, options: VllmOptions, memory: GraphMemory | None = None) -> float | None:
        """vLLM's estimate; 0 where the KV cache is fixed or this version does not estimate."""
        fixed = options.kv_tokens is not None or options.kv_cache_memory_bytes is not None
        if fixed or not kv.estimates(options, self.version):
            return 0.0
        return None if memory is None else kv.estimate_mib(self.effective(lists, options), options, memory)

    def kv_tokens(self, lists: Lists, options: VllmOptions, memory: GraphMemory | None = None) -> KvTokens:
        return kv.kv_tokens(self.effective(lists, options), options, self.version, memory)
