"""Cards that set a tuned list against the engine's default: the figure, then the change."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard import text
from services.contract.recommendation import HoldoutModel
from services.contract.scorecard import ScorecardModel

CARD_PX = 224


def card_row() -> st.delta_generator.DeltaGenerator:
    """A row of cards that wraps on a narrow screen before anything is cut."""
    return st.container(horizontal=True)


def card(
    place: st.delta_generator.DeltaGenerator,
    label: str,
    show: Callable[[float | None], str],
    new: float | None,
    old: float | None,
    *,
    relative: bool = True,
    base: str = "default",
    noise_share: float | None = None,
) -> None:
    """One figure; less is better in every one of them.

    Args:
        base: names what it is compared with.
        noise_share: a relative change up to this is noise, and is said to be.
    """
    delta = text.change(new, old) if relative else _points(new, old)
    quiet = text.is_noise(new, old, noise_share)
    if quiet and delta != "no change":
        delta = f"{delta}, noise"
    place.metric(
        label,
        show(new),
        delta=delta,
        delta_color="off" if quiet or delta == "no change" else "inverse",
        delta_arrow="off" if quiet or delta == "no change" else "auto",
        delta_description=f"{base} {show(old)}",
        border=True,
        width=CARD_PX,
    )


def cards(new: ScorecardModel, old: ScorecardModel, noise_share: float | None = None) -> None:
    """Eight figures of the tuned list, each with what the default has; times within `noise_share` are called noise."""
    row = card_row()
    card(row, "Mean step", text.ms, new.mean_step_ms, old.mean_step_ms, noise_share=noise_share)
    card(row, "Time per token", text.ms, new.tpot_ms, old.tpot_ms, noise_share=noise_share)
    card(row, "99th percentile step", text.ms, new.p99_step_ms, old.p99_step_ms, noise_share=noise_share)
    card(row, "Worst regret", text.share, new.worst_regret, old.worst_regret, relative=False)
    card(row, "Sizes", text.count, new.list_length, old.list_length)
    card(row, "Capture time", text.seconds, new.capture_s, old.capture_s)
    card(row, "Graph memory", text.mib, new.memory_mib, old.memory_mib)
    card(row, "Steps without a graph", text.share, new.fallback_rate, old.fallback_rate, relative=False)
    guessed = max(new.estimated_share, old.estimated_share)
    if noise_share is not None:
        st.caption(
            f"Times that differ by less than {text.share(noise_share)} differ by noise: the spread of the measured "
            "sizes between starts."
        )
    if guessed > 0:
        st.caption(f"Up to {text.share(guessed)} of the steps are timed by interpolation between measured sizes.")


def holdout_cards(holdout: HoldoutModel, noise_share: float | None = None) -> None:
    """The same comparison on unseen traffic, shorter."""
    new, old = holdout.tuned, holdout.default
    row = card_row()
    card(row, "Mean step", text.ms, new.mean_step_ms, old.mean_step_ms, noise_share=noise_share)
    card(row, "Time per token", text.ms, new.tpot_ms, old.tpot_ms, noise_share=noise_share)
    card(row, "99th percentile step", text.ms, new.p99_step_ms, old.p99_step_ms, noise_share=noise_share)
    card(row, "Steps without a graph", text.share, new.fallback_rate, old.fallback_rate, relative=False)


def _points(new: float | None, old: float | None) -> str | None:
    """The difference of two shares in percentage points."""
    if new is None or old is None:
        return None
    points = (new - old) * 100
    return "no change" if abs(points) < 0.05 else f"{points:+.1f} points"
