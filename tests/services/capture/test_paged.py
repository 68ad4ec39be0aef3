"""Paged attention metadata, proven with a plain torch stand-in for the kernel that reads it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.choose import agrees, choose_attention
from services.capture.attention.dense import DenseAttention
from services.capture.attention.flash import FlashAttention
from services.capture.attention.flashinfer import FlashinferAttention, page_layout
from services.capture.attention.kv_cache import CacheLayout, rounded
from services.capture.decode_step import DecodeStep
from workloads.errors import Unavailable
from workloads.models.config import load_config
from workloads.models.weights import build_decoder

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
    def _page_indices(self, indptr: Tensor, real: int) -> Tensor:
        return super()._page_indices(indptr, real).flip(0)


@pytest.mark.parametrize("packed", [False, True])
def test_every_row_reads_its_own_pages(packed: bool) -> None:
    assert agrees(StandIn, CONFIG, torch.float32, CPU, packed=packed)
    assert not agrees(WrongPages, CONFIG, torch.float32, CPU, packed=packed)


STEPS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=6), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 3), st.sampled_from([StandIn, FlashAttention]))
def test_padding_never_writes_where_a_real_row_may_read(
    steps: list[list[int]], padded: int, backend: type[DecodeAttention]
) -> None:
    rows = max(len(lengths) for lengths in steps) + padded
    pool = max(sum(rounded(n) for n in lengths) for lengths in steps)
    attention = backend(CONFIG, CacheLayout(rows, 64, torch.float32, CPU, pool))
    for lengths in steps:
        size, real = min(rows, len(lengths) + padded), len(lengths)
        on_device = torch.tensor(lengths + [1] * (size - real), dtype=torch.int32)
        attention.arguments(size, on_device)
        attention.plan(on_device.long() - 1, on_device, on_device[:real])
        starts = attention.row_starts(size)
        held = [slot for start, n in zip(starts, lengths, strict=False) for slot in range(start, start + n)]
        assert len(set(held)) == len(held) and max(held) < attention.cache.pool_tokens
        assert attention._slots[:real].tolist() == [start + n - 1 for start, n in zip(starts, lengths, strict=False)]
        written = attention._slots[real:size].tolist()
        assert len(set(written)) == len(written) and all(
            attention.cache.pool_tokens <= slot < attention.cache.tokens for slot in written
        )
        if isinstance(attention, StandIn):
            table = attention._wrappers[size]
            pages = [table.indices[first:last].tolist() for first, last in pairwise(table.indptr)]
            assert [16 * of[0] for of in pages] == starts and [len(of) for of in pages[real:]] == [1] * (size - real)


def test_a_padded_step_changes_nothing_in_the_pool_but_what_real_rows_write() -> None:
    decoder = build_decoder("tiny-qwen3-moe", positions=64, device=CPU, dtype=torch.float32, seed=0)
    step = DecodeStep(decoder, StandIn, rows=8, capacity=64, lm_head_in_graph=True, tokens=8 * 64)
    cache = step.attention.cache
    before = cache.keys.clone()
    step.arguments(8)
    step.load(step.batch_of(torch.tensor([33, 5, 20])), 8)
    step.compute(*step.arguments(8))
    changed = (cache.keys != before).any(dim=-1).any(dim=-1).any(dim=0)[: cache.pool_tokens].nonzero().flatten()
    assert changed.tolist() == [32, 48 + 4, 48 + 16 + 19]


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
