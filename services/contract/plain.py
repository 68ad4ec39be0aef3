"""From domain values to what JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


def shown(*examples: dict[str, Any]) -> ConfigDict:
    """The `model_config` of a request that the OpenAPI document shows by these examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Answer(BaseModel):
    """What we send: frozen. Unknown keys are ignored, so that an older reader understands a newer writer."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="null")


class Request(BaseModel):
    """What we are sent: an unknown key is an error, not a silently dropped wish."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def plain(value: object) -> Any:
    """`value` as JSON types: dataclasses become objects, tuples and arrays lists, keys text; nan and infinity null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    return str(value)


def finite(value: float | None) -> float | None:
    """`value`, with nan and infinity as None."""
    return value if value is not None and math.isfinite(value) else None
