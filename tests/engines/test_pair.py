"""PySpark and the Kafka connector, tried by one query."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cluster import surroundings
from harness.engines.structured import pair
from harness.engines.structured.pair import RECORDS, examine, finding
from harness.environment import doctor
from harness.environment.doctor import Finding, Status


@pytest.mark.parametrize(
    ("code", "said", "status"),
    [
        (0, str(RECORDS), Status.OK),
        (0, str(RECORDS - 1), Status.MISSING),
        (1, "NoSuchMethodError", Status.MISSING),
        (None, "no answer", Status.MISSING),
    ],
)
def test_only_all_records_are_an_answer(code: int | None, said: str, status: Status) -> None:
    found = finding(code, said)
    assert found.status is status
    assert bool(found.remedy) == (status is not Status.OK)


def test_it_is_tried_only_when_asked_and_when_nothing_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def examined(report: object) -> Finding:
        tried.append("yes")
        return Finding(name=pair.NAME, status=Status.OK, detail="they fit")

    def java(status: Status) -> None:
        found = [Finding(name="java", status=status, detail="17", remedy="none")]
        monkeypatch.setattr(doctor, "examine", lambda options: found)

    monkeypatch.setattr(pair, "examine", examined)
    monkeypatch.setattr(surroundings, "examine", list)
    java(Status.OK)
    assert "they fit" not in CliRunner().invoke(cli, ["doctor"]).stdout
    assert "they fit" in CliRunner().invoke(cli, ["doctor", "--query"]).stdout
    java(Status.MISSING)
    assert "not tried" in CliRunner().invoke(cli, ["doctor", "--query"]).stdout
    assert tried == ["yes"]


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_pair_of_the_lock_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert examine(lambda stage: None).status is Status.OK
