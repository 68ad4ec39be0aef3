"""Fit the step models of a profile again, from its own readings: what to do when the model has learned a term.

    python -m benchmarks.refit_profile PROFILE.json [--run DIR/MODEL]

Every reading stays what it was; the terms, and what of them is part of the points, are fitted anew, and the file is
written in place. Only flashinfer's kernel says how many rows it splits; other profiles get no wait. With `--run`, a
folder of `capture_h200.py` whose `results.json` still has its cases, the recorded replays are predicted anew, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.capture_parts import fits_of, prices_of
from benchmarks.capture_replays import constant_ms, errors_of, recorded_windows
from services.capture.attention.flashinfer import FlashinferAttention, places
from services.capture.context_terms import with_context, without_context
from services.capture.profile_builder import step_model_document
from services.capture.readings import StepModel
from services.capture.replay_job import CaseReading, plain_list
from services.capture.step_model import ContextReading, fit
from services.capture.verification import compare
from tuner.cost_profile import CostProfile, FamilyCost
from tuner.profile_file import dump_profile, read_profile
from workloads.models.config import load_config

FAMILY = "decode_full"


def step_models(profile: CostProfile, rows: int | None) -> list[StepModel]:
    """Fitted to the points of every start that are on record.

    Args:
        rows: from which on a step waits for its longest row; None fits no wait.

    Raises:
        KeyError: the profile has none.
    """
    return [fit(_readings(start["points"]), rows) for start in _measurement(profile)["step_model"]]


def refitted(profile: CostProfile, models: Sequence[StepModel]) -> CostProfile:
    """The profile with these step models of its starts, and every reading as it was."""
    cost = with_context(without_context(profile.family(FAMILY), constant_ms(profile)), models)
    measurement = _measurement(profile) | {"step_model": [step_model_document(model) for model in models]}
    software = dict(profile.software or {}) | {"measurement": measurement}
    return replace(profile, families={**profile.families, FAMILY: cost}, software=software)


def _measurement(profile: CostProfile) -> dict[str, Any]:
    measurement: Any = (profile.software or {})["measurement"]
    return dict(measurement)


def _readings(points: Sequence[dict[str, Any]]) -> list[ContextReading]:
    return [
        ContextReading(
            point["bucket"],
            point["rows"],
            point["context_tokens"],
            point["step_ms"],
            point["step_ms"] - point["extra_ms"],
        )
        for point in points
    ]


def unsplit_rows(profile: CostProfile) -> int | None:
    """As `DecodeAttention.unsplit_rows` of where it was measured; None for other kernels than flashinfer's."""
    software, device, model = (dict(part or {}) for part in (profile.software, profile.device, profile.model))
    if software.get("attention") != FlashinferAttention.name:
        return None
    return places(int(str(device["multiprocessors"])), load_config(str(model["name"])).kv_heads)


def predicted_anew(prediction: dict[str, Any], cost: FamilyCost) -> dict[str, Any]:
    """Part `prediction` of a run: its lists and windows, what was measured of them, and what `cost` says."""
    cases = [CaseReading(**case) for case in prediction["cases"]]
    lists = [plain_list(name, sizes) for name, sizes in prediction["lists"].items()]
    measured_ms = {(pair["list_name"], pair["window"]): pair["measured_ms"] for pair in prediction["pairs"]}
    return prediction | errors_of(compare(lists, recorded_windows(), cases, measured_ms, cost))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--run", type=Path, help="predict what this run replayed, and keep the answer in its folder")
    asked = parser.parse_args()
    profile = read_profile(asked.profile)
    models = step_models(profile, unsplit_rows(profile))
    profile = refitted(profile, models)
    asked.profile.write_text(dump_profile(profile))
    for number, model in enumerate(models, 1):
        shares = (model.median_residual_share, model.p90_residual_share, model.worst_residual_share)
        print(f"start {number}: residuals " + ", ".join(f"{share:.1%}" for share in shares) + " (median, 90 %, worst)")
    if asked.run is not None:
        cost, path = profile.family(FAMILY), asked.run / "results.json"
        results = json.loads(path.read_text())
        results["profile"] |= prices_of(cost) | fits_of(models)
        results["prediction"] = predicted_anew(results["prediction"], cost)
        path.write_text(json.dumps(results, indent=1) + "\n")
        errors = results["prediction"]["errors"]
        print(f"{errors['pairs']} pairs: median {errors['median']:.2%}, p95 {errors['p95']:.2%}")


if __name__ == "__main__":
    main()
