"""SGLang's `Engine` class in this process (read from 0.5.23; not run yet). Standard library and SGLang only."""

import asyncio
import time
from collections.abc import Callable
from typing import Any


class SglangInProcess:
    """`batch` is `Engine.generate`; `serve` is `Engine.async_generate` with streams."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        import sglang

        self._engine = sglang.Engine(**arguments, log_level="info")

    def batch(self, prompts: list[list[int]], output_tokens: int) -> float:
        begin_s = time.perf_counter()
        self._engine.generate(input_ids=prompts, sampling_params=_params(output_tokens))
        return time.perf_counter() - begin_s

    def serve(self, requests: list[dict[str, Any]], on_done: Callable[[int], None]) -> list[list[float]]:
        # The engine has started its own loop; another one would never see its answers.
        loop = asyncio.get_event_loop()
        return loop.run_until_complete(self._serve(requests, on_done))

    async def _serve(self, requests: list[dict[str, Any]], on_done: Callable[[int], None]) -> list[list[float]]:
        begin_s, done = time.perf_counter(), 0

        async def one(asked: dict[str, Any]) -> list[float]:
            nonlocal done
            await asyncio.sleep(max(0.0, begin_s + asked["at_s"] - time.perf_counter()))
            sent_s, first_s, last_s, tokens = time.perf_counter() - begin_s, 0.0, 0.0, 0
            stream = await self._engine.async_generate(
                input_ids=asked["ids"], sampling_params=_params(asked["output_tokens"]), stream=True
            )
            async for event in stream:
                last_s = time.perf_counter() - begin_s
                first_s, tokens = first_s or last_s, event["meta_info"]["completion_tokens"]
            done += 1
            on_done(done)
            return [sent_s, first_s, last_s, tokens]

        return list(await asyncio.gather(*(one(asked) for asked in requests)))


def _params(output_tokens: int) -> dict[str, Any]:
    return {"max_new_tokens": output_tokens, "ignore_eos": True, "temperature": 0.0}
