"""Where vLLM's options hide in a command line or a YAML file: leaves of its JSON arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

_CONFIGS = ("compilation_config", "cc", "O")
LIST_PATHS = tuple(f"{name}.cudagraph_capture_sizes" for name in _CONFIGS)
_SPECULATIVE = ("speculative_config", "sc")
_TIERS = "num_speculative_tokens_per_batch_size"


def options_of(
    raw: Mapping[str, str],
    lists: Mapping[str, tuple[int, ...]],
    flat: Mapping[str, str],
    known: Callable[[Mapping[str, str]], dict[str, str]],
) -> dict[str, str]:
    """`raw` with the options inside JSON arguments; a maximum that the list has anyway is left out."""
    nested = {}
    for path, value in flat.items():
        head, dot, rest = path.partition(".")
        if dot and head in (*_CONFIGS, *_SPECULATIVE):
            nested[rest.rpartition(".")[2]] = value
    if _TIERS in nested:
        nested[_TIERS] = _schedule(nested[_TIERS])
    options = {**known(nested), **raw}
    asked = lists.get("capture")
    if asked and options.get("max_cudagraph_capture_size") == str(max(asked)):
        del options["max_cudagraph_capture_size"]
    return options


def _schedule(text: str) -> str:
    """`[[1, 64, 3], [65, 128, 1]]` as `1-64:3,65-128:1`; anything else as it is, for the option's own check."""
    try:
        tiers = ast.literal_eval(text)
        return ",".join(f"{int(first)}-{int(last)}:{int(draft)}" for first, last, draft in tiers)
    except (ValueError, SyntaxError, TypeError):
        return text
