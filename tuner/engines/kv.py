"""What graphs cost the KV cache: measured graph memory, and the KV capacity that an engine's rule leaves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIB = 1024 * 1024
GIB_IN_MIB = 1024


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """Measured memory of captured graphs on one GPU.

    Attributes:
        families: graph family -> size -> MiB that capturing this size adds. A family that is missing here costs what
            the first one does: drafts and piecewise graphs are rarely measured apart.
        pool_mib: paid once, whatever is captured.
    """

    families: Mapping[str, Mapping[int, float]]
    pool_mib: float = 0.0

    def sizes_mib(self, family: str, sizes: Sequence[int]) -> tuple[float, ...]:
        """MiB of each of `sizes`; one that was not measured takes the next larger one that was, else the largest."""
        points = self.families.get(family) or next(iter(self.families.values()), {})
        if not points:
            return tuple(0.0 for _ in sizes)
        known = sorted(points)
        return tuple(points[known[min(bisect_left(known, size), len(known) - 1)]] for size in sizes)

    def total_mib(self, families: Mapping[str, Sequence[int]], graphs: int | None = None) -> float:
        """MiB of everything captured; `graphs` counts variants (LoRA) where it exceeds the number of sizes."""
        each = [cost for family, sizes in families.items() for cost in self.sizes_mib(family, sizes)]
        if not each:
            return 0.0
        variants = 1.0 if graphs is None else max(1.0, graphs / len(each))
        return self.pool_mib + sum(each) * variants


@dataclass(frozen=True, slots=True)
class KvTokens:
    """KV capacity of one GPU's engine rank under a capture list.

    Attributes:
        tokens: KV cache in tokens; None where a fact is missing (`reason` names it).
        moves: the list changes the KV cache under this engine's rule and these options.
        reason: one sentence: the rule, and what is not known.
        knob: what would turn saved graph memory into KV cache.
    """

    tokens: int | None
    moves: bool
    reason: str
    knob: str


def tokens_in(free_mib: float, kv_bytes_per_token: float) -> int:
    """Whole tokens that fit; 0 where nothing is left."""
    return max(0, int(free_mib * MIB // kv_bytes_per_token))


def missing(**facts: float | None) -> str:
    """The names of the facts that are unknown, as `unknown: a, b.`; empty where all are known."""
    names = [name for name, value in facts.items() if value is None]
    return f" Not computed without {', '.join(names)}." if names else ""
