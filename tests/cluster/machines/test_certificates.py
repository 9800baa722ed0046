"""A run's certificate: trusted by its own authority alone, at its own addresses."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from harness.cluster.configuration import BrokerIdentity
from harness.cluster.endpoints import Tls
from harness.cluster.machines.certificates import run_certificate


def shaken(own: Tls, trusted: Tls, host: str, tmp_path: Path) -> bool:
    """Return True if a client that trusts an authority accepts a server with a certificate."""
    file = tmp_path / "own.pem"
    file.write_text(f"{own.certificate}\n{own.key}")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    client = ssl.create_default_context(cadata=trusted.ca)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done: set[int] = set()
    while len(done) < 2:
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


def test_it_is_good_for_its_run_and_its_addresses(tmp_path: Path) -> None:
    own, other = run_certificate(["10.0.0.1", "10.0.0.2"]), run_certificate(["10.0.0.1"])
    assert shaken(own, own, "10.0.0.2", tmp_path)
    assert not shaken(own, own, "10.0.0.3", tmp_path)
    assert not shaken(own, other, "10.0.0.1", tmp_path)
    assert own.key is not None
    assert own.key not in repr(own)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_broker_with_a_certificate_encrypts_what_clients_send(encrypted: bool) -> None:
    identity = BrokerIdentity(tls=run_certificate(["10.0.0.1"]) if encrypted else None)
    text = identity.properties(client="10.0.0.1:1", controllers=["10.0.0.1:2"], data="/d")
    protocol = "SASL_SSL" if encrypted else "SASL_PLAINTEXT"
    assert f"CLIENT:{protocol}\n" in text
    assert identity.endpoint("10.0.0.1:1").security_protocol == protocol
    assert ("ssl.keystore.key=-----BEGIN" in text) == encrypted
