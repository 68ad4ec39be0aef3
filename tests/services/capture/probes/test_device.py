"""The GPU of an engine's machine, where NVML's Python package is not installed or sees none."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.capture.probes.device import device_name, used_mib


def test_the_drivers_own_command_is_asked_where_nvml_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text('#!/bin/sh\ncase "$1" in *name) echo "NVIDIA H200";; *) echo 1289;; esac\n')
    command.chmod(0o755)
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert (device_name(), used_mib()) == ("NVIDIA H200", 1289.0)
    command.write_text("#!/bin/sh\nexit 9\n")
    assert (device_name(), used_mib()) == (None, None)
