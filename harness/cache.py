"""The user's cache of fetched and unpacked files, shared by all checkouts of one user."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import EnvironmentFailure
from harness.text import Notify


def to_stderr(line: str) -> None:
    """Print progress to standard error, because standard output is for results."""
    print(f"faultline: {line}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/faultline`` or ``~/.cache/faultline``, made when absent.

    Raises `EnvironmentFailure` if it cannot be made or written."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification: a relative path is invalid and is ignored.
        base = Path(configured) if os.path.isabs(configured) else Path.home() / ".cache"
        directory = base / "faultline"
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise EnvironmentFailure(
            f"no cache directory can be made: {error}",
            remedy="set XDG_CACHE_HOME to the absolute path of a directory that you can write to",
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise EnvironmentFailure(
            f"the cache directory {directory} cannot be written",
            remedy="give yourself the right to write there, or set XDG_CACHE_HOME to another place",
        )
    if directory.stat().st_uid != os.geteuid():
        raise EnvironmentFailure(
            f"the cache directory {directory} belongs to somebody else, who could change what is "
            "run from it",
            remedy="set XDG_CACHE_HOME to a directory of yours (under sudo, HOME is often another "
            "user's)",
        )
    return directory


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(name: str, *, report: Notify) -> Iterator[None]:
    """Hold the cache's lock ``name`` against every other process of this user.

    The kernel releases it when the process ends, for whatever reason: there are no stale locks."""
    with (cache_directory() / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another start is fetching {name}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
