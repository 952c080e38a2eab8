"""Authorities and server certificates over the years."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from hami_plugins.errors import ConfigError
from hami_plugins.web.certificates import Lifetimes, Material, renewed, rotated, write

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("allocations.system.svc", "127.0.0.1")
DAY = timedelta(days=1)
LIFETIMES = Lifetimes(authority=300 * DAY, server=90 * DAY, settle=timedelta(hours=1))


def after(held: Material | None, days: float, names: tuple[str, ...] = NAMES) -> Material:
    return renewed(held, names, NOW + days * DAY, LIFETIMES)


def trusted_after(held: Material | None, days: float) -> Material:
    """What is in the Secret once the configurations trust it."""
    return rotated(held, NAMES, NOW + days * DAY, LIFETIMES)


def leaf(material: Material) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.chain)


def authorities(material: Material) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(material.trusted)


@pytest.fixture(scope="module")
def fresh() -> Material:
    return after(None, 0)


def test_the_first_certificate_is_for_its_names_and_by_its_authority(fresh: Material) -> None:
    names = leaf(fresh).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["allocations.system.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    leaf(fresh).verify_directly_issued_by(*authorities(fresh))
    assert leaf(fresh).not_valid_after_utc == NOW + 90 * DAY
    assert leaf(fresh).not_valid_before_utc < NOW
    basic = authorities(fresh)[0].extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (basic.ca, basic.path_length) == (True, 0)


def test_nothing_changes_while_more_than_a_third_is_left(fresh: Material) -> None:
    assert after(fresh, 59) is fresh


def test_a_server_certificate_is_renewed_when_a_third_is_left_by_the_same_authority(fresh: Material) -> None:
    later = after(fresh, 61)
    assert (later.trusted, later.authority_key) == (fresh.trusted, fresh.authority_key)
    assert leaf(later).not_valid_after_utc == NOW + 151 * DAY
    assert later.key != fresh.key


def test_a_server_keeps_the_authorities_however_old_they_are(fresh: Material) -> None:
    """Another process writes the trust bundle, so a new one would not be trusted by any client."""
    for days in (201, 290):
        assert (after(fresh, days).trusted, after(fresh, days).authority_key) == (fresh.trusted, fresh.authority_key)


def test_an_authority_that_ended_is_named_and_kept_by_a_server(fresh: Material) -> None:
    with pytest.raises(ConfigError, match=r"the authority in ca\.crt ended on 2026-10-28; replace it with"):
        after(fresh, 301)


def test_a_new_authority_is_there_before_a_server_signs_with_it(fresh: Material) -> None:
    last = after(fresh, 190)
    assert trusted_after(last, 190) is last
    both = trusted_after(last, 201)
    newest, oldest = authorities(both)
    assert (both.chain, both.key) == (last.chain, last.key)
    assert oldest == authorities(fresh)[0]
    assert after(both, 201.03) is both
    signed = after(both, 201.05)
    leaf(signed).verify_directly_issued_by(newest)
    assert signed.trusted == both.trusted
    assert authorities(trusted_after(signed, 301)) == [newest, oldest]


def test_a_certificate_about_to_end_is_renewed_by_a_new_authority_at_once(fresh: Material) -> None:
    """That of a clock far ahead would not count as settled for all that time."""
    last = after(fresh, 190)
    ahead = trusted_after(last, 320)
    held = replace(last, trusted=ahead.trusted, authority_key=ahead.authority_key)
    assert after(held, 260) is held
    leaf(after(held, 266)).verify_directly_issued_by(authorities(ahead)[0])


def test_an_authority_made_by_a_clock_that_is_months_ahead_holds_at_once() -> None:
    made = trusted_after(None, 100)
    assert authorities(made)[0].not_valid_before_utc < NOW


def test_an_authority_that_does_not_hold_yet_is_replaced() -> None:
    """That of a clock that was years ahead."""
    ahead = trusted_after(None, 800)
    assert authorities(ahead)[0].not_valid_before_utc > NOW
    newest, other = authorities(trusted_after(ahead, 0))
    assert newest.not_valid_before_utc < NOW
    assert other == authorities(ahead)[0]


def test_no_authority_goes_for_its_age_and_three_are_kept(fresh: Material) -> None:
    held, seen = fresh, []
    for days in (400, 800, 1200):
        held = trusted_after(held, days)
        seen.append(len(authorities(held)))
    assert seen == [2, 3, 3]
    assert authorities(fresh)[0] not in authorities(held)


def test_a_certificate_that_nobody_would_take_is_replaced_at_once(fresh: Material) -> None:
    elsewhere = after(None, 0)
    for held in (
        replace(fresh, chain=b"nothing"),
        replace(fresh, key=elsewhere.key),
        replace(fresh, chain=elsewhere.chain, key=elsewhere.key),
    ):
        made = after(held, 0.01)
        leaf(made).verify_directly_issued_by(authorities(fresh)[0])
        assert made.trusted == fresh.trusted


def test_a_certificate_that_is_not_valid_yet_is_replaced_at_once_by_the_same_authority(fresh: Material) -> None:
    """A clock that was 100 days ahead made it."""
    ahead = after(fresh, 100)
    assert leaf(ahead).not_valid_before_utc > NOW + DAY
    healed = after(ahead, 1)
    assert leaf(healed).not_valid_before_utc < NOW + DAY < leaf(healed).not_valid_after_utc
    leaf(healed).verify_directly_issued_by(authorities(fresh)[0])
    assert (healed.trusted, healed.authority_key) == (fresh.trusted, fresh.authority_key)


def test_clocks_that_differ_by_less_than_five_minutes_replace_nothing(fresh: Material) -> None:
    minute = 1 / 1440
    made = after(fresh, 80)
    assert after(made, 80 - 4 * minute) is made
    assert after(made, 80 - 6 * minute) is not made


def test_other_names_need_another_certificate(fresh: Material) -> None:
    assert after(fresh, 1, ("127.0.0.1", "allocations.system.svc")) is fresh
    assert after(fresh, 1, ("other",)).chain != fresh.chain


def test_after_a_long_sleep_everything_is_new(fresh: Material) -> None:
    woken = trusted_after(fresh, 400)
    newest, oldest = authorities(woken)
    assert oldest == authorities(fresh)[0]
    leaf(woken).verify_directly_issued_by(newest)


def test_a_certificate_does_not_outlive_its_authority() -> None:
    lifetimes = Lifetimes(authority=9 * DAY, server=3 * DAY, settle=timedelta())
    held = renewed(None, NAMES, NOW, lifetimes)
    for step in range(200):
        now = NOW + step * DAY / 8
        held = rotated(held, NAMES, now, lifetimes)
        assert now + DAY / 2 < leaf(held).not_valid_after_utc <= authorities(held)[0].not_valid_after_utc
        assert len(authorities(held)) <= 3


@pytest.mark.parametrize("trusted", [b"", b"nothing"])
def test_what_is_no_authority_cannot_be_renewed(fresh: Material, trusted: bytes) -> None:
    with pytest.raises(ValueError, match="PEM"):
        after(replace(fresh, trusted=trusted), 1)


def test_a_key_of_another_authority_cannot_sign(fresh: Material) -> None:
    with pytest.raises(ValueError, match=r"ca\.key is not the key"):
        after(replace(fresh, authority_key=after(None, 0).authority_key), 1)


def test_material_survives_a_secret(fresh: Material) -> None:
    assert Material.of_secret(fresh.secret_data()) == fresh
    assert sorted(fresh.secret_data()) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]


NO_BASE64 = dict.fromkeys(("ca.crt", "ca.key", "tls.crt", "tls.key"), "?")


@pytest.mark.parametrize("data", [{}, {"ca.crt": "AA=="}, NO_BASE64])
def test_a_secret_that_lacks_something_is_none(data: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"not all of ca\.crt, ca\.key, tls\.crt, tls\.key"):
        Material.of_secret(data)


@pytest.mark.parametrize("names", [(), ("grün",)])
def test_a_certificate_needs_names_that_can_be_written(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="certificate"):
        after(None, 0, names)


@pytest.mark.parametrize(
    "wrong", [{"server": 301 * DAY}, {"server": timedelta()}, {"settle": 31 * DAY}, {"settle": -DAY}]
)
def test_lifetimes_that_cannot_work_are_refused(wrong: dict[str, timedelta]) -> None:
    with pytest.raises(ConfigError, match="third"):
        replace(LIFETIMES, **wrong)


def test_what_is_written_can_be_served_and_only_its_owner_reads_the_key(fresh: Material, tmp_path: Path) -> None:
    files = write(fresh, tmp_path / "certificates")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
    assert files.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "certificates" / "ca.crt").read_bytes() == fresh.trusted
    before = files.key.stat()
    write(fresh, tmp_path / "certificates")
    assert files.key.stat() == before
    assert sorted(path.name for path in (tmp_path / "certificates").iterdir()) == ["ca.crt", "tls.pem"]
