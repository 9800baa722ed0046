"""A cache and a PATH of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Script = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty cache directory; the environment names no Java."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("JAVA_HOME", "FAULTLINE_JAVA_HOME", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "faultline"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty directory, the only one on PATH."""
    directory = tmp_path / "programs"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


@pytest.fixture
def script(programs: Path) -> Script:
    """Put a shell script on PATH."""

    def write(name: str, body: str) -> Path:
        path = programs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def lines() -> list[str]:
    """Make a list of reports; its ``append`` is the report."""
    return []
