"""Options that several commands share, declared once, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tuner.engines.base import Engine, Lists
from tuner.engines.options import split_pairs
from tuner.engines.registry import engine as find_engine
from workloads.arrays import as_sizes
from workloads.errors import BadUsage

PolicyChoice = Literal["vllm", "sglang", "decode"]

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="A trace or log file, or the id of a stored trace.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
EngineName = Annotated[
    str | None, typer.Option("--engine", metavar="NAME@VERSION", help="For example vllm@0.33.0 or sglang@0.5.23.")
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An argument of the engine, by the engine's own name. Repeatable."),
]
ProfileName = Annotated[
    str | None, typer.Option("--profile", metavar="P", help="A cost profile: shipped or stored name, or a file.")
]
Sizes = Annotated[
    str | None, typer.Option("--sizes", metavar="1,2,4", help="A capture list: sizes and ranges, e.g. 1-8,16,32.")
]
Policy = Annotated[PolicyChoice | None, typer.Option("--policy", help="Scheduler to simulate; default: the engine's.")]
Load = Annotated[float, typer.Option("--load", metavar="X", help="Divide arrival times by X.")]
Engines = Annotated[int, typer.Option("--engines", metavar="N", help="Spread the requests over N engines.")]
MaxRunning = Annotated[int | None, typer.Option("--max-running", metavar="N", help="Most requests running at once.")]
KvTokens = Annotated[int | None, typer.Option("--kv-tokens", metavar="N", help="KV cache in tokens.")]
Preempt = Annotated[
    bool,
    typer.Option("--preempt", help="Admit and preempt by the engine's own KV rule; default: reserve whole outputs."),
]
PrefixCache = Annotated[
    bool,
    typer.Option("--prefix-cache", help="Reuse shared prompt prefixes (traces with hash_ids); implies --preempt."),
]
Acceptance = Annotated[
    float | None,
    typer.Option("--acceptance", metavar="P", help="Chance that a draft token is accepted when all before it were."),
]
SpecTokens = Annotated[
    int | None, typer.Option("--spec-tokens", metavar="K", help="Draft tokens of a step; with an engine, its own.")
]
DpAttention = Annotated[
    int | None,
    typer.Option(
        "--dp-attention", metavar="R", help="Data-parallel attention ranks, each with --max-running and --kv-tokens."
    ),
]
Regret = Annotated[
    float,
    typer.Option("--regret", metavar="RHO", help="Most a reachable size may lose against its best bucket; inf = any."),
]
MaxLength = Annotated[int | None, typer.Option("--max-length", metavar="K", help="Most sizes in the list.")]
MaxMemory = Annotated[float | None, typer.Option("--max-memory-mib", metavar="M", help="Most graph memory.")]
MaxCapture = Annotated[float | None, typer.Option("--max-capture-s", metavar="S", help="Most capture time.")]
MaxTail = Annotated[
    float,
    typer.Option("--max-tail", metavar="SHARE", help="Most of the steps above the last size, without a graph."),
]
Format = Annotated[str | None, typer.Option("--format", help="Read SOURCE as this format instead of recognising it.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ARRIVAL,INPUT,OUTPUT[,UNIT]",
        help="Column names of a request file, and its time unit (s, ms, us, ns, iso); see `captune trace columns`.",
    ),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        "--arrivals",
        metavar="KIND:RATE[,cv=X][,seed=N]",
        help="Arrival process in place of recorded times: poisson, gamma or uniform gaps at RATE requests/s, or "
        "recorded (ServeGen clients at that rate).",
    ),
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", metavar="ZONE", help="Zone of times that carry none, e.g. Europe/Zurich.")
]
TimeScale = Annotated[float, typer.Option("--time-scale", metavar="X", help="Multiply every recorded time by X.")]
SpreadTicks = Annotated[
    int | None,
    typer.Option("--spread-ticks", metavar="SEED", help="Spread arrivals at random inside a coarse clock's ticks."),
]


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine with the options that `--set` gave."""

    engine: Engine
    raw: dict[str, str]
    options: Any


def choose_engine(spec: str, sets: Sequence[str] | None) -> EngineChoice:
    """Resolve `--engine` and `--set`.

    Raises:
        BadUsage: unknown engine, version, key, or a pair without `=`.
    """
    raw = split_pairs(sets or (), field="--set")
    chosen = find_engine(spec)
    return EngineChoice(chosen, raw, chosen.options(raw))


def choose_engine_or_none(spec: str | None, sets: Sequence[str] | None) -> EngineChoice | None:
    if spec is None:
        if sets:
            raise BadUsage("needs --engine: options belong to an engine", field="--set")
        return None
    return choose_engine(spec, sets)


def parse_sizes(text: str) -> tuple[int, ...]:
    """`1,2,4-8` as an increasing tuple without duplicates.

    Raises:
        BadUsage: not sizes.
    """
    return tuple(int(size) for size in as_sizes(raw_sizes(text), field="--sizes"))


def raw_sizes(text: str) -> list[int]:
    """`1,2,4-8` as given, duplicates and order kept (lint wants to see them)."""
    sizes: list[int] = []
    for part in text.replace(" ", ",").split(","):
        if not part:
            continue
        first, dash, last = part.partition("-")
        try:
            low, high = int(first), int(last) if dash else int(first)
        except ValueError:
            raise BadUsage(f"'{part}' is not a size or a range", field="--sizes") from None
        if low < 1 or high < low or high > 1_000_000:
            raise BadUsage(f"'{part}' is not a size or a range of sizes from 1 to 1,000,000", field="--sizes")
        sizes.extend(range(low, high + 1))
    if not sizes:
        raise BadUsage("needs at least one size", field="--sizes")
    return sizes


def given_lists(sizes: str | None, choice: EngineChoice | None) -> Lists | None:
    """`--sizes` as the engine's decode list; None without the option."""
    if sizes is None:
        return None
    name = choice.engine.list_names[0] if choice else "decode"
    return {name: parse_sizes(sizes)}


def existing_file(text: str) -> Path | None:
    """The path, when `text` names something on disk; a stored id never contains a separator or a dot."""
    path = Path(text)
    return path if path.exists() or any(mark in text for mark in "/\\.") else None
