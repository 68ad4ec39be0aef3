"""The published files, with the row counts their authors and our own counting give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workloads.errors import BadInput
from workloads.traces.read import read
from workloads.traces.records import RequestTrace, StepTrace


@pytest.mark.parametrize(
    ("file", "format", "rows"),
    [
        ("azure/AzureLLMInferenceTrace_conv.csv", "azure-2023", 19_366),
        ("azure/AzureLLMInferenceTrace_code.csv", "azure-2023", 8_819),
        ("mooncake/conversation_trace.jsonl.gz", "mooncake", 12_031),
        ("mooncake/synthetic_trace.jsonl", "mooncake", 3_993),
        ("vidur/splitwise_conv.csv", "requests", 19_366),
        ("vidur/splitwise_code.csv", "requests", 8_819),
        ("llmservingsim/RTX4090/Llama-3.1-8B/requests.jsonl", "requests", 300),
    ],
)
def test_every_row_is_kept(public_traces: Path, file: str, format: str, rows: int) -> None:
    result = read(public_traces / file)
    assert (result.format, result.rows.read, result.rows.kept, len(result.traffic)) == (format, rows, rows, rows)


@pytest.mark.parametrize("name", ["conv", "code"])
def test_vidur_and_azure_tell_the_same_requests(public_traces: Path, name: str) -> None:
    azure = read(public_traces / f"azure/AzureLLMInferenceTrace_{name}.csv").traffic
    vidur = read(public_traces / f"vidur/splitwise_{name}.csv").traffic
    assert isinstance(azure, RequestTrace)
    assert isinstance(vidur, RequestTrace)
    np.testing.assert_allclose(vidur.arrival_s, azure.arrival_s, atol=1e-9)
    np.testing.assert_array_equal(vidur.input_tokens, azure.input_tokens)
    np.testing.assert_array_equal(vidur.output_tokens, azure.output_tokens)


def test_the_mooncake_clock_is_called_coarse(public_traces: Path) -> None:
    conversation = read(public_traces / "mooncake/conversation_trace.jsonl.gz")
    assert any("ticks of about 3000 ms (1180 distinct times" in note for note in conversation.notes)
    assert not read(public_traces / "mooncake/synthetic_trace.jsonl").notes


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv", "no column 'arrived_at'"),
    ],
)
def test_files_that_are_no_request_traces_are_refused(public_traces: Path, file: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read(public_traces / file)


def test_ticks_of_a_real_vllm_are_a_sample_of_its_running_requests(public_traces: Path) -> None:
    result = read(public_traces / "llmservingsim/RTX4090/Llama-3.1-8B/timeseries.csv")
    assert result.format == "llmservingsim-ticks"
    assert isinstance(result.traffic, StepTrace)
    assert (result.traffic.origin, result.traffic.sample_every_s) == ("sample", 1.0)
    assert result.rows.read == result.rows.kept + sum(result.rows.dropped.values())
    assert result.rows.read == 184
    assert result.traffic.size.max() <= 256
