"""vllm-ascend: vLLM's flags on Ascend NPUs, whose hardware streams limit how many graphs there can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tuner.engines.base import AllowedSizes, Effective, Lists, Problem, SizeChange
from tuner.engines.facts import Facts, flag
from tuner.engines.options import known_options, require_positive
from tuner.engines.sizes import check_names, requested, some, unique
from tuner.engines.vllm import facts as vllm_facts
from tuner.engines.vllm.engine import Vllm
from tuner.engines.vllm.options import ALIASES, VllmOptions, parse

STREAM_BUDGET = 1920
"""Of 2048 hardware streams; the old formula divides what is left by layers and communication domains (#9962)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AscendOptions(VllmOptions):
    """vLLM's options, and what decides the number of graphs.

    Attributes:
        num_hidden_layers: of the model; with it the slot formula is known.
        parallel_factor: streams a layer and graph: 2 with tensor parallelism, 3 with expert parallelism beside it.
        graph_slots: most graphs, where it was measured; wins over the formula.
        flashcomm: FlashComm or DSA context parallelism, which need multiples of TP as sequence parallelism does.
        atlas_950: four evenly spaced sizes, whatever is asked for.
    """

    num_hidden_layers: int | None = None
    parallel_factor: int = 2
    graph_slots: int | None = None
    flashcomm: bool = False
    atlas_950: bool = False

    def __post_init__(self) -> None:
        VllmOptions.__post_init__(self)
        require_positive(self, "num_hidden_layers", "parallel_factor", "graph_slots")

    @property
    def ladder_factor(self) -> int:
        return 1

    @property
    def capture_ceiling_tokens(self) -> int:
        return 512

    @property
    def slots(self) -> int | None:
        """Most sizes a list can have; None where nothing is known."""
        if self.atlas_950:
            return 4
        if self.graph_slots is not None or self.num_hidden_layers is None:
            return self.graph_slots
        return max(1, STREAM_BUDGET // (self.num_hidden_layers * self.parallel_factor))


class VllmAscend(Vllm):
    """Longer lists are thinned evenly; sizes that TP does not divide go first (`platform.py:1040-1064, 1275, 1343`)."""

    name: ClassVar[str] = "vllm-ascend"
    latest: ClassVar[str] = "0.23.0"
    oldest: ClassVar[str] = "0.9.1"
    facts: ClassVar[Facts] = Facts(
        unit="tokens, as vLLM",
        flags=(
            vllm_facts.LIST_FLAG,
            vllm_facts.JSON_LIST,
            flag("num_hidden_layers, parallel_factor, graph_slots", "graphs", "Decide how many sizes fit."),
        ),
        rules=(
            "The default list is vLLM's, ending at max_num_seqs x q and 512.",
            "With sequence parallelism, FlashComm or DSA context parallelism only multiples of TP stay.",
            "More sizes than slots (1920 / layers / parallel factor) are thinned to evenly spaced ones.",
            "Atlas 950 keeps four evenly spaced sizes.",
        ),
        traps=(
            "Nothing left after the TP filter is an AssertionError.",
            "Thinning by position leaves a gap from 1 to 88 where most batches are (#1168).",
            "Virtual NPUs share 2048 streams, so even short lists can exhaust them (#3869, #9596, #8585).",
        ),
        source="`platform.py` of the main branch; the slot formula as quoted in #1168",
    )

    def options(self, raw: Mapping[str, str]) -> Any:
        return parse(raw, self.version, AscendOptions, self.name)

    def known_options(self, raw: Mapping[str, str]) -> dict[str, str]:
        return known_options(AscendOptions, raw, ALIASES)

    def effective(self, lists: Lists, options: Any) -> Effective:
        check_names(lists, self.list_names, self.name)
        asked = requested(lists, "capture")
        kept, changes, refused = self._fitting(asked, options)
        if refused is not None:
            return Effective({}, 0, changes, refused)
        outcome = super().effective({"capture": kept}, options) if kept else super().effective(lists, options)
        return replace(outcome, changes=(*changes, *outcome.changes))

    def default_lists(self, options: Any) -> Lists:
        lists = super().default_lists(options)
        kept, _, refused = self._fitting(lists["capture"], options) if lists["capture"] else ((), (), None)
        return lists if refused is not None or not kept else {"capture": kept}

    def allowed(self, options: Any) -> AllowedSizes:
        allowed = super().allowed(options)
        multiple = allowed.multiple_of
        if self._needs_tp(options):
            multiple = multiple * options.tensor_parallel_size
        largest = allowed.largest // multiple * multiple
        return replace(allowed, multiple_of=multiple, largest=largest, max_length=options.slots)

    def lint(self, lists: Lists, options: Any) -> tuple[Problem, ...]:
        kept, changes, refused = self._fitting(requested(lists, "capture"), options)
        if refused is not None:
            fix = [size * options.tensor_parallel_size for size in (1, 2, 4, 8)]
            return (Problem("EMPTY_AFTER_FILTER", f"vllm-ascend does not start: {refused}.", "error", fix),)
        found = list(super().lint({"capture": kept} if kept else lists, options))
        lost = [change.requested for change in changes if change.requested is not None]
        if lost:
            limit = options.slots
            message = f"vllm-ascend drops {some(lost)}: only multiples of TP, and {limit or 'as many'} graphs, fit."
            found.append(Problem("GRAPH_SLOTS", message, "warning", list(kept)))
        return tuple(found)

    def export(self, lists: Lists, options: Any, provenance: Any) -> Any:
        kept, _, _ = self._fitting(requested(lists, "capture"), options)
        return super().export({"capture": kept} if kept else lists, options, provenance)

    def _needs_tp(self, options: Any) -> bool:
        parallel = options.flashcomm or options.enable_sequence_parallelism
        return bool(parallel and options.tensor_parallel_size > 1)

    def _fitting(
        self, asked: tuple[int, ...] | None, options: Any
    ) -> tuple[tuple[int, ...], tuple[SizeChange, ...], str | None]:
        """(sizes that fit, what was dropped, why it does not start). Without `asked` the default is thinned."""
        sizes = unique(asked) if asked is not None else super().default_lists(options)["capture"]
        if not sizes:
            return (), (), None
        tp = options.tensor_parallel_size
        kept = tuple(size for size in sizes if size % tp == 0) if self._needs_tp(options) else tuple(sizes)
        changes = [
            SizeChange("capture", size, None, f"not a multiple of TP ({tp})") for size in sizes if size not in kept
        ]
        if not kept:
            return (), tuple(changes), f"AssertionError: no size is a multiple of TP ({tp})"
        thinned = evenly(kept, options.slots)
        reason = f"only {options.slots} graphs fit"
        changes += [SizeChange("capture", size, None, reason) for size in kept if size not in thinned]
        return thinned, tuple(changes), None


def evenly(sizes: tuple[int, ...], most: int | None) -> tuple[int, ...]:
    """At most `most` sizes at equal distances in the list, ends included, counted from the largest."""
    if most is None or len(sizes) <= most:
        return sizes
    if most == 1:
        return (sizes[-1],)
    falling = sizes[::-1]
    step = (len(falling) - 1) / (most - 1)
    return unique(falling[round(i * step)] for i in range(most))
