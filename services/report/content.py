"""What a report says, in an order for reading and in no format yet: verdict, list, figures, drawings, evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.recommendation import VERDICTS, RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.report.blocks import UNKNOWN, Block, Bullets, Code, Report, Section, Table, Words
from services.report.drawings import branches_drawing, front_drawing, traffic_drawing
from services.report.in_engine import engine_blocks

NBSP = "\u00a0"
"""Between a figure and its unit: a line must not break there."""


def report_of(found: RecommendationModel) -> Report:
    """The report of a recommendation, stored or not."""
    trace = found.evidence.get("trace", {}).get("name", "this traffic")
    sections = (
        Section("Why", (Bullets(found.reasons),)),
        _lists(found),
        Section("What the list does", (_scorecards(found), traffic_drawing(found), front_drawing(found))),
        _in_engine(found),
        _service(found),
        _compared(found),
        _evidence(found),
        Section("What this leaves out", (Bullets((*found.evidence.get("left_out", ()), *_notes(found))),)),
    )
    kept = tuple(section for section in sections if section is not None and section.blocks)
    return Report(f"Capture list of {found.engine} for {trace}", VERDICTS[found.verdict], kept)


def _lists(found: RecommendationModel) -> Section:
    blocks: list[Block] = []
    for name, sizes in found.lists.items():
        blocks += [Words(f"List '{name}', {len(sizes)} sizes:"), Code(", ".join(map(str, sizes)))]
    for name, sizes in found.default.lists.items():
        blocks += [Words(f"The engine's default '{name}', {len(sizes)} sizes:"), Code(", ".join(map(str, sizes)))]
    if found.id is not None:
        blocks += [Words("The configuration to paste:"), Code(f"captune export --recommendation {found.id}")]
    return Section("The list", tuple(blocks))


def _scorecards(found: RecommendationModel) -> Table:
    cards = [("this list", found.scorecard), ("engine default", found.default.scorecard)]
    if found.holdout is not None:
        last = f"last {found.holdout.share:.0%}"
        cards += [
            (f"{last}: list fitted before it", found.holdout.tuned),
            (f"{last}: engine default", found.holdout.default),
        ]
    rows = tuple((name, *(show(card) for _, card in cards)) for name, show in _SCORES)
    return Table(("", *(name for name, _ in cards)), rows)


_SCORES: tuple[tuple[str, Callable[[ScorecardModel], str]], ...] = (
    ("sizes", lambda card: f"{card.list_length}"),
    ("graphs", lambda card: f"{card.graphs}"),
    ("mean step", lambda card: _ms(card.mean_step_ms)),
    ("time per token", lambda card: _ms(card.tpot_ms)),
    ("99th percentile step", lambda card: _ms(card.p99_step_ms)),
    ("steps with a graph", lambda card: f"{card.hit_rate:.2%}"),
    ("of exactly their size", lambda card: f"{card.exact_hit_rate:.1%}"),
    ("padded slots", lambda card: f"{card.padding_waste:.1%}"),
    ("worst regret", lambda card: _regret(card)),
    ("capture time", lambda card: _figure(card.capture_s, " s")),
    ("graph memory", lambda card: _figure(card.memory_mib, " MiB", 0)),
    ("steps at an interpolated time", lambda card: f"{card.estimated_share:.1%}"),
)


def _in_engine(found: RecommendationModel) -> Section | None:
    """What the engine itself did with the lists, where it was asked."""
    kept = found.evidence.get("in_engine")
    if kept is None:
        return None
    return Section("Inside the engine", engine_blocks(EngineEvidenceModel.model_validate(kept)))


def _service(found: RecommendationModel) -> Section | None:
    """Both lists in a simulation of their own: what users would see, and where each tips over."""
    evidence = found.evidence
    services = evidence.get("service")
    drawing = branches_drawing(found)
    if not services and drawing is None:
        return None
    blocks: list[Block] = []
    if services:
        blocks.append(
            Words(
                "The requests simulated once under each list, with that list's step times and the KV cache that the "
                "engine's rule leaves beside its graphs."
            )
        )
        both = [services["tuned"], services["default"]]
        rows = [(name, *(show(service) for service in both)) for name, show in _SERVED]
        if both[0]["report"].get("goodput_requests_per_s") is not None:
            promised = evidence["serving"]["slo"]
            words = " and ".join(f"{key[:4].upper()} {value:g} ms" for key, value in promised.items() if value)
            rows.append(
                (
                    f"goodput within {words}",
                    *(_figure(s["report"]["goodput_requests_per_s"], " requests/s") for s in both),
                )
            )
        blocks.append(Table(("", "this list", "engine default"), tuple(rows)))
    if drawing is not None:
        blocks.append(drawing)
    settled = (evidence.get("closed_loop") or {}).get("settled", ())
    if settled:
        blocks.append(Words("Solving and simulating in turn, from several starting lists:"))
        rows = [
            (
                end["start"].replace("_", " "),
                {"fixed": "fixed point", "cycle": "cycle, best of it", "open": "not settled"}[end["outcome"]],
                f"{len(end['sizes'])}",
                f"{end['mean_size']:.1f}",
                _ms(end["tpot_ms"]),
            )
            for end in settled
        ]
        blocks.append(Table(("start", "ends in", "sizes", "mean batch", "time per token"), tuple(rows)))
    return Section("In service", tuple(blocks))


_SERVED: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("KV cache", lambda s: "not limited here" if s["kv_tokens"] is None else f"{s['kv_tokens']:,} tokens"),
    ("requests admitted at most", lambda s: f"{s['admitted_requests']:,}"),
    ("requests running, mean", lambda s: _figure(s["report"]["mean_running"], "", 1)),
    ("throughput", lambda s: _figure(s["report"]["throughput_tokens_per_s"], " tokens/s", 0)),
    ("time to first token, median", lambda s: _figure(_milli(s["report"]["ttft_p50_s"]), " ms", 1)),
    ("time to first token, 99th percentile", lambda s: _figure(_milli(s["report"]["ttft_p99_s"]), " ms", 1)),
    ("time per token, mean over requests", lambda s: _ms(s["report"]["tpot_mean_ms"])),
    ("load of what the engine sustains", lambda s: f"{s['report']['load_share']:.0%}"),
)


def _compared(found: RecommendationModel) -> Section | None:
    """Every list of the study, on the traffic that it makes itself."""
    trials = found.evidence.get("compared")
    if not trials:
        return None
    rows = tuple(
        (
            f"{trial['trial']}",
            trial["source"].replace("_", " "),
            UNKNOWN if trial["list_length"] is None else f"{trial['list_length']}",
            _ms(trial["mean_step_ms"]),
            _ms(trial["tpot_ms"]),
            UNKNOWN if trial["worst_regret"] is None else f"{trial['worst_regret']:.1%}",
            trial["state"] if trial["reason"] is None else f"{trial['state']}: {trial['reason']}",
        )
        for trial in trials
    )
    columns = ("trial", "from", "sizes", "mean step", "time per token", "worst regret", "outcome")
    note = "Trial 0 is the engine's default. Each list is scored on the step sizes that it makes itself."
    return Section("All lists compared", (Words(note), Table(columns, rows)))


def _evidence(found: RecommendationModel) -> Section:
    evidence = found.evidence
    rows: list[tuple[str, str]] = []

    def add(name: str, value: object) -> None:
        if value not in (None, "", {}, []):
            rows.append((name, str(value)))

    trace, profile = evidence.get("trace", {}), evidence.get("profile", {})
    add("recommendation", found.id)
    add("trace", trace.get("name"))
    add("trace hash", trace.get("digest"))
    add("trace rows", f"{trace.get('rows', 0):,} {trace.get('kind', 'rows')}")
    add("decode steps", f"{trace.get('decode_steps', 0):,.0f}, {trace.get('held_out_steps', 0):,.0f} of them held out")
    add("engine", found.engine)
    add("engine options", _pairs(found.options))
    add("serving", _pairs(evidence.get("serving", {})))
    add("profile", profile.get("name"))
    add("profile hash", profile.get("digest"))
    add("profile basis", profile.get("basis"))
    add("profile starts (repeats)", profile.get("starts"))
    add("profile software", _pairs({k: v for k, v in profile.get("software", {}).items() if k != "measurement"}))
    add("this software", _pairs(evidence.get("software", {})))
    add("solver", _pairs(evidence.get("solver", {})))
    add("study (seed, trials)", _pairs(evidence.get("study", {})))
    add("behind cuts in time, against the default", _shares(evidence.get("choice", {}).get("rolling_holdouts", ())))
    add("confidence", _confidence(evidence.get("confidence", {})))
    add("noise band", f"{evidence.get('noise_share', 0):.2%}")
    add("thresholds, fixed before the search", _pairs(evidence.get("thresholds", {})))
    return Section("Evidence", (Table(("what", "value"), tuple(rows)),))


def _confidence(of: Mapping[str, Any]) -> str:
    if not of:
        return ""
    source = "stated by the profile" if of["spread_stated"] else "the usual one, as the profile states none"
    return (
        f"lists chosen on the upper {of['level']:.0%} curve; start-to-start spread {of['spread_share']:.2%} "
        f"({source}); fewest starts a size: {of['fewest_starts']}; sizes not counted as faster than a smaller one: "
        f"{len(of['sizes_not_counted_as_faster'])}; sizes with an interval of their own: "
        f"{len(of['sizes_with_own_interval'])}"
    )


def _notes(found: RecommendationModel) -> tuple[str, ...]:
    engine = found.evidence.get("engine", {})
    return (*engine.get("notes", ()), *found.evidence.get("notes", ()))


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_value(value)}" for key, value in values.items() if value not in (None, {}, []))


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return f"({_pairs(value) or 'none'})"
    return str(value)


def _shares(values: Sequence[float]) -> str:
    return ", ".join(f"{value:+.2%}" for value in values)


def _regret(card: ScorecardModel) -> str:
    if card.worst_regret is None:
        return UNKNOWN
    at = "" if card.worst_regret_size is None else f" at size {card.worst_regret_size}"
    return f"{card.worst_regret:.1%}{at}"


def _ms(value: float | None) -> str:
    return _figure(value, " ms", 3)


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _figure(value: float | None, unit: str, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}{unit}".replace(" ", NBSP)
