"""`captune profile from-log`: every source with step times becomes a profile of its engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from services.cli.recorded import RecordedLog, profile_of
from tests.services.cli.conftest import Captune
from tests.workloads.traces.step_examples import forward_message, iteration_line, scrape, statistics, trtllm_scrape
from tuner.profile_file import parse_profile

Write = Callable[[str, str | bytes], Path]

READINGS = 8
# Two batch sizes by turns, 8 in 10 ms and 16 in 12 ms.
TURNS = [(8, 10.0), (16, 12.0)] * READINGS


def _graph_passes() -> str:
    """A scrape a second: the counters move by a hundred steps of one size, then of the other."""
    scrapes, seconds, passes = [], 0.0, 0
    for size, ms in sorted(TURNS):
        seconds, passes = seconds + ms / 10, passes + 100
        scrapes.append(scrape(size, passes=(passes, 0), seconds=seconds))
    return "".join(scrapes)


def _iterations() -> str:
    """The device time of a step stands in the line after it."""
    before = ["N/A", *(f"{ms}ms" for _, ms in TURNS)]
    return "".join(
        iteration_line(n, size, before_ms=ms) + "\n"
        for n, ((size, _), ms) in enumerate(zip(TURNS, before, strict=False))
    )


SOURCES = {
    "forward-pass-metrics": b"".join(forward_message(n, size, wall_s=ms / 1000) for n, (size, ms) in enumerate(TURNS)),
    "tensorrt-llm-stats": "\n".join(json.dumps(statistics(n, size, ms=ms)) for n, (size, ms) in enumerate(TURNS)),
    "tensorrt-llm-iterations": _iterations(),
    "prometheus": "".join(trtllm_scrape(size, iteration_s=ms / 1000) for size, ms in TURNS),
    "prometheus counters": _graph_passes(),
}


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_step_times_of_a_source_are_a_profile(write: Write, source: str) -> None:
    found = profile_of(RecordedLog(write("source", SOURCES[source])))
    cost = found.profile.family("decode_full")
    assert cost.sizes.tolist() == [8, 16]
    assert cost.step_ms == pytest.approx([10.0, 12.0])
    assert found.coverage.too_few == {}
    assert found.profile.software is not None
    assert found.profile.software["recorded_from_log"]["format"] == source.split()[0]  # type: ignore[index]


def test_the_command_writes_the_profile_and_leaves_unknown_what_was_seen_too_seldom(
    captune: Captune, write: Write, tmp_path: Path
) -> None:
    out, text = tmp_path / "profile.json", SOURCES["prometheus"] + trtllm_scrape(11)
    document = captune("profile", "from-log", write("source", text), "--out", out, "--json").document
    assert [point["size"] for point in document["families"]["decode_full"]["points"]] == [8, 16]
    assert document["coverage"]["too_few"] == {"11": 1}
    assert parse_profile(out.read_bytes()).software == document["software"]
    assert not (tmp_path / "data").exists()
