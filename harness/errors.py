"""Every error Faultline raises on purpose.

::

    FaultlineError                exit code 1
    ├── UsageError                exit code 2   what the user gave cannot be used
    └── EnvironmentFailure        exit code 3   the machine, or a server on it, failed

The text of an error is what happened, where and in what state, and what to do next (``remedy``).
`ProtocolViolation` is not one of them: it is a bug of ours, never a failure that must be
survived, and nothing catches it."""

from __future__ import annotations

from typing import ClassVar


class FaultlineError(Exception):
    """What happened, and what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  What to do: {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.remedy))


def _rebuild(kind: type[FaultlineError], what: str, remedy: str) -> FaultlineError:
    return kind(what, remedy=remedy)


class UsageError(FaultlineError):
    """A file, an option or a value that the user gave cannot be used."""

    exit_code = 2


class EnvironmentFailure(FaultlineError):
    """Something that Faultline needs is missing, or a server did not do what it must."""

    exit_code = 3


class ProtocolViolation(AssertionError):
    """A protocol machine reached a state that its rules exclude: a bug of ours."""
