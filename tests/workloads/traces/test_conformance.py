"""What every reader promises, checked on one example file of each format."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import numpy as np
import pyarrow
import pytest

from workloads.errors import BadInput, BadUsage
from workloads.traces.columns import dump_traffic, load_traffic
from workloads.traces.records import ReadResult, RequestTrace
from workloads.traces.registry import READERS

Read = Callable[..., ReadResult]
Example = tuple[str, bytes, int, int]


def test_every_reader_has_an_example(examples: dict[str, bytes]) -> None:
    needs_a_rate = {"servegen"}  # its archive is no trace until a rate is given: see test_servegen.py
    assert {reader.name for reader in READERS} == set(examples) | needs_a_rate
    assert all(reader.description for reader in READERS)


def test_a_file_is_recognised_by_its_content_and_its_rows_add_up(read_text: Read, example: Example) -> None:
    name, data, rows, kept = example
    result = read_text(data)
    assert result.format == name
    assert (result.rows.read, result.rows.kept) == (rows, kept)
    assert len(result.traffic) == kept
    assert set(result.rows.first_line) == set(result.rows.dropped)
    assert isinstance(result.traffic, RequestTrace) == (result.kind == "requests")


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_packed_file_reads_like_the_plain_one(
    read_text: Read, example: Example, pack: Callable[[bytes], bytes]
) -> None:
    plain, packed = read_text(example[1]), read_text(pack(example[1]))
    assert packed.format == plain.format
    assert packed.rows == plain.rows
    assert packed.traffic.digest() == plain.traffic.digest()


def test_line_ends_byte_order_mark_and_final_newline_do_not_matter(read_text: Read, example: Example) -> None:
    unix = example[1].replace(b"\r\n", b"\n").rstrip(b"\n")
    plain = read_text(unix)
    for variant in (unix + b"\n", unix.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + unix, unix + b"\n\n"):
        again = read_text(variant)
        assert (again.format, again.rows) == (plain.format, plain.rows)
        assert again.traffic.digest() == plain.traffic.digest()


def test_the_format_can_be_named(read_text: Read, example: Example) -> None:
    assert read_text(example[1], format=example[0]).rows == read_text(example[1]).rows


def test_naming_a_wrong_format_is_one_clear_error(read_text: Read, example: Example) -> None:
    azure = {"azure-2023", "azure-2024", "azure-2025-multimodal"}
    siblings = azure, {"mooncake", "bailian"}, {"vllm-bench", "sglang-bench"}
    for reader in READERS:
        same = reader.name == example[0] or any({reader.name, example[0]} <= pair for pair in siblings)
        if same or reader.name == "requests":
            continue
        with pytest.raises(BadInput):
            read_text(example[1], format=reader.name)


def test_an_unknown_format_is_bad_usage_that_lists_the_known_ones(read_text: Read) -> None:
    with pytest.raises(BadUsage, match="mooncake"):
        read_text("size,count\n1,1\n", format="splunk")


def test_stored_columns_come_back_exactly(read_text: Read, example: Example) -> None:
    traffic = read_text(example[1]).traffic
    again = load_traffic(dump_traffic(traffic))
    assert type(again) is type(traffic)
    assert again.digest() == traffic.digest()
    for name in set(traffic.__slots__) - {"prefix_blocks"}:
        np.testing.assert_array_equal(getattr(again, name), getattr(traffic, name))
    blocks = getattr(traffic, "prefix_blocks", None)
    for name in blocks.__slots__ if blocks is not None else ():
        np.testing.assert_array_equal(getattr(again.prefix_blocks, name), getattr(blocks, name))


def test_damaged_stored_columns_are_bad_input(read_text: Read, example: Example) -> None:
    data = dump_traffic(read_text(example[1]).traffic)
    for broken in (b"", b"PAR1", data[: len(data) // 2], data[:-20]):
        with pytest.raises(BadInput, match="damaged"):
            load_traffic(broken)
