"""TensorRT-LLM (PyTorch backend): batch sizes for generation-only steps, tokens for prefill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tuner.dispatch import DispatchTable, FamilyDispatch
from tuner.engines.base import AllowedSizes, Effective, Engine, Export, Lists, Problem, Provenance
from tuner.engines.facts import Facts
from tuner.engines.given import Given
from tuner.engines.kv import GraphMemory, KvTokens
from tuner.engines.memory_lint import memory_problems
from tuner.engines.options import known_options
from tuner.engines.sizes import check_names, requested
from tuner.engines.tensorrt_llm import export, kv, ladder, lint, normalise
from tuner.engines.tensorrt_llm.facts import FACTS
from tuner.engines.tensorrt_llm.options import ALIASES, TensorrtLlmOptions, parse
from workloads.errors import BadUsage
from workloads.serving.limits import PolicyName, SchedulerLimits


class TensorrtLlm(Engine):
    """Rules of TensorRT-LLM 1.3. Its in-flight batching mixes prefill and decode as vLLM's scheduler does."""

    name: ClassVar[str] = "tensorrt-llm"
    latest: ClassVar[str] = "1.3"
    oldest: ClassVar[str] = "1.0"
    facts: ClassVar[Facts] = FACTS
    list_names: ClassVar[tuple[str, ...]] = ("decode", "prefill")
    list_families: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "decode": ("decode_full",),
        "prefill": ("prefill_piecewise",),
    }
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "decode": ("cuda_graph_config.batch_sizes",),
        "prefill": ("prefill_capture_num_tokens", "torch_compile_config.capture_num_tokens"),
    }
    policy: ClassVar[PolicyName] = "vllm"

    def options(self, raw: Mapping[str, str]) -> TensorrtLlmOptions:
        return parse(raw)

    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        return known_options(TensorrtLlmOptions, raw, ALIASES)

    def default_lists(self, options: TensorrtLlmOptions) -> Lists:
        made = ladder.default_list(options.cuda_graph_max_batch_size, options.enable_padding, self.version)
        return {"decode": made, "prefill": ()}

    def effective(self, lists: Lists, options: TensorrtLlmOptions) -> Effective:
        check_names(lists, self.list_names, self.name)
        decode, prefill = requested(lists, "decode"), requested(lists, "prefill")
        return normalise.effective(decode, prefill, options, self.version)

    def dispatch(self, effective: Effective, options: TensorrtLlmOptions) -> DispatchTable:
        """Smallest size that is large enough; without padding only exact sizes replay."""
        sizes = np.array(effective.families.get("decode_full", ()), dtype=np.int64)
        prefill = np.array(effective.families.get("prefill_piecewise", ()), dtype=np.int64)
        rules = {"decode_full": FamilyDispatch(sizes, exact_only=not options.enable_padding)}
        return DispatchTable({**rules, "prefill_piecewise": FamilyDispatch(prefill)})

    def allowed(self, options: TensorrtLlmOptions) -> AllowedSizes:
        """Batch sizes up to L. AutoDeploy, or an explicit maximum, needs its largest size in the list."""
        explicit = options.cuda_graph_max_batch_size
        if explicit is not None and explicit <= options.largest:
            return AllowedSizes(explicit, options.largest, required=(explicit,))
        required = (options.largest,) if options.backend == "_autodeploy" else ()
        return AllowedSizes(options.largest, options.largest, required=required)

    def limits(self, options: TensorrtLlmOptions) -> SchedulerLimits:
        return SchedulerLimits(
            max_running_requests=options.largest,
            token_budget=options.max_num_tokens,
            chunked_prefill_tokens=options.max_num_tokens if options.enable_chunked_prefill else None,
            kv_tokens=options.max_tokens,
        )

    def draft_tokens(self, options: TensorrtLlmOptions) -> int:
        return options.max_draft_len

    def lint(self, lists: Lists, options: TensorrtLlmOptions) -> tuple[Problem, ...]:
        check_names(lists, self.list_names, self.name)
        notes = [Problem("VERSION_NOTE", f"{note}.", "info") for note in self.notes]
        memory = memory_problems(self, lists, options, options.max_seq_len)
        return (*memory, *lint.problems(lists, options, self.version), *notes)

    def export(self, lists: Lists, options: TensorrtLlmOptions, provenance: Provenance) -> Export:
        """A YAML file for `trtllm-serve --config`. It always turns padding on.

        Raises:
            BadUsage: TensorRT-LLM refuses these lists.
        """
        padded = replace(options, enable_padding=True)
        outcome = self.effective(lists, padded)
        if outcome.refused is not None:
            raise BadUsage(f"TensorRT-LLM would not start with this list: {outcome.refused}", field="decode")
        prefill = outcome.families.get("prefill_piecewise", ()) if "prefill" in lists else None
        return export.write(outcome.families["decode_full"], prefill, padded, self.version, provenance)

    def read_given(self, given: Given) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """A cuda_graph_config without enable_padding has none: that is the field's default."""
        raw, lists = super().read_given(given)
        if any(name.startswith("cuda_graph_config.") for name in given.flat()):
            raw.setdefault("enable_padding", "false")
        return raw, lists

    def reserved_mib(
        self, lists: Lists, options: TensorrtLlmOptions, memory: GraphMemory | None = None
    ) -> float | None:
        """What the trial run captures: all of it."""
        if memory is None:
            return None
        effective = self.effective(lists, options)
        return memory.total_mib(effective.families, effective.graphs)

    def kv_tokens(self, lists: Lists, options: TensorrtLlmOptions, memory: GraphMemory | None = None) -> KvTokens:
        return kv.kv_tokens(options, self.reserved_mib(lists, options, memory))
