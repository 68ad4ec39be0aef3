"""Forward-pass metrics (SGLang `--enable-forward-pass-metrics`, Dynamo): one msgpack message per forward pass.

SGLang packs by position: version, worker_id, dp_rank, counter_id, wall_time, scheduled, queued; `scheduled` is
num_prefill_requests, sum_prefill_tokens, var_prefill_length, sum_prefill_kv_tokens, num_decode_requests,
sum_decode_kv_tokens, var_decode_kv_tokens. Dynamo's publishers pack the same names as maps; both are taken.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workloads.errors import BadInput, MissingExtra

VERSION = 1
MAX_MESSAGE_BYTES = 1 << 20
FAMILIES = ("decode_full", "prefill_breakable")
_HEAD = ("version", "worker_id", "dp_rank", "counter_id", "wall_time", "scheduled_requests")
_SCHEDULED = (
    *("num_prefill_requests", "sum_prefill_tokens", "var_prefill_length", "sum_prefill_kv_tokens"),
    *("num_decode_requests", "sum_decode_kv_tokens", "var_decode_kv_tokens"),
)


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One forward pass: its rank, its number, how long it took and what was in it."""

    engine: str
    dp_rank: int
    number: int
    wall_s: float
    prefill_tokens: int
    decode_requests: int
    kv_tokens: int

    def row(self) -> dict[str, Any]:
        """As a step row; a mixed pass is one of all its tokens, a heartbeat says why it is dropped."""
        mixed = self.prefill_tokens > 0
        size = self.prefill_tokens + self.decode_requests if mixed else self.decode_requests
        timed = 0 < self.wall_s < 3600
        return {
            "family": int(mixed),
            "size": size,
            "step_ms": 1000 * self.wall_s if timed else None,
            "kv_tokens": None if mixed else float(self.kv_tokens),
            "engine": f"{self.engine} DP{self.dp_rank}".strip(),
            "reason": None if size else "idle",
        }


def unpacker() -> Any:
    """A msgpack stream decoder with bounded sizes.

    Raises:
        MissingExtra: msgpack is not installed.
    """
    try:
        msgpack = importlib.import_module("msgpack")
    except ImportError:
        raise MissingExtra.of("record", "Reading forward-pass metrics") from None
    return msgpack.Unpacker(
        raw=False,
        strict_map_key=True,
        max_buffer_size=MAX_MESSAGE_BYTES,
        max_array_len=64,
        max_map_len=64,
        max_str_len=4096,
        max_bin_len=4096,
        max_ext_len=0,
    )


def unpack(unpack_stream: Any, data: bytes) -> Iterator[Any]:
    """The messages that end in `data`.

    Raises:
        BadInput: not msgpack, or a value larger than any message has.
    """
    msgpack = importlib.import_module("msgpack")
    try:
        unpack_stream.feed(data)
        yield from unpack_stream
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise BadInput(f"not a stream of msgpack messages: {error or type(error).__name__}") from error


def forward_pass(message: object) -> ForwardPass | None:
    """A decoded message; None where it has another shape.

    Raises:
        BadInput: a version that this decoder does not know.
    """
    head = _fields(message, _HEAD)
    if head is None:
        return None
    version, worker, rank, number, wall_s, scheduled = head
    if version != VERSION:
        raise BadInput(
            f"forward-pass metrics of version {str(version)[:20]}; this reads version {VERSION}", field="version"
        )
    counts = _fields(scheduled, _SCHEDULED)
    if counts is None:
        return None
    whole = [_whole(value) for value in (rank, number, counts[1], counts[4], counts[5])]
    if any(value is None for value in whole) or not isinstance(wall_s, int | float) or not math.isfinite(wall_s):
        return None
    dp_rank, counter, prefill_tokens, decodes, kv_tokens = (value or 0 for value in whole)
    return ForwardPass(str(worker)[:100], dp_rank, counter, float(wall_s), prefill_tokens, decodes, kv_tokens)


def _fields(value: object, names: tuple[str, ...]) -> list[Any] | None:
    if isinstance(value, list) and len(value) >= len(names):
        return value[: len(names)]
    if isinstance(value, dict) and names[-1] in value:
        return [value.get(name, 0) for name in names]
    return None


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value < 2**40 else None
