"""MeasureSpec: everything a measurement depends on, and the sizes that are measured when nobody says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from tuner.probe_plan import ProbePlan, first_probes
from workloads.arrays import as_sizes
from workloads.errors import BadUsage

Strategy = Literal["full", "eager", "piecewise", "breakable", "compiled", "reduce-overhead"]
Device = Literal["auto", "cuda", "cpu"]
AttentionChoice = Literal["auto", "flashinfer", "flash", "dense"]

Family = Literal["decode", "target_verify", "draft", "prefill"]
SEGMENTED = ("eager", "piecewise", "breakable")
WHOLE = ("eager", "full")

CPU_SIZES = (1, 2, 4, 8, 16, 24, 32)
CPU_PREFILL_SIZES = (8, 16, 32, 64)
PREFILL_SIZES = (4, 8, 16, 32, 64, *range(128, 1025, 128), *range(1280, 2049, 256), *range(2560, 8193, 512))

MOST_DRAFT_STEPS = 16

DECODE_CONTEXTS = (768, 1536, 3072)
"""Tokens per row where the price of context is read: around those of chat and code traffic (300 to 4,000, half of the
steps near 1,600), by factors of two, and short enough that the middle of three buckets is no small one."""


@dataclass(frozen=True, slots=True)
class DraftShape:
    """The tree that a draft makes of every request.

    Attributes:
        topk: branches, and candidates of each (SGLang `speculative_eagle_topk`; vLLM drafts one branch).
        num_steps: levels (SGLang `speculative_num_steps`). The first comes out of the pass over accepted tokens.
    """

    topk: int = 1
    num_steps: int = 3

    def __post_init__(self) -> None:
        if self.topk < 1:
            raise BadUsage(f"must be at least 1, not {self.topk}", field="topk")
        if not 2 <= self.num_steps <= MOST_DRAFT_STEPS:
            raise BadUsage(
                f"must be 2 to {MOST_DRAFT_STEPS}, not {self.num_steps}: the first level costs no forward of the draft",
                field="num_steps",
            )

    @property
    def forwards(self) -> int:
        """Forwards of the draft in one step."""
        return self.num_steps - 1


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """One measurement job. `default_spec` fills it for a device.

    Attributes:
        model: built-in name, `config.json` or folder.
        sizes: decode sizes (requests) to prepare and time, increasing.
        fallback_sizes: sizes above the ladder, up to what a scheduler may reach; measured the same way, in a
            group (and memory pool) of their own, so that the ladder's pool is that of its own largest size.
        prefill_tokens, prefixes: new tokens and cached tokens of the prefills to time.
        contexts: tokens per row at which the attention and row terms are fitted; empty fits nothing.
        fills: shares of a bucket that are real rows while these terms are fitted.
        starts: fresh processes.
        repeats, iterations: rounds over all sizes in random order, and most timed steps of a size in one round; long
            steps take fewer (`timing.reading`).
        warmup: forwards before a capture (SGLang two, vLLM one).
        lm_head_in_graph: whether the output head is captured (SGLang) or run after the replay (vLLM).
        measure_fallback: also time eager steps, at sizes spread over all.
        attention: decode attention; auto takes the best that works here.
        family: what a size counts: requests that decode one token each, requests whose drafts are verified
            (`tokens_per_request` tokens each), requests that a draft head drafts for, or tokens of a prompt.
        tokens_per_request: drafts and one more; 1 unless drafts are verified.
        draft: the tree of family `draft`; None elsewhere.
        probing: the first start goes on from `sizes` to where another reading could change the best list; later starts
            measure all of these. None measures `sizes` alone.
        max_kv_gib: most KV cache that the context points may allocate.
    """

    model: str
    sizes: tuple[int, ...]
    fallback_sizes: tuple[int, ...] = ()
    prefill_tokens: tuple[int, ...] = ()
    prefixes: tuple[int, ...] = (0,)
    contexts: tuple[int, ...] = ()
    fills: tuple[float, ...] = (1.0, 0.5)
    starts: int = 2
    repeats: int = 7
    iterations: int = 3
    warmup: int = 2
    strategy: Strategy = "full"
    device: Device = "auto"
    seed: int = 0
    lm_head_in_graph: bool = True
    measure_fallback: bool = True
    max_kv_gib: float = 60.0
    attention: AttentionChoice = "auto"
    family: Family = "decode"
    tokens_per_request: int = 1
    draft: DraftShape | None = None
    probing: ProbePlan | None = None

    def __post_init__(self) -> None:
        if not self.sizes:
            raise BadUsage("at least one size is needed", field="sizes")
        for name in ("sizes", "fallback_sizes", "prefill_tokens", "contexts"):
            object.__setattr__(self, name, tuple(int(n) for n in as_sizes(getattr(self, name), field=name)))
        if set(self.sizes) & set(self.fallback_sizes):
            raise BadUsage("a size is either in the ladder or above it", field="fallback_sizes")
        for name in ("starts", "repeats", "iterations"):
            if getattr(self, name) < 1:
                raise BadUsage(f"must be at least 1, not {getattr(self, name)}", field=name)
        if self.warmup < 0 or any(prefix < 0 for prefix in self.prefixes):
            raise BadUsage("must not be negative", field="warmup" if self.warmup < 0 else "prefixes")
        if self.strategy not in get_args(Strategy):
            known = ", ".join(get_args(Strategy))
            raise BadUsage(f"'{self.strategy}' is not a strategy, only {known}", field="strategy")
        if self.device not in ("auto", "cuda", "cpu"):
            raise BadUsage(f"'{self.device}' is not a device, only auto, cuda and cpu", field="device")
        if any(not 0 < fill <= 1 for fill in self.fills):
            raise BadUsage("must be above 0 and at most 1", field="fills")
        self._check_family()
        if self.probing is not None and self.sizes[-1] != self.probing.candidates[-1]:
            raise BadUsage(f"must end at {self.probing.candidates[-1]}, where the curve ends", field="sizes")

    def _check_family(self) -> None:
        if self.family not in get_args(Family):
            raise BadUsage(f"'{self.family}' is not a family, only {', '.join(get_args(Family))}", field="family")
        if self.family == "prefill" and self.strategy not in SEGMENTED:
            raise BadUsage(
                f"'{self.strategy}' would fix how many tokens attention sees, and every prompt has another number; "
                f"prefill is captured around attention: {', '.join(SEGMENTED)}",
                field="strategy",
            )
        if (self.draft is not None) != (self.family == "draft"):
            raise BadUsage("a tree belongs to family draft, and to no other", field="draft")
        if self.family == "draft" and self.strategy not in WHOLE:
            raise BadUsage(f"engines record drafts whole: {' or '.join(WHOLE)}, not {self.strategy}", field="strategy")
        verifies = self.family == "target_verify"
        if (self.tokens_per_request > 1) != verifies or self.tokens_per_request < 1:
            wanted = "at least 2 where drafts are verified" if verifies else "1 where no drafts are verified"
            raise BadUsage(f"must be {wanted}, not {self.tokens_per_request}", field="tokens_per_request")

    @property
    def all_sizes(self) -> tuple[int, ...]:
        return tuple(sorted(self.sizes + self.fallback_sizes))

    @property
    def largest(self) -> int:
        return self.all_sizes[-1]

    @property
    def positions(self) -> int:
        """Positions that the rotary table must hold."""
        prefill = max(self.prefill_tokens, default=0) + max(self.prefixes, default=0)
        own = self.largest if self.family == "prefill" else self.tokens_per_request
        ahead = self.draft.num_steps if self.draft is not None else 0
        return max(prefill, 3 * max(self.contexts, default=0), own, 16) + ahead + 16

    def without(self, sizes: frozenset[int]) -> MeasureSpec:
        """The same job without some sizes.

        Raises:
            BadUsage: no size is left.
        """
        keep = tuple(n for n in self.sizes if n not in sizes)
        above = tuple(n for n in self.fallback_sizes if n not in sizes)
        plan = self.probing
        if plan is not None:  # a curve without its end cannot be probed: what is left of the coarse grid is measured
            candidates = tuple(n for n in plan.candidates if n not in sizes)
            plan = None if plan.candidates[-1] in sizes else replace(plan, candidates=candidates)
        return replace(self, sizes=keep, fallback_sizes=above, probing=plan)


def default_sizes(largest: int = 512) -> tuple[int, ...]:
    """Decode sizes of a dense profile, and those that may be probed otherwise, up to `largest`.

    Every size to 64, every 4 to 256, every 8 above.
    """
    sizes = {*range(1, 65), *range(68, 257, 4), *range(264, largest + 1, 8), largest}
    return tuple(sorted(size for size in sizes if size <= largest))


def default_fallback_sizes(largest: int = 512) -> tuple[int, ...]:
    """Sizes above the ladder up to twice its end, every eighth of it at first: 576 .. 1024 above 512."""
    factors = (1.125, 1.25, 1.5, 1.75, 2.0)
    return tuple(sorted({int(largest * factor) for factor in factors if int(largest * factor) > largest}))


def default_spec(
    model: str, *, cuda: bool, sizes: tuple[int, ...] | None = None, dense: bool = False, plan: ProbePlan | None = None
) -> MeasureSpec:
    """The job behind `profile measure`: the full protocol on a GPU, a small one on a CPU.

    Args:
        sizes: exactly these decode sizes; nothing above them is measured then.
        dense: every size of `default_sizes` instead of few probes; a CPU always measures its few sizes.
        plan: what few probes aim at; None aims at all sizes alike.
    """
    if not cuda:
        return MeasureSpec(
            model=model,
            sizes=sizes or CPU_SIZES,
            fallback_sizes=() if sizes else (48, 64),
            prefill_tokens=(8, 32, 128),
            prefixes=(0, 64),
            contexts=(32, 128, 256),
            repeats=5,
            warmup=1,
            device="cpu",
            max_kv_gib=0.25,
        )
    few = plan or ProbePlan(candidates=default_sizes())
    return MeasureSpec(
        model=model,
        sizes=sizes or (default_sizes() if dense else first_probes(few.candidates[-1])),
        probing=None if sizes or dense else few,
        fallback_sizes=() if sizes else default_fallback_sizes(),
        prefill_tokens=(128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        prefixes=(0, 2048),
        contexts=DECODE_CONTEXTS,
        repeats=5,
        # A median of two is a mean: of a step of 2 ms the host is a quarter, and what it does now and then is no part.
        iterations=5,
        device="cuda",
    )


def family_spec(
    base: MeasureSpec,
    family: Family,
    *,
    tokens_per_request: int = 1,
    draft: DraftShape | None = None,
    strategy: Strategy | None = None,
    sizes: tuple[int, ...] | None = None,
) -> MeasureSpec:
    """The same job for another family. Prefill has token counts of its own and neither probes nor context points.

    Args:
        draft: of family `draft`; None takes one branch of three tokens.
        strategy: None is `full`, and `piecewise` for prefill, as engines capture them.
        sizes: what the person named; None takes the family's own.

    Raises:
        BadUsage: the family cannot be run that way.
    """
    if family == "draft":
        return replace(
            base,
            family=family,
            tokens_per_request=tokens_per_request,
            draft=draft or DraftShape(),
            strategy=strategy or "full",
            prefill_tokens=(),  # the target's, whose profile has it
        )
    if draft is not None:
        raise BadUsage("a tree belongs to family draft, and to no other", field="draft")
    way: Strategy = strategy or ("piecewise" if family == "prefill" else "full")
    if family != "prefill":
        return replace(base, family=family, tokens_per_request=tokens_per_request, strategy=way)
    return replace(
        base,
        family=family,
        tokens_per_request=tokens_per_request,
        strategy=way,
        sizes=sizes or (CPU_PREFILL_SIZES if base.device == "cpu" else PREFILL_SIZES),
        fallback_sizes=(),
        prefill_tokens=(),
        contexts=(),
        probing=None,
    )


def list_spec(base: MeasureSpec, sizes: tuple[int, ...]) -> MeasureSpec:
    """The job that captures exactly `sizes`, in the engine's order, and times their steps; nothing else."""
    return replace(
        base,
        sizes=sizes,
        fallback_sizes=(),
        prefill_tokens=(),
        contexts=(),
        starts=1,
        measure_fallback=False,
        probing=None,
    )
