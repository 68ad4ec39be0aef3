"""The stream that a command's result goes to, set once when the process starts a command."""

from __future__ import annotations

import sys
from typing import ClassVar, TextIO

from services.cli.output import Output


class Streams:
    """`main` points `stdout` at a private copy of the real standard output before the command runs."""

    stdout: ClassVar[TextIO] = sys.stdout


def output(as_json: bool) -> Output:
    return Output(Streams.stdout, as_json)
