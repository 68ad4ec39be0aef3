"""A mapping is proposed from names and first rows, and what is left open is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workloads.errors import BadInput
from workloads.traces.proposal import MappingProposal, propose


def proposed(tmp_path: Path, data: str | bytes) -> MappingProposal:
    path = tmp_path / "upload"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return propose(path)


@pytest.mark.parametrize(
    ("data", "names", "unit"),
    [
        ("arrival_s,input_tokens,output_tokens\n1,2,3\n", ("arrival_s", "input_tokens", "output_tokens"), "s"),
        ("request_ts,n_prompt,n_out,cost\n1700000000,2,3,0.1\n", ("request_ts", "n_prompt", "n_out"), "s"),
        ("startedAt\tPromptLen\tReplyTokensOut\n2025-01-01T00:00:00Z\t2\t3\n", ("startedAt", "PromptLen", None), "iso"),
        (
            json.dumps({"meta": {"created": 1700000000123}, "usage": {"prompt_tokens": 2, "completion_tokens": 3}}),
            ("meta.created", "usage.prompt_tokens", "usage.completion_tokens"),
            "ms",
        ),
        ("text,answer\nhello,world\n", (None, None, None), None),
    ],
)
def test_columns_are_told_by_name_and_value(
    tmp_path: Path, data: str, names: tuple[str | None, ...], unit: str | None
) -> None:
    proposal = proposed(tmp_path, data)
    mapping = proposal.mapping
    assert (mapping.arrival, mapping.input_tokens) == names[:2]
    assert mapping.output_tokens == (names[2] or mapping.output_tokens)
    assert mapping.time_unit == unit
    assert bool(proposal.questions) == (None in (mapping.arrival, mapping.input_tokens, mapping.output_tokens))


def test_text_is_never_shown(tmp_path: Path) -> None:
    proposal = proposed(tmp_path, "time,prompt,prompt_tokens\n5,my secret,7\n")
    assert "secret" not in repr(proposal)
    assert {column.name: column.example for column in proposal.columns}["prompt"] is None


def test_known_files_need_no_mapping(tmp_path: Path, examples: dict[str, bytes]) -> None:
    for name in ("azure-2023", "mooncake", "sglang-log", "vllm-stats", "guidellm", "otlp-genai", "histogram"):
        proposal = proposed(tmp_path, examples[name])
        assert (proposal.format, proposal.questions) == (name, ())


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="PNG image"):
        proposed(tmp_path, b"\x89PNG\r\n\x1a\n")
