"""How fast the exact solver is: `python benchmarks/solve.py`.

Prints the hull path beside a plain numpy O(K N^2) programme of the same run, its time over K N log2 N as N grows, and
the general programme for two families on one list under a regret bound. Compilation is done before anything is timed;
figures are the least of many runs, since on a busy machine the rest is waiting. Marks for one core: 1, 5 and 150 ms for
the first three lines, 50 ms for the last block.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from tuner.exact import Method, Problem, solve
from tuner.programme import Shared
from workloads.arrays import F64

LARGEST_PLAIN = 4096
"""Sizes up to which the numpy version is worth waiting for."""


def measured_like(n: int, seed: int = 0) -> Problem:
    """A staircase with noise, so about half of all neighbours are inverted, and a bursty histogram."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, n + 1)
    g = 6 + np.floor(sizes / (n / 8)) * 1.2 + sizes * (3 / n) + rng.normal(0, 0.3, n)
    weights = rng.gamma(0.5, 1.0, n) + 1e-6
    return Problem(sizes, weights, sizes, g, np.full(n + 1, np.nan), n, sizes, g)


def two_families(n: int) -> Problem:
    """vLLM's case: PIECEWISE steps run in graphs of the sizes that FULL ones have; under a regret bound."""
    full, other = measured_like(n), measured_like(n, seed=1)
    piecewise = Shared(other.sizes, other.weights, other.bucket_ms * 1.3, other.fallback_ms)
    return replace(full, regret=0.3, shared=(piecewise,))


def plain_numpy_ms(problem: Problem, layers: int) -> tuple[float, F64]:
    """The textbook recurrence in numpy, vectorised over the inner index: (milliseconds, best mean per length)."""
    n = len(problem.candidates)
    p = np.concatenate(([0.0], np.cumsum(problem.weights / problem.weights.sum())))
    begin = time.perf_counter()
    before = np.full(n + 1, np.inf)
    before[0] = 0.0
    best = np.empty(layers)
    for k in range(layers):
        now = np.full(n + 1, np.inf)
        for j in range(1, n + 1):
            now[j] = np.min(before[:j] + problem.bucket_ms[j - 1] * (p[j] - p[:j]))
        best[k], before = now[n], now
    return (time.perf_counter() - begin) * 1e3, np.minimum.accumulate(best)


def quickest_ms(problem: Problem, layers: int, *, method: Method = "auto", repeats: int = 25) -> float:
    return min(solve(problem, layers, method=method).solve_ms for _ in range(repeats))


def main() -> None:
    print("hull path, plain family, against plain numpy O(K N^2)")
    for n, layers in ((512, 64), (2048, 64), (16384, 128)):
        problem = measured_like(n)
        hull_ms = quickest_ms(problem, layers)
        if n > LARGEST_PLAIN:
            print(f"  N={n:6d} K={layers:4d}  hull {hull_ms:8.2f} ms   numpy: minutes, not run")
            continue
        numpy_ms, best = plain_numpy_ms(problem, layers)
        assert np.allclose([point.mean_ms for point in solve(problem, layers).front], best, rtol=1e-9)
        ratio = numpy_ms / hull_ms
        print(f"  N={n:6d} K={layers:4d}  hull {hull_ms:8.2f} ms   numpy {numpy_ms:9.1f} ms   ratio {ratio:7.0f}")
    print("hull path as N grows: time / (K N log2 N)")
    for n, layers in ((512, 64), (1024, 64), (2048, 64), (4096, 64), (8192, 64), (16384, 64), (16384, 128)):
        hull_ms = quickest_ms(measured_like(n), layers)
        print(f"  N={n:6d} K={layers:4d}  {hull_ms:8.2f} ms   {hull_ms * 1e6 / (layers * n * math.log2(n)):6.3f} ns")
    print("general programme, K=64")
    for regret in (0.3, 1.0, math.inf):
        problem = replace(measured_like(512), regret=regret)
        general_ms = quickest_ms(problem, 64, method="general")
        print(f"  N=   512  regret {regret:4}  {general_ms:8.2f} ms")
    both_ms = quickest_ms(two_families(512), 64)
    print(f"  N=   512  regret  0.3  {both_ms:8.2f} ms, a second family on the same list")


if __name__ == "__main__":
    main()
