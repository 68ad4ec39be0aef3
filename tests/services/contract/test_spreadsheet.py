"""Cells that a spreadsheet would run are plain text in every download."""

from __future__ import annotations

import csv
import io

import pytest

from services.contract.spreadsheet import as_csv

FORMULAS = [
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\tplain", "\rplain", "\nplain"),
    *(" =1", "\u00a0=1", "\u3000=1", "\u2003@x", "\u200b=1", "\ufeff=1", "\x00=1", " \t =1"),
    *("\uff1d1", "\uff0b1", "\uff0d1", "\uff20x", "\ufe661", "\ufe631", "\u3000\uff1d1"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_may_run_begins_with_an_apostrophe(text: str) -> None:
    header, row = csv.reader(io.StringIO(as_csv([{text: text}]).decode(), newline=""))
    assert header == row == [f"'{text}"]


@pytest.mark.parametrize("value", ["plain", "a=1", " spaced", "3-4", "", "\u20ac5", "\u7b49\u4e8e"])
def test_other_text_stays(value: str) -> None:
    assert list(csv.reader(io.StringIO(as_csv([{"Name": value, "Steps": -3}]).decode(), newline="")))[1] == [
        value,
        "-3",
    ]
