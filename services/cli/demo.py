"""`captune demo`: the main job on the bundled sample, from trace to paste-ready configuration."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from services.cli.context import output
from services.cli.options import Json, choose_engine
from services.cli.tune import draw_recommendation, tune_request, tuned
from services.cli.workload import DEFAULT_PROFILE, Asked, open_profile
from services.contract.export import ExportModel
from services.contract.recommendation import RecommendationModel
from tuner.budget import Budget
from tuner.engines.base import Provenance
from tuner.recommendation import ServingOptions
from workloads.samples.bundled import sample_path

_TUNED_FOR = "vllm@0.33.0"
_OPTIONS = ["max_num_seqs=512"]
_EXPORTS = {
    _TUNED_FOR: _OPTIONS,
    "sglang@0.5.23": ["max_running_requests=512", "cuda_graph_max_bs_decode=512"],
    "tensorrt-llm@1.3": ["max_batch_size=512"],
}


def demo(as_json: Json = False) -> None:
    """Tune the bundled sample for vLLM with the recorded H200 profile, and export the list to three engines."""
    workload = Asked(str(sample_path()), engine=_TUNED_FOR, sets=_OPTIONS, serving=ServingOptions("decode")).open()
    answer = tuned(tune_request(workload, open_profile(DEFAULT_PROFILE), Budget()), save=False)
    sizes = next(iter(answer.lists.values()))
    exports = [_export(spec, options, sizes) for spec, options in _EXPORTS.items()]
    document = {
        "recommendation": answer.model_dump(mode="json"),
        "exports": [export.model_dump(mode="json") for export in exports],
    }
    output(as_json).emit(document, lambda console: _draw(console, answer, exports))


def _export(spec: str, options: list[str], sizes: tuple[int, ...]) -> ExportModel:
    choice = choose_engine(spec, options)
    return ExportModel.of(choice.engine, {choice.engine.list_names[0]: sizes}, choice.options, Provenance())


def _draw(console: Console, answer: RecommendationModel, exports: list[ExportModel]) -> None:
    console.print(
        "The bundled sample is generated traffic (workloads/samples/README.md says how); step times are those of "
        f"profile '{DEFAULT_PROFILE}', recorded on an NVIDIA H200 and not measured on this machine.\n"
    )
    draw_recommendation(console, "the bundled sample", answer)
    for export in exports:
        console.print(f"\n[bold]{export.engine}[/bold]")
        console.print(export.text, markup=False)
        for problem in export.lint:
            console.print(f"[yellow]{problem.severity} {problem.code}[/yellow] {escape(problem.message)}")
    console.print(
        "\nNext: 'make serve' (or captune serve) opens the dashboard; upload this sample or your own trace there. "
        "Your own from here: captune tune TRACE --engine vllm@0.33.0 --profile h200-llama-3.1-8b"
    )
