"""The remains of dead harnesses are removed, living ones are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.ownership import (
    ClusterRecord,
    ClusterRecords,
    neighbours,
    state_directory,
    warn_of_neighbours,
)
from harness.cluster.processes import Machine, ProcessIdentity, identify, is_alive, marked
from harness.cluster.run_directory import journal_path, read_journal, write_journal, write_private
from harness.errors import EnvironmentFailure
from tests.cluster.helpers import cluster_of, end_run, family, silent
from tests.there import there

OWN = there(identify(os.getpid()))
DEAD = ProcessIdentity(pid=OWN.pid, started_ticks=OWN.started_ticks - 1)
"""A process that had our pid before us."""


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterRecords:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return ClusterRecords()


@pytest.fixture
def record(tmp_path: Path) -> Iterator[ClusterRecord]:
    """Make a record of a cluster whose harness is dead."""
    directory = tmp_path / "run"
    directory.mkdir()
    journal_path(directory).touch()
    record = replace(cluster_of(None, directory), owner=DEAD)
    yield record
    end_run(record.run)


@pytest.mark.parametrize("owner", [OWN, None], ids=["of a living harness", "left up"])
def test_what_is_not_abandoned_is_left_alone(
    records: ClusterRecords, record: ClusterRecord, owner: ProcessIdentity | None
) -> None:
    records.add(replace(record, owner=owner))
    with family(record.run) as (process, _):
        assert records.sweep(silent, remove_made) == []
        assert process.poll() is None


def test_others_that_live_here_are_neighbours_and_named(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    said: list[str] = []
    warn_of_neighbours(said.append)
    assert said == []
    parent = there(identify(os.getppid()))
    elsewhere = replace(record.machine, hostname="another")
    gone = replace(parent, started_ticks=1)
    for name, owner, machine in (
        ("own", OWN, record.machine),
        ("left-up", None, record.machine),
        ("parent's", parent, record.machine),
        ("elsewhere", parent, elsewhere),
        ("gone", gone, record.machine),
    ):
        records.add(replace(record, run=name, owner=owner, machine=machine))
    assert {one.run for one in neighbours(records)} == {"left-up", "parent's"}
    warn_of_neighbours(said.append)
    shown = "\n".join(said)
    assert f"a cluster of process {os.getppid()} (local, up for" in shown
    assert "a cluster that was left up (local" in shown
    assert "cluster status" in shown


def test_the_cluster_of_a_dead_harness_is_cleaned_up(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    records.add(record)
    with family(record.run), family(record.run, "r1w1"):
        assert records.sweep(silent, remove_made) == [record]
        assert marked(record.run) == []
    assert not record.directory.exists()
    assert records.records() == []


@pytest.mark.parametrize(
    ("earlier", "lives"), [(0, False), (100, True)], ids=["without the mark", "with another's pid"]
)
def test_a_journalled_process_is_ended_and_no_other_one_with_its_pid(
    records: ClusterRecords, record: ClusterRecord, earlier: int, lives: bool
) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        own = there(identify(process.pid))
        journalled = replace(own, started_ticks=own.started_ticks - earlier)
        write_journal(record.directory, "server", journalled)
        records.add(record)
        records.sweep(silent, remove_made)
        assert is_alive(own) is lives
        process.kill()


@pytest.mark.parametrize(
    ("change", "abandoned"),
    [
        ({"boot": "another boot"}, True),
        ({"boot": "another boot", "hostname": "another-machine"}, False),
        ({"pid_namespace": "pid:[1]"}, False),
    ],
    ids=["rebooted", "another machine", "another container"],
)
def test_only_what_can_be_judged_from_here_is_judged(
    record: ClusterRecord, change: dict[str, str], abandoned: bool
) -> None:
    elsewhere = replace(record, machine=replace(record.machine, **change))
    assert elsewhere.abandoned(Machine.here()) is abandoned


def test_after_a_reboot_no_process_is_touched(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    rebooted = replace(record, owner=OWN, machine=replace(record.machine, boot="another boot"))
    records.add(rebooted)
    with family(record.run) as (process, _):
        assert records.sweep(silent, remove_made) == [rebooted]
        assert process.poll() is None
    assert not record.directory.exists()


def test_a_kept_directory_stays_without_its_secrets(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    (record.directory / "secrets").mkdir()
    write_private(record.directory / "secrets" / "password", "x")
    (record.directory / "logs").mkdir()
    records.clean_up(replace(record, keep=True), remove_made)
    assert (record.directory / "logs").exists()
    assert not (record.directory / "secrets").exists()


def test_a_directory_that_is_no_run_directory_is_never_removed(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    journal_path(record.directory).unlink()
    (record.directory / "thesis.tex").touch()
    records.clean_up(record, remove_made)
    assert (record.directory / "thesis.tex").exists()


def test_a_torn_journal_line_is_skipped(record: ClusterRecord) -> None:
    write_journal(record.directory, "kafka", None)
    write_journal(record.directory, "kafka", DEAD)
    with journal_path(record.directory).open("a") as journal:
        journal.write('{"name": "redis", "pi')
    assert read_journal(record.directory) == [("kafka", DEAD)]


def test_a_broken_record_is_named(records: ClusterRecords) -> None:
    (records.root / "broken.json").write_text("{}")
    with pytest.raises(EnvironmentFailure, match=r"broken\.json") as caught:
        records.records()
    assert "delete the file" in caught.value.remedy


def test_a_state_directory_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert state_directory() == tmp_path / "file" / "faultline"
    with pytest.raises(EnvironmentFailure, match="cannot be made") as caught:
        ClusterRecords()
    assert "XDG_STATE_HOME" in caught.value.remedy


def test_the_keeper_buries_the_cluster_when_its_owner_is_killed(
    records: ClusterRecords, record: ClusterRecord
) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner, family(record.run):
        records.add(replace(record, owner=identify(owner.pid)))
        keeper = subprocess.Popen([sys.executable, "-m", "harness.cluster.keeper", record.run])
        owner.kill()
        assert keeper.wait(30) == 0
        assert marked(record.run) == []
    assert not record.directory.exists()
