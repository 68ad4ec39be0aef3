"""BudgetModel: the constraints of a tuning job."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from services.contract.plain import Request
from tuner.budget import DEFAULT_REGRET, Budget

Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BudgetModel(Request):
    """See `tuner.budget.Budget`; `regret: null` lifts that constraint, as JSON has no infinity."""

    regret: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = DEFAULT_REGRET
    max_length: Annotated[int, Field(ge=1, le=100_000)] | None = None
    max_memory_mib: Above0 | None = None
    max_capture_s: Above0 | None = None
    max_tail_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0

    def to_domain(self) -> Budget:
        regret = math.inf if self.regret is None else self.regret
        return Budget(regret, self.max_length, self.max_memory_mib, self.max_capture_s, self.max_tail_share)
