"""Client models: arrival rates over time and length distributions, and requests drawn from them."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from workloads.arrays import F64, I64
from workloads.errors import BadInput
from workloads.traces.library_faults import FAULTS, raise_if_memory

WINDOW_S = 600.0
LENGTH_WINDOW_S = 21_600
_SCHEMA = {"start": pl.Float64, "rate": pl.Float64, "cv": pl.Float64, "pattern": pl.String, "shape": pl.Float64}
_GAMMA, _WEIBULL = 0, 1
_SLOWEST = 0.01
"""Shapes below it (cv 10) are taken as it: gaps of such a client are all noise."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One client's windows of 600 s.

    Attributes:
        start_s: float64 [W], consecutive.
        rate_per_s: float64 [W].
        shape: float64 [W], of gamma or Weibull gaps; 1 where idle.
        weibull: int64 [W], 1 for Weibull.
    """

    start_s: F64
    rate_per_s: F64
    shape: F64
    weibull: I64

    @classmethod
    def parse(cls, content: bytes) -> Rates:
        """Raises:
        BadInput: a row that is not of the documented form, with its line.
        """
        try:
            frame = pl.read_csv(io.BytesIO(content), has_header=False, columns=range(5), infer_schema=False)
        except (*FAULTS, ValueError) as error:
            raise_if_memory(error)
            raise BadInput("is not a table of rates") from error
        frame.columns = list(_SCHEMA)
        typed = frame.select(pl.col(name).cast(dtype, strict=False) for name, dtype in _SCHEMA.items())
        start, rate = typed["start"], typed["rate"]
        known = pl.col("pattern").fill_null("").is_in(["Gamma", "Weibull", ""])
        good = typed.select(
            pl.col("start").is_finite().fill_null(False)
            & pl.col("rate").is_between(0, 1e6).fill_null(False)
            & known
            & ((pl.col("rate") == 0) | pl.col("shape").is_between(1e-9, 1e9).fill_null(False))
        ).to_series()
        if not good.all():
            raise BadInput("a row is not start, rate, cv, pattern, shape", line=int(good.arg_min() or 0) + 1)
        start_s = start.to_numpy().astype(np.float64)
        if len(start_s) > 1 and not np.all(np.diff(start_s) == WINDOW_S):
            raise BadInput(
                f"windows are not {WINDOW_S:g} s apart", line=int(np.argmax(np.diff(start_s) != WINDOW_S)) + 2
            )
        rate_per_s = rate.to_numpy().astype(np.float64)
        shape = np.where(rate_per_s > 0, typed["shape"].fill_null(1.0).to_numpy(), 1.0).astype(np.float64)
        weibull = (typed["pattern"].fill_null("") == "Weibull").to_numpy().astype(np.int64)
        return cls(start_s, rate_per_s, np.maximum(shape, _SLOWEST), weibull)

    @property
    def mean_per_s(self) -> float:
        return float(self.rate_per_s.mean())

    def expected(self, share: float) -> float:
        """Requests at `share` of the rates."""
        return float(self.rate_per_s.sum()) * WINDOW_S * share


Distribution = tuple[F64, F64]
"""Values and cumulative probabilities."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Windows of 6 h: number -> distributions that are added up for the input, and the one of the output."""

    inputs: Mapping[int, tuple[Distribution, ...]]
    output: Mapping[int, Distribution]

    @classmethod
    def parse(cls, document: object, inputs: Sequence[str], output: str) -> Lengths:
        """Raises:
        BadInput: not windows of distributions.
        """
        if not isinstance(document, dict):
            raise BadInput("is not an object of windows")
        into: dict[int, tuple[Distribution, ...]] = {}
        out: dict[int, Distribution] = {}
        for start, fields in document.items():
            if not isinstance(fields, dict) or not str(start).isdigit():
                raise BadInput("a window is not a number of seconds with fields")
            parts = [_distribution(fields[name]) for name in inputs if name in fields]
            last = _distribution(fields.get(output))
            given = tuple(part for part in parts if part is not None)
            if given and last is not None:
                into[int(start) // LENGTH_WINDOW_S], out[int(start) // LENGTH_WINDOW_S] = given, last
        return cls(into, out)


@dataclass(frozen=True, slots=True)
class Client:
    rates: Rates
    lengths: Lengths


def sample_client(client: Client, share: float, random: np.random.Generator) -> tuple[F64, I64, I64]:
    """Arrival times (s), input and output lengths of one client at `share` of its rates."""
    if not client.lengths.output:
        return np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    times = _arrivals(client.rates, share, random)
    inputs, outputs = np.zeros(len(times)), np.zeros(len(times))
    windows = (times // LENGTH_WINDOW_S).astype(np.int64)
    known = np.array(sorted(client.lengths.output))
    for window in np.unique(windows):
        rows = windows == window
        # a window without lengths takes those of the last one that had them
        near = int(known[max(int(np.searchsorted(known, window, side="right")) - 1, 0)])
        count = int(rows.sum())
        inputs[rows] = sum(_draw(part, count, random) for part in client.lengths.inputs[near])
        outputs[rows] = _draw(client.lengths.output[near], count, random)
    return times, np.rint(inputs).astype(np.int64), np.rint(outputs).astype(np.int64)


def _arrivals(rates: Rates, share: float, random: np.random.Generator) -> F64:
    """A renewal process in the client's own time, in which its rate is 1, mapped back to seconds."""
    edges = np.append(rates.start_s, rates.start_s[-1] + WINDOW_S)
    operated = np.concatenate(([0.0], np.cumsum(rates.rate_per_s * share * WINDOW_S)))
    total = float(operated[-1])
    if total <= 0:
        return np.empty(0)
    spare = 6 * math.sqrt(total / float(rates.shape.min())) + 10
    number = int(min(total + spare, 4 * total + 1000))
    expected = np.minimum(np.arange(number) + 0.5, total)
    window = np.clip(np.searchsorted(operated, expected, side="right") - 1, 0, len(rates.shape) - 1)
    shape = rates.shape[window]
    mean = np.array([math.gamma(1 + 1 / value) if value > 0.02 else math.inf for value in rates.shape])[window]
    gaps = np.where(rates.weibull[window] == _WEIBULL, random.weibull(shape) / mean, random.gamma(shape) / shape)
    gaps[0] *= random.uniform()
    at = np.cumsum(gaps)
    at = at[at < total]
    times: F64 = np.interp(at, operated, edges)
    return times


def _draw(distribution: Distribution, count: int, random: np.random.Generator) -> F64:
    values, cumulative = distribution
    drawn: F64 = values[np.searchsorted(cumulative, random.uniform(0, 1, count), side="right").clip(0, len(values) - 1)]
    return drawn


def _distribution(text: object) -> Distribution | None:
    """`{value: probability, ...}` as text, read without evaluating it; None for `{}` or nothing."""
    if text is None:
        return None
    if not isinstance(text, str) or not (text.startswith("{") and text.endswith("}")):
        raise BadInput("a distribution is not {value: probability}")
    body = text[1:-1].strip()
    if not body:
        return None
    try:
        flat = np.array(body.replace(":", ",").split(","), dtype=np.float64)
    except ValueError:
        raise BadInput("a distribution is not {value: probability}") from None
    values, weights = flat[::2], flat[1::2]
    if len(flat) % 2 or not np.all(np.isfinite(flat)) or weights.min() < 0 or weights.sum() <= 0:
        raise BadInput("a distribution is not {value: probability}")
    if values.min() < 0 or values.max() > 1e9:
        raise BadInput("a length is negative or above a thousand million tokens")
    return values, np.cumsum(weights) / weights.sum()
