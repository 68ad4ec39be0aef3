"""The request traces of a folder of public files, each ready to simulate on one engine.

Two of them record no arrivals and are given some, with a fixed seed: Vidur's arXiv lengths (Poisson), and the clients
of ServeGen, whose published rates and length distributions are sampled. Vidur's `splitwise_*` files are left out: they
are the Azure traces again.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from workloads.arrays import F64
from workloads.samples.bundled import sample_path
from workloads.traces.read import read
from workloads.traces.records import RequestTrace

SEED = 1
ARXIV = "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv"
ARXIV_REQUESTS_PER_S = 0.25
SERVEGEN = "servegen/language_m-small.tar.xz"
SERVEGEN_ENGINES = 50
"""The published rates are of a whole service; one engine of so many gets its share."""
WINDOW_S, BUSY_WINDOWS = 600.0, 3
RECORDED = {
    "azure conversation": "azure/AzureLLMInferenceTrace_conv.csv",
    "azure code": "azure/AzureLLMInferenceTrace_code.csv",
    "mooncake conversation": "mooncake/conversation_trace.jsonl.gz",
    "mooncake synthetic": "mooncake/synthetic_trace.jsonl",
}


def workloads(folder: Path | None) -> Iterator[tuple[str, RequestTrace]]:
    """(name, trace) of the bundled sample and of every known file that the folder has."""
    yield "bundled sample", _requests(sample_path())
    if folder is None:
        return
    for name, path in RECORDED.items():
        if (folder / path).exists():
            yield name, _requests(folder / path)
    if (folder / ARXIV).exists():
        yield "vidur arxiv, Poisson", arxiv(folder / ARXIV)
    if (folder / SERVEGEN).exists():
        yield "servegen m-small clients", servegen(folder / SERVEGEN)
    for run in sorted((folder / "llmservingsim").glob("*/*/requests.jsonl")):
        yield f"llmservingsim {run.parts[-3]}", _requests(run)


def _requests(path: Path) -> RequestTrace:
    traffic = read(path).traffic
    assert isinstance(traffic, RequestTrace)
    return traffic


def arxiv(path: Path) -> RequestTrace:
    """Prompt and answer lengths of 4,000 papers in the file's order, arriving as a Poisson process."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(row["num_prefill_tokens"], row["num_decode_tokens"]) for row in csv.DictReader(file)]
    lengths = np.maximum(np.array(rows[:4000], dtype=np.float64).astype(np.int64), 1)
    gaps_s = np.random.default_rng(SEED).exponential(1.0 / ARXIV_REQUESTS_PER_S, len(lengths))
    arrival_s = np.cumsum(gaps_s)
    return RequestTrace(arrival_s - arrival_s[0], lengths[:, 0].copy(), lengths[:, 1].copy())


def servegen(path: Path) -> RequestTrace:
    """The clients that publish lengths, in the busiest half hour of their week, thinned to one engine's share.

    Every client draws gamma gaps at its own (thinned) rate and variation, and lengths from its own tables.
    """
    with tarfile.open(path, "r:xz") as archive:
        texts = {member.name: _text(archive, member) for member in archive.getmembers() if member.isfile()}
    clients = sorted(name for name in texts if name.endswith("-trace.csv") and _dataset_of(name) in texts)
    windows = {name: _windows(texts[name]) for name in clients}
    total = Counter[float]()
    for start_s, rate, _ in chain.from_iterable(windows.values()):
        total[start_s] += rate * WINDOW_S
    begin_s = max(total, key=lambda start: sum(total[start + i * WINDOW_S] for i in range(BUSY_WINDOWS)))
    busy = [begin_s + i * WINDOW_S for i in range(BUSY_WINDOWS)]
    rng = np.random.default_rng(SEED)
    parts = []
    for name in clients:
        dataset = json.loads(texts[_dataset_of(name)])
        for start_s, rate, cv in windows[name]:
            if start_s in busy:
                parts.append(
                    _sample(rng, start_s - begin_s, rate / SERVEGEN_ENGINES, cv, _lengths_at(dataset, start_s))
                )
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return RequestTrace(rows[:, 0] - rows[0, 0], rows[:, 1].astype(np.int64), rows[:, 2].astype(np.int64))


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    return "" if file is None else file.read().decode("utf-8")


def _dataset_of(name: str) -> str:
    return name.replace("-trace.csv", "-dataset.json")


def _windows(text: str) -> list[tuple[float, float, float]]:
    """(start, rate, coefficient of variation) of every 600 s window in which the client was active."""
    rows = csv.reader(io.StringIO(text))
    kept = [(float(row[0]), float(row[1]), float(row[2])) for row in rows if len(row) > 3 and row[3]]
    return [window for window in kept if window[1] > 0 and window[2] > 0]


def _lengths_at(dataset: dict[str, dict[str, str]], start_s: float) -> dict[str, str]:
    """The newest published tables at that time; empty ones do not count."""
    known = sorted(int(float(key)) for key, tables in dataset.items() if tables["input_tokens"] != "{}")
    return dataset[str(max((start for start in known if start <= start_s), default=known[0]))]


def _sample(rng: np.random.Generator, start_s: float, rate: float, cv: float, tables: dict[str, str]) -> F64:
    """(arrival_s, input, output) rows of one client in one window: float64 [n, 3]."""
    shape = 1.0 / cv**2  # the mean gap and its variation are what both published families have in common
    gaps_s = rng.gamma(shape, 1.0 / (rate * shape), 10 + int(4 * rate * WINDOW_S * (1 + cv**2)))
    arrival_s = np.cumsum(gaps_s)
    arrival_s = start_s + arrival_s[arrival_s < WINDOW_S]
    columns = [_draw(rng, tables[key], len(arrival_s)) for key in ("input_tokens", "output_tokens")]
    return np.stack([arrival_s, *columns], axis=1)


def _draw(rng: np.random.Generator, table: str, count: int) -> F64:
    """Values of a `{value: probability}` literal; a value is at least one token."""
    shares: dict[float, float] = ast.literal_eval(table)
    odds = np.array(list(shares.values()), dtype=np.float64)
    drawn: F64 = np.maximum(rng.choice(np.array(list(shares), dtype=np.float64), count, p=odds / odds.sum()), 1.0)
    return drawn
