"""Certificates for servers and clients of tests."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hami_plugins.web.tls import Tls


class Pair(NamedTuple):
    """A certificate that is its own authority, its key, both PEM, and its serial number."""

    certificate: bytes
    key: bytes
    serial: int


def a_pair(name: str = "localhost", *, begins: dt.timedelta = dt.timedelta(minutes=-1)) -> Pair:
    """Made anew, for a host of this name and for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    serial = x509.random_serial_number()
    # Issuers are found by their names.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {serial}"[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now + begins)
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private, serial)


def written(folder: Path, pair: Pair) -> Tls:
    """The pair as files in ``folder``."""
    files = Tls(certificate=folder / "tls.crt", key=folder / "tls.key")
    files.certificate.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)
    return files


def a_certificate(folder: Path) -> Tls:
    """A certificate for localhost that is its own authority, and its key, written to ``folder``."""
    return written(folder, a_pair())
