"""Read the refusal at the end of a command line."""

from __future__ import annotations

from click.testing import Result

from harness.errors import UsageError


def refusal(done: Result) -> UsageError:
    """Return the error of a command line that is refused."""
    assert isinstance(done.exception, UsageError), done.output
    return done.exception
