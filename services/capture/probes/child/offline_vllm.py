"""vLLM's `LLM` class in this process (0.20 or newer, read from 0.23.0). Standard library and vLLM only."""

import time
from collections.abc import Callable
from typing import Any


class VllmInProcess:
    """`batch` is `LLM.generate`; `serve` drives the engine below it step by step, so that requests can arrive late.

    A request that arrives during a step is handed over after it, as much as one step later than a server would.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        from vllm import LLM

        self._llm = LLM(**arguments)

    def batch(self, prompts: list[list[int]], output_tokens: int) -> float:
        inputs = [{"prompt_token_ids": ids} for ids in prompts]
        begin_s = time.perf_counter()
        self._llm.generate(inputs, self._params(output_tokens), use_tqdm=False)
        return time.perf_counter() - begin_s

    def serve(self, requests: list[dict[str, Any]], on_done: Callable[[int], None]) -> list[list[float]]:
        from vllm.sampling_params import RequestOutputKind

        engine, begin_s = self._llm.llm_engine, time.perf_counter()
        timings: list[list[float]] = [[0.0, 0.0, 0.0, 0] for _ in requests]
        waiting, open_requests = 0, 0
        while waiting < len(requests) or open_requests:
            now_s = time.perf_counter() - begin_s
            while waiting < len(requests) and requests[waiting]["at_s"] <= now_s:
                asked = requests[waiting]
                params = self._params(asked["output_tokens"], output_kind=RequestOutputKind.DELTA)
                timings[waiting][0] = time.perf_counter() - begin_s
                engine.add_request(str(waiting), {"prompt_token_ids": asked["ids"]}, params)
                waiting, open_requests = waiting + 1, open_requests + 1
            if not open_requests:
                time.sleep(max(0.0, requests[waiting]["at_s"] - now_s))
                continue
            outputs = engine.step()
            now_s = time.perf_counter() - begin_s
            finished = 0
            for output in outputs:
                made = len(output.outputs[0].token_ids)
                timing = timings[int(output.request_id.split("-")[0])]
                if made:
                    timing[1] = timing[1] or now_s
                    timing[2], timing[3] = now_s, timing[3] + made
                finished += bool(output.finished)
            open_requests -= finished
            if finished:
                on_done(waiting - open_requests)
        return timings

    def _params(self, output_tokens: int, **more: Any) -> Any:
        from vllm import SamplingParams

        return SamplingParams(max_tokens=output_tokens, ignore_eos=True, temperature=0.0, detokenize=False, **more)
