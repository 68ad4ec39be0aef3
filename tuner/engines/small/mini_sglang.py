"""mini-sglang: a maximum on the command line, a list in Python only (`engine/graph.py:49-67`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tuner.engines import deploy
from tuner.engines.base import Problem
from tuner.engines.facts import Facts, flag
from tuner.engines.options import require_positive
from tuner.engines.sizes import unique
from tuner.engines.small.base import Captured, SingleList
from workloads.serving.limits import PolicyName

MAX_FLAG = flag("--cuda-graph-max-bs", "requests", "End of the ladder; also written --graph.")
PYTHON_LIST = flag("cuda_graph_bs (Python configuration)", "requests", "The list; there is no flag for it.")
FILE_NAME = "minisgl_config.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniSglangOptions:
    """free_gpu_memory_gib decides the default maximum: 256 above 80 GiB, else 160."""

    max_running_requests: int = 256
    cuda_graph_max_bs: int | None = None
    free_gpu_memory_gib: float = 141.0

    def __post_init__(self) -> None:
        require_positive(self, "max_running_requests", "cuda_graph_max_bs")

    @property
    def largest(self) -> int:
        if self.cuda_graph_max_bs is not None:
            return self.cuda_graph_max_bs
        return 256 if self.free_gpu_memory_gib > 80 else 160


class MiniSglang(SingleList):
    """The maximum is not appended: a maximum of 12 ends at 8."""

    name: ClassVar[str] = "mini-sglang"
    latest: ClassVar[str] = "0.1"
    oldest: ClassVar[str] = "0.1"
    policy: ClassVar[PolicyName] = "sglang"
    options_type: ClassVar[type[MiniSglangOptions]] = MiniSglangOptions
    shown: ClassVar[tuple[str, ...]] = ("max_running_requests",)
    aliases: ClassVar[Mapping[str, str]] = {"graph": "cuda_graph_max_bs"}
    watch: ClassVar[str] = (
        "The start-up log lists the captured batch sizes. To go back, drop cuda_graph_bs from the configuration."
    )
    facts: ClassVar[Facts] = Facts(
        unit="requests",
        flags=(MAX_FLAG, PYTHON_LIST),
        rules=("The default is 1, 2, 4, then steps of 8 to the maximum.", "The bucket is found by a linear scan."),
        traps=("The maximum is not appended.", "Finer steps: 17.3 % to 7.3 % padding for 7 more graphs (#56)."),
        source="`engine/graph.py` of the main branch",
    )

    def ladder(self, options: MiniSglangOptions) -> tuple[int, ...]:
        return tuple(size for size in (1, 2, 4, *range(8, options.largest + 1, 8)) if size <= options.largest)

    def capture(self, asked: tuple[int, ...], options: MiniSglangOptions) -> Captured:
        return Captured(unique(asked)) if asked else Captured((), refused="an empty list")

    def top(self, options: MiniSglangOptions) -> int:
        return options.max_running_requests

    def traps(self, asked: tuple[int, ...] | None, made: Captured, options: MiniSglangOptions) -> list[Problem]:
        explicit = options.cuda_graph_max_bs
        if asked is not None or explicit is None or explicit in made.sizes:
            return []
        message = f"cuda_graph_max_bs {explicit} is not on the ladder, which ends at {made.sizes[-1]}."
        return [Problem("TRUNCATED", message, "warning", [*made.sizes, explicit])]

    def settings(self, sizes: tuple[int, ...], options: MiniSglangOptions) -> deploy.Settings:
        text = f"cuda_graph_bs = [{', '.join(str(size) for size in sizes)}]\n"
        return deploy.Settings("mini-sglang", config_file=FILE_NAME, config_text=text)
