"""The shipped records, read once for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from harness.advice import advise
from harness.results import load
from harness.results.library import Library


@cache
def shipped() -> Library:
    return load()


def once(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader of records that reads the shipped ones at its first call only."""
    of_shipped = cache(lambda *more: read(shipped(), *more))
    return lambda results, *more: (of_shipped if results is shipped() else partial(read, results))(
        *more
    )


READERS = {name: once(getattr(advise, name)) for name in ("kills_of", "evidence")}


@pytest.fixture
def shipped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command read the shipped records where another one has read them already."""

    def loaded(*roots: Path, **more: Any) -> Library:
        return load(*roots, **more) if roots else shipped()

    monkeypatch.setattr("harness.results.load", loaded)
    for name, read in READERS.items():
        monkeypatch.setattr(advise, name, read)
