"""What the capture worker promises, measured on this GPU: a folder of JSON files a model, and one table.

    python benchmarks/capture_h200.py --out DIR [--models llama-3.1-8b,qwen3-32b] [--parts profile,prediction,..]

profile         as `captune profile measure --starts N` makes it; `--profile FILE` takes one that exists instead
prediction      lists x eight windows of recorded steps (`decode_windows.json`), replayed in another start than the
                profile's: predicted against measured decode step, and how far the two starts are apart. The first model
                gets all six lists, the others three
start to start  every size of the profile again, of length one, in another start
unseen lists    two lists with sizes that the profile never captured, each in a start of its own: seconds and memory
overhead        a replayed step against a hand-written capture and replay of the same forward
draft           eight sizes of a draft with four branches
strategies      eight sizes with `full`, `piecewise`, `breakable` and `compiled`, a start each; of the last model

Models go one after the other, in the order given; `draft` and `strategies` come last. A part that no longer fits into
`--budget-s`, by what such a part is known to take, is left out and named; a profile is then tried with one start.
Results are written after every part. Attention is flashinfer's where it is installed, else torch's own flash operator;
every result names it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import capture_parts as parts  # noqa: E402
from benchmarks.capture_table import draw  # noqa: E402
from benchmarks.handwritten import overhead  # noqa: E402
from services.capture.readings import Progress  # noqa: E402
from services.capture.spec import Device, Strategy  # noqa: E402
from tuner.cost_profile import CostProfile  # noqa: E402
from tuner.profile_file import read_profile  # noqa: E402
from workloads.errors import BadUsage, CaptuneError  # noqa: E402
from workloads.models.config import load_config  # noqa: E402

PARTS = ("profile", "prediction", "start to start", "unseen lists", "overhead", "draft", "strategies")
LAST = ("draft", "strategies")
STRATEGIES: tuple[Strategy, ...] = ("full", "piecewise", "breakable", "compiled")
PROCESS_S = 12.0  # Ray, a worker, torch and CUDA, before a session begins
COMPILED_S = 60.0  # torch.compile of a whole decoder


@dataclass(frozen=True, slots=True)
class Needs:
    """Seconds that a part takes on an H200, with processes and weights; estimates, to decide what still fits."""

    billions: float

    @classmethod
    def of(cls, model: str) -> Needs:
        return cls(load_config(model).parameters / 1e9)

    @property
    def start(self) -> float:
        """One more start of a profile."""
        return PROCESS_S + 25 + 0.6 * self.billions

    def profile(self, starts: int) -> float:
        """The first start also probes, profiles kernels and reads prefill."""
        return starts * self.start + 10 + 0.4 * self.billions

    def replay(self, lists: int) -> float:
        return PROCESS_S + 15 + 5.0 * lists + 0.5 * self.billions

    @property
    def small(self) -> float:
        return PROCESS_S + 6 + 0.3 * self.billions


class Run:
    """Results of one model so far, written after every part, so that a run that is cut short leaves what it had."""

    def __init__(self, out: Path, until_s: float) -> None:
        self.out, self.until_s, self.began_s = out, until_s, time.monotonic()
        self.results: dict[str, Any] = {}
        out.mkdir(parents=True, exist_ok=True)

    def fits(self, needs_s: float) -> bool:
        return time.monotonic() + needs_s <= self.until_s

    def part(self, name: str, needs_s: float, work: Callable[[], dict[str, Any]]) -> None:
        """Do a part if it fits; whatever becomes of it is a result."""
        began_s = time.monotonic()
        if not self.fits(needs_s):
            left_s = max(0.0, self.until_s - began_s)
            self.results[name] = {"left_out": f"takes about {needs_s:.0f} s, and {left_s:.0f} s are left"}
        else:
            try:
                self.results[name] = work()
            except (CaptuneError, RuntimeError, ValueError, OSError) as error:
                self.results[name] = {"failed": f"{type(error).__name__}: {error}"}
            self.results[name]["seconds"] = round(time.monotonic() - began_s, 1)
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1, default=float) + "\n")
        print(f"[{time.monotonic() - self.began_s:5.0f} s] {self.out.name}: {name}", file=sys.stderr, flush=True)


def tell(progress: Progress) -> None:
    if progress.phase in ("build", "done") or progress.done == 0:
        print(f"    {progress.phase} {progress.size or ''}", file=sys.stderr, flush=True)


def measure_model(run: Run, bench: parts.Bench, asked: argparse.Namespace, number: int) -> None:
    """Profile the model of this number, then whatever is judged against it."""
    needs, made = Needs.of(bench.model), list[CostProfile]()
    if asked.profile is not None:
        made.append(read_profile(asked.profile))
        run.results["given"] = {"profile": made[0].name, "starts": made[0].starts, "recorded_at": made[0].recorded_at}
    elif "profile" in asked.parts:
        wanted = asked.starts[min(number, len(asked.starts) - 1)]
        starts = wanted if run.fits(needs.profile(wanted)) else 1
        run.part("profile", needs.profile(starts), partial(parts.profile_part, bench, starts, made))
    if not made:
        return
    names = tuple(parts.LISTS) if number == 0 else parts.FEWER_LISTS
    works: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {
        "prediction": (needs.replay(len(names)), partial(parts.predict_part, bench, made[0], names)),
        "start to start": (needs.replay(1), partial(parts.start_spread_part, bench, made[0])),
        "unseen lists": (2 * needs.replay(1), partial(parts.unseen_part, bench, made[0])),
        "overhead": (needs.small, partial(overhead, bench.model)),
    }
    for name in (name for name in works if name in asked.parts):
        run.part(name, *works[name])


def last_parts(run: Run, bench: parts.Bench, wanted: list[str]) -> None:
    """What needs no profile."""
    needs = Needs.of(bench.model)
    if "draft" in wanted:
        run.part("draft", needs.small, partial(parts.draft_part, bench))
    for strategy in STRATEGIES if "strategies" in wanted else ():
        compiling_s = COMPILED_S if strategy == "compiled" else 0.0
        run.part(f"strategy {strategy}", needs.small + compiling_s, partial(parts.strategy_part, bench, strategy))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", default="llama-3.1-8b", help="separated by commas")
    parser.add_argument("--profile", type=Path, help="of the only model")
    parser.add_argument("--parts", default=",".join(PARTS[:5]), help="separated by commas")
    parser.add_argument(
        "--starts", default="2", help="of a profile; 2,1 is two for the first model, one for the others"
    )
    parser.add_argument("--budget-s", type=float, default=280.0)
    parser.add_argument(
        "--device", choices=get_args(Device), default="cuda", help="cpu: small steps, to try the script"
    )
    parser.add_argument("--in-process", action="store_true", help="without Ray, to try the script: no fresh starts")
    asked = parser.parse_args(arguments)
    asked.models, asked.parts = asked.models.split(","), asked.parts.split(",")
    if not all(count.isdigit() and int(count) > 0 for count in asked.starts.split(",")):
        raise BadUsage(f"whole numbers above 0 separated by commas, not '{asked.starts}'", field="--starts")
    asked.starts = [int(count) for count in asked.starts.split(",")]
    for name in asked.parts:
        if name not in PARTS:
            raise BadUsage(f"'{name}' is not a part, only {', '.join(PARTS)}", field="--parts")
    for model in asked.models:
        load_config(model)
    if asked.profile is not None and len(asked.models) > 1:
        raise BadUsage("belongs to one model", field="--profile")
    return asked


def main(arguments: list[str] | None = None) -> None:
    asked = parse(arguments)
    until_s = time.monotonic() + asked.budget_s
    runs = {model: Run(asked.out / Path(model).name, until_s) for model in asked.models}
    benches = {
        model: parts.Bench(model, run.out, tell, asked.device, use_ray=not asked.in_process)
        for model, run in runs.items()
    }
    for number, (model, run) in enumerate(runs.items()):
        measure_model(run, benches[model], asked, number)
    last = asked.models[-1]
    last_parts(runs[last], benches[last], asked.parts)
    for model, run in runs.items():
        print(f"\n{model}")
        draw(run.results)


if __name__ == "__main__":
    try:
        main()
    except CaptuneError as error:
        sys.exit(str(error))
