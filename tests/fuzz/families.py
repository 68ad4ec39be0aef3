"""Whole files of the five families of readers, to be broken."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma

import polars as pl
import pyarrow as pa

from tests.workloads.traces.conftest import EXAMPLES
from tests.workloads.traces.request_examples import SERVEGEN
from workloads.traces.registry import READERS

FAMILIES = ("csv", "json-lines", "json-documents", "binary", "logs")
_DOCUMENTS = ("vllm-bench", "sglang-bench", "guidellm")
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PAR1")


def families() -> dict[str, list[bytes]]:
    """Family -> example files; a new reader's example joins by itself."""
    found: dict[str, list[bytes]] = {name: [] for name in FAMILIES}
    logs = {reader.name for reader in READERS if reader.markers}
    for name, (data, _, _) in EXAMPLES.items():
        found[_family(name, data, logs)].append(data)
    found["csv"] += [
        b'id\tarrived_at\tnum_prefill_tokens\tnum_decode_tokens\na\t1\t10\t2\nb\t2\t"1\n0"\t2\n',
        b'"arrival_s","note","input_tokens","output_tokens"\n1,"x\ny, z",10,2\n3,"",10,2\n',
        b"prompt_len,output_len\n100,20\n7,8\n",
        b"when,tokens_in,tokens_out\n2024-03-31 01:59:59+01:00,5,2\n2024-03-31 01:59:59.5+01:00,5,2\n",
    ]
    rows = [{"at": 0.5 * i, "usage": {"prompt_tokens": 10 + i, "completion_tokens": 3}} for i in range(3)]
    found["json-documents"] += [json.dumps(rows).encode(), json.dumps({"requests": rows}, indent=1).encode()]
    found["json-documents"].append(json.dumps(json.loads(EXAMPLES["otlp-genai"][0]), indent=2).encode())
    found["binary"] += _binaries()
    return found


def _family(name: str, data: bytes, logs: set[str]) -> str:
    if name in _DOCUMENTS:
        return "json-documents"
    if name in logs:
        return "logs"
    if data.startswith(_PACKED) or b"\0" in data:
        return "binary"
    return "json-lines" if data.lstrip().startswith(b"{") else "csv"


def _binaries() -> list[bytes]:
    plain = EXAMPLES["azure-2024"][0] * 3
    frame = pl.DataFrame({"arrival_s": [0.0, 1.0, 2.0], "input_tokens": [5, 6, 7], "output_tokens": [1, 0, 3]})
    parquet, compressed = io.BytesIO(), io.BytesIO()
    frame.write_parquet(parquet, compression="uncompressed")
    frame.write_parquet(compressed)
    zstd = pa.compress(plain, codec="zstd", asbytes=True)
    packed = [gzip.compress(plain), bz2.compress(plain), lzma.compress(plain), zstd, gzip.compress(SERVEGEN)]
    return [parquet.getvalue(), compressed.getvalue(), SERVEGEN, *packed]
