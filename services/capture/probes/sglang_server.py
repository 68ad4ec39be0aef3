"""SGLang as a server: /health, and /generate with token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.capture.probes import sglang_arguments
from services.capture.probes.arguments import command_line
from services.capture.probes.base import Launch
from services.capture.probes.server import ServerProbe


class SglangServer(ServerProbe):
    generate_path = "/generate"

    def command(self, launch: Launch, port: int) -> tuple[str, ...]:
        arguments = sglang_arguments.engine_arguments(launch)
        arguments |= {"host": "127.0.0.1", "port": port, "log_level_http": "warning"}
        return (*launch.command, "-m", "sglang.launch_server", *command_line(arguments))

    def environment(self, launch: Launch) -> dict[str, str]:
        return sglang_arguments.environment(launch)

    def body(self, prompts: Sequence[list[int]], output_tokens: int, *, stream: bool) -> dict[str, Any]:
        return {
            "input_ids": prompts[0] if stream else list(prompts),
            "sampling_params": {"max_new_tokens": output_tokens, "ignore_eos": True, "temperature": 0.0},
            "stream": stream,
        }

    def tokens_of(self, event: dict[str, Any]) -> int:
        # One prompt is answered with an object, several with a list.
        answers = event.get("items", [event])
        return sum(int(answer["meta_info"]["completion_tokens"]) for answer in answers)
