"""flashinfer's paged decode, as SGLang and vLLM run it: `plan` balances the step's KV work outside the graph, `run`
reads the plan inside. Rows are split over the whole GPU as long as there are fewer than places on it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from services.capture.attention.base import DecodeAttention
from services.capture.attention.kv_cache import PAGE_TOKENS, CacheLayout, KvCache
from workloads.models.attention import Attention
from workloads.models.config import ModelConfig

_QUERY_TILE_ROWS = 16
_BLOCKS_PER_MULTIPROCESSOR = 2
_LEAST_WORKSPACE_BYTES = 128 * 2**20


class FlashinferAttention(DecodeAttention):
    """One wrapper per size, since a captured plan has a fixed batch size; they share the large workspace."""

    name: ClassVar[str] = "flashinfer-paged-decode"

    def __init__(self, config: ModelConfig, layout: CacheLayout, cache: KvCache | None = None) -> None:
        if layout.new_tokens > 1:
            raise ValueError("its decode kernel takes one new token a row")
        super().__init__(config, layout, cache)
        rows, device = layout.rows, layout.device
        # Partial results of split rows: float32, one query tile per row and head, with room for as many splits.
        partial_bytes = 2 * rows * config.heads * _QUERY_TILE_ROWS * config.head_dim * 4
        size_bytes = max(_LEAST_WORKSPACE_BYTES, partial_bytes)
        self._workspace = torch.empty(size_bytes, dtype=torch.uint8, device=device)
        self._pages = torch.arange(self.cache.tokens // PAGE_TOKENS, dtype=torch.int32, device=device)
        self._indptr = torch.zeros(rows + 1, dtype=torch.int32, device=device)
        self._indices = torch.zeros(len(self._pages), dtype=torch.int32, device=device)
        self._last_page = torch.ones(rows, dtype=torch.int32, device=device)
        self._wrappers: dict[int, Any] = {}

    @classmethod
    def unsplit_rows(cls, config: ModelConfig, device: torch.device) -> int | None:
        """A captured plan counts padded rows, so this is a matter of the size, not of real rows."""
        return places(torch.cuda.get_device_properties(device).multi_processor_count, config.kv_heads)

    def plan(self, positions: Tensor, lengths: Tensor, host_lengths: Tensor) -> None:
        self.plan_slots(positions, lengths, len(host_lengths))
        padded = F.pad(host_lengths, (0, len(positions) - len(host_lengths)), value=1)
        self._plan(len(positions), padded, len(host_lengths))

    def arguments(self, size: int, lengths: Tensor) -> tuple[Tensor, ...]:
        if size not in self._wrappers:
            self._wrappers[size] = self._wrapper(size)
            self._plan(size, torch.ones(size, dtype=torch.int32), size)
        return self._slots[:size], self.cache.keys, self.cache.values

    def over(self, *tensors: Tensor) -> Attention:
        return _FlashinferStep(self._wrappers[len(tensors[0])], *tensors)

    def _wrapper(self, size: int) -> Any:
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        return BatchDecodeWithPagedKVCacheWrapper(
            self._workspace,
            "NHD",
            use_cuda_graph=True,
            use_tensor_cores=True,
            paged_kv_indptr_buffer=self._indptr[: size + 1],
            paged_kv_indices_buffer=self._indices,
            paged_kv_last_page_len_buffer=self._last_page[:size],
        )

    def _plan(self, size: int, host_lengths: Tensor, real: int) -> None:
        config, dtype = self.config, self.cache.keys.dtype
        indptr, last_page = page_layout(host_lengths)
        self._wrappers[size].plan(
            indptr,
            self._page_indices(indptr, real),
            last_page,
            config.heads,
            config.kv_heads,
            config.head_dim,
            PAGE_TOKENS,
            q_data_type=dtype,
            kv_data_type=dtype,
        )

    def _page_indices(self, indptr: Tensor, real: int) -> Tensor:
        """Physical pages of all rows, row after row; the first `real` are no padding."""
        total, padded = int(indptr[-1]), len(indptr) - 1 - real
        if self._padding_start is not None and padded:
            first = self.cache.pool_tokens // PAGE_TOKENS
            return torch.cat((self._pages[: total - padded], self._pages[first : first + padded]))
        row_pages = self.cache.capacity // PAGE_TOKENS
        if self.cache.packed or row_pages == 1:
            return self._pages[:total]
        rows = torch.arange(len(indptr) - 1, dtype=torch.int32)
        device = self._pages.device
        shift, pages = (rows * row_pages - indptr[:-1]).to(device), indptr.diff().to(device)
        return self._pages[:total] + torch.repeat_interleave(shift, pages, output_size=total)


def places(multiprocessors: int, kv_heads: int) -> int:
    """Rows that the GPU reads at once: the planner fills two blocks a multiprocessor, each with a KV head of a row
    (`PrefillSplitQOKVIndptr` in flashinfer's scheduler.cuh)."""
    return max(1, _BLOCKS_PER_MULTIPROCESSOR * multiprocessors // kv_heads)


def page_layout(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(first page of every row with the end behind it int32 [n + 1], tokens in its last page int32 [n])."""
    pages = torch.div(lengths + (PAGE_TOKENS - 1), PAGE_TOKENS, rounding_mode="floor")
    indptr = F.pad(torch.cumsum(pages, 0, dtype=torch.int32), (1, 0))
    return indptr, (lengths - 1) % PAGE_TOKENS + 1


class _FlashinferStep:
    def __init__(self, wrapper: Any, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        self.wrapper, self.slots, self.keys, self.values = wrapper, slots, keys, values

    def run(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys = self.keys[layer].index_copy_(0, self.slots, key)
        values = self.values[layer].index_copy_(0, self.slots, value)
        paged = keys.unflatten(0, (-1, PAGE_TOKENS)), values.unflatten(0, (-1, PAGE_TOKENS))
        attended: Tensor = self.wrapper.run(query.contiguous(), paged)
        return attended


def flashinfer_supported(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernel exists here for this shape: flashinfer installed, Ampere or newer, 16-bit floats."""
    return (
        find_spec("flashinfer") is not None
        and device.type == "cuda"
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in (torch.bfloat16, torch.float16)
        and config.head_dim in (64, 128, 256)
    )
