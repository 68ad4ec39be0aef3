"""Feeds broken files to reader children and counts what came of it: `make fuzz`, or with INPUTS [FAMILY ..] by hand.

Every input must end in a trace whose rows add up or in one sentence that names the file; a crash, a hang, a child out
of memory or an exception of another kind fails the run and leaves the input in a file.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from services.reader_pool import DIED, ReaderPool, ReadLimits
from tests.fuzz.families import families
from tests.fuzz.mutate import mutate
from workloads.errors import CaptuneError
from workloads.traces.arrivals import ArrivalProcess
from workloads.traces.mapping import ColumnMapping
from workloads.traces.registry import READERS

LIMITS = ReadLimits(timeout_s=30, memory_mib=2500, unpacked_mib=64)
THREADS = 2
_BROKEN = ("it cannot be read (", "it cannot be read within", "took longer than")
_MAPPINGS = (
    *(None,) * 9,
    ColumnMapping(arrivals=ArrivalProcess("recorded", 0.5)),
    ColumnMapping(arrivals=ArrivalProcess("gamma", 5.0, cv=2.0), spread_ticks_seed=1),
    ColumnMapping("arrival_s", "input_tokens", "output_tokens", "ms", "Europe/Zurich", 2.0),
)


@dataclass(slots=True)
class Outcome:
    """What came of a family's inputs; `failures` holds (what happened, the input)."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, bytes]] = field(default_factory=list)


def fuzz(examples: Sequence[bytes], inputs: int, seed: int, pool: ReaderPool) -> Outcome:
    """Break `examples` in `inputs` ways, and read each in a child of the pool."""
    outcome = Outcome()
    names = [reader.name for reader in READERS]
    dice = random.Random(seed)
    with tempfile.NamedTemporaryFile(prefix="captune-fuzz-") as file:
        path = Path(file.name)
        for _ in range(inputs):
            data = mutate(dice.choice(examples), dice)
            mapping, forced = dice.choice(_MAPPINGS), dice.choice(names) if dice.random() < 0.1 else None
            path.write_bytes(data)
            problem = _read(pool, path, mapping, forced, outcome.counts)
            if problem is not None:
                outcome.failures.append((problem, data))
    return outcome


def _read(
    pool: ReaderPool, path: Path, mapping: ColumnMapping | None, forced: str | None, counts: Counter[str]
) -> str | None:
    """What went wrong that may not; None for a trace or a proper refusal."""
    try:
        result = pool.read(path, "input", mapping, forced)
    except CaptuneError as error:
        counts["refused"] += 1
        if error.message.startswith(DIED) and path.read_bytes().startswith(b"PAR1"):
            counts["died"] += 1  # the Parquet library ends its process on some damaged pages; only the child is lost
            return None
        located = error.file == "input" or error.code == "bad_usage"
        if not located or "\n" in str(error) or any(word in error.message for word in _BROKEN):
            return f"refused with: {error!r}"
        return None
    counts["read"] += 1
    rows = result.rows
    if not rows.kept == len(result.traffic) > 0 or set(rows.first_line) != set(rows.dropped):
        return f"rows do not add up: {rows}"
    return None


def _spread(examples: Sequence[bytes], share: int) -> list[Outcome]:
    """`share` inputs in each of the threads, every thread with seed and child of its own."""
    pool = ReaderPool(LIMITS, keep=THREADS)
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(lambda seed: fuzz(examples, share, seed, pool), range(THREADS)))
    finally:
        pool.close()


def main(inputs: int = 20_000, only: Sequence[str] = ()) -> int:
    """Run every family, or `only` some; 0 when nothing broke."""
    broken = 0
    for family, examples in families().items():
        if only and family not in only:
            continue
        started = time.monotonic()
        runs = _spread(examples, -(-inputs // THREADS))
        counts = sum((run.counts for run in runs), Counter[str]())
        failures = [failure for run in runs for failure in run.failures]
        sys.stdout.write(
            f"{family}: {counts['read']} read, {counts['refused']} refused ({counts['died']} with their child), "
            f"{len(failures)} broken, {time.monotonic() - started:.0f} s\n"
        )
        sys.stdout.flush()
        for number, (problem, data) in enumerate(failures[:5]):
            path = Path(tempfile.gettempdir()) / f"captune-fuzz-{family}-{number}"
            path.write_bytes(data)
            sys.stdout.write(f"  {path}: {problem}\n")
        broken += len(failures)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 20_000, sys.argv[2:]))
