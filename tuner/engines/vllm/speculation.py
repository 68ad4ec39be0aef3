"""Dynamic speculative decoding: fewer draft tokens for larger batches, as vLLM reads its schedule."""

from __future__ import annotations

import re

from workloads.errors import BadUsage

Tier = tuple[int, int, int]  # first and last batch size, draft tokens

_TIER = re.compile(r"(\d{1,6})-(\d{1,6}):(\d{1,3})")


def read_schedule(text: str | None) -> tuple[Tier, ...]:
    """`1-64:3,65-128:1` as tiers (vLLM 0.33.0 `spec_decode/dynamic/utils.py`); empty for None.

    Raises:
        BadUsage: not of that form, overlapping, or not starting at 1.
    """
    if text is None:
        return ()
    tiers: list[Tier] = []
    for part in re.split(r"[,;\s]+", text.strip("[] ")):
        match = _TIER.fullmatch(part)
        if match is None:
            raise BadUsage(f"'{part}' is no tier, write 1-64:3,65-128:1", field=_NAME)
        tiers.append((int(match[1]), int(match[2]), int(match[3])))
    tiers.sort()
    end = 0
    for first, last, _ in tiers:
        if first > last or first <= end:
            raise BadUsage(f"the tier {first}-{last} overlaps or is backwards", field=_NAME)
        end = last
    if tiers[0][0] != 1:
        raise BadUsage("the first tier must start at batch size 1; vLLM refuses to start otherwise", field=_NAME)
    return tuple(tiers)


def widest_batches(
    tiers: tuple[Tier, ...], max_num_seqs: int, num_speculative_tokens: int
) -> tuple[tuple[int, int], ...]:
    """(q, largest batch that runs at it), gaps and the tail carried forward as vLLM does."""
    widest: dict[int, int] = {}
    for index, (_, _, draft) in enumerate(tiers):
        start = tiers[index][0]
        stop = tiers[index + 1][0] - 1 if index + 1 < len(tiers) else max_num_seqs
        if start <= max_num_seqs:
            widest[min(draft, num_speculative_tokens) + 1] = min(stop, max_num_seqs)
    return tuple(widest.items())


_NAME = "num_speculative_tokens_per_batch_size"
