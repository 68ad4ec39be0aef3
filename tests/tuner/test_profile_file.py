"""The profile file: what it needs, what it leaves unknown, and errors that name the place."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.cost_profile import CostProfile
from tuner.profile_file import dump_profile, parse_profile, read_profile
from workloads.errors import BadInput, NotFound


def document(**family: Any) -> dict[str, Any]:
    points = [{"size": 1, "step_ms": 6.0}, {"size": 8, "step_ms": 7.0}]
    return {"schema": 1, "name": "p", "families": {"decode_full": {"points": points, **family}}}


def parse(content: dict[str, Any]) -> CostProfile:
    return parse_profile(json.dumps(content), file="p.json")


def test_what_a_file_leaves_out_is_unknown_and_the_terms_are_zero() -> None:
    cost = parse(document()).family("decode_full")
    for column in (cost.replay_ms, cost.fallback_ms, cost.spread_ms, cost.capture_s, cost.memory_mib):
        assert np.isnan(column).all()
    assert (cost.attention_ms_per_mtoken, cost.row_ms, cost.pool_mib, cost.capture_fixed_s) == (0, 0, 0, 0)
    assert not cost.knows_fallback


def test_points_are_sorted_and_unknown_keys_ignored() -> None:
    points = [{"size": 8, "step_ms": 7.0, "colour": "red"}, {"size": 2, "step_ms": 6.0}]
    assert parse(document(points=points)).family("decode_full").sizes.tolist() == [2, 8]


@pytest.mark.parametrize(
    ("family", "place"),
    [
        ({"points": []}, "families.decode_full.points"),
        ({"points": [{"size": 1}]}, "families.decode_full.points.0.step_ms"),
        ({"points": [{"size": 0, "step_ms": 1.0}]}, "families.decode_full.points.0.size"),
        ({"points": [{"size": 1, "step_ms": -1.0}]}, "families.decode_full.points.0.step_ms"),
        ({"points": [{"size": 4, "step_ms": 1.0}, {"size": 4, "step_ms": 2.0}]}, "families.decode_full.points"),
        ({"context_tokens": 1e9, "row_ms": 5.0}, "attention_ms_per_mtoken"),
        ({"row_curve": {"rows": [0], "rows_ms": [1.0]}}, "families.decode_full.row_curve.rows.0"),
        ({"row_curve": {"rows": [1, 2], "rows_ms": [1.0]}}, "rows_ms"),
        ({"row_curve": {"rows": [2, 1], "rows_ms": [1.0, 1.0]}}, "rows"),
        ({"longest_row": {"ms_per_ktoken": -1.0}}, "families.decode_full.longest_row.ms_per_ktoken"),
    ],
)
def test_a_bad_value_is_named_with_its_place(family: dict[str, Any], place: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(document(**family))
    assert str(caught.value).startswith(f"p.json: {place}: ")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 2, "name": "p", "families": {}}', "\x89PNG"])
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^p\.json: "):
        parse_profile(text, file="p.json")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_profile(tmp_path / "none.json")


def test_an_unmeasured_family_is_not_found() -> None:
    with pytest.raises(NotFound, match="has no family 'draft', only decode_full"):
        parse(document()).family("draft")


POINT = st.fixed_dictionaries(
    {"step_ms": st.floats(0.1, 99)},
    optional={
        "replay_ms": st.floats(0.1, 99),
        "fallback_ms": st.floats(0.1, 99),
        "spread_ms": st.floats(0, 9),
        "capture_s": st.floats(0, 9),
        "memory_mib": st.floats(-9, 99),
        "starts": st.integers(1, 5),
    },
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.integers(1, 600), POINT, min_size=1, max_size=6), st.sampled_from([None, True, False]))
def test_a_written_profile_reads_back_the_same(points: dict[int, dict[str, Any]], head: bool | None) -> None:
    rows = [{"size": size, **point} for size, point in points.items()]
    content = document(points=rows, lm_head_in_graph=head, memory={"pool_mib": 3.5}, capture={"fixed_s": 1.25})
    content["prefill"] = {
        "points": [{"tokens": 128, "step_ms": 9.0}, {"tokens": 128, "prefix_tokens": 64, "step_ms": 9.5}]
    }
    profile = parse(content)
    again = parse_profile(dump_profile(profile))
    assert dump_profile(again) == dump_profile(profile)
    left, right = profile.family("decode_full"), again.family("decode_full")
    for name in ("sizes", "step_ms", "replay_ms", "fallback_ms", "spread_ms", "capture_s", "memory_mib", "starts"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert (right.pool_mib, right.capture_fixed_s, right.lm_head_in_graph) == (3.5, 1.25, head)


def test_a_curve_of_rows_survives_the_file_and_is_nothing_where_it_is_absent() -> None:
    curve = {"rows": [2, 16, 17], "rows_ms": [0.0, -0.01, 0.5], "padding_rows": 1}
    with_curve = parse(document(row_ms=0.01, row_curve=curve))
    cost = parse_profile(dump_profile(with_curve)).family("decode_full")
    assert (cost.row_curve.rows.tolist(), cost.row_curve.rows_ms.tolist()) == (curve["rows"], curve["rows_ms"])
    assert cost.row_curve.padding_rows == 1 and "padding_rows" not in dump_profile(
        parse(document(row_curve={"rows": [2], "rows_ms": [0.0]}))
    )
    plain = parse(document(row_ms=0.01))
    assert "row_curve" not in dump_profile(plain) and plain.digest() != with_curve.digest()
    assert plain.family("decode_full").rows_ms(np.array([5])) == pytest.approx([0.05])


def test_a_wait_for_the_longest_row_survives_the_file() -> None:
    wait = {"ms_per_ktoken": 0.3, "unsplit_rows": 33, "at_tokens": 1536.0}
    cost = parse_profile(dump_profile(parse(document(longest_row=wait)))).family("decode_full")
    assert asdict(cost.longest_row) == wait
    assert "longest_row" not in dump_profile(parse(document()))


def test_the_fixture_profile_survives_the_file(profile: CostProfile) -> None:
    assert dump_profile(parse_profile(dump_profile(profile))) == dump_profile(profile)
