"""The verdict of starts inside the engine, and the intervals that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tuner.engine_verdict import EngineThresholds, ListRuns, decide_in_engine
from tuner.intervals import BlockValue, blocked_change, interval, relative_change, t_975

RULES = EngineThresholds()
NOISE = (-0.004, -0.002, 0.0, 0.002, 0.004)


OF_STARTS = ("capture_s", "kv_tokens")


def runs(
    sizes: int, starts: int = 5, noise: Sequence[float] = NOISE, names: Sequence[str] = ("chat",), **means: float
) -> ListRuns:
    usual = {
        "mean_step_ms": 10.0,
        "tpot_ms": 12.0,
        "ttft_ms": 100.0,
        "throughput_tokens_per_s": 5000.0,
        "capture_s": 6.0,
    }
    figures = {
        name: [BlockValue(mean * (1 + share)) for share in noise[:starts]] for name, mean in (usual | means).items()
    }
    own = {name: values for name, values in figures.items() if name in OF_STARTS}
    served = {name: values for name, values in figures.items() if name not in OF_STARTS}
    return ListRuns(sizes, starts, own, dict.fromkeys(names, served))


def test_intervals_are_those_of_the_textbook() -> None:
    found = interval([10.0, 12.0, 14.0])
    assert found is not None and found.mean == 12 and found.low == pytest.approx(12 - 4.303 * 2 / 3**0.5)
    assert interval([]) is None and interval([1.0]).low is None  # type: ignore[union-attr]
    assert [t_975(n) for n in (1, 4, 20, 60)] == pytest.approx([12.706, 2.776, 2.086, 2.000], abs=2e-3)


def test_the_interval_of_a_change_covers_the_truth_as_often_as_it_says() -> None:
    draw, hits = np.random.default_rng(1), 0
    for _ in range(600):
        found = relative_change(draw.normal(9.8, 0.3, 5).tolist(), draw.normal(10.0, 0.2, 5).tolist())
        assert found is not None and found.low is not None and found.high is not None
        hits += found.low <= -0.02 <= found.high
    assert 0.92 < hits / 600 < 0.99


def covers_and_widths(make: Callable[[float], list[BlockValue]]) -> tuple[float, float]:
    """Of 400 pairs of groups whose means differ by 1 %: how often the interval has that, and how wide it is beside the
    plain one."""
    hits, widths = 0, [0.0, 0.0]
    for _ in range(400):
        groups = [make(mean) for mean in (9.9, 10.0)]
        read, plain = blocked_change(*groups), relative_change(*([v.value for v in group] for group in groups))
        for i, found in enumerate((read, plain)):
            assert found is not None and found.low is not None and found.high is not None
            widths[i] += found.high - found.low
        hits += read.low <= -0.01 <= read.high  # type: ignore[union-attr, operator]
    return hits / 400, widths[0] / widths[1]


def test_what_two_gpus_differ_by_is_no_noise_of_the_lists() -> None:
    draw = np.random.default_rng(2)

    def on_two_gpus(mean: float) -> list[BlockValue]:
        noise = draw.normal(0, 0.02, 5)
        return [BlockValue(mean * (1 + 0.01 * (i % 2)) + noise[i], f"GPU-{i % 2}") for i in range(5)]

    hits, width = covers_and_widths(on_two_gpus)
    assert 0.92 < hits < 0.98
    assert width < 0.6
    alone = [[BlockValue(v, "a") for v in (9.9, 10.1)], [BlockValue(v, "b") for v in (10.0, 10.2)]]
    assert blocked_change(*alone) == relative_change((9.9, 10.1), (10.0, 10.2))  # no list ran on both


def test_what_a_start_has_beside_its_list_is_no_noise_of_the_lists() -> None:
    """Both groups draw what goes with the value alike: the interval covers as often, and is narrower."""
    draw = np.random.default_rng(3)

    def with_beside(mean: float) -> list[BlockValue]:
        beside, noise = draw.lognormal(4, 0.04, 5), draw.normal(0, 0.003, 5)
        values = mean * (beside / np.exp(4)) ** 0.2 * (1 + noise)
        return [BlockValue(v, "", b) for v, b in zip(values, beside, strict=True)]

    hits, width = covers_and_widths(with_beside)
    assert 0.92 < hits < 0.98
    assert width < 0.5


def test_a_figure_beside_is_used_where_every_value_has_one_and_there_are_enough() -> None:
    new, old = [BlockValue(9.9, "", 1.0), BlockValue(10.1, "", 1.1)], [BlockValue(10.0, "", 1.2), BlockValue(10.2)]
    plain = relative_change((9.9, 10.1), (10.0, 10.2))
    assert blocked_change(new, old) == plain
    assert blocked_change(new, [*old[:1], BlockValue(10.2, "", 1.0)]) == plain, "four values tell no slope"
    same = [[BlockValue(v, "", 50.0) for v in values] for values in ((9.9, 10.1, 10.0), (10.0, 10.2, 10.1))]
    found = blocked_change(*same)
    assert found is not None and found.mean == pytest.approx(-0.0099, abs=1e-4)


def test_as_fast_with_far_fewer_sizes_is_adopted() -> None:
    decision = decide_in_engine(runs(12, capture_s=1.5), runs(51), RULES)
    assert decision.verdict == "adopt"
    assert decision.reasons[0] == "12 captured sizes instead of 51 (76% less)."
    assert "75% less capture time" in decision.reasons[1]


def test_faster_beyond_its_interval_is_adopted() -> None:
    decision = decide_in_engine(runs(51, tpot_ms=11.5), runs(51), RULES)
    assert decision.verdict == "adopt" and "The time per token changes by -4.2%" in decision.reasons[0]


@pytest.mark.parametrize(
    ("tuned", "verdict", "words"),
    [
        (runs(12, tpot_ms=12.5), "keep_default", "beyond the margin of 1.0%"),
        (runs(12, throughput_tokens_per_s=4700.0), "keep_default", "The throughput changes by -6.0%"),
        (runs(12, fallback_rate=0.02), "keep_default", "2.00% of steps run without a graph"),
        (runs(12, failed_rate=0.01), "keep_default", "1.00% of the requests failed"),
        (runs(12, kv_tokens=490_000.0), "keep_default", "The KV cache shrinks by 2.0%"),
        (runs(12, noise=(-0.05, -0.02, 0.0, 0.02, 0.05)), "inconclusive", "more starts narrow it"),
        (runs(12, starts=2), "inconclusive", "at least 3 of each"),
        (runs(51), "keep_default", "No gain"),
    ],
)
def test_whatever_is_worse_or_open_is_not_adopted(tuned: ListRuns, verdict: str, words: str) -> None:
    decision = decide_in_engine(tuned, runs(51, fallback_rate=0.0, kv_tokens=500_000.0), RULES)
    assert decision.verdict == verdict and words in " ".join(decision.reasons)


def test_a_list_that_the_engine_refuses_is_not_adopted() -> None:
    decision = decide_in_engine(
        ListRuns(0, 0, workloads={"chat": {}}), runs(51), RULES, refused="ValueError: too large"
    )
    assert decision.verdict == "keep_default" and "ValueError: too large" in decision.reasons[0]


def test_a_list_that_is_worse_for_one_of_its_workloads_is_not_adopted() -> None:
    names = ("chat x1", "chat x4", "code x2")
    default, good = runs(51, names=names), runs(12, names=names)
    assert decide_in_engine(good, default, RULES).verdict == "adopt"
    slower = runs(12, names=names, tpot_ms=12.5).workloads["chat x4"]
    found = decide_in_engine(replace(good, workloads={**good.workloads, "chat x4": slower}), default, RULES)
    assert found.verdict == "keep_default"
    assert found.reasons[0].startswith("chat x4: The time per token changes by +4.2%")
    assert found.workload_changes["code x2"]["tpot_ms"].mean == pytest.approx(0.0)
    assert set(found.changes) == {"capture_s"}


def test_steps_without_a_graph_that_come_and_go_are_no_loss() -> None:
    """Mixed steps above the last size: their number is the scheduler's, and differs between starts of one list."""

    def falling_back(sizes: int, *shares: float) -> ListRuns:
        made = runs(sizes)
        return replace(
            made, workloads={"chat": {**made.workloads["chat"], "fallback_rate": [BlockValue(s) for s in shares]}}
        )

    default = falling_back(51, 0.0244, 0.0240, 0.0248, 0.0244)
    assert decide_in_engine(falling_back(12, 0.0245, 0.0238, 0.0252, 0.0247), default, RULES).verdict == "adopt"
    lost = decide_in_engine(falling_back(12, 0.0345, 0.0338, 0.0352, 0.0346), default, RULES)
    assert lost.verdict == "keep_default" and "3.45% of steps run without a graph" in lost.reasons[0]
