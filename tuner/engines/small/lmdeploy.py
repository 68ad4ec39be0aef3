"""lmdeploy, PyTorch engine (`lmdeploy/pytorch/config.py:17-34`, `backends/cuda/graph_runner.py:45`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tuner.engines import deploy
from tuner.engines.base import AllowedSizes, SizeChange
from tuner.engines.facts import Facts, flag
from tuner.engines.options import require_positive
from tuner.engines.sizes import unique
from tuner.engines.small.base import Captured, SingleList, bounded

LIST_FLAG = flag("--cudagraph-capture-batch-sizes", "requests", "The list, space separated.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LmdeployOptions:
    """max_batch_size: most requests of a step; lmdeploy's own default depends on the GPU (128 to 1024)."""

    max_batch_size: int = 256

    def __post_init__(self) -> None:
        require_positive(self, "max_batch_size")


class Lmdeploy(SingleList):
    """max_batch_size is always captured; a larger batch fails an assertion, so nothing else is possible."""

    name: ClassVar[str] = "lmdeploy"
    latest: ClassVar[str] = "0.18"
    oldest: ClassVar[str] = "0.10"
    options_type: ClassVar[type[LmdeployOptions]] = LmdeployOptions
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {"decode": ("cudagraph_capture_batch_sizes",)}
    shown: ClassVar[tuple[str, ...]] = ("max_batch_size",)
    aliases: ClassVar[Mapping[str, str]] = {"max_batches": "max_batch_size"}
    watch: ClassVar[str] = (
        "The start-up log says 'Engine warmup completed in X seconds.'; fewer sizes make X smaller. To go back, remove "
        f"{LIST_FLAG.name}: lmdeploy then captures powers of two."
    )
    facts: ClassVar[Facts] = Facts(
        unit="requests",
        flags=(LIST_FLAG, flag("PytorchEngineConfig.cudagraph_capture_batch_sizes", "requests", "The same in Python.")),
        rules=(
            "The default is powers of two to 256, then steps of 256, and always max_batch_size.",
            "A list is sorted and deduplicated, loses what exceeds max_batch_size, and gets max_batch_size.",
        ),
        traps=(
            "An empty list, or one above max_batch_size as a whole, is an AssertionError.",
            "A custom list gained less than 1 % as a rule, 4.27 % once (#4573).",
        ),
        source="engine sources, and `normalize_cudagraph_capture_batch_sizes` of the 0.18.0 wheel",
    )

    def ladder(self, options: LmdeployOptions) -> tuple[int, ...]:
        top = options.max_batch_size
        return unique([size for size in (1, 2, 4, 8, 16, 32, 64, 128, *range(256, top, 256)) if size < top] + [top])

    def capture(self, asked: tuple[int, ...], options: LmdeployOptions) -> Captured:
        top = options.max_batch_size
        if not asked:
            return Captured((), refused="an empty list (AssertionError)")
        kept, changes = bounded(asked, top, f"above max_batch_size ({top})")
        if not kept:
            return Captured((), changes, f"no size is within max_batch_size ({top}) (AssertionError)")
        if kept[-1] != top:
            added = SizeChange("decode", None, top, "max_batch_size is always captured")
            return Captured((*kept, top), (*changes, added))
        return Captured(kept, changes)

    def top(self, options: LmdeployOptions) -> int:
        return options.max_batch_size

    def allowed(self, options: LmdeployOptions) -> AllowedSizes:
        top = options.max_batch_size
        return AllowedSizes(top, top, required=(top,))

    def settings(self, sizes: tuple[int, ...], options: LmdeployOptions) -> deploy.Settings:
        return deploy.Settings("lmdeploy", ((LIST_FLAG.name, *(str(size) for size in sizes)),))
