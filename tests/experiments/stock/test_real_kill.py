"""A worker is really killed under a really running query: the whole way, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from experiments.stock import worker_kill
from harness.cluster.backends import remove_made
from harness.cluster.base import Cluster, ClusterSpec
from harness.cluster.local.cluster import LocalCluster
from harness.measurement import Kept
from harness.results.record import Outcome, Profile
from harness.seeds import derive_seed
from tests.cluster.helpers import silent
from tests.experiments.judging import broken
from tests.experiments.smoke import Unrecorded

# The contract of engines kills a worker under stock Spark, too, with less around it.
pytestmark = [pytest.mark.cluster, pytest.mark.long]

POINT = worker_kill.EXPERIMENT.grid[Profile.SMOKE][0]


@dataclass
class OneRun(Unrecorded):
    """The context of one run. Its stack ends the applications, then their cluster."""

    directory: Path
    root_seed: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] | None = None
    started: list[Cluster] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def seed(self, *names: str | int) -> int:
        return derive_seed(self.root_seed, *names)

    def cluster(self, spec: ClusterSpec) -> Cluster:
        cluster = self.stack.enter_context(LocalCluster(spec, remove=remove_made))
        self.started.append(cluster)
        cluster.start(silent)
        return cluster

    def keep(
        self,
        key: str,
        start: Callable[[], AbstractContextManager[Kept]],
        *,
        check: Callable[[Kept], None],
    ) -> Kept:
        started = self.stack.enter_context(start())
        check(started)
        return started


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcome, str]]:
    """Return the outcome of the smoke profile's run, and the drivers' logs."""
    context = OneRun(tmp_path_factory.mktemp("run"))
    with context.stack:
        outcome = worker_kill.EXPERIMENT.measurement.run(POINT, context)
        (cluster,) = context.started
        logs = list(cluster.run_directory.glob("applications-*/*.log"))
        text = "".join(log.read_text(errors="replace") for log in logs)
        assert str(cluster.kafka.password) not in text
        assert str(cluster.kafka.password) not in json.dumps(outcome.values, default=str)
        yield outcome, text


def test_a_process_was_killed_and_the_output_is_equal(measured: tuple[Outcome, str]) -> None:
    outcome, log = measured
    values = outcome.values
    assert values["kills_done"] == 1, values
    assert values["processes_killed"] >= 1, values
    assert values["output_equals_truth"], (values["difference_from_truth"], log[-3000:])
    assert values["output_equals_twin"], (values["difference_from_twin"], log[-3000:])
    assert values["twin_equals_truth"]
    assert values["contradictions"] == 0
    assert values["results"] > 1000


def test_the_executor_was_lost_and_came_back(measured: tuple[Outcome, str]) -> None:
    incidents = measured[0].series["incidents"]
    counts = incidents.loc[incidents["event"] == "executors", "count"].tolist()
    assert min(counts) == 1, counts


def test_every_invariant_holds_on_the_record(measured: tuple[Outcome, str], tmp_path: Path) -> None:
    assert not broken(worker_kill.EXPERIMENT, POINT, measured[0], tmp_path)
