"""Why an engine did not start or did not go on: a typed reason, with the engine's own sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from workloads.errors import MeasurementFailed

EngineFailureKind = Literal[
    "refused",  # the configuration, in the engine's own words
    "out_of_memory_in_capture",
    "out_of_memory",
    "no_kv_memory",
    "timeout",
    "died",
    "worker_lost",  # the GPU worker or its node, whatever the engine would have done
    "not_installed",
    "device_not_clean",
]

_TAIL_CHARACTERS = 200_000
_EXCEPTION = re.compile(r"\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (.+)")
# pydantic wraps what vLLM's config classes raise: `  Value error, TEXT [type=value_error, ...]`.
_WRAPPED = re.compile(r"(?:Value error|Assertion failed), (.+?)(?: \[type=.*)?$")
_ARGUMENTS = re.compile(r"^[\w .-]+: error: (.+)$")
_NO_MODULE = re.compile(r"(No module named '?(?:vllm|sglang)\b[\w.']*)")
# Of the process that waits for the one that failed.
_ECHOES = ("Engine core initialization failed", "Engine process failed to start", "Rank 0 scheduler died")
_SURVIVED = re.compile(r"\b(?:DEBUG|INFO|WARNING) ")  # an exception told at these levels did not end the engine
_NO_KV = (
    "No available memory for the cache blocks",
    "larger than the available KV cache",
    "Not enough memory",
)
_CAPTURE_BEGINS = ("Capturing CUDA graph", "CUDA graph begin", "Capture cuda graph begin", "Capturing batches")
_CAPTURE_ENDS = ("Graph capturing finished", "CUDA graph end", "Capture cuda graph end")
_REFUSALS = ("ValueError", "AssertionError", "ValidationError", "NotImplementedError")


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """A result like any other: the kind, and one sentence, the engine's own where it said one."""

    kind: EngineFailureKind
    sentence: str


class EngineFailed(MeasurementFailed):
    """The engine did not start, or ended while it worked; `failure` is the typed reason."""

    def __init__(self, failure: EngineFailure) -> None:
        super().__init__(f"the engine failed ({failure.kind}): {failure.sentence}")
        self.failure = failure

    def __reduce__(self) -> tuple[object, ...]:
        return (EngineFailed, (self.failure,))


def failure_in(log: str, exit_code: int | None) -> EngineFailure:
    """What the output of an engine that ended says of its end.

    Args:
        exit_code: of the process; negative is a signal.
    """
    lines = log[-_TAIL_CHARACTERS:].splitlines()
    found = _sentence(lines)
    if found is None:
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
        return EngineFailure("died", f"exit code {exit_code}; its last line: {last[:500]}")
    name, sentence = found
    return EngineFailure(_kind(name, sentence, lines), sentence)


def _sentence(lines: list[str]) -> tuple[str, str] | None:
    """(exception name, text) of the first cause: what comes after it in a log repeats or wraps it."""
    for line in lines:
        if _SURVIVED.search(line):
            continue
        if wrapped := _WRAPPED.search(line):
            return "ValueError", wrapped.group(1).strip()
        if told := _ARGUMENTS.match(line.strip()):
            return "ValueError", told.group(1).strip()
        if missing := _NO_MODULE.search(line):
            return "ModuleNotFoundError", missing.group(1)
        raised = _EXCEPTION.search(line)
        if raised is None or any(echo in line for echo in _ECHOES) or "validation error" in raised.group(2):
            continue
        return raised.group(1).rsplit(".", 1)[-1], raised.group(2).strip()
    return None


def _kind(name: str, sentence: str, lines: list[str]) -> EngineFailureKind:
    if name == "ModuleNotFoundError":
        return "not_installed"
    if any(text in sentence for text in _NO_KV):
        return "no_kv_memory"
    if name == "OutOfMemoryError" or "out of memory" in sentence.lower():
        return "out_of_memory_in_capture" if _captures(lines) else "out_of_memory"
    return "refused" if name in _REFUSALS else "died"


def _captures(lines: list[str]) -> bool:
    """Whether a capture had begun and not ended."""
    begun = False
    for line in lines:
        begun = (begun or any(text in line for text in _CAPTURE_BEGINS)) and not any(t in line for t in _CAPTURE_ENDS)
    return begun
