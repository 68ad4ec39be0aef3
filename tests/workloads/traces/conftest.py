"""One small example of every format, and a way to write a file and read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workloads.traces.request_examples import EXAMPLES as REQUEST_EXAMPLES
from tests.workloads.traces.step_examples import STEP_EXAMPLES
from workloads.traces.read import read
from workloads.traces.records import ReadResult

VLLM = "(APIServer pid=77) INFO 12-02 16:51:0{second} [compilation/cuda_graph.py:108] "

EXAMPLES: dict[str, tuple[bytes, int, int]] = {
    **REQUEST_EXAMPLES,
    # reader -> (file, rows read, rows kept)
    "azure-2023": (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
        b"2023-11-16 18:15:50.9951690,396,109",
        2,
        2,
    ),
    "azure-2024": (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
        b"2024-05-10 00:00:00.017335+00:00,2399,6\n2024-05-10 00:00:01+00:00,76,1\n",
        3,
        3,
    ),
    "mooncake": (
        b'{"timestamp": 0, "input_length": 1030, "output_length": 500, "hash_ids": [0, 1, 2]}\n'
        b'{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [0]}\n',
        2,
        2,
    ),
    "bailian": (
        b'{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 33, "output_length": 7, '
        b'"type": "text", "turn": 1, "hash_ids": [1, 2, 3]}\n'
        b'{"chat_id": 2, "parent_chat_id": 1, "timestamp": 2.5, "input_length": 16, "output_length": 0, '
        b'"type": "text", "turn": 2, "hash_ids": [1]}\n',
        2,
        1,
    ),
    "histogram": (b"size,count,family\n1,10,decode_full\n2,0,decode_full\n64,5.0,prefill_piecewise\n", 3, 2),
    "requests": (b"arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,374,44\n4.314579,396,109\n", 2, 2),
    "sglang-log": (
        b"[2025-11-11 04:06:25] INFO:     127.0.0.1:1 - POST /generate 200 OK\n"
        b"[2025-11-11 04:06:26] Prefill batch, #new-seq: 3, #new-token: 2048, #cached-token: 512, #running-req: 12\n"
        b"[2025-11-11 04:06:27] Decode batch, #running-req: 46, #token: 812, token usage: 0.01, cuda graph: True, "
        b"gen throughput (token/s): 1635.00, #queue-req: 0, \n",
        2,
        2,
    ),
    "vllm-iterations": (
        b"(EngineCore_DP0 pid=1) INFO 01-02 10:00:00 [core.py:1] Iteration(17): 1 context requests, "
        b"512 context tokens, 31 generation requests, 31 generation tokens, iteration elapsed time: 12.34 ms\n"
        b"INFO 01-02 10:00:01 [loggers.py:199] Engine 000: Iteration(18): 0 context requests, 0 context tokens, "
        b"32 generation requests, 32 generation tokens, iteration elapsed time: 6.50 ms (dummy)\n",
        2,
        1,
    ),
    "vllm-cudagraph-metrics": (
        "".join(
            VLLM.format(second=second) + text + "\n"
            for second, text in enumerate(
                (
                    "**CUDAGraph Stats:**",
                    "",
                    "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |",
                    "|-----------------|---------------|--------------|--------------|-------|",
                    "| 13              | 16            | 3            | FULL         | 412   |",
                    "| 700             | 700           | 0            | NONE         | 9     |",
                )
            )
        ).encode(),
        2,
        2,
    ),
    "vllm-stats": (
        b"INFO 04-10 03:44:38 [loggers.py:87] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
        b"Avg generation throughput: 44.9 tokens/s, Running: 13 reqs, Waiting: 3 reqs, GPU KV cache usage: 13.3%, "
        b"Prefix cache hit rate: 0.0%\n",
        1,
        1,
    ),
}

EXAMPLES |= STEP_EXAMPLES


@pytest.fixture
def read_text(tmp_path: Path) -> Callable[..., ReadResult]:
    """Write text to a file without a telling name, and read it."""

    def of(text: str | bytes, **options: object) -> ReadResult:
        path = tmp_path / "upload"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read(path, **options)  # type: ignore[arg-type]

    return of


@pytest.fixture(params=sorted(EXAMPLES))
def example(request: pytest.FixtureRequest) -> tuple[str, bytes, int, int]:
    """(format, file, rows read, rows kept) of every format in turn."""
    return (request.param, *EXAMPLES[request.param])


@pytest.fixture(scope="session")
def examples() -> dict[str, bytes]:
    return {name: data for name, (data, _, _) in EXAMPLES.items()}
