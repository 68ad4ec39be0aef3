"""Static buffers: the fixed addresses that a graph reads, filled before every step and padded by a policy per slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from workloads.errors import BadUsage
from workloads.models.config import ModelConfig

ShapeRule = Callable[[int], tuple[int, ...]]


class Padding(Enum):
    """What rows between the real ones and the bucket's end hold."""

    KEEP_TAIL = "keep"  # whatever an earlier step left: allowed only where a padded row cannot touch a real one
    ZERO_TAIL = "zero"
    SENTINEL = "sentinel"


def token_padding(config: ModelConfig) -> Padding:
    """What padded tokens may be: anything, since no real row reads what they leave. Not so with experts: they share
    matrix products between rows, whose rounding depends on who else was sent there."""
    return Padding.KEEP_TAIL if config.experts is None else Padding.ZERO_TAIL


@dataclass(frozen=True, slots=True)
class Slot:
    """One buffer: its first dimension counts rows.

    Attributes:
        shape: rows -> whole shape.
        sentinel: value of padded rows under `Padding.SENTINEL`.
    """

    name: str
    dtype: torch.dtype
    padding: Padding
    shape: ShapeRule = lambda rows: (rows,)
    sentinel: int = 0


class StaticBuffers:
    """Buffers allocated once at the largest size; a smaller size is a slice at the same address.

    Not thread-safe: one session owns them.
    """

    def __init__(self, slots: tuple[Slot, ...], rows: int, device: torch.device) -> None:
        self.rows = rows
        self._slots = {slot.name: slot for slot in slots}
        if len(self._slots) != len(slots):
            raise BadUsage("two static buffers share a name", field="slots")
        self._tensors = {slot.name: self._allocate(slot, device) for slot in slots}

    def _allocate(self, slot: Slot, device: torch.device) -> Tensor:
        fill = slot.sentinel if slot.padding is Padding.SENTINEL else 0
        return torch.full(slot.shape(self.rows), fill, dtype=slot.dtype, device=device)

    def view(self, name: str, rows: int) -> Tensor:
        """The first `rows` rows of a buffer; the same address for every size.

        Raises:
            BadUsage: no such buffer, or more rows than were allocated.
        """
        if name not in self._tensors:
            raise BadUsage(f"no static buffer '{name}', only {', '.join(self._tensors)}", field="name")
        if not 0 < rows <= self.rows:
            raise BadUsage(f"{rows} rows asked of buffers with {self.rows}", field="rows")
        return self._tensors[name][:rows]

    @torch.inference_mode()
    def load(self, values: Mapping[str, Tensor], *, size: int) -> None:
        """Copy real rows in, grouped into one call, and pad every slot up to `size` by its policy.

        Args:
            values: slot name -> tensor of n <= size rows, the same n everywhere; pinned host tensors copy
                asynchronously and must not change before the next synchronisation.

        Raises:
            BadUsage: more rows than `size`, or an unknown slot.
        """
        rows = len(next(iter(values.values())))
        if rows > size:
            raise BadUsage(f"{rows} rows do not fit a size of {size}", field="size")
        targets = [self.view(name, rows) for name in values]
        torch._foreach_copy_(targets, list(values.values()), non_blocking=True)
        if rows < size:
            for name in values:
                self._pad(self._slots[name], rows, size)

    def _pad(self, slot: Slot, rows: int, size: int) -> None:
        tail = self._tensors[slot.name][rows:size]
        if slot.padding is Padding.ZERO_TAIL:
            tail.zero_()
        elif slot.padding is Padding.SENTINEL:
            tail.fill_(slot.sentinel)
