"""Accuracy of a pass against its twin, from deliveries made by hand, scored by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest

from harness.cluster.base import Cluster
from harness.engines.base import Scored, Work
from harness.engines.structured.applications import Application
from harness.engines.structured.engine import StructuredEngine
from harness.engines.structured.frames import score_files
from harness.judging.run import score
from tests.judging.constructed import record
from workloads.accident import accidents
from workloads.base import Workload
from workloads.traffic import traffic_jams
from workloads.worldcup import world_cup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Here:
    """An application that is this process."""

    spark: SparkSession
    workload: Workload

    def mark(self) -> int:
        return 0

    def order(self, command: str, **files: str) -> None:
        assert command == "score"
        paths = {name: Path(path) for name, path in files.items()}
        score_files(self.spark, self.workload, **paths)

    def wait_for(self, *_: object, **__: object) -> None:
        """Return at once: it is done already."""


def work(workload: Workload, directory: Path) -> Work:
    return Work(
        name="failures",
        workload=workload,
        load=record().plan,
        topic_of={},
        out_topic="out",
        out_partitions=1,
        interval_s=1,
        directory=directory,
    )


def scored(
    spark: SparkSession,
    workload: Workload,
    twin: pd.DataFrame,
    failed: pd.DataFrame,
    directory: Path,
) -> Scored:
    applications = [cast(Application, Here(spark, workload))]
    engine = StructuredEngine(applications, cast(Cluster, None))
    return score(engine, record(twin, name="twin"), record(failed), work(workload, directory))


def frame(workload: Workload, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """Return rows in the order of the workload's columns, with windows as times from the start."""
    columns = ["window_start_s", *workload.columns[1:]]
    made = pd.DataFrame(rows, columns=columns)
    return made.assign(arrival_s=[float(n) for n in range(len(rows))], copy=0)


TOP = [(-1.0, "7:1"), (0.0, "4:9 2:8 9:1"), (1.0, "5:1")]
JAMS = [(0.0, "3 5 8 9"), (2.0, "1")]
STANDING = [(0.0, 4, "1 2 3"), (0.0, 6, "9"), (1.0, 4, "1")]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "rows", "bent", "share"),
    [
        pytest.param(world_cup(), TOP, (0.0, "4:9 2:8 1:5"), 4 / 5, id="world-cup"),
        pytest.param(
            traffic_jams(), JAMS, (0.0, "3 9"), 3 / 5, id="traffic-jams", marks=pytest.mark.deep
        ),
        pytest.param(
            accidents(), STANDING, (0.0, 4, "2 3 7"), 4 / 5, id="accidents", marks=pytest.mark.deep
        ),
    ],
)
def test_equal_output_is_accurate_and_tampered_output_is_not(
    spark: SparkSession,
    tmp_path: Path,
    workload: Workload,
    rows: list[tuple[Any, ...]],
    bent: tuple[Any, ...],
    share: float,
) -> None:
    twin = frame(workload, [rows[0], *rows])  # replicas repeat results in a twin, too
    equal = scored(spark, workload, twin, frame(workload, [*rows, *rows]), tmp_path)
    assert (equal.first, equal.last, equal.reason) == (1.0, 1.0, None)
    assert equal.windows["window_start_s"].tolist() == sorted({row[0] for row in rows})
    key = len(workload.identity)
    tampered = [bent if row[:key] == bent[:key] else row for row in rows]
    repaired = frame(workload, [*tampered, *rows])
    found = scored(spark, workload, twin, repaired, tmp_path)
    assert found.first == pytest.approx(share)
    assert found.last == 1.0, "a later correction counts for the last version alone"
