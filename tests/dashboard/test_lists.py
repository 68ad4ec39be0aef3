"""Lists survive the way through text and through a link; what is no list is said in a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.basket import Item
from dashboard.lists import compact, expanded, list_text, parse_sizes, powers_of_two
from dashboard.tables import as_json
from services.contract.spreadsheet import as_csv

lists = st.lists(st.integers(1, 2000), min_size=1, max_size=60, unique=True).map(lambda sizes: tuple(sorted(sizes)))


@given(lists)
def test_a_list_survives_text_and_link(sizes: tuple[int, ...]) -> None:
    assert expanded(compact(sizes)) == sizes
    assert parse_sizes(list_text(sizes)) == (sizes, None)
    assert Item("list", compact(sizes)).sizes == sizes


def test_a_long_ladder_is_a_short_link() -> None:
    ladder = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
    assert compact(ladder) == "1.2.4.8-256:8.272-512:16"


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [("1 2;4", (1, 2, 4)), ("[8, 4, 4]", (4, 8)), ("8-16:4", (8, 12, 16)), ("3-5", (3, 4, 5)), ("1,\n2", (1, 2))],
)
def test_people_write_lists_in_many_ways(typed: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(typed) == (sizes, None)


@pytest.mark.parametrize(
    ("typed", "words"),
    [("", "empty"), ("1, two", "'two'"), ("0", "'0'"), ("9-3", "'9-3'"), ("1-9:0", "'1-9:0'"), ("1-99999", "at most")],
)
def test_what_is_no_list_is_said(typed: str, words: str) -> None:
    sizes, problem = parse_sizes(typed)
    assert sizes == () and problem is not None and words in problem


def test_powers_of_two_reach_the_largest() -> None:
    assert powers_of_two(512) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    assert powers_of_two(1) == (1,)


def test_a_table_is_saved_as_shown_and_never_as_a_formula() -> None:
    rows = [{"Name": "=HYPERLINK(1)", "Steps": 3}, {"Name": "day, 2", "Steps": None, "Late": 1.5}]
    assert as_csv(rows).decode().splitlines() == ["Name,Steps,Late", "'=HYPERLINK(1),3,", '"day, 2",,1.5']
    assert b'"Late": 1.5' in as_json(rows)
