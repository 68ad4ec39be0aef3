"""The progress of an upload: every per cent is shown once, and the end of sending is not the end."""

from __future__ import annotations

import io
from typing import Any

from dashboard.upload import Watched


class Shown:
    """Takes what a progress bar is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []

    def progress(self, value: float, text: str) -> None:
        self.steps.append((value, text))


def test_a_bar_follows_the_file_as_it_is_sent() -> None:
    bar: Any = Shown()
    file = Watched(io.BytesIO(bytes(1000)), 1000, "day.csv", bar)
    assert file.seek(0, io.SEEK_END) == 1000 and file.seek(0) == 0  # as a client finds out its length
    while file.read(4):
        pass
    shares, words = zip(*bar.steps, strict=True)
    assert list(shares) == sorted(shares) and len(shares) == 101 and shares[-1] == 1.0
    assert words[0] == "Sending day.csv …" and words[-1] == "Sent; reading day.csv …"


def test_an_empty_file_is_sent_too() -> None:
    bar: Any = Shown()
    assert Watched(io.BytesIO(), 0, "empty.csv", bar).read() == b""
