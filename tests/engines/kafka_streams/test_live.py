"""Kafka Streams under the contract of engines: its jars are fetched, so only with ``-m long``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster.base import ClusterSpec
from harness.engines.base import Setup
from harness.engines.kafka_streams.parameters import TUNED
from harness.engines.kinds import find_engine
from tests.engines.tasks.live import WORDS
from tests.engines.test_contract import OnLocalCluster


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
class TestKafkaStreams(OnLocalCluster):
    kind, workload = find_engine("kafka-streams"), WORDS
    setup = Setup(scheme="changelog", parameters=replace(TUNED, in_memory=True))
    spec = ClusterSpec(racks=2, workers_per_rack=1, memory_mb_per_worker=512)
    load_s, kill_s, away_s = 8.0, 3.0, 1.0
