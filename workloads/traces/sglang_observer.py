"""What SGLang's start-up lines say: arguments, capture lists, capture cost, KV cache."""

from __future__ import annotations

import re

from workloads.traces.observer import Observer, option_of, sizes_of
from workloads.traces.records import EngineObservation

_OPTIONS = (
    *(
        "model_path",
        "quantization",
        "kv_cache_dtype",
        "max_running_requests",
        "chunked_prefill_size",
        "max_prefill_tokens",
        "tp_size",
        "dp_size",
        "pp_size",
    ),
    *("cuda_graph_max_bs", "cuda_graph_max_bs_decode", "cuda_graph_max_bs_prefill", "decode_log_interval"),
    *("enable_dp_attention", "speculative_algorithm", "speculative_num_draft_tokens", "disable_cuda_graph"),
    *("disable_cuda_graph_padding", "torch_compile_max_bs", "mem_fraction_static", "page_size"),
)
# `Capture cuda graph bs [..]` to 0.5.13; `Capture target decode CUDA graph begin. .. bs=[..]` from 0.5.14, on `end` in
# 0.5.23; prefill lines give `num_tokens=[..]`.
_OLD_LIST = re.compile(r"Capture cuda graph bs \[([\d, ]*)\]")
_NEW_LIST = re.compile(
    r"Capture (?:target )?(decode|verify|prefill) CUDA graph (?:begin|end)\..*?(?:bs|num_tokens)=\[([\d, ]*)\]"
)
_CONFIG_LIST = re.compile(r"\b(decode|prefill)=PhaseConfig\([^)]*?\bbs=\[([\d, ]*)\]")
_END = re.compile(
    r"(?:TP(?P<tp>\d+).*)?Capture (?P<phase>.*?) end\..*?(?:elapsed=|Time elapsed: )(?P<s>[\d.]*\d) s"
    r".*?mem usage=(?P<gb>-?[\d.]*\d) GB",
)
_PROGRESS = re.compile(r"Capturing batches \(bs=(\d{1,9})(?: avail_mem=(\d{1,6}(?:\.\d{1,6})?) ?GB)?")
_LEFT = re.compile(r"avail mem=(\d{1,6}(?:\.\d{1,6})?) ?GB")
_VERSION = re.compile(r"(?i)\bsglang(?:[ _-]?version)?['\"]?\s*[:=v ]\s*['\"]?v?(\d+\.\d+[\w.]*)")
_MIB_PER_GB = 1024.0  # SGLang divides bytes by 1 << 30 and prints GB.


class SglangObserver(Observer):
    needles = (
        *("server_args=", "Capture cuda graph", "CUDA graph", "Capture draft", "Capturing batches"),
        *("max_total_num_tokens=", "cuda_graph_config=", "sglang version", "sglang_version"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._start_over()

    def _start_over(self) -> None:
        self._lists: dict[str, tuple[int, ...]] = {}
        self._asked: dict[str, tuple[int, ...]] = {}
        self._progress: set[int] = set()
        self._free: list[tuple[int, float]] = []
        self._free_after: float | None = None
        self._options: dict[str, str] = {}
        self._captures: dict[tuple[str, str], tuple[float, float]] = {}
        self._kv_tokens: int | None = None
        self._version: str | None = None

    def line(self, text: str) -> None:
        if "server_args=" in text and self._captures:
            self._start_over()  # a restart within one log
        self._read_options(text)
        self._read_lists(text)
        if end := _END.search(text):
            self._captures[end["tp"] or "0", end["phase"]] = (float(end["s"]), float(end["gb"]))
            left = _LEFT.search(text, end.start("gb"))
            if left and self._free and self._free_after is None and (end["tp"] or "0") == "0":
                self._free_after = float(left.group(1))
        if version := _VERSION.search(text):
            self._version = version.group(1)

    def _read_options(self, text: str) -> None:
        if "server_args=" not in text and "max_total_num_tokens=" not in text:
            return
        for name in _OPTIONS:
            value = option_of(text, name)
            if value is not None:
                self._options[name] = value
        total = option_of(text, "max_total_num_tokens")
        if total is not None and total.isdecimal() and int(total) < 2**62:
            self._kv_tokens = int(total)

    def _read_lists(self, text: str) -> None:
        if old := _OLD_LIST.search(text):
            self._lists["decode"] = sizes_of(old.group(1))
        if new := _NEW_LIST.search(text):
            self._lists["prefill" if new.group(1) == "prefill" else "decode"] = sizes_of(new.group(2))
        for phase, sizes in _CONFIG_LIST.findall(text):
            self._asked[phase] = sizes_of(sizes)
        for name, phase in (("cuda_graph_bs", "decode"), ("cuda_graph_bs_decode", "decode")):
            value = option_of(text, name) if "server_args=" in text else None
            if value is not None and value.startswith("["):
                self._asked[phase] = sizes_of(value)
        for size, free_gb in _PROGRESS.findall(text):
            self._progress.add(int(size))
            self._read_free(int(size), free_gb)

    def _read_free(self, size: int, free_gb: str) -> None:
        """Free memory before each size of the first capture; a size that grows again is another capture."""
        if not free_gb or self._free_after is not None or (self._free and size > self._free[-1][0]):
            return
        if not self._free or size < self._free[-1][0]:
            self._free.append((size, float(free_gb)))

    def _memory_by_size(self) -> dict[int, float]:
        after = [free for _, free in self._free[1:]]
        after += [] if self._free_after is None else [self._free_after]
        return {
            size: round(_MIB_PER_GB * (free - left), 2) for (size, free), left in zip(self._free, after, strict=False)
        }

    def result(self) -> EngineObservation:
        lists = self._asked | self._lists
        if "decode" not in lists and self._progress:
            lists["decode"] = tuple(sorted(self._progress - {0}))
        ranks = {rank for rank, _ in self._captures}
        first = min(ranks, key=int, default="0")
        costs = [cost for (rank, _), cost in self._captures.items() if rank == first]
        return EngineObservation(
            engine="sglang",
            version=self._version,
            lists={name: sizes for name, sizes in lists.items() if sizes},
            options=self._options,
            capture_s=sum(seconds for seconds, _ in costs) if costs else None,
            graph_memory_mib=_MIB_PER_GB * sum(gb for _, gb in costs) if costs else None,
            kv_tokens=self._kv_tokens,
            memory_by_size_mib=self._memory_by_size(),
        )
