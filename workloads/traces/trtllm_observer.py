"""What TensorRT-LLM's start-up lines say: version, arguments, batch sizes, KV cache."""

from __future__ import annotations

import re

from workloads.traces.observer import Observer, option_of, sizes_of
from workloads.traces.records import EngineObservation

_OPTIONS = (
    *("max_batch_size", "max_num_tokens", "max_seq_len", "tensor_parallel_size", "tp_size", "enable_attention_dp"),
    *("enable_padding", "enable_chunked_prefill", "max_draft_len", "disable_overlap_scheduler"),
)
_LIST = re.compile(r"(?:cuda_graph_batch_sizes|\bbatch_sizes)['\"]?\s*[:=]\s*\[([\d, ]*)\]")
_WARMED = re.compile(r"(?i)CUDA graph warmup for batch size\s*=\s*(\d{1,9})")
_KV = re.compile(r"max tokens in paged KV cache \((\d{1,15})\)")
_VERSION = re.compile(r"TensorRT[- ]LLM version:?\s*v?(\d+\.\d+[\w.]*)")


class TrtllmObserver(Observer):
    needles = (
        *("cuda_graph_config", "batch_sizes", "CUDA graph warmup", "paged KV cache", "TensorRT-LLM version"),
        *("TensorRT LLM version", "max_batch_size", "enable_attention_dp"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[int, ...] = ()
        self._warmed: set[int] = set()
        self._options: dict[str, str] = {}
        self._version: str | None = None
        self._kv_tokens: int | None = None

    def line(self, text: str) -> None:
        if found := _LIST.search(text):
            self._asked = sizes_of(found.group(1)) or self._asked
        if warmed := _WARMED.search(text):
            self._warmed.add(int(warmed.group(1)))
        if cache := _KV.search(text):
            self._kv_tokens = int(cache.group(1))
        if version := _VERSION.search(text):
            self._version = version.group(1)
        for name in _OPTIONS:
            value = option_of(text, name)
            if value is not None:
                self._options[name] = value

    def result(self) -> EngineObservation:
        sizes = tuple(sorted(self._warmed - {0})) or self._asked
        return EngineObservation(
            engine="tensorrt-llm",
            version=self._version,
            lists={"decode": sizes} if sizes else {},
            options=self._options,
            kv_tokens=self._kv_tokens,
        )
