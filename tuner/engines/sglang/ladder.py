"""The sizes SGLang captures when nobody asks for any (0.5.23 `arg_groups/cuda_graph_hook.py:480-532`, older wheels)."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.sglang import facts
from tuner.engines.sglang.options import SglangOptions
from tuner.engines.sizes import unique


def default_decode(options: SglangOptions, version: Version) -> tuple[int, ...]:
    """Requests, increasing; since 0.5.10 the maximum is always among them."""
    largest = options.cuda_graph_max_bs_decode
    if options.disable_cuda_graph_padding:
        ladder = list(range(1, largest + 1))
    elif options.speculative_algorithm is None:
        ladder = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32)]
    else:
        last_of_four = 65 if facts.SPEC_64.holds(version) else 64
        ladder = [*range(1, 9), *range(10, 33, 2), *range(40, last_of_four, 4), *range(72, 257, 8)]
        ladder += range(272, largest + 1, 16)
    top = [largest] if facts.MAX_APPENDED.holds(version) else []
    return unique([size for size in ladder if size <= largest] + top)


def default_prefill(options: SglangOptions, version: Version) -> tuple[int, ...]:
    """Tokens, increasing; the maximum is not added, so the list can be empty."""
    largest = options.cuda_graph_max_bs_prefill
    ladder = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32)]
    if facts.COARSE_PREFILL.holds(version):
        ladder += [*range(576, 1025, 64), *range(1280, 4097, 256), *range(4608, largest + 1, 512)]
    else:
        ladder += [*range(640, 4097, 128), *range(4352, largest + 1, 256)]
    return tuple(size for size in ladder if size <= largest)
