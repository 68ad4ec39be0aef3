"""Paged attention metadata, proven with a plain torch stand-in for the kernel that reads it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from services.capture.attention.choose import agrees, choose_attention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.flashinfer import FlashinferAttention, page_layout
from workloads.errors import Unavailable
from workloads.models.config import load_config

CPU, CONFIG = torch.device("cpu"), load_config("tiny-llama")


class PlainPagedDecode:
    """What flashinfer's wrapper computes, row by row from page table and last-page lengths."""

    def plan(self, indptr: Tensor, indices: Tensor, last_page: Tensor, *shape: int, **types: Any) -> None:
        self.indptr, self.indices, self.last_page = indptr.tolist(), indices.clone(), last_page.tolist()

    def run(self, query: Tensor, paged: tuple[Tensor, Tensor]) -> Tensor:
        out = torch.empty_like(query)
        for row, (first, last) in enumerate(zip(self.indptr, self.indptr[1:], strict=False)):
            count = (last - first - 1) * 16 + self.last_page[row]
            keys, values = (x[self.indices[first:last].long()].flatten(0, 1)[:count] for x in paged)
            group = query.shape[1] // keys.shape[1]
            keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
            scores = torch.einsum("hd,chd->hc", query[row], keys) / query.shape[-1] ** 0.5
            out[row] = torch.einsum("hc,chd->hd", scores.softmax(-1), values)
        return out


class StandIn(FlashinferAttention):
    def _wrapper(self, size: int) -> Any:
        return PlainPagedDecode()


class WrongPages(StandIn):
    def _page_indices(self, indptr: Tensor) -> Tensor:
        return super()._page_indices(indptr).flip(0)


@pytest.mark.parametrize("packed", [False, True])
def test_every_row_reads_its_own_pages(packed: bool) -> None:
    assert agrees(StandIn, CONFIG, torch.float32, CPU, packed=packed)
    assert not agrees(WrongPages, CONFIG, torch.float32, CPU, packed=packed)


def test_flashinfer_is_not_asked_for_what_its_kernel_cannot_do() -> None:
    assert not agrees(StandIn, CONFIG, torch.float32, CPU, tokens_per_row=4)
    assert agrees(DenseAttention, CONFIG, torch.float32, CPU, tokens_per_row=4)


def test_pages_of_rows() -> None:
    indptr, last_page = page_layout(torch.tensor([1, 16, 17, 48], dtype=torch.int32))
    assert indptr.tolist() == [0, 1, 2, 4, 7] and last_page.tolist() == [1, 16, 1, 16]


def test_a_backend_is_chosen_by_what_works_here() -> None:
    assert choose_attention(CONFIG, torch.float32, CPU) is DenseAttention
    assert choose_attention(CONFIG, torch.float32, CPU, "dense") is DenseAttention
    with pytest.raises(Unavailable, match="'flashinfer' does not work for tiny-llama"):
        choose_attention(CONFIG, torch.float32, CPU, "flashinfer")
