"""`captune`: the command line. Every noun has a file; this one assembles them and turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from services.capture.stdout import protected_stdout
from services.cli.context import Streams
from workloads.errors import CaptuneError

COMMANDS = (
    "audit",
    "trace",
    "histogram",
    "score",
    "solve",
    "tune",
    "robust",
    "drift",
    "profile",
    "record",
    "verify",
    "export",
    "report",
    "lint",
    "serve",
    "token",
    "backup",
    "restore",
    "prune",
    "demo",
    "doctor",
)

# Typer's own usage errors share a base that carries the exit code 2; its name is the same in every release.
_USAGE_ERROR: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def build_app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands.

    A command's module is imported only when it is named: a GPU node that measures a profile needs neither polars nor
    Optuna, and nobody waits for libraries that the command does not use.
    """
    app = typer.Typer(
        name="captune",
        help="Find, prove and export the CUDA-graph capture sizes that an LLM serving engine should keep.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for name in names:
        module = import_module(f"services.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _root() -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code is 0, 1 (failure, lint error) or 2 (bad usage, bad input)."""
    names = (arguments[0],) if arguments and arguments[0] in COMMANDS else COMMANDS
    if not arguments or "--help" in arguments:
        return _exit_code(names, list(arguments))
    with protected_stdout() as stdout:
        Streams.stdout = stdout
        return _exit_code(names, list(arguments))


def _exit_code(names: Sequence[str], arguments: list[str]) -> int:
    try:
        result = build_app(names)(args=arguments, prog_name="captune", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except CaptuneError as error:
        return _fail(str(error), error.exit_code)
    except _USAGE_ERROR as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        return _fail(" ".join(message.split()) or "see captune --help", 2)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of our output went away (captune ... | head): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _fail(sentence: str, code: int) -> int:
    print(f"captune: {sentence}", file=sys.stderr)
    return code


def main() -> None:
    sys.exit(run(sys.argv[1:]))
