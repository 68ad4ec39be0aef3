"""Static buffers: fixed addresses, real rows copied, padding by the slot's own policy."""

from __future__ import annotations

import pytest
import torch

from services.capture.buffers import Padding, Slot, StaticBuffers
from workloads.errors import BadUsage

CPU = torch.device("cpu")
SLOTS = (
    Slot("kept", torch.int64, Padding.KEEP_TAIL),
    Slot("zeroed", torch.int64, Padding.ZERO_TAIL),
    Slot("marked", torch.int32, Padding.SENTINEL, sentinel=-7),
    Slot("wide", torch.float32, Padding.ZERO_TAIL, shape=lambda rows: (rows, 3)),
)


def values(rows: int, value: int) -> dict[str, torch.Tensor]:
    return {
        "kept": torch.full((rows,), value),
        "zeroed": torch.full((rows,), value),
        "marked": torch.full((rows,), value, dtype=torch.int32),
        "wide": torch.full((rows, 3), float(value)),
    }


def test_stale_rows_follow_the_policy_of_their_slot() -> None:
    buffers = StaticBuffers(SLOTS, 8, CPU)
    buffers.load(values(8, 5), size=8)
    buffers.load(values(2, 9), size=6)
    assert buffers.view("kept", 8).tolist() == [9, 9, 5, 5, 5, 5, 5, 5]
    assert buffers.view("zeroed", 8).tolist() == [9, 9, 0, 0, 0, 0, 5, 5]
    assert buffers.view("marked", 8).tolist() == [9, 9, -7, -7, -7, -7, 5, 5]
    assert buffers.view("wide", 8)[:, 0].tolist() == [9, 9, 0, 0, 0, 0, 5, 5]


def test_every_size_is_a_slice_at_one_address() -> None:
    buffers = StaticBuffers(SLOTS, 8, CPU)
    assert {buffers.view("wide", rows).data_ptr() for rows in range(1, 9)} == {buffers.view("wide", 8).data_ptr()}
    before = buffers.view("kept", 8).data_ptr()
    buffers.load(values(3, 1), size=4)
    assert buffers.view("kept", 8).data_ptr() == before


def test_rows_that_do_not_fit_and_unknown_slots_are_refused() -> None:
    buffers = StaticBuffers(SLOTS, 8, CPU)
    with pytest.raises(BadUsage, match="5 rows do not fit a size of 4"):
        buffers.load(values(5, 1), size=4)
    with pytest.raises(BadUsage, match="9 rows asked of buffers with 8"):
        buffers.view("kept", 9)
    with pytest.raises(BadUsage, match="no static buffer 'tokens'"):
        buffers.view("tokens", 1)
    with pytest.raises(BadUsage, match="share a name"):
        StaticBuffers((SLOTS[0], SLOTS[0]), 1, CPU)
