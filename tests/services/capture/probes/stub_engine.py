"""A stand-in for vLLM and SGLang servers: their start-up lines, their HTTP, and steps of a known length.

    python stub_engine.py -m vllm.entrypoints.openai.api_server --port N ...
    python stub_engine.py -m sglang.launch_server --port N ...

A step of n requests takes `step_ms` of the bucket that n is sent to, whatever the machine does otherwise: steps are
due at fixed times, and a late one is caught up. `STUB` in the environment is a JSON object that changes `CONFIG`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from bisect import bisect_left

CONFIG = {
    "base_ms": 1.0,  # a step in bucket b takes base_ms + row_ms * b, or the entry of `bucket_ms`
    "row_ms": 0.05,
    "bucket_ms": {},
    "eager_factor": 2.0,  # a step without a graph
    "fail": None,  # "memory", "kv", "hang" or "late": how the start goes wrong
    "runner": "v1",  # vLLM's model runner: v2 fills no table of graphs
    "orphan": False,  # start a process that ignores SIGTERM and sits in a process group of its own
} | json.loads(os.environ.get("STUB", "{}"))

CLOCK = "11-30 12:00:00"
API, CORE = "(APIServer pid=11)", "(EngineCore pid=12)"


def argument(name: str, default: str | None = None) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(line: str) -> None:
    print(line, flush=True)


def default_list(most: int) -> list[int]:
    return [size for size in [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)] if size <= min(2 * most, 512)]


def fail(*lines: str) -> None:
    for line in lines:
        say(line)
    sys.exit(1)


def vllm_list() -> list[int]:
    """The checks of vLLM 0.23.0 `config/vllm.py:1690-1757`, in its words."""
    config = json.loads(argument("--compilation-config", "{}") or "{}")
    budget, most = int(argument("--max-num-batched-tokens", "8192")), int(argument("--max-num-seqs", "256"))
    asked, largest = config.get("cudagraph_capture_sizes"), config.get("max_cudagraph_capture_size")
    head = f"{API} pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"
    if asked is None:
        return default_list(most)
    if not asked:
        fail(
            "Traceback (most recent call last):",
            head,
            f"{API}   Assertion failed, cudagraph_capture_sizes should contain at least one element when using cuda "
            "graph. [type=assertion_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]",
        )
    kept = sorted({size for size in asked if size <= budget})
    if largest is not None and largest != kept[-1]:
        fail(
            "Traceback (most recent call last):",
            head,
            f"{API}   Value error, customized max_cudagraph_capture_size(={largest}) should be consistent with the max "
            f"value of cudagraph_capture_sizes(={kept[-1]}) [type=value_error, input_value=ArgsKwargs((), {{}})]",
        )
    return kept


def start_vllm() -> list[int]:
    say(f"{API} INFO {CLOCK} [api_utils.py:319] vLLM server version 0.23.0, serving model {argument('--model')}")
    sizes = vllm_list()
    say(
        f"{CORE} INFO {CLOCK} [core.py:114] Initializing a V1 LLM engine (v0.23.0) with config: model='m', "
        "compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, "
        f"'cudagraph_capture_sizes': {sizes}}}"
    )
    if CONFIG["fail"] == "kv":
        fail(
            f"{CORE} ERROR {CLOCK} [core.py:866] ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine.",
            f"{API} RuntimeError: Engine core initialization failed. See root cause above.",
        )
    say(f"{CORE} INFO {CLOCK} [gpu_worker.py:481] Available KV cache memory: 66.87 GiB")
    say(f"{CORE} INFO {CLOCK} [kv_cache_utils.py:1744] GPU KV cache size: 547,824 tokens")
    if CONFIG["fail"] == "memory":
        fail(
            f"{CORE} Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|# | 5/51",
            f"{CORE} ERROR {CLOCK} [core.py:866] torch.OutOfMemoryError: CUDA out of memory. Tried.",
            f"{API} RuntimeError: Engine core initialization failed. See root cause above.",
        )
    gib = 0.7 + 0.01 * len(sizes)
    say(
        f"{CORE} INFO {CLOCK} [gpu_model_runner.py:6586] Graph capturing finished in {max(1, len(sizes) // 2)} secs, "
        f"took {gib:.2f} GiB"
    )
    return sizes


def start_sglang() -> list[int]:
    config = json.loads(argument("--cuda-graph-config", "{}") or "{}")
    sizes = config.get("decode", {}).get("bs") or default_list(int(argument("--max-running-requests", "256")))
    say("[2026-11-30 12:00:00] server_args=ServerArgs(model_path='m', tp_size=1, sglang version 0.5.23)")
    say("[2026-11-30 12:00:01 TP0] Capture target decode CUDA graph begin. backend=full, avail mem=7.10 GB")
    if CONFIG["fail"] == "memory":
        fail("[2026-11-30 12:00:01 TP0] Scheduler hit an exception: torch.OutOfMemoryError: CUDA out of memory.")
    say(
        f"[2026-11-30 12:00:01 TP0] Capture target decode CUDA graph end. bs={sizes}, elapsed=0.89 s, "
        "mem usage=0.15 GB, avail mem=6.95 GB."
    )
    say("[2026-11-30 12:00:02 TP0] max_total_num_tokens=2261377, chunked_prefill_size=8192, context_len=128000")
    return sizes


class Engine:
    """Continuous batching: whoever came since the last step takes part in the next one."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.running = sizes, []
        self.most = int(argument("--max-num-seqs", argument("--max-running-requests", "256")))
        self.due_s, self.woken = 0.0, asyncio.Event()
        self.counts: dict[tuple[int, int], int] = {}
        self.steps = self.made = 0

    def step_s(self, rows: int) -> float:
        at = bisect_left(self.sizes, rows)
        bucket = self.sizes[at] if at < len(self.sizes) else rows
        key = rows, bucket if at < len(self.sizes) else 0
        self.counts[key] = 1 + self.counts.get(key, 0)
        if "--enable-logging-iteration-details" in sys.argv:
            self.steps += 1
            say(
                f"{CORE} INFO {CLOCK} [core.py:421] Iteration({self.steps}): 0 context requests, 0 context tokens, "
                f"{rows} generation requests, {rows} generation tokens, iteration elapsed time: 1.00 ms"
            )
        ms = CONFIG["bucket_ms"].get(str(bucket), CONFIG["base_ms"] + CONFIG["row_ms"] * bucket)
        return ms * (1.0 if at < len(self.sizes) else CONFIG["eager_factor"]) / 1e3

    async def work(self) -> None:
        while True:
            if not self.running:
                self.woken.clear()
                await self.woken.wait()
                self.due_s = time.perf_counter()
            now = self.running[: self.most]
            self.due_s += self.step_s(len(now))
            await asyncio.sleep(self.due_s - time.perf_counter())
            for row in now:
                row["made"] += 1
                self.made += 1
                row["queue"].put_nowait(row["made"])
                if row["made"] == row["wanted"]:
                    self.running.remove(row)

    def add(self, wanted: int) -> asyncio.Queue:
        row = {"made": 0, "wanted": wanted, "queue": asyncio.Queue()}
        self.running.append(row)
        self.woken.set()
        return row["queue"]


async def answer(engine: Engine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, path = head.split(" ")[:2]
    if method == "GET":
        text = counters(engine).encode() if path == "/metrics" else b"ok"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    else:
        length = next(
            int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")
        )
        await generate(engine, path, json.loads(await reader.readexactly(length)), writer)
    await writer.drain()
    writer.close()


def counters(engine: Engine) -> str:
    """Some of what vLLM 0.23.0 answers at /metrics (`v1/metrics/loggers.py`)."""
    labels = '{engine="0",model_name="probed"}'
    return (
        "# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.\n"
        "# TYPE vllm:num_preemptions_total counter\n"
        f"vllm:num_preemptions_total{labels} 0.0\n"
        f"vllm:generation_tokens_total{labels} {float(engine.made)}\n"
        f'vllm:iteration_tokens_total_bucket{{engine="0",le="1.0",model_name="probed"}} 1.0\n'
    )


async def generate(engine: Engine, path: str, body: dict, writer: asyncio.StreamWriter) -> None:
    vllm = path == "/v1/completions"
    prompts = body["prompt"] if vllm else body["input_ids"]
    prompts = [prompts] if isinstance(prompts[0], int) else prompts
    wanted = body["max_tokens"] if vllm else body["sampling_params"]["max_new_tokens"]
    assert (body if vllm else body["sampling_params"])["ignore_eos"] is True
    queues = [engine.add(wanted) for _ in prompts]
    if not body.get("stream"):
        for queue in queues:
            while await queue.get() < wanted:
                pass
        one = {"meta_info": {"completion_tokens": wanted}}
        document = {"usage": {"completion_tokens": wanted * len(prompts)}} if vllm else [one] * len(prompts)
        text = json.dumps(document if vllm or len(prompts) > 1 else one).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        return
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n")
    made = 0
    while made < wanted:
        made = await queues[0].get()
        event(writer, {"choices": [{"text": ""}]} if vllm else {"meta_info": {"completion_tokens": made}})
    if vllm:
        event(writer, {"choices": [], "usage": {"completion_tokens": made}})
    chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")


def event(writer: asyncio.StreamWriter, document: dict) -> None:
    chunk(writer, b"data: %s\n\n" % json.dumps(document).encode())


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def print_table(engine: Engine) -> None:
    """What --cudagraph-metrics logs, for the steps since the last time."""
    counts, engine.counts = engine.counts, {}
    rows = [
        f"| {rows} | {bucket or rows} | {max(0, bucket - rows)} | {'FULL' if bucket else 'NONE'} | {n} |"
        for (rows, bucket), n in sorted(counts.items())
    ]
    if rows:
        say(
            f"{API} INFO {CLOCK} [cuda_graph.py:108] **CUDAGraph Config Settings:**\n\n- Mode: FULL_AND_PIECEWISE\n"
            f"- Capture sizes: {engine.sizes}\n\n**CUDAGraph Stats:**\n\n"
            "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
            "|-----------------|---------------|--------------|--------------|-------|\n" + "\n".join(rows)
        )


async def main() -> None:
    if CONFIG["orphan"]:
        code = (
            "import os, signal, time; os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        )
        subprocess.Popen([sys.executable, "-c", code])
    engine = Engine(start_vllm() if "vllm.entrypoints.openai.api_server" in sys.argv else start_sglang())
    if CONFIG["fail"] == "hang":
        await asyncio.sleep(600)
    server = await asyncio.start_server(
        lambda r, w: answer(engine, r, w), "127.0.0.1", int(argument("--port", "0") or 0), limit=2**26
    )
    working = asyncio.create_task(engine.work())
    while not working.done():
        await asyncio.sleep(0.1)
        if "--cudagraph-metrics" in sys.argv and CONFIG["runner"] == "v1":
            print_table(engine)
    server.close()


asyncio.run(main())
