"""Maven Central through the Ivy that PySpark carries: a resolver without an installation.

Ivy contains the address of Maven Central, so this repository has none. A JVM does not take proxies
and certificates from the environment by itself, so they are passed here."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from harness.cache import cache_directory, sha256
from harness.environment.java import Java
from harness.errors import EnvironmentFailure

STALL_DEADLINE_S = 300.0
"""Limit of a time without any arrival, after which Ivy is stopped."""
_POLL_S = 0.2
_CONNECT_MS, _READ_MS = 30_000, 120_000
_PATTERN = "[organisation].[artifact]-[revision].[ext]"
"""The name of a file, as `harness.environment.jars.Jar.name`."""

# The bundles of Debian, Fedora and openSUSE.
_SYSTEM_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)


def pyspark_jars() -> Path:
    """Return the directory of jars inside the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFailure(
            "PySpark is not installed in this environment", remedy="start through ./faultline"
        )
    return Path(spec.origin).parent / "jars"


def settings(*, cache: Path, poms: bool) -> str:
    """Return Ivy's settings: Maven Central alone, files kept in ``cache`` by group and version.

    Without ``poms`` only the named files are fetched. Ivy's own checksums are off for them:
    they would double the requests, and the caller checks a stronger one."""
    checksums = "sha1,md5" if poms else ""
    return f"""<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="{_CONNECT_MS}" readTimeout="{_READ_MS}"/>
  </timeout-constraints>
  <caches defaultCacheDir={quoteattr(str(cache))} artifactPattern="{_PATTERN}"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="{str(poms).lower()}"
             checksums="{checksums}" timeoutConstraint="patient"/>
  </resolvers>
</ivysettings>
"""


def run_ivy(
    java: Java, scratch: Path, arguments: Sequence[str], *, watch: Callable[[], int]
) -> tuple[int, str]:
    """Run Ivy until it ends; return its exit code and its output.

    ``watch`` is called several times a second and returns the amount that has arrived; when it has
    not changed for `STALL_DEADLINE_S`, Ivy is stopped. No process is left, whatever happens."""
    log = scratch / "ivy.log"
    with log.open("wb") as output:
        ivy = subprocess.Popen(
            [*_command(java, scratch), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(ivy, watch)
    finally:
        ivy.kill()
        code = ivy.wait()
    return code, log.read_text(errors="replace")


def _wait(ivy: subprocess.Popen[bytes], watch: Callable[[], int]) -> None:
    seen, deadline = watch(), time.monotonic() + STALL_DEADLINE_S
    while time.monotonic() < deadline:
        try:
            ivy.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            now = watch()
            if now != seen:
                seen, deadline = now, time.monotonic() + STALL_DEADLINE_S
        else:
            return


def _command(java: Java, scratch: Path) -> list[str]:
    jars = pyspark_jars()
    ivy = sorted(jars.glob("ivy-*.jar")) + sorted(jars.glob("commons-cli-*.jar"))
    if len(ivy) < 2:
        raise EnvironmentFailure(
            f"{jars} has no Ivy in it", remedy="remove .venv and start ./faultline again"
        )
    return [
        str(java.executable),
        "-Xmx256m",
        f"-Divy.default.ivy.user.dir={scratch}",
        *network_options(java, os.environ),
        "-cp",
        ":".join(str(jar) for jar in ivy),
        "org.apache.ivy.Main",
    ]


def network_options(java: Java, environment: Mapping[str, str]) -> list[str]:
    """Return a JVM's options for the environment's proxies and certificates."""
    options = _proxy_options(environment)
    bundle = _certificates(java, environment)
    if bundle is not None:
        store = cache_directory() / f"certificates-{sha256(bundle)[:12]}.jks"
        if not store.is_file():
            part = store.with_suffix(f".{os.getpid()}")
            part.write_bytes(trust_store(bundle.read_text(errors="replace")))
            part.rename(store)
        options += [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]
        options.append(f"-Djavax.net.ssl.trustStorePassword={_STORE_PASSWORD}")
    return options


def _proxy_options(environment: Mapping[str, str]) -> list[str]:
    options = []
    for scheme in ("http", "https"):
        names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
        address = next((environment[name] for name in names if environment.get(name)), None)
        if address is None:
            continue
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.hostname:
            options.append(f"-D{scheme}.proxyHost={parts.hostname}")
            options.append(f"-D{scheme}.proxyPort={parts.port or 80}")
    direct = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and direct:
        hosts = [host.strip() for host in direct.split(",") if host.strip()]
        # A leading dot means a domain here; the JVM writes that with a star.
        patterns = [f"*{host}" if host.startswith(".") else host for host in hosts]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(['localhost', '127.*', *patterns])}")
    return options


def _certificates(java: Java, environment: Mapping[str, str]) -> Path | None:
    """Return the certificates to trust in place of the JVM's own, if any.

    SSL_CERT_FILE comes first. A JRE from a wheel lacks this machine's bundle, which may hold the
    certificate of a company's proxy; the system's Java has it already."""
    given = environment.get("SSL_CERT_FILE")
    if given and Path(given).is_file():
        return Path(given)
    if java.source != "wheel":
        return None
    return next((Path(name) for name in _SYSTEM_CERTIFICATES if Path(name).is_file()), None)


_STORE_PASSWORD = "changeit"  # Java's customary one: it guards against damage, not people
_JKS_MAGIC, _JKS_VERSION, _JKS_CERTIFICATE = 0xFEEDFEED, 2, 2


def trust_store(pem: str) -> bytes:
    """Return the certificates of a PEM bundle as a Java key store (type JKS).

    ``keytool`` would start a JVM for each of some 150 certificates. Entries that are not valid
    base64 are left out, as Java would refuse the whole store for them."""
    body = b""
    certificates = list(_der_certificates(pem))
    for number, der in enumerate(certificates):
        body += struct.pack(">I", _JKS_CERTIFICATE) + _utf(f"certificate-{number}")
        body += struct.pack(">Q", 0) + _utf("X.509") + struct.pack(">I", len(der)) + der
    store = struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(certificates)) + body
    # JKS seals a store with SHA-1 over the password, these two words and the content.
    seal = _STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store
    return store + hashlib.sha1(seal, usedforsecurity=False).digest()


def _der_certificates(pem: str) -> list[bytes]:
    found = []
    for block in pem.split("-----BEGIN CERTIFICATE-----")[1:]:
        try:
            encoded = "".join(block.split("-----END CERTIFICATE-----")[0].split())
            found.append(base64.b64decode(encoded, validate=True))
        except ValueError:
            continue
    return found


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
