"""Both engines on a Kafka that encrypts, and that demands a certificate of every client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.stock import worker_kill
from harness.cluster import configuration as kafka
from harness.cluster.backends import remove_made
from harness.cluster.configuration import BrokerIdentity
from harness.cluster.endpoints import Tls
from harness.cluster.external import servers
from harness.cluster.external.servers import check_kafka
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.machines.certificates import run_certificate
from harness.engines.tasks.engine import TaskEngine
from harness.errors import EnvironmentFailure
from tests.engines.tasks.live import SPEC, kill, own_state, passed, started
from tests.experiments.stock.test_real_kill import POINT, OneRun

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

REQUIRED = "listener.name.client.ssl.client.auth=required\n"
"""Without the listener's name, a listener with SASL requires no certificates of clients."""


@pytest.fixture(scope="module", autouse=True)
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """Make every broker here require TLS and a certificate, and every endpoint use them."""
    secure = run_certificate(["127.0.0.1"])

    def encrypted(cluster: LocalCluster) -> BrokerIdentity:
        return BrokerIdentity(tls=secure)

    with own_state(tmp_path_factory), pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka, "_PROPERTIES", kafka._PROPERTIES + REQUIRED)
        patch.setattr(LocalCluster, "_broker_identity", encrypted)
        yield secure


@pytest.fixture(scope="module")
def engine(tls: Tls) -> Iterator[TaskEngine]:
    with started(LocalCluster(SPEC, remove=remove_made)) as engine:
        yield engine


def test_a_client_without_a_certificate_is_refused(
    engine: TaskEngine, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = replace(engine.fleet.cluster.kafka, topic_prefix="x-")
    check_kafka(endpoint)
    monkeypatch.setattr(servers, "_WITHIN_S", 3.0)  # a client that is refused goes on asking
    for other in (None, Tls(ca=tls.ca), replace(tls, ca=None)):
        with pytest.raises(EnvironmentFailure, match="cannot be reached or refuses"):
            check_kafka(replace(endpoint, tls=other))


def test_the_task_engine_survives_a_kill(engine: TaskEngine, tmp_path: Path) -> None:
    done = passed(engine, tmp_path, "checkpoint", kill(2.5, "r1"))
    assert done.kills >= 1
    assert done.results > 400
    assert done.failures == 0, done


def test_the_stock_engine_survives_a_kill(tmp_path: Path) -> None:
    context = OneRun(tmp_path)
    with context.stack:
        values = worker_kill.EXPERIMENT.measurement.run(POINT, context).values
    assert values["kills_done"] == 1, values
    assert values["output_equals_truth"], values["difference_from_truth"]
    assert values["output_equals_twin"], values["difference_from_twin"]
