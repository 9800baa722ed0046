"""The report of `faultline doctor` about the other backends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.cluster import surroundings
from harness.cluster.docker import daemon
from harness.cluster.local import network
from harness.environment.doctor import Status
from harness.errors import EnvironmentFailure


def test_what_is_missing_is_a_warning_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EnvironmentFailure("no Docker daemon answers", remedy="start one")

    monkeypatch.setattr(daemon, "connect", refuse)
    monkeypatch.setattr(network, "why_not", lambda: "not permitted")
    networks, docker = surroundings.examine()
    assert networks.status is docker.status is Status.WARNING
    assert "not permitted" in networks.detail
    assert docker.remedy == "start one"


def test_what_is_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(version=lambda: {"Version": "20.10"}, close=lambda: None)
    monkeypatch.setattr(daemon, "connect", lambda: client)
    monkeypatch.setattr(network, "why_not", lambda: None)
    networks, docker = surroundings.examine()
    assert networks.status is docker.status is Status.OK
    assert "20.10" in docker.detail
