"""The error tree of the whole product.

    CaptuneError
    ├── BadUsage            the call itself is wrong: unknown option, impossible combination
    ├── BadInput            a file, row or value that was handed in is wrong
    ├── NotFound            a trace, profile, sweep or recommendation that does not exist
    ├── Conflict            the object exists, but not in a state that allows this
    ├── Infeasible          the constraints exclude every capture list
    ├── MissingExtra        an optional part of Captune is not installed
    ├── Unavailable         the database, Ray or an engine cannot be reached now
    └── MeasurementFailed   a size could not be measured (out of memory, wrong result, refused capture)

Every error is one sentence for a person (`str(error)`) and fields for programs (`error.fields()`).
"""

from __future__ import annotations

from typing import ClassVar


class CaptuneError(Exception):
    """Root of every error that Captune raises on purpose.

    Args:
        message: what is wrong and what to do, without the location.
        file: the file or source concerned.
        line: its 1-based line or row.
        field: the column, option or JSON key concerned.
    """

    code: ClassVar[str] = "captune_error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.field = field

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}" if where else f"line {self.line}"
        parts = [part for part in (where, self.field) if part]
        return ": ".join([*parts, self.message])

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross Ray and child processes.
        return (_rebuild, (type(self), self.message, self.file, self.line, self.field))

    def fields(self) -> dict[str, str | int | None]:
        """The error as plain values: `code`, `message`, `file`, `line`, `field`."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "field": self.field,
        }


def _rebuild(
    kind: type[CaptuneError], message: str, file: str | None, line: int | None, field: str | None
) -> CaptuneError:
    return kind(message, file=file, line=line, field=field)


class BadUsage(CaptuneError):
    """The call is wrong: an unknown option, engine, version or combination."""

    code = "bad_usage"
    exit_code = 2
    http_status = 400


class BadInput(CaptuneError):
    """A file, row or value that was handed in is wrong; nothing of it was kept."""

    code = "bad_input"
    exit_code = 2
    http_status = 422


class NotFound(CaptuneError):
    """No such trace, profile, sweep or recommendation."""

    code = "not_found"
    exit_code = 2
    http_status = 404


class Conflict(CaptuneError):
    """The object is not in a state that allows this."""

    code = "conflict"
    http_status = 409


class Infeasible(CaptuneError):
    """The constraints leave no capture list."""

    code = "infeasible"
    http_status = 422


class MissingExtra(CaptuneError):
    """An optional part is not installed; the message names the extra."""

    code = "missing_extra"
    http_status = 501

    @classmethod
    def of(cls, extra: str, what: str) -> MissingExtra:
        return cls(f"{what} needs the extra '{extra}': pip install 'captune[{extra}]'")


class Unavailable(CaptuneError):
    """The database, Ray or an engine cannot be reached now."""

    code = "unavailable"
    http_status = 503


class MeasurementFailed(CaptuneError):
    """A size could not be measured; a result with a reason, not a crash."""

    code = "measurement_failed"
