"""The rate of a load generator on one core, compared with the World Cup's peak at 48 times.

It uses a real broker, real lines of text and the schedule of a run. ``ratio`` in the extra info is
the generator's records per CPU second, all its threads counted, over 172,000 records/s: above 1,
one core is enough. ``late_share`` and ``invalid`` show if the schedule was kept; that depends on
other load of the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.base import ClusterSpec
from harness.cluster.endpoints import KafkaEndpoint
from harness.cluster.local.cluster import LocalCluster
from harness.load.generator import LoadGenerator, LoadResult
from harness.load.plan import LoadPlan, Stream
from harness.load.profile import RateProfile
from workloads.base import Reference

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.cluster

PEAK_PER_S = 172_000
DURATION_S = 10


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaEndpoint]:
    with LocalCluster(ClusterSpec(racks=1), remove=remove_made) as cluster:
        cluster.start(print)
        yield cluster.kafka


def send(kafka: KafkaEndpoint, log: Path, partitions: int) -> LoadResult:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"lines-{time.monotonic_ns()}"
    admin = AdminClient(kafka.confluent())
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=20)
    lines = Reference(
        target="datasets.text:TextLines",
        parameters={"paths": [], "partitions": partitions, "seed": 1},
    )
    rate = RateProfile.constant(PEAK_PER_S, DURATION_S)
    stream = Stream(topic=topic, partitions=partitions, rate=rate, records=lines)
    with LoadGenerator(LoadPlan(streams=[stream]), kafka, log=log) as load:
        load.start(time.time() + 1)
        assert load.wait(DURATION_S * 6), load.progress
        return load.result()


@pytest.mark.parametrize("partitions", [2, 8])
def test_the_peak(
    benchmark: BenchmarkFixture, kafka: KafkaEndpoint, tmp_path: Path, partitions: int
) -> None:
    arguments = (kafka, tmp_path / "log", partitions)
    result: LoadResult = benchmark.pedantic(send, arguments, rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info.update(
        ratio=round(result.records / result.cpu_s / PEAK_PER_S, 2),
        cores=round(result.cpu_s / DURATION_S, 2),
        nice=result.nice,
        late_share=result.lag["late_share"],
        p50_s=result.lag["p50_s"],
        p99_s=result.lag["p99_s"],
        max_s=result.lag["max_s"],
        invalid=result.invalid,
    )
    print(benchmark.extra_info)
    assert result.records == PEAK_PER_S * DURATION_S
