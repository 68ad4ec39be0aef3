"""How a person tells `captune trace` what a request file leaves open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.cli.conftest import Captune

Write = Callable[[str, str | bytes], Path]


def test_columns_are_proposed_and_the_proposal_is_an_option(captune: Captune, write: Write) -> None:
    path = write("mine.csv", "request_ts,n_prompt,n_out,prompt\n1700000000,10,4,secret\n1700000002,20,5,secret\n")
    proposal = captune("trace", "columns", path, "--json")
    assert "secret" not in proposal.stdout
    option, columns = proposal.document["option"].split(" ")
    assert (option, proposal.document["questions"]) == ("--columns", [])
    document = captune("trace", "import", path, option, columns.strip("'"), "--json").document
    assert (document["rows_kept"], document["span_s"]) == (2, 2.0)


def test_a_question_shows_both_units(captune: Captune, write: Write) -> None:
    path = write("mine.csv", "timestamp,input_length,output_length\n0,10,2\n500,20,3\n1000,30,4\n")
    assert "seconds or milliseconds?" in captune("trace", "inspect", path, "--json").reason
    assert "seconds or milliseconds?" in captune("trace", "columns", path, "--json").document["questions"][0]
    told = captune("trace", "inspect", path, "--columns", "timestamp,input_length,output_length,ms", "--json").document
    assert told["span_s"] == 1.0


def test_lengths_zone_scale_and_ticks(captune: Captune, write: Write) -> None:
    lengths = write("lengths.csv", "a,b\n" + "10,2\n" * 100)
    ran = captune("trace", "inspect", lengths, "--columns", ",a,b", "--arrivals", "poisson:5,seed=3", "--json")
    assert ran.document["summary"]["rate_per_s"] == pytest.approx(5, rel=0.3)
    azure = write(
        "azure.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,5,6\n2023-11-16 18:15:48.0,5,6\n",
    )
    options = ("--time-zone", "Europe/Zurich", "--time-scale", "2", "--spread-ticks", "1")
    document = captune("trace", "inspect", azure, *options, "--json").document
    assert document["format"] == "azure-2023"
    assert {"zone" for note in document["notes"] if "Europe/Zurich" in note} == {"zone"}
    assert any("multiplied by 2" in note for note in document["notes"])


@pytest.mark.parametrize(
    "options", [("--arrivals", "poisson"), ("--time-zone", "Mars/Base"), ("--time-scale", "0"), ("--columns", ",a,b")]
)
def test_a_wrong_option_is_one_sentence(captune: Captune, write: Write, options: tuple[str, str]) -> None:
    ran = captune("trace", "inspect", write("mine.csv", "a,b\n1,2\n"), *options)
    assert ran.code == 2
    assert ran.reason
