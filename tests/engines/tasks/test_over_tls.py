"""Both engines on a Kafka that encrypts, and that demands a certificate of every client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from experiments.stock import worker_kill
from harness.cluster import configuration as kafka
from harness.cluster.backends import remove_made
from harness.cluster.endpoints import KafkaEndpoint, Tls
from harness.cluster.external import servers
from harness.cluster.external.servers import check_kafka
from harness.cluster.local.cluster import LocalCluster
from harness.engines.tasks.engine import TaskEngine
from harness.errors import EnvironmentFailure
from tests.engines.tasks.kit import NEW_KEY, certificates, openssl
from tests.engines.tasks.live import SPEC, kill, passed, started
from tests.experiments.stock.test_real_kill import POINT, OneRun

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

ENCRYPTED = """\
ssl.keystore.type=PEM
ssl.keystore.location={server}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.client.ssl.client.auth=required
"""
"""Without the listener's name, a listener with SASL requires no certificates of clients."""


def certified(directory: Path, name: str) -> tuple[str, str]:
    """Make a certificate for this machine from the authority in ``directory``, and its key."""
    key, request, certificate = (directory / f"{name}.{end}" for end in ("key", "csr", "pem"))
    names = directory / "names"
    names.write_text("subjectAltName=IP:127.0.0.1")
    openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    openssl(
        "x509", "-req", "-in", request, "-out", certificate, "-days", "2", "-extfile", names,
        "-CA", directory / "authority.pem", "-CAkey", directory / "authority.key",
        "-CAcreateserial",
    )  # fmt: skip
    return certificate.read_text(), key.read_text()


@pytest.fixture(scope="module", autouse=True)
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """Make every broker here require TLS, and every endpoint use it."""
    place = tmp_path_factory.mktemp("certificates")
    authority = certificates(place, "authority").ca
    (place / "server").write_text("".join(reversed(certified(place, "server"))))
    certificate, key = certified(place, "client")
    secure = Tls(ca=authority, certificate=certificate, key=key)
    properties = kafka._PROPERTIES.replace("CLIENT:SASL_PLAINTEXT", "CLIENT:SASL_SSL")
    properties += ENCRYPTED.format(server=place / "server", authority=place / "authority.pem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setattr(kafka, "_PROPERTIES", properties)
        patch.setattr(kafka, "KafkaEndpoint", partial(KafkaEndpoint, tls=secure))
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
