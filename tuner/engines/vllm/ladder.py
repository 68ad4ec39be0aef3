"""The sizes vLLM captures when nobody asks for any (vLLM 0.33.0 `config/vllm.py:2398-2655`)."""

from __future__ import annotations

from packaging.version import Version

from tuner.engines.sizes import unique
from tuner.engines.vllm.options import VllmOptions

DECODE_SIZES_SINCE = Version("0.33")
"""max_num_seqs is appended since vLLM pull request 57355; releases between 0.28 and 0.33 are not verified."""

WIDE_STEP_SINCE = Version("0.11.1")
"""Up to 0.11.0 the step stayed 8 all the way; since then it is 16 from 256 on."""


def default_list(options: VllmOptions, version: Version) -> tuple[int, ...]:
    """The default list in tokens, increasing; at least one size."""
    explicit = options.max_cudagraph_capture_size
    widest = min(options.max_num_seqs * options.query_tokens * 2, options.capture_ceiling_tokens)
    ceiling = widest if explicit is None else explicit
    top = min(ceiling, options.max_num_batched_tokens)
    sizes = _grid(top, options, version)
    if options.max_num_batched_tokens <= top:
        sizes.append(options.max_num_batched_tokens)
    # A range that was asked for is left as asked: no decode sizes are added (vLLM issue 54933).
    if explicit is None and version >= DECODE_SIZES_SINCE:
        sizes += [size for size in _decode_sizes(options, ceiling) if size <= options.max_num_batched_tokens]
    return unique(sizes)


def _grid(top: int, options: VllmOptions, version: Version) -> list[int]:
    if options.performance_mode == "interactivity":
        sizes = list(range(1, min(top, 32) + 1))
    else:
        sizes = [size for size in (1, 2, 4) if size <= top]
    if version < WIDE_STEP_SINCE:
        return sizes + list(range(8, top + 1, 8))
    return sizes + list(range(8, min(top + 1, 256), 8)) + list(range(256, top + 1, 16))


def _decode_sizes(options: VllmOptions, ceiling: int) -> list[int]:
    """Sizes that cover uniform decode steps exactly: max_num_seqs, or a request ladder times q."""
    q = options.query_tokens
    if q == 1:
        return [options.max_num_seqs] if options.max_num_seqs <= ceiling else []
    most = min(options.max_num_seqs, options.capture_ceiling_tokens)
    requests = [count for count in (1, 2, 4) if count <= most]
    requests += [*range(8, min(most + 1, 256), 8), *range(256, most + 1, 16), most]
    return [count * q for count in requests if count * q <= ceiling]
