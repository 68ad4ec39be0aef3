"""Small examples of step records that are no classic log: made-up figures in the documented shapes."""

from __future__ import annotations

import json

import msgpack


def forward_message(number: int, decodes: int, *, prefill: int = 0, rank: int = 0, wall_s: float = 0.0125) -> bytes:
    """One forward pass as SGLang packs it: by position."""
    scheduled = [1 if prefill else 0, prefill, 0.0, 0, decodes, decodes * 700, 1.5]
    packed: bytes = msgpack.packb([1, "w", rank, number, wall_s, scheduled, [0, 0, 0.0, 0, 0, 0.0]])
    return packed


def iteration_line(
    number: int,
    scheduled: int,
    *,
    context: int = 0,
    generated: int | None = None,
    before_ms: str = "11.1ms",
    rank: int = 0,
    new: bool = True,
) -> str:
    """A line of TensorRT-LLM's `print_iter_log` in its newer or older form."""
    states = (
        f"states = {{'num_ctx_requests': {int(context > 0)}, 'num_ctx_tokens': {context}, "
        f"'num_generation_tokens': {scheduled if generated is None else generated}}}"
    )
    times = f"host_step_time = 12.3ms, prev_device_step_time = {before_ms}"
    if new:
        return (
            f"[08/23/2026-01:02:03] [TRT-LLM] [RANK {rank}] [I] iter = {number}, global_rank = {rank}, rank = {rank}, "
            f"num_scheduled_requests = {scheduled}, kv_cache_util = 0.125, currank_total_requests = 0/1, {times}, "
            f"timestamp = 08-23-2026 01:02:{number % 60:02d}, {states}"
        )
    return (
        f"[TRT-LLM] [I] iter = {number}, global_rank = {rank}, rank = {rank}, currank_total_requests = 3/3, {times}, "
        f"timestamp = 2026-08-04 19:08:{number % 60:02d}, num_scheduled_requests: {scheduled}, {states}"
    )


def statistics(number: int, generations: int, *, context: int = 0, ms: float = 9.5, rank: int | None = None) -> dict:
    """One object of TensorRT-LLM's iteration statistics."""
    return {
        "iter": number,
        "iterLatencyMS": ms,
        "numActiveRequests": generations,
        "numQueuedRequests": 0,
        "kvCacheStats": {"maxNumBlocks": 1000, "usedNumBlocks": 10, "tokensPerBlock": 32},
        "inflightBatchingStats": {
            "numScheduledRequests": generations + (1 if context else 0),
            "numContextRequests": 1 if context else 0,
            "numGenRequests": generations,
            "numPausedRequests": 0,
            "numCtxTokens": context,
        },
    } | ({} if rank is None else {"attentionDpRank": rank})


def scrape(running: int, *, engine: str = "0", passes: tuple[int, int] | None = None, seconds: float = 0.0) -> str:
    """What /metrics answers: vLLM, or SGLang with its graph-pass counters."""
    if passes is None:
        labels = f'{{engine="{engine}",model_name="m"}}'
        return (
            "# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running{labels} {running}.0\n"
            f"vllm:num_requests_waiting{labels} 0.0\n"
        ).replace("\\\n", "\n")
    rows = [f'sglang:num_running_reqs{{model_name="m",tp_rank="{rank}"}} {running}.0' for rank in (1, 0)]
    for mode, count in zip(("decode_cuda_graph", "decode_none"), passes, strict=True):
        rows.append(f'sglang:cuda_graph_passes_total{{mode="{mode}",model_name="m",tp_rank="0"}} {count}.0')
    rows.append(f'sglang:forward_execution_seconds_total{{model_name="m",tp_rank="0"}} {seconds}')
    return "\n".join(rows) + "\n"


def trtllm_scrape(generations: int, contexts: int = 0, *, iteration_s: float = 0.01, blocks: int = 10) -> str:
    """What TensorRT-LLM's /prometheus/metrics answers: gauges of its last iteration."""
    gauges = {
        "num_requests_running": generations + contexts,
        "num_generation_requests": generations,
        "num_context_requests": contexts,
        "iteration_latency_seconds": iteration_s,
        "kv_cache_used_blocks": blocks,
        "kv_cache_max_blocks": 1000,
        "kv_cache_tokens_per_block": 32,
    }
    labels = '{engine_type="trtllm",model_name="m"}'
    return "# TYPE trtllm_num_requests_running gauge\n" + "".join(
        f"trtllm_{name}{labels} {float(value)}\n" for name, value in gauges.items()
    )


def range_document(**series: list[tuple[float, str]]) -> bytes:
    """Answer of a range query: one series of the gauge per engine name."""
    result = [
        {"metric": {"__name__": "vllm:num_requests_running", "engine": name}, "values": [list(pair) for pair in values]}
        for name, values in series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


STEP_EXAMPLES: dict[str, tuple[bytes, int, int]] = {
    # reader -> (file, rows read, rows kept)
    "captune-steps": (
        b'{"captune_steps": 1, "source": "http://engine/metrics", "families": ["decode_full"], "units": ["requests"], '
        b'"origin": "sample", "sample_every_s": 5.0}\n{"t": 100.0, "size": 8}\n'
        b'{"gap": {"from_s": 100.0, "to_s": 130.0, "reason": "no answer"}}\n{"t": 130.0, "size": 9, "fallback": 1}\n',
        2,
        2,
    ),
    "llmservingsim-ticks": (
        b"t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1.0,3392.0,2.0,5,2,13.22\n"
        b"2.0,0.0,400.0,5,0,39.7\n3.0,0.0,0.0,0,0,0.0\n",
        3,
        2,
    ),
    "tensorrt-llm-iterations": (
        "\n".join([iteration_line(7, 12), iteration_line(8, 13, context=512), iteration_line(9, 0), ""]).encode(),
        3,
        2,
    ),
    "tensorrt-llm-stats": (
        json.dumps([statistics(1, 8), statistics(2, 8, context=100), statistics(3, 0)]).encode(),
        3,
        2,
    ),
    "prometheus": ((scrape(8) + scrape(0) + scrape(9)).encode(), 3, 2),
    "prometheus-range": (range_document(a=[(100.0, "8"), (115.0, "9"), (130.0, "0")]), 3, 2),
    "forward-pass-metrics": (forward_message(1, 8) + forward_message(2, 8, prefill=64) + forward_message(3, 0), 3, 2),
    "vllm-batchsize-times": (
        b"INFO 04-10 03:44:38 [forward_context.py:1] Batchsize forward time stats (batchsize, count, median_time(ms)): "
        b"[(16, 512, 9.81), (8, 20, 9.1)]\n",
        2,
        2,
    ),
}
