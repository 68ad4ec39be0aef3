"""Where attention over real rows turns over: the rows that fill a GPU once.

Decode attention takes one block of threads for each row and KV head. As long as all of them run at once, a step waits
for its longest row; one row more needs a second wave, and the step jumps (seen: 0.5 ms of 6 at the 17th row of
Llama-3.1-8B, 8 KV heads, on an H200 of 132 multiprocessors). Up to half a wave the kernel splits rows in two, and the
same holds there.
"""

from __future__ import annotations

import re

USUAL_WAVE_ROWS = 16
"""Where the GPU is unknown: eight KV heads on about 132 multiprocessors."""

_MULTIPROCESSORS = (  # by the first pattern that a name holds; NVIDIA's data sheets
    (r"\bH20\b", 78),
    (r"\bH100 PCIe\b", 114),
    (r"\b(H100|H200|GH200|H800)\b", 132),
    (r"\bB200\b", 148),
    (r"\b(A100|A800)\b", 108),
    (r"\bL40S?\b", 142),
    (r"\bA(40|6000)\b", 84),
    (r"\bA10G?\b", 72),
    (r"\bL4\b", 58),
)


def wave_rows(device: str | None, kv_heads: int) -> int:
    """Rows whose KV heads fill the GPU once, at least one.

    Args:
        device: as the driver names it; None or a name that is not known here counts as usual.
    """
    for pattern, multiprocessors in _MULTIPROCESSORS:
        if re.search(pattern, device or ""):
            return max(1, multiprocessors // kv_heads)
    return USUAL_WAVE_ROWS
