"""nano-vllm: the ladder is written into `model_runner.py:202,234`; only max_num_seqs moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tuner.engines import deploy
from tuner.engines.base import AllowedSizes, Problem, SizeChange
from tuner.engines.facts import Facts, flag
from tuner.engines.options import require_positive
from tuner.engines.sizes import unique
from tuner.engines.small.base import Captured, SingleList

_CAP = 512
FILE_NAME = "model_runner.patch.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoVllmOptions:
    """max_num_seqs: most requests of a step."""

    max_num_seqs: int = 512

    def __post_init__(self) -> None:
        require_positive(self, "max_num_seqs")


class NanoVllm(SingleList):
    """max_num_seqs is not appended: with 20, batches of 17 to 20 find no bucket and the engine stops."""

    name: ClassVar[str] = "nano-vllm"
    latest: ClassVar[str] = "0.2"
    oldest: ClassVar[str] = "0.2"
    options_type: ClassVar[type[NanoVllmOptions]] = NanoVllmOptions
    shown: ClassVar[tuple[str, ...]] = ("max_num_seqs",)
    parametric: ClassVar[bool] = True
    watch: ClassVar[str] = "There is no counter; compare decode throughput. To go back, undo the edit."
    facts: ClassVar[Facts] = Facts(
        unit="requests",
        flags=(flag("max_num_seqs (Python)", "requests", "Ends the ladder at min(max_num_seqs, 512)."),),
        rules=("The ladder is fixed: 1, 2, 4, 8, then steps of 16 to min(max_num_seqs, 512); above 512 runs eager.",),
        traps=("A max_num_seqs off the ladder leaves the largest batches without a bucket: StopIteration.",),
        source="`nanovllm/engine/model_runner.py` of the main branch",
    )

    def ladder(self, options: NanoVllmOptions) -> tuple[int, ...]:
        top = min(options.max_num_seqs, _CAP)
        return tuple(size for size in (1, 2, 4, 8, *range(16, top + 1, 16)) if size <= top)

    def capture(self, asked: tuple[int, ...], options: NanoVllmOptions) -> Captured:
        ladder = self.ladder(options)
        lost = [SizeChange("decode", size, None, "the ladder is fixed") for size in unique(asked) if size not in ladder]
        more = [SizeChange("decode", None, size, "the ladder is fixed") for size in ladder if size not in asked]
        return Captured(ladder, (*lost, *more))

    def top(self, options: NanoVllmOptions) -> int:
        return options.max_num_seqs

    def allowed(self, options: NanoVllmOptions) -> AllowedSizes:
        ladder = self.ladder(options)
        return AllowedSizes(ladder[-1], options.max_num_seqs, required=ladder, max_length=len(ladder))

    def traps(self, asked: tuple[int, ...] | None, made: Captured, options: NanoVllmOptions) -> list[Problem]:
        found: list[Problem] = []
        last = made.sizes[-1]
        if last < options.max_num_seqs <= _CAP:
            message = f"Batches of {last + 1} to {options.max_num_seqs} find no bucket, and nano-vllm stops there."
            found.append(Problem("NO_BUCKET", message, "warning", {"max_num_seqs": last}))
        if asked is not None and unique(asked) != made.sizes:
            message = "nano-vllm takes no list: its ladder is fixed in model_runner.py."
            found.append(Problem("NOT_EXPRESSIBLE", message, "warning", list(made.sizes)))
        return found

    def settings(self, sizes: tuple[int, ...], options: NanoVllmOptions) -> deploy.Settings:
        text = f"# nanovllm/engine/model_runner.py, capture_cudagraph\nself.graph_bs = {list(sizes)}\n"
        return deploy.Settings("nano-vllm", config_file=FILE_NAME, config_text=text)
