"""A harness learns of the other clusters on its machine."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.ownership import (
    ClusterRecord,
    ClusterRecords,
    described,
    neighbours,
    warn_of_neighbours,
)
from harness.cluster.processes import Machine, ProcessIdentity, identify


def cluster_of(pid: int | None, directory: Path) -> ClusterRecord:
    """Make a record of a cluster, owned by this process or by none."""
    return ClusterRecord(
        run=f"test-{pid}",
        directory=directory,
        machine=Machine.here(),
        owner=None if pid is None else identify(pid),
        keep=False,
        started_unix_s=time.time() - 60,
    )


def test_others_that_live_here_are_neighbours(tmp_path: Path) -> None:
    records, parent = ClusterRecords(tmp_path), cluster_of(os.getppid(), tmp_path)
    left_up = cluster_of(None, tmp_path)
    elsewhere = replace(
        parent, run="elsewhere", machine=replace(Machine.here(), hostname="another")
    )
    gone = replace(parent, run="gone", owner=ProcessIdentity(pid=os.getppid(), started_ticks=1))
    for record in (cluster_of(os.getpid(), tmp_path), parent, left_up, elsewhere, gone):
        records.add(record)
    assert {record.run for record in neighbours(records)} == {parent.run, left_up.run}


def test_a_neighbour_is_named_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    said: list[str] = []
    warn_of_neighbours(said.append)
    assert said == []
    ClusterRecords().add(cluster_of(os.getppid(), tmp_path / "run"))
    warn_of_neighbours(said.append)
    (words,) = said
    assert f"a cluster of process {os.getppid()} (local, up for 1" in words
    assert "cluster status" in words


def test_a_cluster_that_was_left_up_is_nobodys(tmp_path: Path) -> None:
    assert described(cluster_of(None, tmp_path)).startswith("a cluster that was left up (local")
