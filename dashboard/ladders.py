"""A tuned list beside other ladders: the engine's own, powers of two, other engines' defaults; each really scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.case import default_of
from dashboard.charts import show
from dashboard.client import ApiProblem, Client
from dashboard.evidence import noise_share
from dashboard.lists import powers_of_two
from dashboard.state import api
from dashboard.tables import table
from services.contract.coverage import ScoreRequest
from services.contract.figures_ladders import Rung, ladder_figure
from services.contract.kv import KvModel, KvRequest, KvTokensModel
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.contract.sweep import MEASURE, SweepModel

TUNED = "Tuned"
CARD_PX = 226
_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Ladder:
    """One list with what it does; `problem` says why it has no scorecard."""

    label: str
    sizes: tuple[int, ...]
    card: ScorecardModel | None
    problem: str
    kv: KvTokensModel | None


def ladders_panel(result: RecommendationModel) -> None:
    """Cards, a figure with the noise band, and the table; nothing where the sweep, its trace or its profile is gone."""
    sweep = _sweep(result)
    if sweep is None:
        return
    st.subheader("Against other ladders")
    sizes = _sizes(result)
    default = default_label(result)
    kv = _kv(sweep, result, sizes)
    cards = scores(tuple(_request(sweep, result, own) for own in sizes.values()))
    ladders = [
        Ladder(label, own, card, problem, kv.lists.get(label) if kv else None)
        for (label, own), (card, problem) in zip(sizes.items(), cards, strict=True)
    ]
    noise = noise_share(result)
    base = next(ladder for ladder in ladders if ladder.label == default)
    with st.container(horizontal=True):
        for ladder in ladders:
            with st.container(border=True, width=CARD_PX):
                st.markdown(card_words(ladder, base, noise))
    _kv_caption(kv, base)
    rungs = _rungs(result, ladders, default)
    if rungs:
        height = 140 + 34 * len(rungs)
        show(ladder_figure(rungs, noise), "ladders", "Mean step of every ladder", height_px=height)
        if noise is not None:
            st.caption(f"Shaded: within {text.share(noise)} of the default, a difference is noise.")
    rows = [
        {
            "List": it.label,
            **(card_row_of(it.card) if it.card else {"Mean step": it.problem}),
            "KV cache": _kv_words(it),
        }
        for it in ladders
    ]
    table(rows, "ladders", alt="Ladders compared")
    st.caption("Each list meets the steps that it makes itself, so the figures can differ a little from those above.")


def card_row_of(card: ScorecardModel) -> dict[str, Any]:
    """A scorecard as cells."""
    return {
        "Sizes": card.list_length,
        "Mean step": text.ms(card.mean_step_ms),
        "Per token": text.ms(card.tpot_ms),
        "99th percentile": text.ms(card.p99_step_ms),
        "Worst regret": text.share(card.worst_regret),
        "Capture": text.seconds(card.capture_s),
        "Memory": text.mib(card.memory_mib),
        "Exact": text.share(card.exact_hit_rate),
        "No graph": text.share(card.fallback_rate),
    }


def card_words(ladder: Ladder, base: Ladder, noise: float | None) -> str:
    """One ladder in a few lines of Markdown; changes are against `base`, the engine's default."""
    head = f"**{ladder.label}**  \n{text.count(len(ladder.sizes), 'sizes')}"
    if ladder.card is None:
        return f"{head}  \n{ladder.problem}"
    new, old = ladder.card, base.card or ladder.card
    lines = [
        head,
        f"Step **{text.ms(new.mean_step_ms)}**{_change(new.mean_step_ms, old.mean_step_ms, noise)}",
        f"Start-up {text.seconds(new.capture_s)}{_change(new.capture_s, old.capture_s)}",
        f"Graphs {text.mib(new.memory_mib)}{_change(new.memory_mib, old.memory_mib)}",
        f"KV {_kv_words(ladder)}{_kv_change(ladder.kv, base.kv)}",
        f"Without a graph {text.share(new.fallback_rate)}",
    ]
    return "  \n".join(lines)


def default_label(result: RecommendationModel) -> str:
    return f"{names.engine_name(result.engine)} default"


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def scores(requests: tuple[str, ...]) -> list[tuple[ScorecardModel | None, str]]:
    """For each `ScoreRequest` as JSON its scorecard, or why there is none; asked a few at a time."""
    client = api()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda request: _score(client, request), requests))


def _score(client: Client, request: str) -> tuple[ScorecardModel | None, str]:
    try:
        return client.score(ScoreRequest.model_validate_json(request)).scorecard, ""
    except ApiProblem as problem:
        return None, str(problem)


def _sweep(result: RecommendationModel) -> SweepModel | None:
    if result.sweep_id is None:
        return None
    try:
        sweep = api().sweep(result.sweep_id)
    except ApiProblem:
        return None
    return None if sweep.trace_id is None else sweep


def _profile(sweep: SweepModel, result: RecommendationModel) -> str:
    """The profile that the result rests on; a sweep that measured one knows its name only from the result."""
    measured = (result.evidence.get("profile") or {}).get("name")
    return str(measured) if sweep.profile == MEASURE and measured else sweep.profile


def _sizes(result: RecommendationModel) -> dict[str, tuple[int, ...]]:
    """Label -> sizes: the tuned list, the default, powers of two, and what other engines would take by themselves.

    Engines that take the same sizes share a label.
    """
    tuned = next(iter(result.lists.values()), ())
    default = next(iter(result.default.lists.values()), ())
    top = max((*tuned, *default), default=1)
    own = default_label(result)
    found = {TUNED: tuned, own: default, "Powers of two": powers_of_two(top)}
    alike: dict[tuple[int, ...], list[str]] = {}
    for engine in api().engines().items:
        sizes = tuple(size for size in default_of(engine.spec, ())[1] if size <= top)
        if engine.name != result.engine.partition("@")[0] and sizes and sizes != default:
            alike.setdefault(sizes, []).append(names.engine_name(engine.spec))
    found |= {f"{text.joined(engines)} default": sizes for sizes, engines in alike.items()}
    return {label: sizes for label, sizes in found.items() if sizes}


def _request(sweep: SweepModel, result: RecommendationModel, sizes: Sequence[int]) -> str:
    return ScoreRequest(
        trace_id=sweep.trace_id or "",
        engine=sweep.engine,
        profile=_profile(sweep, result),
        options=sweep.options,
        serving=sweep.serving,
        lists={next(iter(result.lists), "capture"): list(sizes)},
    ).model_dump_json()


def _kv(sweep: SweepModel, result: RecommendationModel, sizes: Mapping[str, tuple[int, ...]]) -> KvModel | None:
    lists = {label[:100]: list(own) for label, own in sizes.items()}
    asked = KvRequest(engine=sweep.engine, profile=_profile(sweep, result), options=sweep.options, lists=lists)
    return kv_of(asked.model_dump_json())


@st.cache_data(ttl=600, max_entries=64, show_spinner=False)
def kv_of(request: str) -> KvModel | None:
    """The answer to a `KvRequest` as JSON; None where there is none."""
    try:
        return api().kv_cache(KvRequest.model_validate_json(request))
    except ApiProblem:
        return None


def _kv_caption(kv: KvModel | None, base: Ladder) -> None:
    if kv is None or base.kv is None:
        return
    knob = f" To turn saved memory into KV cache: {base.kv.knob}." if base.kv.knob else ""
    known = [f"{text.digits(float(value))} {names.KV_FACTS.get(name, name)}" for name, value in kv.facts.items()]
    facts = f" Taken from the profile: {text.joined(known)}." if known else ""
    st.caption(f"KV cache of one GPU: {base.kv.reason}{knob}{facts}")


def _kv_words(ladder: Ladder) -> str:
    if ladder.kv is None or ladder.kv.tokens is None:
        return text.UNKNOWN
    return f"{ladder.kv.tokens / 1000:,.1f}{text.NBSP}k tokens"


def _kv_change(new: KvTokensModel | None, old: KvTokensModel | None) -> str:
    if new is None or old is None or new.tokens is None or old.tokens is None or new.tokens == old.tokens:
        return ""
    return f" ({(new.tokens - old.tokens) / 1000:+,.1f}{text.NBSP}k)"


def _change(new: float | None, old: float | None, noise: float | None = None) -> str:
    """` ▼ 4.2 %`, with the word where that is noise; empty where nothing changes."""
    change = text.change(new, old)
    if change is None or change == "no change" or new is None or not old:
        return ""
    arrow = "▼" if change.startswith("-") else "▲"
    return f" {arrow} {change[1:]}" + (", noise" if text.is_noise(new, old, noise) else "")


def _rungs(result: RecommendationModel, ladders: Sequence[Ladder], default: str) -> list[Rung]:
    held_out = {}
    if result.holdout is not None:
        held_out = {TUNED: result.holdout.tuned.mean_step_ms, default: result.holdout.default.mean_step_ms}
    roles = {TUNED: "tuned", default: "default"}
    return [
        Rung(
            ladder.label,
            ladder.card.mean_step_ms,
            ladder.card.list_length,
            held_out.get(ladder.label),
            roles.get(ladder.label, "other"),
        )
        for ladder in ladders
        if ladder.card is not None and ladder.card.mean_step_ms is not None
    ]
