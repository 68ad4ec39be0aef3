"""Text Generation Inference: a comma list on the command line or in the environment; 0 switches graphs off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tuner.engines import deploy
from tuner.engines.base import AllowedSizes, Problem, SizeChange
from tuner.engines.facts import Facts, flag
from tuner.engines.given import Given
from tuner.engines.options import require_positive
from tuner.engines.sizes import some, unique
from tuner.engines.small.base import Captured, SingleList

LIST_FLAG = flag("--cuda-graphs", "requests", "Comma list; 0 captures nothing.")
LIST_VARIABLE = flag("CUDA_GRAPHS", "requests", "The same as an environment variable.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TgiOptions:
    """max_batch_size: only where the launcher gets one; TGI bounds a batch by tokens otherwise."""

    max_batch_size: int = 128
    speculate: int = 0

    def __post_init__(self) -> None:
        require_positive(self, "max_batch_size")
        require_positive(self, "speculate", least=0)


class Tgi(SingleList):
    """Sizes are compared with the number of input tokens, so with speculation those below speculate + 1 are skipped."""

    name: ClassVar[str] = "tgi"
    latest: ClassVar[str] = "3.3"
    oldest: ClassVar[str] = "3.0"
    options_type: ClassVar[type[TgiOptions]] = TgiOptions
    list_arguments: ClassVar[Mapping[str, tuple[str, ...]]] = {"decode": ("cuda_graphs", "CUDA_GRAPHS")}
    shown: ClassVar[tuple[str, ...]] = ("max_batch_size",)
    aliases: ClassVar[Mapping[str, str]] = {"MAX_BATCH_SIZE": "max_batch_size", "SPECULATE": "speculate"}
    watch: ClassVar[str] = (
        "Compare the metric tgi_batch_current_size with the list: larger batches run without a graph. To go back, "
        "unset CUDA_GRAPHS: TGI then captures 1,2,4,8,16,32."
    )
    facts: ClassVar[Facts] = Facts(
        unit="requests",
        flags=(LIST_FLAG, LIST_VARIABLE),
        rules=(
            "The default is 1, 2, 4, 8, 16, 32.",
            "Sizes below speculate + 1 are skipped; capture runs from the largest down.",
        ),
        traps=("Running out of memory during capture is logged and ignored: the size is simply missing.",),
        source="launcher and server sources; maintenance only",
    )

    def ladder(self, options: TgiOptions) -> tuple[int, ...]:
        return self.capture((1, 2, 4, 8, 16, 32), options).sizes

    def capture(self, asked: tuple[int, ...], options: TgiOptions) -> Captured:
        least = options.speculate + 1 if options.speculate else 1
        reason = f"below speculate + 1 ({least})"
        lost = tuple(SizeChange("decode", size, None, reason) for size in unique(asked) if size < least)
        return Captured(unique(size for size in asked if size >= least), lost)

    def read_given(self, given: Given) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
        """0 means no graph."""
        raw, lists = super().read_given(given)
        return raw, {name: tuple(size for size in sizes if size) for name, sizes in lists.items()}

    def top(self, options: TgiOptions) -> int:
        return options.max_batch_size

    def allowed(self, options: TgiOptions) -> AllowedSizes:
        return AllowedSizes(max(options.max_batch_size, options.speculate + 1), options.max_batch_size)

    def traps(self, asked: tuple[int, ...] | None, made: Captured, options: TgiOptions) -> list[Problem]:
        small = [change.requested for change in made.changes if change.requested is not None]
        if not small:
            return []
        message = f"TGI skips {some(small)}: below speculate + 1."
        return [Problem("BELOW_QUERY", message, "warning", list(made.sizes))]

    def settings(self, sizes: tuple[int, ...], options: Any) -> deploy.Settings:
        return deploy.Settings("tgi", environment={LIST_VARIABLE.name: ",".join(str(size) for size in sizes) or "0"})
