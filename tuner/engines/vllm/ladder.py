"""The sizes vLLM captures when nobody asks for any (0.33.0 `config/vllm.py:2398-2655`, and older wheels)."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.sizes import unique
from tuner.engines.vllm import facts
from tuner.engines.vllm.options import VllmOptions

_CAP = 512


def default_list(options: VllmOptions, version: Version) -> tuple[int, ...]:
    """The default list in tokens, increasing; at least one size."""
    if not facts.MODERN_LIST.holds(version):
        return _old_list(options, version)
    explicit = options.max_cudagraph_capture_size
    ceiling = widest(options, version) if explicit is None else explicit
    budget = options.max_num_batched_tokens
    top = min(ceiling, budget)
    sizes = _grid(top, options.performance_mode == "interactivity")
    if facts.TOKEN_BUDGET_CAPTURED.holds(version) and budget <= top:
        sizes.append(budget)
    # A range that was asked for is left as asked: no decode sizes are added (vLLM issue 54933).
    if explicit is None:
        sizes += [size for size in _decode_sizes(options, ceiling, version) if size <= budget]
    return unique(sizes)


def widest(options: VllmOptions, version: Version) -> int:
    """Where the default list ends before the token budget is looked at."""
    q = options.query_tokens if facts.QUERY_SCALED.holds(version) else 1
    return min(options.max_num_seqs * q * options.ladder_factor, cap(options, version))


def cap(options: VllmOptions, version: Version) -> int:
    return options.capture_ceiling_tokens if facts.WIDE_BLACKWELL.holds(version) else _CAP


def decode_tiers(options: VllmOptions, version: Version) -> tuple[tuple[int, int], ...]:
    """(q, most requests that run at that q): one tier, or those of a dynamic speculation schedule."""
    if not options.tiers or not facts.DECODE_LADDER.holds(version):
        return ((options.query_tokens, options.max_num_seqs),)
    return options.dynamic_tiers


def _old_list(options: VllmOptions, version: Version) -> tuple[int, ...]:
    """To 0.11.0: step 8 all the way, 1, 2, 4 whatever the maximum, then the token budget."""
    top = options.max_cudagraph_capture_size
    if top is None:
        top = min(options.max_num_seqs * 2, _CAP) if facts.DECODE_LIMITED_DEFAULT.holds(version) else _CAP
    sizes = [1, 2, 4, *range(8, top + 1, 8)]
    return tuple(size for size in sizes if size <= options.max_num_batched_tokens)


def _grid(top: int, interactive: bool) -> list[int]:
    sizes = list(range(1, min(top, 32) + 1)) if interactive else [size for size in (1, 2, 4) if size <= top]
    return sizes + list(range(8, min(top + 1, 256), 8)) + list(range(256, top + 1, 16))


def _decode_sizes(options: VllmOptions, ceiling: int, version: Version) -> list[int]:
    """Sizes that cover uniform decode steps exactly: max_num_seqs, or per tier a request ladder times q."""
    if options.query_tokens == 1:
        covered = facts.MAX_SEQS_CAPTURED.holds(version) and options.max_num_seqs <= ceiling
        return [options.max_num_seqs] if covered else []
    if not facts.DECODE_LADDER.holds(version):
        return []
    most = cap(options, version)
    tiers = decode_tiers(options, version)
    return [n * q for q, widest_batch in tiers for n in _requests(min(widest_batch, most)) if n * q <= ceiling]


def _requests(most: int) -> list[int]:
    small = [count for count in (1, 2, 4) if count <= most]
    return [*small, *range(8, min(most + 1, 256), 8), *range(256, most + 1, 16), most]
