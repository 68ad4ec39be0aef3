"""What vLLM's start-up lines say: version, arguments, capture list and mode, capture cost, KV cache."""

from __future__ import annotations

import re

from workloads.traces.observer import Observer, option_of, sizes_of
from workloads.traces.records import EngineObservation

_OPTIONS = (
    *("max_num_seqs", "max_num_batched_tokens", "max_model_len", "tensor_parallel_size", "data_parallel_size"),
    *(
        "model",
        "quantization",
        "kv_cache_dtype",
        "num_speculative_tokens",
        "enforce_eager",
        "performance_mode",
        "max_cudagraph_capture_size",
    ),
)
_LIST = re.compile(r"(?:Capture sizes:|cudagraph_capture_sizes['\"]?\s*[:=])\s*\[([\d, ]*)\]")
_MODE = re.compile(r"(?:- Mode: |cudagraph_mode['\"]?: <CUDAGraphMode\.)(\w+)")
_CAPTURED = re.compile(r"Graph capturing finished in ([\d.]*\d) secs(?:, took (-?[\d.]*\d) (GiB|MiB))?")
# The last line of a progress bar has the mean rate of all of it.
_BAR = r"Capturing CUDA graphs(?: \(([^)]{1,60})\))?: 100%[^\r\n\[]{0,80}"
_RECORDED = re.compile(_BAR + r" (\d{1,6})/\2 \[[^\],]{1,20}, +([\d.]*\d)(it/s|s/it)")
_SET_UP = re.compile(r"init engine \([^)]*\) took ([\d.]*\d) s(?:econds)? \(compilation: ([\d.]*\d) s")
_KV = re.compile(r"GPU KV cache size: ([\d,]{1,20}) tokens")
_VERSION = re.compile(r"(?:API server version|LLM engine \(v|vLLM version|\bversion) ?v?(\d+\.\d+[\w.+]*)")


class VllmObserver(Observer):
    needles = (
        *("Capture sizes:", "cudagraph_capture_sizes", "- Mode:", "Graph capturing finished", "GPU KV cache size:"),
        *("non-default args", "LLM engine (v", "API server version", "max_num_batched_tokens", "max_num_seqs"),
        *("Engine 001", "init engine (", "Capturing CUDA graphs"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._sizes: tuple[int, ...] = ()
        self._options: dict[str, str] = {}
        self._version: str | None = None
        self._capture_s: float | None = None
        self._memory_mib: float | None = None
        self._kv_tokens: int | None = None
        self._setup_s: float | None = None
        self._recorded_s: dict[str, float] = {}
        self.several_engines = False

    def line(self, text: str) -> None:
        if found := _LIST.search(text):
            self._sizes = sizes_of(found.group(1)) or self._sizes
        if mode := _MODE.search(text):
            self._options["cudagraph_mode"] = mode.group(1)
        # Model runner V2 prints this for its profiling capture too; the last one is real.
        if captured := _CAPTURED.search(text):
            self._capture_s = float(captured.group(1))
            amount = captured.group(2)
            self._memory_mib = float(amount) * (1024 if captured.group(3) == "GiB" else 1) if amount else None
        for bar in _RECORDED.finditer(text):
            done, rate = int(bar.group(2)), float(bar.group(3))
            if rate > 0:
                self._recorded_s[bar.group(1) or ""] = done / rate if bar.group(4) == "it/s" else done * rate
        if cache := _KV.search(text):
            tokens = cache.group(1).replace(",", "")
            self._kv_tokens = int(tokens) if tokens else self._kv_tokens
        if set_up := _SET_UP.search(text):
            self._setup_s = round(float(set_up.group(1)) - float(set_up.group(2)), 3)
        if version := _VERSION.search(text):
            self._version = version.group(1)
        self.several_engines |= "Engine 001" in text
        if "=" in text or "args" in text or "config" in text:
            for name in _OPTIONS:
                value = option_of(text, name)
                if value is not None:
                    self._options[name] = value

    def notes(self) -> tuple[str, ...]:
        """A table of graph statistics does not say which engine of a data-parallel group it counts."""
        if not self.several_engines:
            return ()
        return ("several engines write to this log; a line that does not name its engine may be of any of them",)

    def result(self) -> EngineObservation:
        return EngineObservation(
            engine="vllm",
            version=self._version,
            lists={"capture": self._sizes} if self._sizes else {},
            options=self._options,
            capture_s=self._capture_s,
            graph_memory_mib=self._memory_mib,
            kv_tokens=self._kv_tokens,
            setup_s=self._setup_s,
            recording_s=round(sum(self._recorded_s.values()), 3) if self._recorded_s else None,
        )
