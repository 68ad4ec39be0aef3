"""What holds for every engine, whatever is asked of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.engines.base import Engine, Lists
from tuner.engines.codes import CODES
from tuner.engines.registry import ENGINE_NAMES, engine

Case = tuple[Engine, dict[str, str], Lists]
SIZES = st.lists(st.integers(1, 700), min_size=0, max_size=12).map(tuple)


def _vllm(draw: st.DrawFn) -> dict[str, str]:
    return {
        "max_num_seqs": str(draw(st.integers(1, 64))),
        "max_num_batched_tokens": str(draw(st.integers(64, 600))),
        "num_speculative_tokens": str(draw(st.integers(0, 5))),
        "use_v2_model_runner": str(draw(st.booleans())),
        "enable_lora": str(draw(st.booleans())),
        "cudagraph_mode": draw(st.sampled_from(["PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"])),
    }


def _sglang(draw: st.DrawFn) -> dict[str, str]:
    dp = draw(st.sampled_from([1, 2, 4]))
    return {
        "max_running_requests": str(draw(st.integers(1, 300))),
        "cuda_graph_max_bs_decode": str(draw(st.integers(1, 300))),
        "tp_size": "4",
        "dp_size": str(dp),
        "enable_dp_attention": str(draw(st.booleans())),
        "enable_two_batch_overlap": str(draw(st.booleans())),
        "attn_cp_size": str(draw(st.sampled_from([1, 2]))),
        "disable_cuda_graph_padding": str(draw(st.booleans())),
        "speculative_algorithm": draw(st.sampled_from(["none", "EAGLE", "NGRAM"])),
        "speculative_num_draft_tokens": str(draw(st.integers(1, 6))),
    }


def _tensorrt_llm(draw: st.DrawFn) -> dict[str, str]:
    return {
        "max_batch_size": str(draw(st.integers(1, 300))),
        "max_num_tokens": str(draw(st.integers(8, 600))),
        "max_draft_len": str(draw(st.integers(0, 7))),
        "enable_padding": str(draw(st.booleans())),
    }


def _small(*names: str) -> Callable[[st.DrawFn], dict[str, str]]:
    return lambda draw: {name: str(draw(st.integers(1, 300))) for name in names}


def _ascend(draw: st.DrawFn) -> dict[str, str]:
    slots = {"graph_slots": str(draw(st.integers(1, 20)))} if draw(st.booleans()) else {}
    tp = {"tensor_parallel_size": "4", "flashcomm": str(draw(st.booleans()))}
    return {**_vllm(draw), **slots, **tp, "cudagraph_mode": "FULL_AND_PIECEWISE", "num_speculative_tokens": "0"}


OPTIONS: dict[str, Callable[[st.DrawFn], dict[str, str]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "lmdeploy": _small("max_batch_size"),
    "tgi": _small("max_batch_size"),
    "vllm-ascend": _ascend,
    "vllm-gaudi": _small("max_num_seqs"),
    "mini-sglang": _small("max_running_requests"),
    "nano-vllm": _small("max_num_seqs"),
    "lightllm": _small("running_max_req_size"),
}
TAKES_NO_LIST = ("nano-vllm", "lightllm")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(ENGINE_NAMES))
    raw = OPTIONS[name](draw)
    chosen = engine(name)
    return chosen, raw, draw(st.fixed_dictionaries({}, optional={key: SIZES for key in chosen.list_names}))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_captured_lists_are_sorted_unique_and_count_their_graphs(case: Case) -> None:
    chosen, raw, lists = case
    options = chosen.options(raw)
    effective = chosen.effective(lists, options)
    assert (effective.refused is None) or (effective.families == {} and effective.graphs == 0)
    for sizes in effective.families.values():
        assert list(sizes) == sorted(set(sizes))
    assert effective.graphs >= sum(len(sizes) for sizes in effective.families.values())
    decode = effective.families.get(chosen.decode_family, ())
    if decode and options_cap(chosen, options):
        assert decode[-1] <= options_cap(chosen, options)


def options_cap(chosen: Engine, options: object) -> int:
    """Largest FULL decode size; vLLM's FULL mode serves mixed steps with the same graphs, so it has none."""
    if chosen.name == "vllm" and getattr(options, "mode", "") == "FULL":
        return 0
    if chosen.name in ("tgi", "mini-sglang", "lightllm"):  # they capture what is asked for, however large
        return 0
    if chosen.name in ("vllm", "vllm-ascend"):
        most: int = options.max_num_seqs * options.query_tokens  # type: ignore[attr-defined]
        return most
    return chosen.allowed(options).largest


@settings(max_examples=300, deadline=None)
@given(cases())
def test_asking_for_what_is_captured_changes_nothing(case: Case) -> None:
    chosen, raw, lists = case
    options = chosen.options(raw)
    first = chosen.effective(lists, options)
    if first.refused is not None or (chosen.name in TAKES_NO_LIST and not lists.get("decode")):
        return
    again = {}
    for name in chosen.list_names:
        fed = [first.families[family] for family in chosen.list_families[name] if family in first.families]
        again[name] = max(fed, key=len) if fed else ()
    if not again[chosen.list_names[0]]:
        return
    second = chosen.effective(again, options)
    assert second.refused is None
    if not (chosen.name == "vllm" and options.query_tokens > 1):  # FULL sizes are rounded from the list, not asked for
        assert second.families == first.families
        assert not [change for change in second.changes if change.effective is not None]


@settings(max_examples=300, deadline=None)
@given(cases())
def test_no_bucket_is_smaller_than_its_step_and_every_bucket_is_captured(case: Case) -> None:
    chosen, raw, lists = case
    options = chosen.options(raw)
    effective = chosen.effective(lists, options)
    table = chosen.dispatch(effective, options)
    captured = {size for sizes in effective.families.values() for size in sizes}
    steps = np.arange(1, 720)
    for family in ("decode_full", "decode_piecewise", "prefill_breakable", "draft", "target_verify"):
        buckets = table.dispatch(family, steps).bucket
        hit = buckets > 0
        assert np.all(buckets[hit] >= steps[hit])
        assert set(buckets[hit].tolist()) <= captured


@settings(max_examples=200, deadline=None)
@given(cases(), st.data())
def test_a_list_within_the_allowed_sizes_is_captured_as_asked(case: Case, data: st.DataObject) -> None:
    """What the solver relies on."""
    chosen, raw, _ = case
    options = chosen.options(raw)
    if chosen.name in TAKES_NO_LIST:
        return
    allowed = chosen.allowed(options)
    grid = range(allowed.multiple_of, allowed.largest + 1, allowed.multiple_of)
    if not grid or chosen.decode_family not in chosen.effective({}, options).families:
        return
    picked = data.draw(st.sets(st.sampled_from(list(grid)), min_size=1, max_size=8))
    sizes = tuple(sorted(picked | set(allowed.required)))[-(allowed.max_length or 99) :]
    effective = chosen.effective({chosen.list_names[0]: sizes}, options)
    assert effective.refused is None
    assert effective.families[chosen.decode_family] == sizes


@settings(max_examples=200, deadline=None)
@given(cases())
def test_lint_errors_are_exactly_refusals(case: Case) -> None:
    chosen, raw, lists = case
    options = chosen.options(raw)
    problems = chosen.lint(lists, options)
    assert any(p.severity == "error" for p in problems) == (chosen.effective(lists, options).refused is not None)
    assert all(p.message.endswith(".") or p.message.endswith(").") for p in problems)
    assert {p.code for p in problems} <= set(CODES)
