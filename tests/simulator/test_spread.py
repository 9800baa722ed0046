"""A campaign on a Spark cluster gives the same results as on one machine."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytest

from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.spark import REPOSITORY
from harness.errors import EnvironmentFailure
from harness.simulator.campaign import Choice, reports, run_seed
from harness.simulator.checkers import Violation
from harness.simulator.spread import (
    MOST_SEEDS_PER_TASK,
    choice_of,
    document_of,
    in_order,
    report_of,
    shares,
    spread_reports,
)

CHOICE = Choice(first_seed=3, last_seed=14, scheme="ppa", topology="chain")


def test_a_report_and_a_choice_survive_the_way() -> None:
    report = run_seed((CHOICE, 3))
    assert report_of(json.loads(json.dumps(asdict(report)))) == report
    broken = replace(report, violation=Violation(seed=3, invariant="i", what="w", story="s"))
    assert report_of(json.loads(json.dumps(asdict(broken)))) == broken
    for choice in (CHOICE, replace(CHOICE, faults=(0, 2))):
        assert choice_of(json.loads(json.dumps(document_of(choice)))) == choice


def test_reports_come_in_the_order_of_seeds_whatever_the_order_of_their_making() -> None:
    report = run_seed((CHOICE, 3))
    made = [replace(report, seed=seed) for seed in CHOICE.seeds]
    random.Random(1).shuffle(made)
    assert [each.seed for each in in_order(CHOICE, iter(made))] == list(CHOICE.seeds)


@pytest.mark.parametrize(("total", "slots"), [(1, 4), (12, 2), (1000, 2), (100_000, 40)])
def test_every_seed_is_in_one_share(total: int, slots: int) -> None:
    choice = Choice(first_seed=7, last_seed=6 + total)
    found = shares(choice, slots)
    seeds = [seed for first, last in found for seed in range(first, last + 1)]
    assert seeds == list(choice.seeds)
    assert max(last - first + 1 for first, last in found) <= MOST_SEEDS_PER_TASK


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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_the_same_seeds_give_the_same_reports(tmp_path: Path) -> None:
    from harness.environment.java import find_java

    cluster = cast(Cluster, Alone(tmp_path, find_java().home))
    assert list(spread_reports(CHOICE, cluster)) == list(reports(CHOICE, workers=1))


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    cluster = cast(Cluster, Alone(tmp_path, tmp_path / "no-java"))
    with pytest.raises(EnvironmentFailure, match="it gave up: its output ended"):
        list(spread_reports(CHOICE, cluster))
