"""The profile file: JSON on disk <-> CostProfile. The schema is part of the public contract (schema 1)."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.cost_profile import CostProfile, FamilyCost, PrefillCost
from tuner.longest_row import NO_WAIT, LongestRow
from tuner.row_curve import RowCurve
from workloads.arrays import F64
from workloads.errors import BadInput

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    # Unknown keys are kept out of the domain but do not make a file unreadable: newer writers may add some.
    model_config = ConfigDict(extra="ignore")


class PointModel(_Part):
    size: Annotated[int, Field(ge=1)]
    step_ms: Positive
    replay_ms: Positive | None = None
    fallback_ms: Positive | None = None
    spread_ms: NotNegative | None = None
    starts: Annotated[int, Field(ge=1)] | None = None
    capture_s: NotNegative | None = None
    # The driver hands out memory in chunks, so a marginal reading can be negative; it still belongs to the sum.
    memory_mib: Annotated[float, Field(allow_inf_nan=False)] | None = None


class MemoryModel(_Part):
    pool_mib: NotNegative = 0.0


class CaptureModel(_Part):
    fixed_s: NotNegative = 0.0


class RowCurveModel(_Part):
    """`rows` and `rows_ms` of one length: what that many real rows cost beyond row_ms x rows, linear in between and
    constant outside. Absent where every row costs row_ms. All padded rows of a bucket count as `padding_rows`."""

    rows: list[Annotated[int, Field(ge=1)]] = []
    rows_ms: list[Annotated[float, Field(allow_inf_nan=False)]] = []
    padding_rows: Annotated[int, Field(ge=0)] = 0


class LongestRowModel(_Part):
    """`ms_per_ktoken` per thousand tokens of mean context, in buckets of `unsplit_rows` and more; every time of the
    family holds it at `at_tokens`. Absent where steps do not wait for their longest row."""

    ms_per_ktoken: NotNegative = 0.0
    unsplit_rows: Annotated[int, Field(ge=1)] = 1
    at_tokens: NotNegative = 0.0


class FamilyModel(_Part):
    unit: Literal["requests", "tokens"] = "requests"
    context_tokens: NotNegative = 1.0
    attention_ms_per_mtoken: NotNegative = 0.0
    row_ms: NotNegative = 0.0
    row_curve: RowCurveModel = RowCurveModel()
    longest_row: LongestRowModel = LongestRowModel()
    lm_head_in_graph: bool | None = None
    memory: MemoryModel = MemoryModel()
    capture: CaptureModel = CaptureModel()
    points: Annotated[list[PointModel], Field(min_length=1)]


class PrefillPointModel(_Part):
    tokens: Positive
    prefix_tokens: NotNegative = 0.0
    step_ms: Positive


class PrefillModel(_Part):
    points: Annotated[list[PrefillPointModel], Field(min_length=1)]


class ProfileModel(_Part):
    """The whole file, as written and read."""

    schema_: Literal[1] = Field(1, alias="schema")
    name: Annotated[str, Field(min_length=1, max_length=200)]
    device: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    software: dict[str, Any] | None = None
    recorded_at: str | None = None
    command: str | None = None
    starts: Annotated[int, Field(ge=1)] | None = None
    families: Annotated[dict[str, FamilyModel], Field(min_length=1)]
    prefill: PrefillModel | None = None


def parse_profile(text: str | bytes, *, file: str = "profile") -> CostProfile:
    """Read a profile from JSON text.

    Raises:
        BadInput: not JSON, or a value breaks the schema; names file and field.
    """
    try:
        return _to_domain(ProfileModel.model_validate_json(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(str(first["msg"]), file=file, field=".".join(str(p) for p in first["loc"]) or None) from None
    except BadInput as error:
        raise BadInput(error.message, file=file, field=error.field) from None


def read_profile(path: Path) -> CostProfile:
    """Read a profile file; see `parse_profile`."""
    try:
        return parse_profile(path.read_bytes(), file=str(path))
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None


def dump_profile(profile: CostProfile) -> str:
    """The profile as JSON text, unknown values left out; `parse_profile` gives the same profile back."""
    document = {
        "schema": 1,
        "name": profile.name,
        "device": profile.device,
        "model": profile.model,
        "software": profile.software,
        "recorded_at": profile.recorded_at,
        "command": profile.command,
        "starts": profile.starts,
        "families": {name: family_document(cost) for name, cost in profile.families.items()},
        "prefill": _prefill_document(profile.prefill),
    }
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=1) + "\n"


def family_document(cost: FamilyCost) -> dict[str, Any]:
    """A family as it stands in a file."""
    columns = ("step_ms", "replay_ms", "fallback_ms", "spread_ms", "capture_s", "memory_mib")
    points = []
    for i, size in enumerate(cost.sizes):
        point: dict[str, Any] = {"size": int(size)}
        for name in columns:
            value = float(getattr(cost, name)[i])
            if math.isfinite(value):
                point[name] = value
        points.append(point | {"starts": int(cost.starts[i])})
    document: dict[str, Any] = {
        "unit": cost.unit,
        "context_tokens": cost.context_tokens,
        "attention_ms_per_mtoken": cost.attention_ms_per_mtoken,
        "row_ms": cost.row_ms,
        "memory": {"pool_mib": cost.pool_mib},
        "capture": {"fixed_s": cost.capture_fixed_s},
        "points": points,
    }
    if len(cost.row_curve.rows):
        curve = cost.row_curve
        document["row_curve"] = {"rows": curve.rows.tolist(), "rows_ms": curve.rows_ms.tolist()}
        if curve.padding_rows:
            document["row_curve"]["padding_rows"] = curve.padding_rows
    if cost.longest_row != NO_WAIT:
        document["longest_row"] = asdict(cost.longest_row)
    if cost.lm_head_in_graph is not None:
        document["lm_head_in_graph"] = cost.lm_head_in_graph
    return document


def _prefill_document(prefill: PrefillCost | None) -> dict[str, Any] | None:
    if prefill is None:
        return None
    rows = zip(prefill.tokens, prefill.prefix_tokens, prefill.step_ms, strict=True)
    return {"points": [{"tokens": int(t), "prefix_tokens": int(p), "step_ms": float(ms)} for t, p, ms in rows]}


def _to_domain(file: ProfileModel) -> CostProfile:
    families = {name: _family(name, model, file.starts) for name, model in file.families.items()}
    prefill = None
    if file.prefill is not None:
        points = file.prefill.points
        prefill = PrefillCost(
            np.array([p.tokens for p in points]),
            np.array([p.prefix_tokens for p in points]),
            np.array([p.step_ms for p in points]),
        )
    return CostProfile(
        name=file.name,
        families=families,
        prefill=prefill,
        device=file.device,
        model=file.model,
        software=file.software,
        recorded_at=file.recorded_at,
        command=file.command,
        starts=file.starts,
    )


def _family(name: str, model: FamilyModel, starts: int | None) -> FamilyCost:
    points = sorted(model.points, key=lambda p: p.size)
    for left, right in itertools.pairwise(points):
        if left.size == right.size:
            raise BadInput(f"size {left.size} appears twice", field=f"families.{name}.points")

    def column(get: Callable[[PointModel], float | None]) -> F64:
        return np.array([np.nan if (value := get(p)) is None else value for p in points], dtype=np.float64)

    return FamilyCost(
        unit=model.unit,
        sizes=np.array([p.size for p in points], dtype=np.int64),
        step_ms=column(lambda p: p.step_ms),
        replay_ms=column(lambda p: p.replay_ms),
        fallback_ms=column(lambda p: p.fallback_ms),
        spread_ms=column(lambda p: p.spread_ms),
        capture_s=column(lambda p: p.capture_s),
        memory_mib=column(lambda p: p.memory_mib),
        starts=np.array([p.starts or starts or 1 for p in points], dtype=np.int64),
        context_tokens=model.context_tokens,
        attention_ms_per_mtoken=model.attention_ms_per_mtoken,
        row_ms=model.row_ms,
        row_curve=RowCurve.of(**model.row_curve.model_dump()),
        longest_row=LongestRow.of(**model.longest_row.model_dump()),
        pool_mib=model.memory.pool_mib,
        capture_fixed_s=model.capture.fixed_s,
        lm_head_in_graph=model.lm_head_in_graph,
    )
