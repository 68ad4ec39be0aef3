"""Rebuild docs/results.md: what a tuned list does to public traffic, beside every engine's own default.

    python -m benchmarks.results TRACES_FOLDER [--profile h200-llama-3.1-8b] [--out docs/results.md]

Without a folder the bundled sample alone is run. Every figure is computed from a shipped profile; nothing is measured
by this command, and it needs no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.public_workloads import workloads
from services.catalog import DEFAULT_PROFILE, find_profile
from tuner.case import Case
from tuner.choice import choose, rehearse
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine
from tuner.guard import GUARD, Guard
from tuner.recommend import recommend
from tuner.recommendation import Recommendation, Scorecard, ServingOptions, TuneRequest
from workloads.traces.records import RequestTrace

ENGINES = ("vllm@0.33.0", "sglang@0.5.23", "tensorrt-llm@1.3")
MAX_RUNNING = {"vllm": 256, "sglang": 256, "tensorrt-llm": 128}
"""Most requests at once: where each engine's own decode graphs end (vLLM: its default where it knows no device)."""
LENGTH_SHARE = {"vllm": 1 / 3, "sglang": 1 / 3, "tensorrt-llm": 1 / 2}
"""Longest tuned list that the summary counts as short, as a share of the default's length."""
BUSY_LOAD_SHARE = 0.8
HOLDOUT_SHARE = 0.3
GUARDS = (
    GUARD,
    *(Guard(width, prior) for width, prior in ((0.2, 0.3), (0.1, 0.2), (0.3, 0.3), (0.2, 0.1), (0.1, 0.5))),
)
NOISE_SHARE = 0.005
"""Two starts of one list differ by this much (the least noise band of a verdict)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recommendation."""

    trace: str
    load: float
    spec: str
    answer: Recommendation

    @property
    def overloaded(self) -> bool:
        return self.answer.serving is not None and self.answer.serving.overloaded

    @property
    def short(self) -> bool:
        return self.answer.scorecard.list_length <= self.most_sizes

    @property
    def no_worse(self) -> bool:
        """On the held-out part, where the list was fitted to the part before."""
        return self.held_out_excess <= 1e-9

    @property
    def held_out_excess(self) -> float:
        """Step time over the default's - 1 on the held-out part; inf where there is none."""
        held = self.answer.holdout
        if held is None or held.tuned.mean_step_ms is None or held.default.mean_step_ms is None:
            return float("inf")
        return held.tuned.mean_step_ms / held.default.mean_step_ms - 1.0

    @property
    def bounded(self) -> bool:
        regret = self.answer.scorecard.worst_regret
        return regret is not None and regret <= 0.10 + 1e-9

    @property
    def meets_all(self) -> bool:
        return self.short and self.bounded and self.no_worse

    @property
    def most_sizes(self) -> int:
        """Sizes up to which a list counts as short."""
        return int(self.answer.default_scorecard.list_length * LENGTH_SHARE[self.spec.partition("@")[0]])

    def misses(self) -> list[str]:
        """Every condition that is not met, and by how much."""
        card = self.answer.scorecard
        made = []
        if not self.short:
            made.append(f"{card.list_length} sizes, {self.most_sizes} would count as short")
        if not self.bounded:
            made.append(f"regret {card.worst_regret}")
        if not self.no_worse:
            made.append(f"{self.held_out_excess:+.3%} on the held-out part")
        return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, help="public traces, as their upstreams publish them")
    parser.add_argument("--profile", default=DEFAULT_PROFILE)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    arguments = parser.parse_args()
    profile = find_profile(arguments.profile)
    traces = list(workloads(arguments.folder))
    rows = list(run(traces, profile, trials=arguments.trials))
    text = page(rows, profile, guards(rows, dict(traces), profile))
    arguments.out.write_text(text, encoding="utf-8")
    print(summary(rows))


def run(traces: Iterable[tuple[str, RequestTrace]], profile: CostProfile, *, trials: int) -> Iterable[Row]:
    """Every trace at its own load, at four times that, and at the load that asks for 0.8 of the engine."""
    for name, trace in traces:
        for spec in ENGINES:
            for load in (1.0, 4.0, busy_load(trace, spec, profile)):
                request = asked(trace, name, spec, profile, load, trials=trials)
                answer = recommend(request)
                print(f"{name}, {spec}, load {load:.3g}: {answer.verdict}", file=sys.stderr)
                yield Row(name, load, spec, answer)


def settings(spec: str) -> dict[str, str]:
    """Options that make an engine run as many requests as its own decode graphs reach."""
    name = spec.partition("@")[0]
    most = str(MAX_RUNNING[name])
    return {
        "vllm": {"max_num_seqs": most},
        "sglang": {"max_running_requests": most, "cuda_graph_max_bs_decode": most},
        "tensorrt-llm": {"max_batch_size": most, "enable_chunked_prefill": "true"},
    }[name]


def asked(
    trace: RequestTrace,
    name: str,
    spec: str,
    profile: CostProfile,
    load: float,
    *,
    trials: int = 8,
) -> TuneRequest:
    """The tuning request of one row."""
    chosen = engine(spec)
    raw = settings(spec)
    options = chosen.options(raw)
    serving = ServingOptions(load=load)
    return TuneRequest(trace, name, chosen, options, profile, raw_options=raw, serving=serving, trials=trials)


def busy_load(trace: RequestTrace, spec: str, profile: CostProfile) -> float:
    """The offered rate is proportional to the load, and so is its share of the sustainable rate."""
    case = Case.of(asked(trace, "", spec, profile, 1.0))
    report = case.observe(trace, case.default_lists()).report
    assert report is not None
    return BUSY_LOAD_SHARE / report.load_share


def summary(rows: Sequence[Row]) -> str:
    """The shares that the page states, and the rows that miss them."""
    able = [row for row in rows if not row.overloaded]
    bounded = [row for row in able if row.short and row.bounded]
    kept = [row for row in able if row.meets_all]
    near = [row for row in bounded if row.held_out_excess <= NOISE_SHARE]
    worse = [row for row in able if not row.no_worse and row.answer.verdict == "try"]
    tried = [row for row in able if row.answer.verdict in ("try", "adopt")]
    return (
        f"{len(rows)} rows, {len(rows) - len(able)} of them overloaded. Of the {len(able)} others, "
        f"{_share(kept, able)} "
        "have a short list (at most a third of the default's sizes; half for TensorRT-LLM) within the regret bound of "
        f"0.10 at equal or lower held-out step time, {_share(near, able)} within the noise band of {NOISE_SHARE:.1%}; "
        f"{_share(tried, able)} are advised (`try`), the rest keep the default; {len(worse)} advised lists are slower "
        "than the default on the held-out part."
    )


def _share(rows: Sequence[Row], of: Sequence[Row]) -> str:
    return f"{len(rows)} ({len(rows) / max(len(of), 1):.0%})"


def guards(rows: Sequence[Row], traces: Mapping[str, RequestTrace], profile: CostProfile) -> list[tuple[Guard, int]]:
    """How many of the rows that are not overloaded would meet everything with other guards."""
    counted = dict.fromkeys(GUARDS, 0)
    for row in rows:
        if row.overloaded:
            continue
        trace = traces[row.trace]
        case = Case.of(asked(trace, row.trace, row.spec, profile, row.load))
        seen, default = case.observe(trace, case.default_lists()), row.answer.default_scorecard
        front = case.front(seen)
        for guard in GUARDS:
            chosen = choose(case, trace, seen, front, default, guard)
            card = case.score(case.lists_of(chosen.point.sizes), seen)
            held, _ = rehearse(case, trace, seen, HOLDOUT_SHARE, chosen)
            answer = replace(row.answer, scorecard=card, holdout=held)
            counted[guard] += replace(row, answer=answer).meets_all
    return list(counted.items())


def page(rows: Sequence[Row], profile: CostProfile, guarded: Sequence[tuple[Guard, int]] = ()) -> str:
    """The whole page as Markdown."""
    device = (profile.device or {}).get("name", "unknown device")
    head = [
        "# Results on public traffic",
        "",
        "Rebuilt by `python -m benchmarks.results TRACES_FOLDER`. Computed, not measured: step times come from the",
        f"shipped profile `{profile.name}` ({device}, recorded {profile.recorded_at}), steps from a simulation of the",
        "engine's own scheduler with as many requests as its decode graphs reach (256; TensorRT-LLM 128). `tuned` and",
        "`default` are of the whole trace; `held-out` is a list of that length fitted to the first 70 % of the",
        "requests and run on the rest, beside the default. `load` divides arrival times; the third load asks for 0.8",
        "of what the engine sustains. No size of a decode step runs slower than 1.10 times its best measured time.",
        "",
        summary(rows),
        "",
        "| trace | load | load share | engine | default: graphs / step ms / capture s / MiB "
        "| tuned: sizes, graphs / step ms / capture s / MiB | held-out step ms: tuned / default | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_line(row) for row in rows), "", *_missed(rows), *_guarded(rows, guarded)])


def _missed(rows: Sequence[Row]) -> list[str]:
    missing = [row for row in rows if not row.overloaded and not row.meets_all]
    lines = [
        f"- {row.trace}, load {row.load:.3g}, {row.spec}: {'; '.join(row.misses())} (`{row.answer.verdict}`)"
        for row in missing
    ]
    return ["## Rows that miss, and by how much", "", *lines, ""]


def _guarded(rows: Sequence[Row], guarded: Sequence[tuple[Guard, int]]) -> list[str]:
    able = sum(not row.overloaded for row in rows)
    settings = ", ".join(f"{g.width_share:g} / {g.prior_share:g}: {n}" for g, n in guarded)
    return [
        "## How much hangs on the guard",
        "",
        f"Its two numbers ({GUARD.width_share:g} / {GUARD.prior_share:g}, see `tuner/guard.py`) were picked on these",
        f"traces, so the share above is no forecast for others. Rows of the {able} that meet everything, by width /",
        f"prior: {settings}.",
        "",
    ]


def _line(row: Row) -> str:
    answer, serving, held = row.answer, row.answer.serving, row.answer.holdout
    share = "" if serving is None else f"{serving.load_share:.2f}" + (" (overloaded)" if row.overloaded else "")
    out = "-" if held is None else f"{_ms(held.tuned.mean_step_ms)} / {_ms(held.default.mean_step_ms)}"
    tuned = answer.scorecard
    cells = (
        row.trace,
        f"{row.load:.3g}",
        share,
        row.spec,
        _figures(answer.default_scorecard),
        f"{tuned.list_length} sizes, {_figures(tuned)}",
        out,
        f"`{answer.verdict}`",
    )
    return "| " + " | ".join(cells) + " |"


def _figures(card: Scorecard) -> str:
    seconds = "?" if card.capture_s is None else f"{card.capture_s:.1f}"
    mib = "?" if card.memory_mib is None else f"{card.memory_mib:.0f}"
    return f"{card.graphs} / {_ms(card.mean_step_ms)} / {seconds} / {mib}"


def _ms(value: float | None) -> str:
    return "?" if value is None else f"{value:.4f}"


if __name__ == "__main__":
    main()
