"""Make the bundled sample trace: a chat and code assistant on one engine, a working day squeezed into 15 minutes.

    python -m workloads.samples.make_sample [FILE]

writes the same bytes every time. How it is made:

- arrivals: a gamma renewal process (coefficient of variation 1.8, so requests come in bursts) whose rate follows
  `rate_per_s`: a quiet start, a morning peak, a dip at noon, a higher peak, a quiet end;
- 70 % chat turns: log-normal prompt (median 350 tokens) and answer (median 380);
- 18 % code edits: log-normal prompt (median 1,800) and answer (median 650);
- 12 % code completions: log-normal prompt (median 1,100) and answer (median 24).

On an engine that takes 6 to 18 ms per decode step mostly 15 to 300 requests run at once.
"""

from __future__ import annotations

import math
import random
import sys
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

SEED = 20_260_101
REQUESTS = 9_000
SPAN_S = 900
BURSTINESS_CV = 1.8
OUTPUT = Path(__file__).with_name("chat_and_code.csv")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request: log-normal lengths, clipped to [1, longest]."""

    share: float
    input_median: float
    input_sigma: float
    output_median: float
    output_sigma: float


KINDS = (
    Kind(0.70, 350, 1.1, 380, 0.80),
    Kind(0.18, 1_800, 0.8, 650, 0.70),
    Kind(0.12, 1_100, 0.7, 24, 0.60),
)
LONGEST_INPUT, LONGEST_OUTPUT = 16_000, 4_000


def rate_per_s(day: float) -> float:
    """Relative arrival rate at a share `day` (0 to 1) of the working day."""
    morning = math.exp(-(((day - 0.33) / 0.10) ** 2))
    afternoon = math.exp(-(((day - 0.68) / 0.13) ** 2))
    return 0.45 + 0.75 * morning + 0.95 * afternoon


def arrivals_s(draw: random.Random) -> list[float]:
    """Sorted arrival times: a renewal process of mean gap 1, stretched so that its rate follows the day."""
    shape = 1 / BURSTINESS_CV**2
    clock = list(accumulate(draw.gammavariate(shape, 1 / shape) for _ in range(REQUESTS)))
    load = [0.0, *accumulate(rate_per_s((second + 0.5) / SPAN_S) for second in range(SPAN_S))]
    scale = load[-1] / clock[-1]
    times = []
    for tick in clock:
        target = tick * scale
        second = min(max(bisect_left(load, target), 1), SPAN_S)
        times.append(second - 1 + (target - load[second - 1]) / (load[second] - load[second - 1]))
    return [time - times[0] for time in times]


def lengths(draw: random.Random) -> tuple[int, int]:
    """Prompt and answer tokens of one request."""
    kind = draw.choices(KINDS, weights=[kind.share for kind in KINDS])[0]
    prompt = draw.lognormvariate(math.log(kind.input_median), kind.input_sigma)
    answer = draw.lognormvariate(math.log(kind.output_median), kind.output_sigma)
    return min(max(round(prompt), 1), LONGEST_INPUT), min(max(round(answer), 1), LONGEST_OUTPUT)


def sample_csv() -> str:
    """The whole file."""
    draw = random.Random(SEED)
    rows = ["arrival_s,input_tokens,output_tokens"]
    for time_s in arrivals_s(draw):
        prompt, answer = lengths(draw)
        rows.append(f"{time_s:.3f},{prompt},{answer}")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    target.write_text(sample_csv(), encoding="utf-8", newline="\n")
