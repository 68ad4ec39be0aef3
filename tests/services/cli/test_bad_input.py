"""A file that cannot be a trace gets one sentence that says what and where; nothing is stored, nothing hangs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
Write = Callable[[str, str | bytes], Path]


def long_line(path: Path) -> None:
    """A row without an end: more than any reader may hold at once."""
    with path.open("wb") as file:
        file.write(b"arrival_s,input_tokens,output_tokens\n")
        for _ in range(256):
            file.write(b"1" * (1 << 20))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", ("empty",)),
        ("picture.csv", PNG, ("picture.csv",)),
        ("missing.csv", b"TIMESTAMP,ContextTokens\n2023-11-16 18:15:46.68,374\n", ("missing.csv", "GeneratedTokens")),
        ("negative.csv", (AZURE + "2023-11-16 18:15:50.99,-5,109\r\n").encode(), (":3", "ContextTokens")),
        ("cut.csv.gz", gzip.compress(AZURE.encode() * 500)[:-20], ("cut.csv.gz",)),
        ("words.txt", b"nothing that any engine ever wrote\n" * 50, ("words.txt",)),
        ("header.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n", ("header.csv",)),
    ],
)
def test_bad_files(
    captune: Captune, write: Write, data_dir: Path, name: str, content: bytes, words: tuple[str, ...]
) -> None:
    path = write(name, content)
    for command in (("trace", "inspect"), ("trace", "import")):
        ran = captune(*command, path, "--json")
        assert ran.code == 2
        assert ran.stdout == ""
        for word in words:
            assert word in ran.reason
    assert not list(data_dir.rglob("*.parquet"))


def test_a_line_without_end(captune: Captune, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    long_line(path)
    ran = captune("trace", "inspect", path)
    assert ran.code == 2
    assert "long.csv:2" in ran.reason


def test_a_missing_file_is_named(captune: Captune) -> None:
    ran = captune("trace", "inspect", "gone.csv")
    assert ran.code == 2
    assert "gone.csv" in ran.reason
