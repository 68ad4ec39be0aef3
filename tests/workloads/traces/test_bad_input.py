"""Files that are no traces: one clear sentence, quickly, in bounded memory."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from workloads.errors import BadInput
from workloads.traces.read import read
from workloads.traces.records import ReadResult
from workloads.traces.source import BLOCK_BYTES, Source

Read = Callable[..., ReadResult]
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n  \n", "only blank lines"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "this is a PNG image, not a trace"),
        (b"%PDF-1.7\nsome text\n", "this is a PDF document"),
        (b"arrival_s,input_tokens\x00\n", "binary file"),
        ("a,b\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (b"hello world\nthis is prose\n", "not a trace or log that Captune knows; it begins with 'hello world'"),
        (b"arrival_s,input_tokens,output_tokens\n", "a header and no rows"),
        (AZURE.encode(), "a header and no rows"),
        (b"arrival_s,input_tokens,output_tokens\n1,2,3\n1,2,\xff\n", ":3: not UTF-8 text (byte 0xff)"),
        (b"TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,5\n", "no column 'GeneratedTokens' (output tokens)"),
        (b"num_prefill_tokens,num_decode_tokens\n5,5\n", "no column 'arrived_at' (arrival); the file has num_prefill"),
        (
            b"arrival_s,input_tokens,output_tokens\n1,5,6\n2,-5,6\n",
            ":3: input_tokens: a token count cannot be negative",
        ),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5,-1\n", ":2: GeneratedTokens: a token count cannot be negative"),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5,6\nyesterday,5,6\n", ":3: TIMESTAMP: 'yesterday' is not a time"),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5\n", ":2: GeneratedTokens: a missing value is not a whole"),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5,6,7\n", ":2: 4 fields where the header has 3"),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5.5,6\n", ":2: ContextTokens: '5.5' is not a whole number"),
        (AZURE.encode() + b"2023-11-16 18:15:46.68,5,99999999999\n", "more than any request has"),
        (b"arrival_s,input_tokens,output_tokens\nnan,5,6\n", ":2: arrival_s: 'nan' is not a number"),
        (b"arrival_s,input_tokens,output_tokens\n1,5,0\n", "none of the 1 rows is a request"),
        (b'{"arrival_s":1,"input_tokens":2,"output_tokens":3}\n\n{"arrival_s":1,\n', ":3: not a JSON object"),
        (b'{"arrival_s":1,"input_tokens":2,"output_tokens":"few"}\n', ":1: output_tokens: 'few' is not a whole number"),
        (b'{"arrival_s":1,"input_tokens":2,"output_tokens":3}\n{"arrival_s":1}\n', ":2: input_tokens: a missing value"),
        (
            b'{"arrival_s":1,"input_tokens":2,"output_tokens":-3}\n',
            ":1: output_tokens: a token count cannot be negative",
        ),
        (b"PAR1 no parquet at all", "the Parquet data is cut off or damaged"),
        (b"\x28\xb5\x2f\xfd\x00\x00", "zstd"),
        (
            b"[2025-11-11 04:06:27] Decode batch, #run\n",
            "none of the log's 1 step lines can be used (1 unreadable line)",
        ),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_file(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "upload"
    path.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        read(tmp_path / "absent.csv")
    with pytest.raises(BadInput, match="this is a directory"):
        read(tmp_path)
    with pytest.raises(BadInput, match="not a regular file"):
        read(Path("/dev/zero"))


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd])
def test_cut_off_packed_files_are_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    rows = "".join(f"2023-11-16 18:15:46.{i:07d},{i},6\n" for i in range(1, 5000))
    packed = pack((AZURE + rows).encode())
    path = tmp_path / "trace.csv"
    for data in (packed[: len(packed) // 2], packed[:-4], packed[:12]):
        path.write_bytes(data)
        with pytest.raises(BadInput, match="data is cut off or damaged"):
            read(path)


def test_zstd_frames_of_any_number_are_read_and_a_broken_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    row = b"2023-11-16 18:15:46.68,5,6\n"
    frames = [zstd(AZURE.encode() + row), zstd(row * 100_000), zstd(row)]
    path.write_bytes(b"".join(frames))
    assert read(path).rows.kept == 100_002
    damaged = bytearray(frames[1])
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(frames[0] + bytes(damaged))
    with pytest.raises(BadInput, match="the zstd data is cut off or damaged"):
        read(path)


def _refused_within(path: Path, message: str, limit_bytes: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=message):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < limit_bytes
    finally:
        tracemalloc.stop()


def test_a_line_of_gigabytes_is_refused_after_its_first_block(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.write(b"7" * (BLOCK_BYTES + 1))  # real characters first, the rest of the 3 GB as a hole
        file.truncate(3 << 30)
    _refused_within(path, ":1: a row is longer than 1 MiB", 4 * BLOCK_BYTES)


def test_a_long_row_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(AZURE + "2023-11-16 18:15:46.68,5,6\n" * 3 + "x" * (3 << 20) + "\n2023-11-16 18:15:46.68,5,6\n")
    _refused_within(path, ":5: a row is longer than 1 MiB", 4 * BLOCK_BYTES)


def test_three_gigabytes_of_nothing_are_binary(tmp_path: Path) -> None:
    path = tmp_path / "hole"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    _refused_within(path, "binary", 4 * BLOCK_BYTES)


def test_a_packed_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"1,2,3\n" * 3_000_000))
    with pytest.raises(BadInput, match="more than 1 MiB unpacked"):
        list(Source(path, max_bytes=1 << 20).blocks())


def test_an_unclosed_quote_does_not_swallow_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.traces.source.BLOCK_BYTES", 1000)
    path = tmp_path / "trace.csv"
    rows = "1,2,3,x\n" * 1000
    path.write_text(f'arrival_s,input_tokens,output_tokens,note\n1,2,3,"open\n{rows}')
    with pytest.raises(BadInput, match="a quoted field is never closed"):
        read(path)
