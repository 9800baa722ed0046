"""The places of fetched files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cache import cache_directory
from harness.errors import EnvironmentFailure


def test_a_cache_of_somebody_else_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(EnvironmentFailure, match="belongs to somebody else") as caught:
        cache_directory()
    assert "XDG_CACHE_HOME" in caught.value.remedy


def test_a_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EnvironmentFailure, match="no cache directory") as caught:
        cache_directory()
    assert "XDG_CACHE_HOME" in caught.value.remedy
