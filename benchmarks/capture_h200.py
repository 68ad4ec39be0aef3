"""What the capture worker promises, measured on this GPU: a folder of JSON files a model, and one table.

    python benchmarks/capture_h200.py --out DIR [--models llama-3.1-8b,qwen3-32b] [--parts kernels,profile,..]

kernels         what is compiled once a machine, so that no start is charged for it: attention, the solver of probes
profile         as `captune profile measure --starts N` makes it; `--profiles FILE,..` takes models' profiles that exist
                instead, and replays then use the attention that these were measured with
prediction      lists x eight windows of recorded steps (`decode_windows.json`), replayed in another start than the
                profile's: predicted against measured decode step, and how far the two starts are apart. The first model
                gets all six lists, the others four: 32 pairs of list and window, where 30 is the least to judge by
start to start  every size of the profile again, of length one, in another start
unseen lists    two lists with sizes that the profile never captured, each in a start of its own: seconds and memory
overhead        a replayed step against a hand-written capture and replay of the same forward
draft           eight sizes of a draft with four branches
strategies      eight sizes with `full`, `piecewise` and `breakable` and two `compiled`, a start each; of the last model

Models go one after the other, in the order given, each with `--parts` or with what `--only MODEL=PART,PART` says;
`draft` and `strategies` come last. A part that no longer fits into
`--budget-s`, by what such a part is known to take, is left out and named; a profile is then tried with one start.
Results are written after every part. Attention is flashinfer's where it is installed, else torch's own flash operator;
every result names it.
"""

from __future__ import annotations

import argparse
import json
import shlex
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
from benchmarks import capture_replays as replays  # noqa: E402
from benchmarks.capture_table import draw  # noqa: E402
from benchmarks.handwritten import overhead  # noqa: E402
from services.capture.readings import Progress  # noqa: E402
from services.capture.spec import Device, Strategy  # noqa: E402
from tuner.cost_profile import CostProfile  # noqa: E402
from tuner.profile_file import read_profile  # noqa: E402
from workloads.errors import BadUsage, CaptuneError  # noqa: E402
from workloads.models.config import load_config  # noqa: E402

PARTS = ("kernels", "profile", "prediction", "start to start", "unseen lists", "overhead", "draft", "strategies")
LAST = ("draft", "strategies")
STRATEGIES: tuple[Strategy, ...] = ("full", "piecewise", "breakable", "compiled")
PROCESS_S = 16.0  # Ray, a worker and its imports, before a session begins
KERNELS_S = 60.0  # of a machine that has compiled none yet
COMPILED_S = 40.0  # torch.compile of a whole decoder, a size at a time


@dataclass(frozen=True, slots=True)
class Needs:
    """Seconds that a part takes on an H200, with processes and weights; estimates, to decide what still fits."""

    billions: float
    process_s: float = PROCESS_S

    @classmethod
    def of(cls, bench: parts.Bench) -> Needs:
        return cls(load_config(bench.model).parameters / 1e9, PROCESS_S if bench.use_ray else 0.0)

    @property
    def start(self) -> float:
        """One more start of a profile."""
        return self.process_s + 25 + 0.6 * self.billions

    def profile(self, starts: int) -> float:
        """The first start also probes, profiles kernels and reads prefill."""
        return starts * self.start + 10 + 0.4 * self.billions

    def replay(self, lists: int) -> float:
        return self.process_s + 8 + 3.5 * lists + (0.1 + 0.13 * lists) * self.billions

    @property
    def small(self) -> float:
        return self.process_s + 6 + 0.3 * self.billions


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
    needs, wanted, made = Needs.of(bench), asked.only.get(bench.model, asked.parts), list[CostProfile]()
    if bench.model in asked.profiles:
        given = asked.profiles[bench.model]
        made.append(given)
        bench = bench.against(given)
        run.results["given"] = {"profile": given.name, "starts": given.starts, "recorded_at": given.recorded_at}
    if "kernels" in wanted:
        run.part("kernels", KERNELS_S, partial(parts.kernels_part, bench, solver=not made))
    if not made and "profile" in wanted:
        most = asked.starts[min(number, len(asked.starts) - 1)]
        starts = most if run.fits(needs.profile(most)) else 1
        run.part("profile", needs.profile(starts), partial(parts.profile_part, bench, starts, made))
    if not made:
        return
    names = tuple(replays.LISTS) if number == 0 else replays.FEWER_LISTS
    works: dict[str, tuple[float, Callable[[], dict[str, Any]]]] = {
        "prediction": (needs.replay(len(names)), partial(replays.predict_part, bench, made[0], names)),
        "start to start": (needs.replay(1), partial(replays.start_spread_part, bench, made[0])),
        "unseen lists": (2 * needs.replay(1), partial(replays.unseen_part, bench, made[0])),
        "overhead": (needs.small, partial(overhead, bench.model)),
    }
    for name in (name for name in works if name in wanted):
        run.part(name, *works[name])


def last_parts(run: Run, bench: parts.Bench, wanted: list[str]) -> None:
    """What needs no profile."""
    needs = Needs.of(bench)
    if "draft" in wanted:
        run.part("draft", needs.small, partial(parts.draft_part, bench))
    for strategy in STRATEGIES if "strategies" in wanted else ():
        compiling_s = COMPILED_S if strategy == "compiled" else 0.0
        run.part(f"strategy {strategy}", needs.small + compiling_s, partial(parts.strategy_part, bench, strategy))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", default="llama-3.1-8b", help="separated by commas")
    parser.add_argument("--profiles", default="", help="files separated by commas; each names its model")
    parser.add_argument("--parts", default=",".join(PARTS[:-2]), help="separated by commas")
    parser.add_argument("--only", action="append", default=[], metavar="MODEL=PARTS", help="parts of one model")
    parser.add_argument(
        "--starts", default="2", help="of a profile; 2,1 is two for the first model, one for the others"
    )
    parser.add_argument("--budget-s", type=float, default=280.0)
    parser.add_argument(
        "--device", choices=get_args(Device), default="cuda", help="cpu: small steps, to try the script"
    )
    parser.add_argument(
        "--in-process", action="store_true", help="without Ray: nothing waits for it, no start is fresh"
    )
    asked = parser.parse_args(arguments)
    asked.models, asked.parts = asked.models.split(","), _parts(asked.parts, "--parts")
    asked.only = dict(_only(text, asked.models) for text in asked.only)
    asked.profiles = dict(_profile(Path(file), asked.models) for file in filter(None, asked.profiles.split(",")))
    if not all(count.isdigit() and int(count) > 0 for count in asked.starts.split(",")):
        raise BadUsage(f"whole numbers above 0 separated by commas, not '{asked.starts}'", field="--starts")
    asked.starts = [int(count) for count in asked.starts.split(",")]
    for model in asked.models:
        load_config(model)
    return asked


def _parts(text: str, field: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise BadUsage(f"'{name}' is not a part, only {', '.join(PARTS)}", field=field)
    return names


def _only(text: str, models: list[str]) -> tuple[str, list[str]]:
    model, equals, names = text.partition("=")
    if not equals or model not in models:
        raise BadUsage(f"MODEL=PART,PART with one of {', '.join(models)}, not '{text}'", field="--only")
    return model, _parts(names, "--only")


def _profile(file: Path, models: list[str]) -> tuple[str, CostProfile]:
    profile = read_profile(file)
    model = str((profile.model or {}).get("name"))
    if model not in models:
        raise BadUsage(f"{file} is of {model}, which is none of {', '.join(models)}", field="--profiles")
    return model, profile


def typed(arguments: list[str]) -> str:
    """The command as it can be shown: the folder that only this machine has is DIR."""
    shown = list(arguments)
    shown[shown.index("--out") + 1] = "DIR"
    return f"python benchmarks/capture_h200.py {shlex.join(shown)}"


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = parse(arguments)
    until_s = time.monotonic() + asked.budget_s
    runs = {model: Run(asked.out / Path(model).name, until_s) for model in asked.models}
    benches = {
        model: parts.Bench(model, run.out, tell, asked.device, use_ray=not asked.in_process, command=typed(arguments))
        for model, run in runs.items()
    }
    for number, (model, run) in enumerate(runs.items()):
        measure_model(run, benches[model], asked, number)
    last = asked.models[-1]
    last_parts(runs[last], benches[last], asked.only.get(last, asked.parts))
    for model, run in runs.items():
        print(f"\n{model}")
        draw(run.results)


if __name__ == "__main__":
    try:
        main()
    except CaptuneError as error:
        sys.exit(str(error))
