"""The certificate authority of one run, and the one certificate that it signs.

The broker shows it to its clients, and nodes of the task engine to each other; who belongs to the
run is said by passwords besides. Its keys exist in memory and in files of mode 0600 only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harness.cluster.endpoints import Tls

_VALID = timedelta(days=30)
_SKEW = timedelta(hours=1)
"""A machine's clock may be behind."""


def run_certificate(addresses: Iterable[str]) -> Tls:
    """Return a new authority and a certificate for servers at these IP addresses."""
    now = datetime.now(UTC)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _name("faultline run authority")

    def builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + _VALID)
        )

    root = (
        builder(issuer, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [x509.IPAddress(ip_address(address)) for address in addresses]
    leaf = (
        builder(_name("faultline run"), own)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority, hashes.SHA256())
    )
    return Tls(
        ca=root.public_bytes(serialization.Encoding.PEM).decode(),
        certificate=leaf.public_bytes(serialization.Encoding.PEM).decode(),
        key=own.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
