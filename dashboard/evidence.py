"""What a result rests on: one phrase for the badge, and every recorded fact for those who check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import names, text
from dashboard.tables import table
from services.contract.recommendation import RecommendationModel
from services.contract.scorecard import ScorecardModel
from services.contract.sweep import measured_name

UNKNOWN_DEVICE = "unknown device"


def basis(result: RecommendationModel) -> str:
    """What the step times are, such as `recorded profile, NVIDIA H200, not measured here`."""
    profile = result.evidence.get("profile") or {}
    device = device_of(result.evidence)
    if device.lower() == "cpu":
        return "measured on a CPU; says nothing binding about a GPU"
    if result.verdict == "adopt":
        return f"measured in {names.engine_name(result.engine)} on {device}"
    if device == UNKNOWN_DEVICE and not profile.get("recorded_at"):
        return "modelled: the profile names no device and no time"
    if measured_by(result):
        return f"measured on this {device}, not in {names.engine_name(result.engine)}"
    return f"recorded profile, {device}, not measured here"


def basis_icon(result: RecommendationModel) -> str:
    """A second cue beside the words: how close the evidence is to the engine that will run the list."""
    words = basis(result).partition(" ")[0]
    known = {"measured": "precision_manufacturing", "recorded": "history", "modelled:": "calculate"}
    return f":material/{known[words]}:"


def measured_by(result: RecommendationModel) -> bool:
    """Whether this very sweep measured its profile."""
    name = (result.evidence.get("profile") or {}).get("name")
    return result.sweep_id is not None and name == measured_name(result.sweep_id)


def verdict_sentence(result: RecommendationModel) -> str:
    """One sentence that a person can repeat: what to do, what it brings, what it costs."""
    engine = names.engine_name(result.engine)
    new, old = result.scorecard, result.default.scorecard
    fewer = f"{text.count(new.list_length, 'sizes')} instead of {text.count(old.list_length)}"
    if result.verdict == "keep_default":
        return f"Keep the {text.count(old.list_length, 'sizes')} of {engine}: nothing found is materially better."
    if result.verdict == "inconclusive":
        return f"Undecided between {text.count(new.list_length)} tuned sizes and the {old.list_length} of {engine}."
    noise = noise_share(result)
    same = text.is_noise(new.mean_step_ms, old.mean_step_ms, noise)
    gains, prices = _gains_and_prices(new, old, times=not same)
    bought = f" for {text.joined(gains)}" if gains else ""
    paid = f", at the price of {text.joined(prices)}" if prices else ""
    steps = ", steps the same within noise" if same else ""
    return f"{'Use' if result.verdict == 'adopt' else 'Try'} these {fewer} in {engine}{bought}{paid}{steps}."


def noise_share(result: RecommendationModel) -> float | None:
    """Half of the band around the default in which a difference of step times is noise, as a share of it."""
    share = result.evidence.get("noise_share")
    return float(share) if isinstance(share, int | float) else None


def _gains_and_prices(new: ScorecardModel, old: ScorecardModel, *, times: bool) -> tuple[list[str], list[str]]:
    """`6 % faster steps` and the like; what does not change by 0.05 % is left out, and so are `times` within noise."""
    gains: list[str] = []
    prices: list[str] = []
    step_times = [(new.mean_step_ms, old.mean_step_ms, "faster steps", "slower steps")] if times else []
    for value, before, less, more in (
        *step_times,
        (new.capture_s, old.capture_s, "less capture time", "more capture time"),
        (new.memory_mib, old.memory_mib, "less graph memory", "more graph memory"),
    ):
        change = text.change(value, before)
        if change is not None and change.startswith("-"):
            gains.append(f"{change[1:]} {less}")
        elif change is not None and change.startswith("+"):
            prices.append(f"{change[1:]} {more}")
    return gains, prices


def device_of(evidence: Mapping[str, Any]) -> str:
    """The name of the device that the profile was recorded on."""
    profile = evidence.get("profile")
    device = profile.get("device") if isinstance(profile, Mapping) else evidence.get("device")
    if isinstance(device, Mapping):
        device = device.get("name")
    return str(device) if device else UNKNOWN_DEVICE


def evidence_table(result: RecommendationModel) -> None:
    """The facts that fit a table, names as words; all of them as a file."""
    rows = [{"What": what, "Value": value} for what, value in flat(_facts(result.evidence))]
    table(rows, "evidence", alt="Evidence", columns={"Value": st.column_config.TextColumn(width="large")})
    st.download_button(
        "Download everything recorded",
        result.model_dump_json(indent=1),
        file_name=f"captune-{result.id}.json",
        mime="application/json",
        icon=":material/download:",
        on_click="ignore",
    )


UNSHOWN = ("measurement", "curve", "branch_curves")
"""How a profile was timed, and the points of curves: in the file, not in a table."""


def _facts(evidence: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what the page shows elsewhere: the service and the KV cache under both lists."""
    return {key: value for key, value in evidence.items() if key not in ("service", "kv")}


def flat(evidence: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """(words, value) of every leaf in order; logs (lists of records) and `UNSHOWN` are left out."""
    leaves: list[tuple[str, str]] = []
    for key, value in evidence.items():
        words = f"{above}, {_words(key)}" if above else _words(key).capitalize()
        if key in UNSHOWN or (isinstance(value, list) and any(isinstance(item, Mapping) for item in value)):
            continue
        if isinstance(value, Mapping):
            leaves += flat(value, words)
        else:
            leaves.append((words, _shown(value)))
    return leaves


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(value: Any) -> str:
    if value is None:
        return text.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return text.digits(value)
    if isinstance(value, int):
        return text.count(value)
    if isinstance(value, list | tuple):
        return ", ".join(_shown(item) for item in value) or "none"
    return str(value)
