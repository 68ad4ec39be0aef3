"""The batch sizes TensorRT-LLM captures when nobody asks for any (1.3, pull request 12895)."""

from __future__ import annotations

from tuner.engines.sizes import unique

DEFAULT_MAX_BATCH_SIZE = 128


def default_list(max_batch_size: int | None, padding: bool) -> tuple[int, ...]:
    """Requests, increasing; the maximum is always among them."""
    largest = DEFAULT_MAX_BATCH_SIZE if max_batch_size is None else max_batch_size
    ladder = [1, 2, 4, *range(8, 129, 8), *range(192, largest + 1, 64)] if padding else _exact_ladder(largest)
    return unique([size for size in ladder if size <= largest] + [largest])


def _exact_ladder(largest: int) -> list[int]:
    """Without padding only captured sizes replay, so every small batch has its own."""
    ladder = [*range(1, 32), 32, 64, 128]
    size = 256
    while size < largest:
        ladder.append(size)
        size *= 2
    return ladder
