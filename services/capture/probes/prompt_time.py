"""Time of one prompt that the engine has not seen, with one token of output: prefill, and a mixed step of its tokens.

A mixed step has prefill tokens, alone or beside decode rows. vLLM runs one in PIECEWISE graphs of the smallest captured
size that holds all its tokens, from the list that FULL graphs of decode steps have too. A prompt as long as a captured
size, sent to an idle engine, is one such step. What it takes through the interface includes the client and HTTP, which
are the same for every list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.capture.probes.base import Batch, RunningEngine
from services.capture.probes.records import PrefillTiming
from tuner.engines.base import Engine

_NEAR_TOKENS = (16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
_UNCAPTURED_SIZES = 3  # of the sizes read in graphs, that are read without one too
_POWERS = range(7, 15)  # of two: prompts whose prefill the simulation goes by
_CAPTURED_READINGS, _UNCAPTURED_READINGS = 5, 3
_SEEDS_APART = 10  # of two lengths: more than either reads
_UNCAPTURED_SEED, _CAPTURED_SEED = 900_000_000, 910_000_000


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """Prompts that a start reads.

    Attributes:
        readings: of every length, after one that is not timed.
        seed: of the first prompt; no two prompts share their first block, so that no prefix cache spares any.
    """

    tokens: tuple[int, ...]
    readings: int
    seed: int

    @property
    def prompts(self) -> int:
        """All that are sent."""
        return len(self.tokens) * (1 + self.readings)


def mixed_family(engine: Engine) -> str | None:
    """The family of mixed steps whose graphs come from the list of decode steps; None where no list does both."""
    fed = engine.list_families[engine.list_names[0]]
    return next((name for name in fed if name != engine.decode_family and name.endswith("_piecewise")), None)


def mixed_sizes(captured: Sequence[int], most_tokens: int) -> tuple[int, ...]:
    """Captured sizes of which a mixed step is read: a dozen over the range, and the last.

    Args:
        captured: increasing.
        most_tokens: of a prompt that is prefilled in one step.
    """
    fitting = [size for size in captured if 1 < size <= most_tokens]  # a prompt of one token is a decode step
    if not fitting:
        return ()
    near = (tokens for tokens in _NEAR_TOKENS if tokens <= fitting[-1])
    return tuple(sorted({*(min(fitting, key=lambda size: abs(size - tokens)) for tokens in near), fitting[-1]}))


def captured_prompts(sizes: tuple[int, ...]) -> PromptPlan:
    """Of starts that capture all of these sizes."""
    return PromptPlan(sizes, _CAPTURED_READINGS, _CAPTURED_SEED)


def uncaptured_prompts(sizes: Sequence[int], largest_captured: int, longest_tokens: int) -> PromptPlan:
    """Of the start that captures few sizes: powers of two, and every other of `sizes` that has no graph, from the last.

    Args:
        longest_tokens: of a request, its output included.
    """
    powers = (1 << k for k in _POWERS)
    above = [size for size in sizes if size > largest_captured]
    tokens = {n for n in (*powers, *above[::-2][:_UNCAPTURED_SIZES]) if n < longest_tokens}
    return PromptPlan(tuple(sorted(tokens)), _UNCAPTURED_READINGS, _UNCAPTURED_SEED)


def time_prompts(
    engine: RunningEngine, plan: PromptPlan, told: Callable[[str], None] = lambda what: None
) -> tuple[PrefillTiming, ...]:
    """Readings of every length.

    Raises:
        EngineFailed: see `RunningEngine.batch_s`.
    """
    return tuple(_timing(engine, plan, tokens, told) for tokens in plan.tokens)


def _timing(engine: RunningEngine, plan: PromptPlan, tokens: int, told: Callable[[str], None]) -> PrefillTiming:
    first = plan.seed + _SEEDS_APART * tokens
    _, *readings_s = [engine.batch_s(Batch(1, tokens, 1, first + i)) for i in range(plan.readings + 1)]
    told(f"a prompt of {tokens} tokens")
    return PrefillTiming(tokens, tuple(seconds * 1e3 for seconds in readings_s))
