"""The batch sizes TensorRT-LLM captures when nobody asks for any (1.3, pull request 12895)."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.sizes import unique
from tuner.engines.tensorrt_llm.facts import FINE_LADDER

DEFAULT_MAX_BATCH_SIZE = 128


def default_list(max_batch_size: int | None, padding: bool, version: Version) -> tuple[int, ...]:
    """Requests, increasing; the maximum is always among them."""
    largest = DEFAULT_MAX_BATCH_SIZE if max_batch_size is None else max_batch_size
    if not padding:
        ladder = _exact_ladder(largest)
    else:
        above = range(192, largest + 1, 64) if FINE_LADDER.holds(version) else _powers(largest)
        ladder = [1, 2, 4, *range(8, 129, 8), *above]
    return unique([size for size in ladder if size <= largest] + [largest])


def _exact_ladder(largest: int) -> list[int]:
    """Without padding only captured sizes replay, so every small batch has its own."""
    return [*range(1, 32), 32, 64, 128, *_powers(largest)]


def _powers(largest: int) -> list[int]:
    """256, 512, ... below `largest`."""
    return [2**n for n in range(8, max(8, (largest - 1).bit_length()))]
