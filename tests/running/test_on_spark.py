"""Computation on Spark executors gives the same results as here."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import cast

import pandas as pd
import pytest

from harness.cli.measure import Executors
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.spark import REPOSITORY
from harness.environment.java import find_java
from harness.errors import EnvironmentFailure, UsageError
from harness.measurement import Context
from harness.results.record import Outcome, Point, Profile, Record
from harness.results.store import RecordStore
from harness.running.computed import ProcessPool, RunPool, Task, perform_remotely
from harness.running.discovery import find
from harness.running.execution import Runner
from harness.running.on_spark import SparkPool, write_archive
from harness.running.plan import RunSettings
from harness.simulator.campaign import Choice, reports, run_share, shares
from tests.toys import Watcher, changed


class Alone:
    """Spark inside the driver: everything but the network between machines."""

    spec = ClusterSpec(racks=1, cores_per_worker=2)

    def __init__(self, directory: Path, java_home: Path) -> None:
        self._directory, self._java_home = directory, java_home

    def scratch(self, name: str) -> Path:
        return self._directory

    def spark_conf(self) -> dict[str, str]:
        return {"spark.master": "local[2]", "spark.ui.enabled": "false"}

    def driver_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "JAVA_HOME": str(self._java_home),
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_PYTHON": sys.executable,
        }


SMOKE = RunSettings(profile=Profile.SMOKE)
COMPUTED = ("intervals/single-process", "intervals/node-count", "ppa/incremental-recovery")


def made_by(others: Callable[[], RunPool], out: Path) -> tuple[list[Record], list[pd.DataFrame]]:
    """Return the records of all runs in their order, and the tables in the same order."""

    def no_cluster(spec: ClusterSpec) -> Cluster:
        raise AssertionError("nothing here is measured")

    store = RecordStore(out)
    runner = Runner(store, no_cluster, Watcher(), others=others)
    experiments = find(COMPUTED)
    runs = runner.plan(experiments, SMOKE)
    assert all(run.computed for run in runs)
    records = list(runner.execute(runs, SMOKE))
    tables = [path for record in records for path in sorted(out.rglob(f"*{record.run}*/*.parquet"))]
    return records, [pd.read_parquet(path) for path in tables]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_the_same_points_give_the_same_outcomes(tmp_path: Path) -> None:
    place = tmp_path / "cluster"
    place.mkdir()
    ended = []

    @contextmanager
    def cluster() -> Iterator[Cluster]:
        yield cast(Cluster, Alone(place, find_java().home))
        ended.append(True)

    there, their_tables = made_by(partial(SparkPool, cluster), tmp_path / "there")
    here, our_tables = made_by(ProcessPool, tmp_path / "here")
    assert ended == [True]
    assert len(there) >= len(COMPUTED)
    assert [(r.experiment, r.point, r.repeat, r.status, r.values) for r in there] == [
        (r.experiment, r.point, r.repeat, r.status, r.values) for r in here
    ]
    assert len(their_tables) == len(our_tables) > 0
    for theirs, ours in zip(their_tables, our_tables, strict=True):
        pd.testing.assert_frame_equal(theirs, ours)
    assert [path.name for path in place.glob("task-*")] == [], "what was taken is removed"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_the_same_seeds_give_the_same_reports(tmp_path: Path) -> None:
    choice = Choice(first_seed=3, last_seed=14, scheme="ppa", topology="chain")
    alone = cast(Cluster, Alone(tmp_path, find_java().home))
    with SparkPool(lambda: nullcontext(alone)) as pool:
        made = [pool.call(run_share, (choice, share)) for share in shares(choice, 2)]
        assert [run for one in made for run in one.result()] == list(reports(choice, workers=1))


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_that_is_lost_ends_the_command_with_its_last_words(tmp_path: Path) -> None:
    @contextmanager
    def cluster() -> Iterator[Cluster]:
        place = tmp_path / "cluster"
        place.mkdir()
        yield cast(Cluster, Alone(place, tmp_path / "no-java"))

    with pytest.raises(EnvironmentFailure, match="the driver of spread runs") as caught:
        made_by(partial(SparkPool, cluster), tmp_path / "out")
    assert "without --spread" in caught.value.remedy


def test_executors_get_every_experiment(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_archive(tmp_path / "experiments.zip")) as archive:
        names = archive.namelist()
    assert {"experiments/__init__.py", "experiments/ppa/multi_query.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)


def test_files_of_a_run_elsewhere_are_not_lost_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (experiment,) = find(["intervals/node-count"])
    task = Task(
        experiment=experiment.id,
        point=experiment.grid[Profile.SMOKE][0],
        profile=Profile.SMOKE,
        root_seed=1,
        repeat=0,
        options={},
        directory=tmp_path,
    )
    assert perform_remotely(task).outcome is not None

    def writes(point: Point, context: Context) -> Outcome:
        (context.directory / "story.txt").write_text("long")
        return Outcome()

    other = changed(experiment, run=writes)
    monkeypatch.setattr("harness.running.computed.all_experiments", lambda: [other])
    made = perform_remotely(task)
    assert made.outcome is None
    assert "story.txt" in made.why
    assert list(tmp_path.iterdir()) == [], "it had a place of its own"


def test_what_is_measured_is_not_spread() -> None:
    wide = Executors(backend="local", workers=2)
    wide.check(find(["intervals"]))
    with pytest.raises(UsageError, match="stock/worker-kill is measured") as caught:
        wide.check(find(["intervals", "stock/worker-kill"]))
    assert "leave --spread out" in caught.value.remedy
