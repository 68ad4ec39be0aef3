"""What the starts of one job leave out together: a size that killed a worker is not tried again by the others."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from services.capture.spec import MeasureSpec


class SharedSpec:
    """The job as the next start gets it; safe to use from several threads."""

    def __init__(self, spec: MeasureSpec) -> None:
        self._spec = spec
        self._lock = Lock()

    def get(self) -> MeasureSpec:
        with self._lock:
            return self._spec

    def leave_out(self, given: MeasureSpec, left: MeasureSpec) -> None:
        """A start that was given `given` could finish only as `left`.

        Raises:
            BadUsage: with what other starts had to leave out, no size remains.
        """
        with self._lock:
            spec = self._spec.without(frozenset(given.all_sizes) - frozenset(left.all_sizes))
            kept = tuple(tokens for tokens in spec.prefill_tokens if tokens in left.prefill_tokens)
            self._spec = replace(spec, prefill_tokens=kept, contexts=left.contexts and spec.contexts)
