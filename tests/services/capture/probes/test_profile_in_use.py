"""A profile read inside an engine is a profile like any other: named, listed, drawn, documented, tuned with."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

from services.capture.probes.device import DeviceIdentity
from services.contract.figures_profile import Curve, curve_figure
from services.contract.profile import ProfileSummary, doubtful_sizes
from tests.services.capture.probes.conftest import MakeExperiment, requests
from tests.services.capture.probes.virtual import Costs, VirtualProbe
from tuner.profile_file import dump_profile, parse_profile
from tuner.recommend import recommend
from tuner.recommendation import ServingOptions, TuneRequest

NAME = "h200-vllm-0.23-llama-3.1-8b"


def test_it_is_named_listed_drawn_documented_and_tuned_with(experiment: MakeExperiment, repository: Path) -> None:
    made = experiment(VirtualProbe(Costs(), device=DeviceIdentity("NVIDIA H200", "GPU-a")), lists={"capture": (1, 64)})
    made.run()
    profile = parse_profile((made.starter.folder.path / "profile.json").read_bytes())
    summary = ProfileSummary.from_domain(profile, origin="shipped")
    assert profile.name == summary.name == NAME and summary.knows_prefill
    assert summary.families["decode_full"].unit == "tokens"

    document = json.loads(dump_profile(profile))
    curve = Curve.of(document, "decode_full", NAME)
    drawn = {trace.name for trace in curve_figure(curve, doubtful=doubtful_sizes(document, "decode_full")).data}
    assert "captured step" in drawn and "replay alone" not in drawn

    page = runpy.run_path(str(repository / "docs" / "make_measurements.py"))
    text = page["_profile"](replace(profile, command="captune verify"))
    assert f"## Profile {NAME}" in text and "NVIDIA H200, inside vllm@0.23.0, recorded" in text
    assert "Step model: a 40.0" in text and not re.search(r"\bnan\b|None", text)
    assert page["_plot"](profile, "decode_full").startswith("<svg")
    mixed = text[text.index("### decode_piecewise") :]
    assert "| size | step ms | eager ms |\n" in mixed and "break-even" not in mixed and "captured together" in mixed
    assert page["_plot"](profile, "decode_piecewise").count("capture (ms)") == 0
    assert Curve.of(document, "decode_piecewise", NAME).captured_with_another and not curve.captured_with_another

    found = recommend(
        TuneRequest(
            traffic=requests(400),
            trace_name="made up",
            engine=made.engine,
            options=made.options,
            profile=profile,
            raw_options=made.plan.options,
            serving=ServingOptions(),
            trials=1,
        )
    )
    assert found.evidence["profile"]["name"] == NAME and found.lists["capture"]
