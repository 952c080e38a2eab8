"""A certificate authority of our own and the server certificate it signs: made, renewed in time, written to a folder.

A new authority is trusted before it signs anything, and the older ones stay trusted; so a client that reads the bundle
late, or keeps it for long, still knows the server.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hami_plugins.errors import ConfigError
from hami_plugins.web.tls import Tls

_EARLIER: Final = timedelta(minutes=5)
"""Valid since so long before it was made: clocks differ."""

_BACKDATED: Final = timedelta(days=365)
"""The same of an authority, which a machine may make whose clock is far ahead; it has to hold on all others at once."""

_KEPT: Final = 3
"""Authorities in a bundle. An old one goes for a third new one, and not for its age, which a wrong clock may see."""

_LONGEST_NAME: Final = 64
_DATA: Final = {"trusted": "ca.crt", "authority_key": "ca.key", "chain": "tls.crt", "key": "tls.key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long an authority and a server certificate are valid; each is replaced when a third of that is left.

    A new authority signs nothing before it has been trusted for ``settle``, unless it is the only one.
    """

    authority: timedelta = timedelta(days=3650)
    server: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if not timedelta() < self.server <= self.authority / 3:
            raise ConfigError(
                f"a server certificate of {self.server} under an authority of {self.authority}: "
                "it has to be valid at all, and at most a third as long as the authority"
            )
        if not timedelta() <= self.settle < self.server / 3:
            raise ConfigError(f"settle={self.settle}: has to be less than a third of a server certificate's lifetime")


USUAL: Final = Lifetimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All of it, PEM: the authorities to trust, newest first, and the newest's key; the server's chain and its key."""

    trusted: bytes
    authority_key: bytes
    chain: bytes
    key: bytes

    @classmethod
    def of_secret(cls, data: Mapping[str, str]) -> Self:
        """From the ``data`` of a Secret. Raises ``ValueError`` where it is not all there, or no base64."""
        try:
            return cls(**{name: base64.b64decode(data[member], validate=True) for name, member in _DATA.items()})
        except (KeyError, TypeError, binascii.Error) as error:
            raise ValueError(f"not all of {', '.join(_DATA.values())}: {error!r}") from error

    def secret_data(self) -> dict[str, str]:
        """The ``data`` of a Secret of type ``kubernetes.io/tls``."""
        return {member: base64.b64encode(getattr(self, name)).decode() for name, member in _DATA.items()}


_NOTHING: Final = Material(trusted=b"", authority_key=b"", chain=b"", key=b"")


def renewed(held: Material | None, names: Sequence[str], now: datetime, lifetimes: Lifetimes = USUAL) -> Material:
    """The material to use from ``now`` on for a server of these DNS names and addresses; ``held`` itself if it is good.

    The authorities stay as they are, because the clients' trust is written elsewhere (``rotated``). Raises
    ``ValueError`` if ``held`` cannot be read, ``ConfigError`` if its authority has expired.
    """
    wanted = _wanted(names)
    if held is None:
        return _signed(_with_authority(_NOTHING, now, lifetimes), wanted, now, lifetimes)
    newest = x509.load_pem_x509_certificates(held.trusted)[0]
    if _public(_key(held.authority_key)) != _public(newest):
        raise ValueError("ca.key is not the key of the first certificate of ca.crt")
    if newest.not_valid_after_utc <= now:
        ended = f"{newest.not_valid_after_utc:%Y-%m-%d}"
        raise ConfigError(
            f"the authority in ca.crt ended on {ended}; replace it with the command trust, or helm upgrade"
        )
    return _signed(held, wanted, now, lifetimes) if _due(held, wanted, now, lifetimes) else held


def rotated(held: Material | None, names: Sequence[str], now: datetime, lifetimes: Lifetimes = USUAL) -> Material:
    """The same, with a new authority before the others once a third of the newest one's lifetime is left.

    It has to be trusted before servers have it. Raises ``ValueError`` where ``held`` cannot be read.
    """
    if held is not None:
        newest = x509.load_pem_x509_certificates(held.trusted)[0]
        if newest.not_valid_after_utc - now < lifetimes.authority / 3 or newest.not_valid_before_utc > now:
            held = _with_authority(held, now, lifetimes)
    return renewed(held, names, now, lifetimes)


def write(material: Material, folder: Path) -> Tls:
    """Put what a server needs into ``folder``, each file at once; ``ca.crt`` is for those who check on it.

    Chain and key are one file, so no reader gets halves of two pairs.
    """
    pair, trusted = folder / "tls.pem", folder / "ca.crt"
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in ((trusted, material.trusted), (pair, material.key + material.chain)):
        if not path.exists() or path.read_bytes() != content:
            _replace(path, content)
    return Tls(certificate=pair, key=pair)


def _due(held: Material, wanted: x509.SubjectAlternativeName, now: datetime, lifetimes: Lifetimes) -> bool:
    """Whether the server needs a new certificate now."""
    newest, *older = x509.load_pem_x509_certificates(held.trusted)
    try:
        leaf = x509.load_pem_x509_certificate(held.chain)
        fits = _public(_key(held.key)) == _public(leaf)
    except ValueError:
        return True
    trusted = _issued(leaf, newest) or any(_issued(leaf, each) for each in older)
    valid = leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
    if not fits or not trusted or not valid or _names_of(leaf) != set(wanted):
        return True
    left = leaf.not_valid_after_utc - now
    if _issued(leaf, newest):
        return left < lifetimes.server / 3
    made = newest.not_valid_after_utc - lifetimes.authority
    return now - made >= lifetimes.settle or left < lifetimes.server / 6


def _with_authority(held: Material, now: datetime, lifetimes: Lifetimes) -> Material:
    """The same with a new authority before the others."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Of its own: an authority is looked for by its name.
    name = _name(f"hami-plugins authority {serial:x}")
    made = (
        _builder(name, name, key.public_key(), serial, (now - _BACKDATED, now + lifetimes.authority))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    older = x509.load_pem_x509_certificates(held.trusted) if held.trusted else []
    return replace(held, trusted=_pem([made, *older[: _KEPT - 1]]), authority_key=_key_pem(key))


def _signed(held: Material, wanted: x509.SubjectAlternativeName, now: datetime, lifetimes: Lifetimes) -> Material:
    """The same with a new certificate of the server, by the newest authority."""
    authority = x509.load_pem_x509_certificates(held.trusted)[0]
    key = ec.generate_private_key(ec.SECP256R1())
    span = now - _EARLIER, min(now + lifetimes.server, authority.not_valid_after_utc)
    chain = (
        _builder(_name(str(wanted[0].value)), authority.subject, key.public_key(), x509.random_serial_number(), span)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(wanted, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
        .sign(_key(held.authority_key), hashes.SHA256())
    )
    return replace(held, chain=_pem([chain]), key=_key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, serial: int, span: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_LONGEST_NAME])])


def _wanted(names: Sequence[str]) -> x509.SubjectAlternativeName:
    if not names:
        raise ConfigError("a certificate is made for names, and there are none")
    return x509.SubjectAlternativeName([_general(name) for name in dict.fromkeys(names)])


def _general(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigError(f"no certificate can be made for the name {name!r}: {error}") from error


def _names_of(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the key cannot be used: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"the key is of another kind: {type(key).__name__}")  # noqa: TRY004 - what is read is text
    return key


def _public(holder: ec.EllipticCurvePrivateKey | x509.Certificate) -> bytes:
    return holder.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _replace(path: Path, content: bytes) -> None:
    """A new file in the place of the old one, readable by its owner alone."""
    number, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
