"""What is typed into a field, and what is said when it cannot be read."""

from __future__ import annotations

import json
import sys

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.charts import list_for
from dashboard.pickers import EngineChoice, ServingChoice, parse_options, profile_label, workload_query
from services.catalog import shipped_profiles
from services.contract.profile import ProfileSummary


@pytest.mark.parametrize(
    "typed", ["max_num_seqs=256 tp_size=2", "--max-num-seqs=256, --tp-size=2", " max_num_seqs=256\ttp_size=2 "]
)
def test_options_are_read_as_people_write_them(typed: str) -> None:
    assert parse_options(typed) == ({"max_num_seqs": "256", "tp_size": "2"}, None)


@pytest.mark.parametrize("typed", ["max_num_seqs", "max_num_seqs=", "=256", "a=1 b"])
def test_an_option_that_is_no_pair_is_named(typed: str) -> None:
    options, problem = parse_options(typed)
    assert options == {}
    assert problem is not None and typed.split()[-1] in problem


def test_a_workload_is_asked_for_as_the_api_names_things() -> None:
    query = workload_query(
        EngineChoice("vllm@0.33.0", {"max_num_seqs": "256"}), ServingChoice("decode", 12.0, 1, None, None), "h200"
    )
    assert query["engine"] == "vllm@0.33.0"
    assert query["set"] == ["max_num_seqs=256"]
    assert (query["policy"], query["load"], query["profile"]) == ("decode", 12.0, "h200")


def test_what_the_simulation_adds_is_picked_and_kept_in_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> None:
        import streamlit as st

        from dashboard.pickers import pick_serving

        st.json(pick_serving().document())

    # Streamlit leaves its script behind as the main module, which every process that a later test starts would run.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    app = AppTest.from_function(page, default_timeout=30)
    app.query_params["prefix_cache"] = "yes"
    app.run()
    assert not app.exception
    app.number_input(key="acceptance").set_value(0.7).run()
    app.toggle(key="toggle-preempt").set_value(True).run()
    document = json.loads(app.json[0].value)
    assert (document["preempt"], document["prefix_cache"], document["acceptance"]) == (True, True, 0.7)
    assert document["dp_attention"] is None
    assert "0.7" in app.query_params["acceptance"] and "yes" in app.query_params["preempt"]


def test_a_family_is_drawn_over_its_own_list() -> None:
    lists = {"decode": (1, 2), "prefill": (512,)}
    assert list_for("prefill_piecewise", lists) == (512,)
    assert list_for("decode_full", lists) == (1, 2)
    assert list_for("decode_full", {"capture": (1, 2, 4)}) == (1, 2, 4)
    assert list_for("decode_full", {}) == ()


def test_no_two_shipped_profiles_look_alike() -> None:
    """Two of one model and GPU differ by what was measured: the attention library, or the engine."""
    labels = [profile_label(ProfileSummary.from_domain(found, origin="shipped")) for found in shipped_profiles()]
    assert len(set(labels)) == len(labels)
    assert "llama-3.1-8b on NVIDIA H200, flashinfer" in labels and "llama-3.1-8b on NVIDIA H200" in labels
