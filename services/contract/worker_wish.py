"""WorkerWish: on which device a job that measures may run."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from services.contract.plain import Request


class WorkerWish(Request):
    """`auto` is a GPU on a cluster, and without one what this machine has. `gpu` is a type as Ray calls it,
    `memory_gib` the least memory that the GPU must have; starts of one job always run on GPUs of one type."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"gpu": "H200", "memory_gib": 100}]})

    device: Literal["auto", "cuda", "cpu"] = "auto"
    gpu: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    memory_gib: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _a_cpu_is_no_gpu(self) -> Self:
        if self.device == "cpu" and (self.gpu is not None or self.memory_gib is not None):
            raise ValueError("`gpu` and `memory_gib` choose among GPUs; they do not go with device cpu")
        return self
