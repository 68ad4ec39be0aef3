"""The command line as a user calls it: a process of its own with a database and a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ran:
    """One finished call."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as the one JSON object that --json promises."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def reason(self) -> str:
        """stderr as the one line that a refused call promises."""
        lines = self.stderr.strip().splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


Captune = Callable[..., Ran]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def captune(data_dir: Path, tmp_path: Path) -> Captune:
    """Call `captune` with arguments; every call of one test shares a database."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CAPTUNE_")}
    environment |= {"CAPTUNE_DATA_DIR": str(data_dir), "HOME": str(tmp_path)}

    def call(*arguments: object, timeout_s: float = 120.0) -> Ran:
        command = [sys.executable, "-c", "from services.cli.main import main; main()", *map(str, arguments)]
        ran = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    return call


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file and give its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
