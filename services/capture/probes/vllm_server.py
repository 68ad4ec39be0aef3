"""vLLM as a server: /health, and /v1/completions with token ids, which works without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from services.capture.probes import vllm_arguments
from services.capture.probes.arguments import command_line
from services.capture.probes.base import Launch
from services.capture.probes.server import ServerProbe

SERVED_AS = "probed"
_STREAM_INTERVAL_TOKENS = 8
"""Tokens per event of a stream after the first, which is sent at once; the last is sent when it is there. With an event
per token the one process that serves HTTP (40 us an event) is slower than steps of some 300 requests: its queue, and
not the engine, would be the time per token."""


class VllmServer(ServerProbe):
    generate_path = "/v1/completions"
    counters = MappingProxyType(
        {
            "vllm:num_preemptions_total": "preemptions",
            "vllm:prompt_tokens_total": "prompt_tokens",
            "vllm:generation_tokens_total": "generation_tokens",
            "vllm:prefix_cache_queries_total": "prefix_cache_queries",
            "vllm:prefix_cache_hits_total": "prefix_cache_hits",
            "vllm:iteration_tokens_total_count": "iterations",
        }
    )

    def command(self, launch: Launch, port: int) -> tuple[str, ...]:
        arguments = {"model": launch.model, "served_model_name": SERVED_AS, "host": "127.0.0.1", "port": port}
        arguments |= vllm_arguments.engine_arguments(launch) | {
            "disable_uvicorn_access_log": True,
            "stream_interval": _STREAM_INTERVAL_TOKENS,
        }
        return (*launch.command, "-m", "vllm.entrypoints.openai.api_server", *command_line(arguments))

    def environment(self, launch: Launch) -> dict[str, str]:
        # `python -m` puts the current folder before the engine's own packages.
        return vllm_arguments.environment(launch) | {"PYTHONSAFEPATH": "1"}

    def body(self, prompts: Sequence[list[int]], output_tokens: int, *, stream: bool) -> dict[str, Any]:
        # The type annotation of `prompt` admits both one list of ids and a list of lists.
        document: dict[str, Any] = {
            "model": SERVED_AS,
            "prompt": prompts[0] if stream else list(prompts),
            "max_tokens": output_tokens,
            "ignore_eos": True,
            "temperature": 0.0,
        }
        return document | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})

    def tokens_of(self, event: dict[str, Any]) -> int:
        return int((event.get("usage") or {}).get("completion_tokens", 0))
