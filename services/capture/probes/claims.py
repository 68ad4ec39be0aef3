"""Starts that run now: several commands, one a GPU, may add to one folder at the same time.

A claim is a small file that its command holds locked while the start runs. The lock ends with the process, so what a
command claimed that was killed is free again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

Purpose = Literal["steps", "profile", "compare"]
"""steps: what a real row and a real KV token cost, steps without graphs, and prefill. profile: sizes. compare: one of
the lists."""

PATTERN = ".start-*.claim"


@dataclass(frozen=True, slots=True)
class Claim:
    """A start that a command runs.

    Attributes:
        name: of the list, or of the purpose.
        gpu: what tells the GPU from others; None where it cannot be told.
    """

    number: int
    purpose: Purpose
    name: str
    gpu: str | None


class HeldClaim:
    """A claim of this process; give it back when its start is recorded."""

    def __init__(self, folder: Path, claim: Claim) -> None:
        self.claim = claim
        self._path = folder / f".start-{claim.number:04d}.claim"
        self._file: IO[str] = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.write(json.dumps(asdict(claim)))
        self._file.flush()

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()


def claims_in(folder: Path) -> tuple[Claim, ...]:
    """Claims of commands that live, of this process too; files of others are removed.

    Nobody may make a claim meanwhile: see `services.capture.probes.records.Folder.deciding`.
    """
    return tuple(_living(folder))


def _living(folder: Path) -> Iterator[Claim]:
    for path in sorted(folder.glob(PATTERN)):
        with contextlib.suppress(FileNotFoundError), path.open() as file:  # given back just now
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield Claim(**json.load(file))
            else:
                path.unlink(missing_ok=True)
