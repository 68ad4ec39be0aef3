"""The trials of a sweep as a table, and why some of them cannot be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard import text
from dashboard.tables import table
from services.contract.trial import TrialModel

_MOST_ROWS, _MOST_REASONS, _MOST_NUMBERS = 500, 30, 8


def trial_table(trials: Sequence[TrialModel]) -> None:
    """Newest first; nothing before there is one."""
    if not trials:
        return
    st.markdown("**Trials**")
    shown = list(reversed(trials))[:_MOST_ROWS]
    table([_row(trial) for trial in shown], "trials", alt="Trials")
    if len(trials) > len(shown):
        st.caption(f"The newest {text.count(len(shown))} of {text.count(len(trials), 'trials')}.")
    refused = [trial for trial in trials if trial.reason]
    if refused:
        with st.expander(f"Why {text.count(len(refused), 'trials')} cannot be chosen"):
            for reason, numbers in by_reason(refused).items():
                st.markdown(f"- {numbers}: {reason}")


def by_reason(refused: Sequence[TrialModel]) -> dict[str, str]:
    """Reason -> the trials that have it, the first few by number."""
    grouped: dict[str, list[int]] = {}
    for trial in refused:
        grouped.setdefault(trial.reason or "", []).append(trial.number)
    return {
        reason: ("Trial " if len(numbers) == 1 else "Trials ")
        + text.sizes(numbers[:_MOST_NUMBERS])
        + (f" and {len(numbers) - _MOST_NUMBERS} more" if len(numbers) > _MOST_NUMBERS else "")
        for reason, numbers in list(grouped.items())[:_MOST_REASONS]
    }


def _row(trial: TrialModel) -> dict[str, Any]:
    card = trial.scorecard
    return {
        "Trial": trial.number,
        "From": {"default": "engine default", "study": "search"}.get(trial.source, trial.source.replace("_", " ")),
        "Outcome": trial.state.capitalize(),
        "Mean step": text.ms(card.mean_step_ms) if card else "",
        "Per token": text.ms(card.tpot_ms) if card else "",
        "Sizes": card.list_length if card else None,
        "Worst regret": text.share(card.worst_regret) if card else "",
        "Capture": text.seconds(card.capture_s) if card else "",
        "Memory": text.mib(card.memory_mib) if card else "",
        "Reason": trial.reason or "",
    }
