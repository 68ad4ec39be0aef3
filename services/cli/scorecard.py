"""How scorecards are drawn in a terminal: one row a figure, one column a list."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from services.cli.output import number, percent, table
from services.contract.scorecard import ScorecardModel


def draw_scorecards(console: Console, cards: Mapping[str, ScorecardModel]) -> None:
    """One column per named scorecard."""
    rows = [
        ("sizes in the list", *(card.list_length for card in cards.values())),
        ("graphs captured", *(card.graphs for card in cards.values())),
        ("mean step", *(number(card.mean_step_ms, 3, " ms") for card in cards.values())),
        ("p99 step", *(number(card.p99_step_ms, 3, " ms") for card in cards.values())),
        ("per token", *(number(card.tpot_ms, 3, " ms") for card in cards.values())),
        ("steps with a graph", *(percent(card.hit_rate) for card in cards.values())),
        ("padded slots", *(percent(card.padding_waste) for card in cards.values())),
        ("worst regret", *(_regret(card) for card in cards.values())),
        ("capture", *(number(card.capture_s, 1, " s") for card in cards.values())),
        ("graph memory", *(number(card.memory_mib, 0, " MiB") for card in cards.values())),
        ("times interpolated", *(percent(card.estimated_share) for card in cards.values())),
    ]
    console.print(table("", ("", *cards), rows))


def _regret(card: ScorecardModel) -> str:
    if card.worst_regret is None:
        return "unknown"
    return f"{percent(card.worst_regret)} (at size {card.worst_regret_size})"
