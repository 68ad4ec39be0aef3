"""Released engine packages: download one wheel without its dependencies, keep its Python files, drop the wheel."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LARGEST_SOURCE_BYTES = 2_000_000
"""Longer .py files are generated tables."""


def sources(name: str, version: str, folder: Path) -> Path:
    """The package's Python files under `folder`, as a path that holds the package itself.

    Raises:
        subprocess.CalledProcessError: the wheel cannot be had.
    """
    target = folder / f"{name}-{version}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as wheels:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "-d",
                wheels,
            ]
            subprocess.run([*command, f"{name}=={version}"], check=True, timeout=900)
            unpacked = Path(wheels) / "unpacked"
            for wheel in Path(wheels).glob("*.whl"):
                _unpack(wheel, unpacked)
            unpacked.rename(target)
    return target


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            if item.filename.endswith(".py") and item.file_size < LARGEST_SOURCE_BYTES:
                archive.extract(item, target)
