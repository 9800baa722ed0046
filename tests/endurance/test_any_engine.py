"""Endurance of any engine: kills that follow from the seed, and a count of what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.cluster.base import Action, ClusterSpec, nodes_of
from harness.endurance import any_engine
from harness.endurance.any_engine import AnyEndurance, kills
from harness.engines.base import Setup
from harness.engines.programs.described import SCHEME, engine_of_file
from harness.engines.programs.engine import ProgramEngine
from harness.errors import UsageError
from tests.engines.programs.fake import DESCRIPTION, WORKLOAD, ProgramCluster
from tests.engines.test_toy import imitated

NODES = nodes_of(ClusterSpec(racks=2, workers_per_rack=2), lambda rack, worker: "here")


def test_the_kills_of_a_pass_follow_from_the_seed_and_its_number() -> None:
    first = kills(7, 0, NODES, 300)
    assert first == kills(7, 0, NODES, 300)
    assert first.events != kills(7, 1, NODES, 300).events
    assert first.events != kills(8, 0, NODES, 300).events


def test_one_target_is_away_at_a_time_and_racks_are_among_them() -> None:
    events = kills(1, 0, NODES, 2000).events
    assert [event.action for event in events] == [Action.KILL, Action.RESTART] * (len(events) // 2)
    assert all(
        kill.target == back.target and kill.at_s < back.at_s
        for kill, back in zip(events[::2], events[1::2], strict=True)
    )
    times = [event.at_s for event in events]
    assert times == sorted(times)
    assert {"r1", "r2", *(node.name for node in NODES)} == {event.target for event in events}


@pytest.fixture
def endurance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AnyEndurance]:
    for name, value in (("FIRST_S", 0.5), ("CALM_S", 0.5), ("MEAN_GAP_S", 0.5)):
        monkeypatch.setattr(any_engine, name, value)
    monkeypatch.setattr(any_engine, "AWAY_S", (0.1, 0.3))
    path = tmp_path / "made-up.yaml"
    path.write_text(DESCRIPTION)
    with imitated(ProgramCluster, tmp_path) as cluster:
        yield AnyEndurance(
            kind=engine_of_file(path),
            setup=Setup(scheme=SCHEME),
            cluster=cluster,
            workload=WORKLOAD,
            seed=3,
            rate_per_s=100,
            seconds=3.0,
        )


def test_an_engine_that_survives_its_kills_has_nothing_wrong(endurance: AnyEndurance) -> None:
    counts = endurance.until(1)
    assert counts.kills >= 1
    assert counts.results > 0
    assert counts.failures == 0


def test_a_lost_and_a_wrong_result_are_counted(
    endurance: AnyEndurance, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ProgramEngine.read

    def spoil(self: ProgramEngine, *given: Any) -> pd.DataFrame:
        found = whole(self, *given)
        if len(found) < 5:
            return found
        return found.iloc[1:].assign(sum=[found["sum"].iloc[1] + 1, *found["sum"].iloc[2:]])

    monkeypatch.setattr(ProgramEngine, "read", spoil)
    counts = endurance.only(0)
    assert (counts.lost, counts.contradictions) == (1, 1)
    assert counts.failures == 2


def test_a_workload_that_the_engine_cannot_run_is_refused(endurance: AnyEndurance) -> None:
    other = replace(endurance, workload=replace(WORKLOAD, forms={"of-nobody": 1}))
    assert other.cluster.spec == ClusterSpec(racks=1, workers_per_rack=1)
    with pytest.raises(UsageError, match="runs a workload's form 'sums'"):
        other.check()
