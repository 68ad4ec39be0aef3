"""From a million recorded steps to the whole front and a recommendation: `python -m benchmarks.decide`.

Prints process CPU time, the least of some repeats: other programs on the machine hardly change it, and kernels are
compiled before. Steps are drawn with a fixed seed as a batch that wanders, one row a step as a log has them. No GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from services.catalog import DEFAULT_PROFILE, find_profile
from tuner.case import Case
from tuner.engines.registry import engine
from tuner.recommend import recommend
from tuner.recommendation import TuneRequest
from workloads.arrays import I64
from workloads.traces.records import StepTrace

REPEATS = 5
RAW = {"max_num_seqs": "512"}


def wandering(steps: int, most: int, seed: int = 0) -> I64:
    """Batch sizes of a day: a slow wave under a random walk that is pulled back to it."""
    rng = np.random.default_rng(seed)
    wave = 0.35 * most * (1.0 + np.sin(np.linspace(0.0, 40.0, steps)))
    noise = np.convolve(rng.normal(0.0, 12.0, steps), np.ones(64) / 8.0, mode="same")
    return np.clip(np.rint(wave + noise), 1, most).astype(np.int64)


def recorded(sizes: I64) -> StepTrace:
    """One row a step, 10 ms apart, as a reader makes them of a log."""
    count = len(sizes)
    return StepTrace(
        size=sizes,
        steps=np.ones(count, dtype=np.int64),
        families=("decode_full",),
        units=("tokens",),
        family_index=np.zeros(count, dtype=np.int8),
        start_s=np.arange(count) * 0.01,
        step_ms=np.full(count, np.nan),
        kv_tokens=np.full(count, np.nan),
        padded_size=np.zeros(count, dtype=np.int64),
        fallback=np.full(count, -1, dtype=np.int8),
        origin="census",
    )


def best_cpu_s(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least process CPU time of `work` in seconds."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--trials", type=int, default=24)
    arguments = parser.parse_args()
    profile = find_profile(DEFAULT_PROFILE)
    vllm = engine("vllm@0.33.0")
    sizes = wandering(arguments.steps, 512)
    request = TuneRequest(
        recorded(sizes), "wandering", vllm, vllm.options(RAW), profile, raw_options=RAW, trials=arguments.trials
    )
    case = Case.of(request)

    def whole_front() -> object:
        return case.front(case.observe(recorded(sizes), case.default_lists()))

    front_s = best_cpu_s(whole_front)
    answer_s = best_cpu_s(lambda: recommend(request))
    answer = recommend(request)
    print(f"{arguments.steps:,} recorded steps, {len(answer.front)} lengths, {arguments.trials} trials")
    print(f"  counted and solved, the whole front   {front_s:7.3f} s of CPU")
    print(f"  to the recommendation ({answer.verdict})   {answer_s:7.3f} s of CPU (mark: 2 s)")


if __name__ == "__main__":
    main()
