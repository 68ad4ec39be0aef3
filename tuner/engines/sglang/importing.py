"""Where SGLang's lists and phase settings hide: flags of three generations, and one JSON."""

from __future__ import annotations

from collections.abc import Mapping

_JSON = "cuda_graph_config"
LIST_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "decode": ("cuda_graph_bs", "cuda_graph_bs_decode", f"{_JSON}.decode.bs"),
    "prefill": ("piecewise_cuda_graph_tokens", "cuda_graph_bs_prefill", f"{_JSON}.prefill.bs"),
}
_PREFILL_OFF = ("disable_piecewise_cuda_graph",)


def options_of(
    raw: Mapping[str, str], lists: Mapping[str, tuple[int, ...]], flat: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """(options, lists) with the JSON's maxima and backends; prefill that is switched off is an empty list."""
    options, asked = dict(raw), dict(lists)
    for phase in ("decode", "prefill"):
        largest, backend = flat.get(f"{_JSON}.{phase}.max_bs"), flat.get(f"{_JSON}.{phase}.backend")
        if largest is not None:
            options[f"cuda_graph_max_bs_{phase}"] = largest
        if backend == "disabled" and phase == "prefill":
            asked["prefill"] = ()
        elif backend is not None:
            options[f"cuda_graph_backend_{phase}"] = backend
    if any(name in flat for name in _PREFILL_OFF):
        asked["prefill"] = ()
    return options, asked
