"""Keys and certificates of one cluster."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

_LIFE: Final = dt.timedelta(days=2)
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Pki:
    """Files in one folder: an authority, a server certificate for 127.0.0.1, and the key of service account tokens."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def account_key(self) -> Path:
        """Signs tokens."""
        return self.folder / "accounts.key"

    @property
    def account_public_key(self) -> Path:
        """Verifies them."""
        return self.folder / "accounts.pub"


def make(folder: Path, *, names: Sequence[str], now: dt.datetime) -> Pki:
    """New keys in a new folder; the server certificate is good for 127.0.0.1, localhost and ``names``."""
    folder.mkdir(parents=True)
    pki = Pki(folder)
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("cluster")
    root = _certificate(issuer, issuer, authority, authority, now).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    alternatives = [x509.DNSName(name) for name in ("localhost", *names)]
    leaf = _certificate(_name("server"), issuer, server, authority, now).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *alternatives]), critical=False
    )
    pki.ca.write_bytes(root.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    pki.server_certificate.write_bytes(leaf.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    pki.server_key.write_bytes(_private(server))
    accounts = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pki.account_key.write_bytes(_private(accounts))
    pki.account_public_key.write_bytes(
        accounts.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pki


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _private(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
