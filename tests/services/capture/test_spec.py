"""What is measured when nobody says otherwise."""

from __future__ import annotations

import pytest

from services.capture.spec import (
    DraftShape,
    MeasureSpec,
    default_fallback_sizes,
    default_sizes,
    default_spec,
    family_spec,
    list_spec,
)
from tuner.probe_plan import ProbePlan
from workloads.errors import BadUsage


def test_the_full_profile_covers_every_small_size_and_every_engine_ladder() -> None:
    sizes = default_sizes()
    assert set(range(1, 65)) <= set(sizes)
    assert set(range(64, 513, 8)) <= set(sizes)
    assert sizes[-1] == 512
    assert default_fallback_sizes() == (576, 640, 768, 896, 1024)


def test_defaults_follow_the_device() -> None:
    cuda, cpu = default_spec("llama-3.1-8b", cuda=True), default_spec("tiny-llama", cuda=False)
    assert cuda.starts >= 2 and len(cuda.contexts) >= 3 and len(cuda.fills) >= 2
    assert cuda.prefill_tokens[0] == 128 and cuda.prefill_tokens[-1] == 16384 and len(cuda.prefixes) == 2
    assert cpu.largest <= 64 and cpu.device == "cpu" and cpu.probing is None
    assert cuda.probing is not None and cuda.probing.candidates == default_sizes() and len(cuda.sizes) < 20
    dense = default_spec("llama-3.1-8b", cuda=True, dense=True)
    assert dense.probing is None and dense.sizes == default_sizes()
    assert default_spec("tiny-llama", cuda=True, sizes=(8, 2)).all_sizes == (2, 8)


def test_sizes_that_kill_their_worker_are_not_probed_again() -> None:
    spec = default_spec("tiny-llama", cuda=True)
    without = spec.without(frozenset({72}))
    assert without.probing is not None and 72 not in without.probing.candidates
    endless = spec.without(frozenset({512}))
    assert endless.probing is None and endless.sizes[-1] == 384


def test_prefill_has_sizes_of_its_own() -> None:
    base = default_spec("tiny-llama", cuda=True)
    job = family_spec(base, "prefill")
    assert job.strategy == "piecewise" and job.sizes[-1] == 8192 and job.probing is None and not job.contexts
    assert family_spec(base, "prefill", sizes=(64,), strategy="breakable").sizes == (64,)
    assert family_spec(base, "target_verify", tokens_per_request=4).probing == base.probing
    with pytest.raises(BadUsage, match="every prompt has another number"):
        family_spec(base, "prefill", strategy="full")


def test_a_draft_has_a_tree_and_no_prefill() -> None:
    base = default_spec("tiny-llama", cuda=True)
    job = family_spec(base, "draft", draft=DraftShape(topk=4, num_steps=5))
    assert job.draft is not None and job.draft.forwards == 4
    assert job.strategy == "full" and job.probing == base.probing and job.prefill_tokens == () and job.contexts
    assert family_spec(base, "draft").draft == DraftShape(topk=1, num_steps=3)
    for shape, field in (((0, 3), "topk"), ((1, 1), "num_steps")):
        with pytest.raises(BadUsage) as caught:
            DraftShape(*shape)
        assert caught.value.field == field
    with pytest.raises(BadUsage, match="to no other"):
        family_spec(base, "target_verify", tokens_per_request=4, draft=DraftShape())


def test_a_list_job_measures_the_list_and_nothing_else() -> None:
    job = list_spec(default_spec("tiny-llama", cuda=False), (8, 1))
    assert job.all_sizes == (1, 8)
    assert not job.prefill_tokens and not job.contexts and not job.measure_fallback


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sizes": ()}, "sizes"),
        ({"fallback_sizes": (8,)}, "fallback_sizes"),
        ({"starts": 0}, "starts"),
        ({"warmup": -1}, "warmup"),
        ({"prefixes": (-1,)}, "prefixes"),
        ({"strategy": "magic"}, "strategy"),
        ({"device": "tpu"}, "device"),
        ({"fills": (1.5,)}, "fills"),
        ({"family": "draw"}, "family"),
        ({"family": "draft"}, "draft"),
        ({"draft": DraftShape()}, "draft"),
        ({"family": "draft", "draft": DraftShape(), "strategy": "piecewise"}, "strategy"),
        ({"family": "draft", "draft": DraftShape(), "tokens_per_request": 2}, "tokens_per_request"),
        ({"family": "prefill"}, "strategy"),
        ({"family": "target_verify"}, "tokens_per_request"),
        ({"tokens_per_request": 4}, "tokens_per_request"),
        ({"probing": ProbePlan(candidates=(1, 16))}, "sizes"),
    ],
)
def test_an_impossible_job_is_refused_by_its_field(change: dict[str, object], field: str) -> None:
    values: dict[str, object] = {"model": "tiny-llama", "sizes": (1, 8)}
    with pytest.raises(BadUsage) as caught:
        MeasureSpec(**(values | change))  # type: ignore[arg-type]
    assert caught.value.field == field
