"""As much of vLLM's Python interface as the probe uses; a step takes as long as STUB says."""

from __future__ import annotations

import json
import os
import sys
import time
from bisect import bisect_left
from types import SimpleNamespace
from typing import Any

STUB = {"base_ms": 1.0, "row_ms": 0.5} | json.loads(os.environ.get("STUB", "{}"))


class SamplingParams:
    def __init__(self, max_tokens: int, ignore_eos: bool, temperature: float, detokenize: bool, **more: Any) -> None:
        assert ignore_eos and not detokenize
        self.max_tokens = max_tokens


class LLM:
    def __init__(self, model: str, skip_tokenizer_init: bool, compilation_config: dict[str, Any], **more: Any) -> None:
        self.sizes = compilation_config["cudagraph_capture_sizes"]
        if not self.sizes:
            raise AssertionError("cudagraph_capture_sizes should contain at least one element when using cuda graph.")
        print(f"INFO 11-30 12:00:00 [core.py:114] Initializing a V1 LLM engine (v0.23.0) with config: model='{model}', "
              f"compilation_config={{'cudagraph_capture_sizes': {self.sizes}}}")  # fmt: skip
        print("INFO 11-30 12:00:00 [kv_cache_utils.py:1744] GPU KV cache size: 547,824 tokens", flush=True)
        print("INFO 11-30 12:00:00 [gpu_model_runner.py:1] Graph capturing finished in 2 secs, took 0.50 GiB",
              file=sys.stderr)  # fmt: skip
        self.llm_engine = self
        self.running: dict[str, list[int]] = {}

    def generate(self, inputs: list[Any], params: SamplingParams, use_tqdm: bool) -> None:
        self.due_s = time.perf_counter()
        for i, asked in enumerate(inputs):
            self.add_request(str(i), asked, params)
        while self.running:
            self.step()

    def add_request(self, request_id: str, prompt: dict[str, Any], params: SamplingParams) -> None:
        assert prompt["prompt_token_ids"]
        if not self.running:
            self.due_s = time.perf_counter()
        self.running[request_id] = [0, params.max_tokens]

    def step(self) -> list[Any]:
        bucket = self.sizes[bisect_left(self.sizes, len(self.running))]
        self.due_s += (STUB["base_ms"] + STUB["row_ms"] * bucket) / 1e3
        time.sleep(max(0.0, self.due_s - time.perf_counter()))
        outputs = []
        for name, row in list(self.running.items()):
            row[0] += 1
            if row[0] == row[1]:
                del self.running[name]
            one = SimpleNamespace(token_ids=[7])
            # vLLM gives requests ids of its own that begin with the one it was handed.
            outputs.append(SimpleNamespace(request_id=f"{name}-a1b2", outputs=[one], finished=row[0] == row[1]))
        return outputs
