"""Proxies and certificates in the options of a JVM."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from harness.cache import cache_directory
from harness.environment.ivy import network_options, trust_store
from harness.environment.java import Java, find_java

SYSTEM = Java(home=Path("/j"), executable=Path("/j/bin/java"), version=17, source="PATH")


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        (
            {"HTTPS_PROXY": "http://proxy.example:3128"},
            ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"],
        ),
        (
            {"http_proxy": "proxy.example:8080", "NO_PROXY": ".corp, 10.0.0.1"},
            [
                "-Dhttp.proxyHost=proxy.example",
                "-Dhttp.proxyPort=8080",
                "-Dhttp.nonProxyHosts=localhost|127.*|*.corp|10.0.0.1",
            ],
        ),
    ],
)
def test_proxies(environment: dict[str, str], options: list[str]) -> None:
    assert network_options(SYSTEM, environment) == options


def test_certificates_of_the_user_make_a_store(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(ssl.DER_cert_to_PEM_cert(b"not looked into here"))
    options = network_options(SYSTEM, {"SSL_CERT_FILE": str(bundle)})
    store = next(cache_directory().glob("*.jks"))
    assert f"-Djavax.net.ssl.trustStore={store}" in options
    assert b"not looked into here" in store.read_bytes()


@pytest.mark.spark
def test_java_reads_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """keytool, which checks the seal, lists the certificates that Python's ssl finds."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    paths = [Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt")]
    bundle = next((path for path in paths if path.is_file()), None)
    if bundle is None:
        pytest.skip("this system keeps its certificates elsewhere")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    store = tmp_path / "store.jks"
    store.write_bytes(trust_store(bundle.read_text()))
    keytool = find_java().home / "bin" / "keytool"
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C"},
    ).stdout
    assert listed.count("trustedCertEntry") == len(context.get_ca_certs())
