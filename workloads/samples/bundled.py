"""Where the bundled sample lies, from a checkout and from an installed package alike."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

SAMPLE_NAME = "chat_and_code.csv"


def sample_path() -> Path:
    """The sample trace as a file (see README.md beside it for how it was made)."""
    return Path(str(resources.files("workloads.samples").joinpath(SAMPLE_NAME)))
