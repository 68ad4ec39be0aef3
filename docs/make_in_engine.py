"""Rebuild the results at the end of docs/in_engine.md from the recorded experiments of benchmarks/in_engine/.

.venv/bin/python docs/make_in_engine.py

A folder there is what `captune verify --in-engine --records DIR` leaves, without logs, model and compiled code. The
tables of a comparison are those of its report. A folder whose lists were not compared holds the starts of a profile:
it is built from them again and written to profiles/, and held against what other folders measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from services.capture.probes.engine_profile import build_engine_profile
from services.capture.probes.evidence import SizeEvidence, weigh
from services.capture.probes.experiment import LISTS_FILE
from services.capture.probes.prediction import PredictedStep, predicted_steps
from services.capture.probes.records import Comparison, ExperimentPlan, Folder
from services.contract.engine_evidence import EngineEvidenceModel
from services.contract.recommendation import VERDICTS
from services.engine_view import read_evidence
from services.report.blocks import Block, Bullets, Table, Words
from services.report.in_engine import engine_blocks
from services.report.markdown import blocks_as_markdown
from tuner.cost_profile import CostProfile
from tuner.engines.registry import engine as engine_named
from tuner.profile_file import dump_profile
from workloads.models.config import load_config

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "in_engine.md"
RECORDS = ROOT / "benchmarks" / "in_engine"
BEGIN, END = "<!-- results: made by docs/make_in_engine.py -->", "<!-- /results -->"


def render(records: Path = RECORDS) -> str:
    """The results as Markdown; empty where no experiment is recorded."""
    folders = [path.parent for path in sorted(records.glob("*/plan.json"))]
    if not folders:
        return ""
    head = "Rebuilt from `benchmarks/in_engine/` by `python docs/make_in_engine.py`; every start is a file there."
    compared = [_experiment(path.name, read_evidence(path)) for path in folders if _is_compared(path)]
    profiled = [_profiled(path, folders) for path in folders if not _is_compared(path)]
    return "\n\n".join(["## Results", head, *compared, *profiled])


def profile_of(path: Path) -> CostProfile:
    """The profile that the starts of a folder make."""
    plan, folder = _plan(path), Folder(path)
    return build_engine_profile(
        folder.starts(),
        engine=engine_named(plan.engine),
        model=load_config(plan.model),
        dummy_weights=plan.dummy_weights,
        context_tokens=plan.context_tokens,
        protocol=plan.protocol,
        command=plan.command,
    )


def shipped(records: Path = RECORDS) -> dict[str, str]:
    """File name -> content of every profile whose starts are kept in a folder of their own."""
    profiles = [
        profile_of(path.parent) for path in sorted(records.glob("*/plan.json")) if not _is_compared(path.parent)
    ]
    return {f"{profile.name}.json": dump_profile(profile) for profile in profiles}


def _is_compared(path: Path) -> bool:
    return (path / LISTS_FILE).is_file()


def _plan(path: Path) -> ExperimentPlan:
    plan = Folder(path).read("plan.json", ExperimentPlan)
    assert plan is not None
    return plan


def _profiled(path: Path, folders: list[Path]) -> str:
    plan, profile = _plan(path), profile_of(path)
    blocks: list[Block] = [
        Words(
            f"The starts of a profile, which ships as `profiles/{profile.name}.json`; no list was compared here. Made "
            f"by `{plan.command}`."
        ),
        Words("Its starts."),
        _starts(path),
    ]
    mixed = [cost for name, cost in profile.families.items() if name != engine_named(plan.engine).decode_family]
    for cost in mixed:
        rows = zip(cost.sizes.tolist(), cost.step_ms.tolist(), cost.fallback_ms.tolist(), strict=True)
        cells = tuple((str(n), f"{ms:.1f}", "" if np.isnan(alone) else f"{alone:.1f}") for n, ms, alone in rows)
        blocks += [
            Words("A prompt of so many tokens and its only output token, the client included, in milliseconds."),
            Table(("tokens", "in a graph", "without"), cells),
        ]
    for other in folders:
        against = _plan(other)
        if _is_compared(other) and (against.engine, against.model) == (plan.engine, plan.model):
            blocks += _held_out(profile, other)
    return "\n\n".join([f"### {path.name}", blocks_as_markdown(tuple(blocks))])


def _starts(path: Path) -> Table:
    rows = []
    for start in Folder(path).starts():
        start_s, measure_s = (start.part_s.get(part, float("nan")) for part in ("start", "measure"))
        sizes = sum(len(sizes) for sizes in start.effective.values())
        rows.append(
            (
                f"{start.purpose}, {start.started_at}",
                f"{start_s:.0f} ({start.compile_cache})",
                f"{measure_s:.0f}",
                str(sizes),
                f"{start.graph_memory_mib:.0f}",
                str(len(start.steps)),
                str(len(start.prefill)),
            )
        )
    columns = ("start", "start-up s", "measuring s", "sizes captured", "graph MiB", "steps read", "prompts read")
    return Table(columns, tuple(rows))


def _held_out(profile: CostProfile, other: Path) -> Iterator[Block]:
    """The profile's word on lists that another folder measured: nothing of them is in it."""
    folder, plan = Folder(other), _plan(other)
    comparison, engine = folder.read(LISTS_FILE, Comparison), engine_named(plan.engine)
    assert comparison is not None
    options = engine.options(plan.options)
    seen = weigh(folder.starts(), comparison, profile, engine, options, plan.thresholds)
    by_name = {item.name: item for item in seen.lists}
    rows = []
    for of in seen.workloads:
        for item in of.lists:
            found, each = item.prediction, by_name[item.name]
            if found is not None:
                band = "unknown" if found.band_share is None else f"{found.band_share:.1%}"
                figures = (f"{found.step_ms:.3f}", f"{found.measured_ms:.3f}", f"{found.error_share:+.1%}", band)
                steps = predicted_steps(each.asked, of.workload.steps, profile, engine, options)
                told = (*figures, "held" if found.held else "missed", _worst(steps, each.sizes))
                rows.append((f"{of.workload.name}, {item.name}", str(each.starts), *told))
    target = f"{plan.thresholds.prediction_share:.0%}"
    begun = min(start.started_at for start in folder.starts() if start.purpose == "compare")
    blind = (
        "They are later than this profile: a blind test."
        if begun > str(profile.recorded_at)
        else "What they showed changed how profiles are measured, so it is no blind test."
    )
    yield Words(
        f"Predicted against measured: this profile and the replayed steps of `{other.name}`. Those starts ran with "
        f"other lists, and nothing of them is in it. {blind} The target for a mean is {target}, or the start-to-start "
        "band where that is wider."
    )
    columns = (
        "workload, list",
        "starts",
        "predicted ms",
        "measured ms",
        "off by",
        "start-to-start band",
        "",
        "worst step, rows x tokens",
    )
    yield Table(columns, tuple(rows))


def _worst(steps: Sequence[PredictedStep], measured: Sequence[SizeEvidence]) -> str:
    """The single step that is furthest off."""
    ms = {(of.rows, of.context_tokens): of.step_ms.mean for of in measured}
    off = {(of.step.rows, of.step.context_tokens): of.step_ms for of in steps}
    shares = {case: value / ms[case] - 1 for case, value in off.items() if case in ms}
    (rows, context), share = max(shares.items(), key=lambda item: abs(item[1]))
    return f"{share:+.1%} at {rows} x {context}"


def _experiment(name: str, seen: EngineEvidenceModel) -> str:
    parts = [f"### {name}", f"**{VERDICTS[seen.verdict]}**"]
    if seen.command:
        parts.append(f"Made by `{seen.command}`.")
    return "\n\n".join([*parts, blocks_as_markdown((Bullets(seen.reasons), *engine_blocks(seen)))])


def main() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}")
    for name, text in shipped().items():
        (ROOT / "profiles" / name).write_text(text)


if __name__ == "__main__":
    main()
