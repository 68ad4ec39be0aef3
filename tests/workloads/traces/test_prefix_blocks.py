"""Block hashes of Mooncake and Bailian files: kept with their requests through sorting, cutting and storing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from workloads.errors import BadInput
from workloads.traces.columns import dump_traffic, load_traffic
from workloads.traces.prefix_blocks import PrefixBlocks
from workloads.traces.read import read as read_trace
from workloads.traces.records import ReadResult, RequestTrace

Read = Callable[[str], ReadResult]


@pytest.fixture
def read_text(tmp_path: Path) -> Read:
    def read(text: str) -> ReadResult:
        path = tmp_path / "trace.jsonl"
        path.write_text(text)
        return read_trace(path)

    return read


def line(timestamp: int, tokens: int, output: int, ids: object) -> str:
    row = {"timestamp": timestamp, "input_length": tokens, "output_length": output, "hash_ids": ids}
    return json.dumps(row) + "\n"


def rows_of(blocks: PrefixBlocks | None) -> list[list[int]]:
    assert blocks is not None
    return [blocks.ids[a:b].tolist() for a, b in zip(blocks.starts[:-1], blocks.starts[1:], strict=True)]


def requests_of(result: ReadResult) -> RequestTrace:
    assert isinstance(result.traffic, RequestTrace)
    return result.traffic


def test_rows_out_of_order_and_failed_ones_take_their_blocks_along(read_text: Read) -> None:
    text = line(9000, 600, 5, [7, 8]) + line(3000, 512, 0, [1]) + line(0, 1030, 5, [1, 2, 3]) + line(6000, 5, 5, [4])
    trace = requests_of(read_text(text))
    assert trace.input_tokens.tolist() == [1030, 5, 600]
    assert trace.prefix_blocks is not None and trace.prefix_blocks.block_tokens == 512
    assert rows_of(trace.prefix_blocks) == [[1, 2, 3], [4], [7, 8]]
    assert rows_of(trace.window(1, 3).prefix_blocks) == [[4], [7, 8]]


def test_stored_and_loaded_again_it_is_the_same_trace(read_text: Read) -> None:
    trace = requests_of(read_text(line(0, 1030, 5, [1, 2, 3]) + line(1000, 512, 5, [1])))
    again = load_traffic(dump_traffic(trace))
    assert isinstance(again, RequestTrace)
    assert rows_of(again.prefix_blocks) == [[1, 2, 3], [1]]
    assert again.digest() == trace.digest()
    other = requests_of(read_text(line(0, 1030, 5, [1, 2, 4]) + line(1000, 512, 5, [1])))
    assert other.digest() != trace.digest()


@pytest.mark.parametrize(("ids", "problem"), [(None, "missing or has a gap"), ([1, None], "gap"), ("x", "not a list")])
def test_a_row_without_its_blocks_is_refused(read_text: Read, ids: object, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        read_text(line(0, 1030, 5, [1, 2, 3]) * 250 + line(0, 600, 5, ids))
    assert caught.value.line == 251
    assert caught.value.field == "hash_ids"


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(BadInput, match="belong together"):
        PrefixBlocks(16, np.arange(3), np.array([0, 2]))
    with pytest.raises(BadInput, match="one length"):
        blocks = PrefixBlocks(16, np.arange(2), np.array([0, 2]))
        RequestTrace(np.zeros(2), np.ones(2, np.int64), np.ones(2, np.int64), prefix_blocks=blocks)
