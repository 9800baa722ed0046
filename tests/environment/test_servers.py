from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environment import servers
from harness.environment.servers import UNKNOWN, server_versions
from harness.errors import EnvironmentFailure


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    server_versions.cache_clear()
    yield
    server_versions.cache_clear()


def program(directory: Path, says: str) -> Path:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o700)
    return path


def test_servers_say_their_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "java").mkdir()
    java = program(tmp_path / "java", 'openjdk version "17.0.9" 2023-10-17')
    redis = program(tmp_path, "Redis server v=7.2.4 sha=0:0 malloc=libc")
    monkeypatch.setattr(servers, "_java", lambda: java)
    monkeypatch.setattr(servers, "_redis", lambda: redis)
    found = server_versions()
    assert (found["java"], found["redis"]) == ("17.0.9", "7.2.4")
    assert found["kafka"].startswith("4."), "the broker, as pinned, and not the connector's client"


def test_what_is_not_there_yet_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Path:
        raise EnvironmentFailure("there is none", remedy="fetch it")

    monkeypatch.setattr(servers, "_java", nothing)
    monkeypatch.setattr(servers, "_redis", lambda: Path("/nowhere/redis-server"))
    assert (server_versions()["java"], server_versions()["redis"]) == (UNKNOWN, UNKNOWN)
