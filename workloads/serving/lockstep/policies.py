"""Numbers of the policies inside the kernel."""

from __future__ import annotations

DECODE, SGLANG, VLLM = 0, 1, 2
