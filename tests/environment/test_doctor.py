"""The report of the doctor, and the cases in which it demands an action."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cluster import surroundings
from harness.cluster.external.cluster import ExternalCluster
from harness.environment import doctor
from harness.environment.doctor import (
    CHECKS,
    CheckOptions,
    Finding,
    Result,
    Status,
    examine,
    examined,
    ready,
)
from harness.errors import EnvironmentFailure
from harness.text import Notify
from tests.cluster.test_external_parts import described


@pytest.fixture
def options(tmp_path: Path) -> CheckOptions:
    return CheckOptions(runs=tmp_path / "not" / "made" / "yet")


@pytest.mark.usefixtures("programs")
def test_empty_machine_fetches_by_itself(options: CheckOptions) -> None:
    """No Java, no Redis, an empty cache: nothing for the user to do on x86-64 Linux."""
    by_name = {each.name: each for each in examine(options)}
    assert list(by_name) == list(CHECKS)
    for name in ("java", "jars"):
        assert by_name[name].status is Status.FETCHED, by_name[name]
    assert by_name["pyspark"].status is Status.OK
    assert by_name["disk of runs"].status is not Status.MISSING


def test_failure_becomes_a_finding(options: CheckOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def found_no_java(options: CheckOptions) -> Result:
        raise EnvironmentFailure("java is not there", remedy="bring java")

    monkeypatch.setattr(doctor, "CHECKS", {"java": found_no_java})
    assert examine(options) == [
        Finding(name="java", status=Status.MISSING, detail="java is not there", remedy="bring java")
    ]


@pytest.mark.parametrize(
    ("free", "status"), [(50e9, Status.OK), (2e9, Status.WARNING), (1e8, Status.MISSING)]
)
def test_disk(
    free: float, status: Status, options: CheckOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        def __init__(self, place: Path) -> None:
            self.free = free

    monkeypatch.setattr("shutil.disk_usage", Usage)
    found = examined("disk of runs", options)
    assert found.status is status
    assert bool(found.remedy) == (status is not Status.OK)


@pytest.mark.parametrize(("status", "code"), [(Status.FETCHED, 0), (Status.MISSING, 3)])
def test_command_line(status: Status, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding(name="java", status=status, detail="none here", remedy="bring one")]
    monkeypatch.setattr(doctor, "examine", lambda options: findings)
    shown = CliRunner().invoke(cli, ["doctor"])
    assert shown.exit_code == code
    assert "bring one" in shown.stdout
    document = CliRunner().invoke(cli, ["doctor", "--json"])
    assert document.exit_code == code
    assert json.loads(document.stdout)["ready"] is ready(findings)
    assert json.loads(document.stdout)["findings"][0]["status"] == status.value


@pytest.mark.parametrize("failure", [None, EnvironmentFailure("Kafka is away", remedy="bring it")])
def test_existing_servers_are_used_once(
    failure: EnvironmentFailure | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(cluster: ExternalCluster, report: Notify) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(doctor, "examine", lambda options: [])
    monkeypatch.setattr(surroundings, "examine", list)
    monkeypatch.setattr(ExternalCluster, "start", start)
    monkeypatch.setenv("FAULTLINE_SPARK_SECRET", "a secret")
    shown = CliRunner().invoke(cli, ["doctor", "--cluster", str(described(tmp_path)), "--json"])
    assert shown.exit_code == (0 if failure is None else failure.exit_code), shown.output
    (found,) = json.loads(shown.stdout)["findings"]
    assert (found["name"], found["remedy"]) == ("lab.yaml", "" if failure is None else "bring it")
