"""Traffic to and from Parquet bytes: how the store keeps it. Exact: the digest survives the round trip."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import numpy as np
import polars as pl

from workloads.errors import BadInput
from workloads.traces.library_faults import FAULTS, raise_if_memory
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.records import RequestTrace, StepTrace, Traffic

_KEY = "captune"
_STEP_COLUMNS = ("size", "steps", "family_index", "start_s", "step_ms", "kv_tokens", "padded_size", "fallback")
_BLOCKS = "prefix_blocks"
_REQUEST_COLUMNS = ("arrival_s", "input_tokens", "output_tokens")


def dump_traffic(traffic: Traffic) -> bytes:
    """The columns as Parquet, everything else in its metadata."""
    head: dict[str, Any]
    if isinstance(traffic, RequestTrace):
        names: tuple[str, ...] = _REQUEST_COLUMNS
        head = {"kind": "requests", "start_epoch_s": traffic.start_epoch_s}
        blocks = traffic.prefix_blocks
        if blocks is not None:
            head["block_tokens"] = blocks.block_tokens
    else:
        names = _STEP_COLUMNS
        head = {
            "kind": "steps",
            "families": traffic.families,
            "units": traffic.units,
            "origin": traffic.origin,
            "sample_every_steps": traffic.sample_every_steps,
            "sample_every_s": traffic.sample_every_s,
            "family_origins": traffic.family_origins,
        }
    frame = pl.DataFrame({name: getattr(traffic, name) for name in names})
    if isinstance(traffic, RequestTrace) and traffic.prefix_blocks is not None:
        frame = frame.with_columns(_lists(traffic.prefix_blocks))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={_KEY: json.dumps(head)})
    return buffer.getvalue()


def load_traffic(data: bytes) -> Traffic:
    """What `dump_traffic` wrote.

    Raises:
        BadInput: the bytes are damaged or were written by something else.
    """
    try:
        head = json.loads(pl.read_parquet_metadata(io.BytesIO(data))[_KEY])
        frame = pl.read_parquet(io.BytesIO(data))
    except (*FAULTS, KeyError, ValueError, OSError) as error:
        raise_if_memory(error)
        raise BadInput("the stored columns of this trace are damaged or not Captune's") from error
    lists = frame.get_column(_BLOCKS, default=None)
    frame = frame.drop(_BLOCKS, strict=False)
    columns = cast(dict[str, Any], {name: np.array(frame[name].to_numpy()) for name in frame.columns})
    if head["kind"] == "requests":
        blocks = None if lists is None else _blocks(lists, head["block_tokens"])
        return RequestTrace(**columns, start_epoch_s=head["start_epoch_s"], prefix_blocks=blocks)
    origins = head.get("family_origins")
    return StepTrace(
        **columns,
        families=tuple(head["families"]),
        units=tuple(head["units"]),
        origin=head["origin"],
        sample_every_steps=head["sample_every_steps"],
        sample_every_s=head.get("sample_every_s"),
        family_origins=None if origins is None else tuple(origins),
    )


def _lists(blocks: PrefixBlocks) -> pl.Series:
    """One list of ids a request."""
    rows = np.repeat(np.arange(len(blocks)), np.diff(blocks.starts))
    ids = pl.DataFrame({"row": rows, _BLOCKS: blocks.ids})
    lists = ids.group_by("row", maintain_order=True).agg(_BLOCKS)
    every = pl.DataFrame({"row": np.arange(len(blocks))}).join(lists, on="row", how="left", maintain_order="left")
    return every[_BLOCKS].fill_null([])


def _blocks(lists: pl.Series, block_tokens: int) -> PrefixBlocks:
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lists.list.len().to_numpy().astype(np.int64))))
    return PrefixBlocks(block_tokens, lists.explode(empty_as_null=False).to_numpy().astype(np.int64), starts)
