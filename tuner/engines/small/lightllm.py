"""lightllm: three numbers instead of a list, so only the nearest ladder can be had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tuner.engines import deploy
from tuner.engines.base import AllowedSizes, Problem, SizeChange
from tuner.engines.facts import Facts, flag
from tuner.engines.options import require_positive
from tuner.engines.sizes import some, unique
from tuner.engines.small.base import Captured, SingleList
from workloads.arrays import I64

MAX_FLAG = flag("--graph_max_batch_size", "requests", "End of the ladder, always captured; default 256.")
SPLIT_FLAG = flag("--graph_split_batch_size", "requests", "Every size up to it is captured; default 32.")
GROW_FLAG = flag("--graph_grow_step_size", "requests", "Step from there on; default 16.")
LENGTH_FLAG = flag("--graph_max_len_in_batch", "tokens", "Longer sequences run eager.")

_STEPS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class LightllmOptions:
    """The engine's own names; running_max_req_size is the largest decode step."""

    running_max_req_size: int = 256
    graph_max_batch_size: int = 256
    graph_split_batch_size: int = 32
    graph_grow_step_size: int = 16
    graph_max_len_in_batch: int = 0

    def __post_init__(self) -> None:
        require_positive(self, "running_max_req_size", "graph_max_batch_size", "graph_split_batch_size")
        require_positive(self, "graph_grow_step_size")
        require_positive(self, "graph_max_len_in_batch", least=0)


class Lightllm(SingleList):
    """1..split, then every `grow`, then the maximum."""

    name: ClassVar[str] = "lightllm"
    latest: ClassVar[str] = "1.1"
    oldest: ClassVar[str] = "1.0"
    options_type: ClassVar[type[LightllmOptions]] = LightllmOptions
    shown: ClassVar[tuple[str, ...]] = ("running_max_req_size",)
    parametric: ClassVar[bool] = True
    watch: ClassVar[str] = (
        "The start-up log shows every captured batch size. To go back, remove the three flags: lightllm then captures "
        "1..32, then every 16th to 256."
    )
    facts: ClassVar[Facts] = Facts(
        unit="requests",
        flags=(MAX_FLAG, SPLIT_FLAG, GROW_FLAG, LENGTH_FLAG),
        rules=("Captured are 1..split, then steps of grow, and the maximum.",),
        traps=("An arbitrary list cannot be expressed; the export is the ladder that pads most like it.",),
        source="command line of release 2025-07",
    )

    def ladder(self, options: LightllmOptions) -> tuple[int, ...]:
        top, split = options.graph_max_batch_size, options.graph_split_batch_size
        sizes = [*range(1, split + 1), *range(split + options.graph_grow_step_size, top, options.graph_grow_step_size)]
        return unique([size for size in sizes if size < top] + [top])

    def capture(self, asked: tuple[int, ...], options: LightllmOptions) -> Captured:
        if not asked:
            return Captured((), refused="an empty list")
        made = self.ladder(self.nearest(asked, options))
        reason = "only a ladder of 1..split, then equal steps, can be expressed"
        lost = [SizeChange("decode", size, None, reason) for size in unique(asked) if size not in made]
        more = [SizeChange("decode", None, size, reason) for size in made if size not in asked]
        return Captured(made, (*lost, *more))

    def nearest(self, asked: tuple[int, ...], options: LightllmOptions) -> LightllmOptions:
        """The ladder with the same end whose buckets differ least, weighing a size more like that many padded slots."""
        wanted = np.array(unique(asked), dtype=np.int64)
        top = int(wanted[-1])
        steps = np.arange(1, top + 1)
        target = _buckets(wanted, steps)

        def distance(made: LightllmOptions) -> tuple[float, int]:
            sizes = np.array(self.ladder(made), dtype=np.int64)
            padding = float(np.abs(_buckets(sizes, steps) - target).mean()) / float(target.mean())
            return padding + abs(len(sizes) - len(wanted)) / len(wanted), len(sizes)

        ladders = [
            replace(options, graph_max_batch_size=top, graph_split_batch_size=split, graph_grow_step_size=grow)
            for split in {min(step, top) for step in (*_STEPS, top)}
            for grow in {min(step, top) for step in (*_STEPS, top)}
        ]
        return min(ladders, key=lambda made: (*distance(made), made.graph_split_batch_size, made.graph_grow_step_size))

    def top(self, options: LightllmOptions) -> int:
        return options.running_max_req_size

    def allowed(self, options: LightllmOptions) -> AllowedSizes:
        return AllowedSizes(options.running_max_req_size, options.running_max_req_size)

    def traps(self, asked: tuple[int, ...] | None, made: Captured, options: LightllmOptions) -> list[Problem]:
        if not asked or unique(asked) == made.sizes:
            return []
        message = f"lightllm takes no list: the nearest ladder is {some(made.sizes)} ({len(made.sizes)} sizes)."
        return [Problem("NOT_EXPRESSIBLE", message, "warning", list(made.sizes))]

    def settings(self, sizes: tuple[int, ...], options: LightllmOptions) -> deploy.Settings:
        made = options if self.ladder(options) == sizes else self.nearest(sizes, options)
        pairs = (
            (MAX_FLAG.name, made.graph_max_batch_size),
            (SPLIT_FLAG.name, made.graph_split_batch_size),
            (GROW_FLAG.name, made.graph_grow_step_size),
        )
        return deploy.Settings("lightllm", tuple((name, str(value)) for name, value in pairs))


def _buckets(sizes: I64, steps: I64) -> I64:
    found: I64 = sizes[np.searchsorted(sizes, steps)]
    return found
