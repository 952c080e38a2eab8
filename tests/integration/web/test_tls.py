"""TLS over real connections: certificates that change under load, and files that are broken."""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cryptography import x509
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from hami_plugins.errors import ConfigError
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.server import WebServer
from hami_plugins.web.tls import Rotation, Tls, TlsMetrics
from tests.integration.web.certificates import Pair, a_pair, written
from tests.waiting import PATIENCE, wait_for


def an_app() -> Starlette:
    return Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])


def mounted(folder: Path, pair: Pair, version: str) -> Tls:
    """The pair as Kubernetes mounts a Secret: a change is the swap of one link."""
    held = folder / f"..{version}"
    held.mkdir()
    written(held, pair)
    link = folder / "..data"
    fresh = folder / "..data_tmp"
    fresh.symlink_to(held.name)
    fresh.replace(link)
    files = Tls(certificate=folder / "tls.crt", key=folder / "tls.key")
    for path in files.files:
        if not path.is_symlink():
            path.symlink_to(f"..data/{path.name}")
    return files


def serial_of(port: int) -> int:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).serial_number


@contextmanager
def asked_all_the_time(port: int, trusted: str, *, keep: bool) -> Iterator[list[object]]:
    """Clients ask in the background; what they got is the value."""
    got: list[object] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with urllib3.PoolManager(ca_certs=trusted) as pool:
                for _ in range(20 if keep else 1):
                    try:
                        got.append(
                            pool.request("GET", f"https://localhost:{port}/", retries=False, timeout=PATIENCE).status
                        )
                    except urllib3.exceptions.HTTPError as error:
                        got.append(error)

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        yield got
    finally:
        over.set()
        for client in clients:
            client.join()


@pytest.mark.parametrize("keep", [True, False], ids=["connections are kept", "a connection each"])
def test_a_certificate_changes_under_load_and_no_request_fails(tmp_path: Path, keep: bool) -> None:
    pairs = [a_pair() for _ in range(4)]
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(b"".join(pair.certificate for pair in pairs))
    files = mounted(tmp_path, pairs[0], "0")
    metrics = Metrics("tests")
    with WebServer(an_app(), tls=files, tls_metrics=TlsMetrics(metrics), look_every=0.02) as server:
        port = server.address[1]
        with asked_all_the_time(port, str(trusted), keep=keep) as got:
            for version, pair in enumerate(pairs[1:], 1):
                already = len(got)
                wait_for(lambda wanted=already + 20: len(got) > wanted)  # type: ignore[misc]
                mounted(tmp_path, pair, str(version))
                wait_for(lambda wanted=pair.serial: serial_of(port) == wanted)  # type: ignore[misc]
        assert set(got) == {200}
    assert metrics.value("tls_certificate_changes_total", outcome="taken") == 3


def test_an_open_connection_outlives_a_change(tmp_path: Path) -> None:
    files = written(tmp_path, a_pair())
    with WebServer(an_app(), tls=files, look_every=0.02) as server:
        port = server.address[1]
        with a_line(port) as line:
            assert asked(line).startswith(b"HTTP/1.1 200")
            fresh = a_pair()
            written(tmp_path, fresh)
            wait_for(lambda: serial_of(port) == fresh.serial)
            assert asked(line).startswith(b"HTTP/1.1 200")


@contextmanager
def a_line(port: int, **versions: Any) -> Iterator[ssl.SSLSocket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in versions.items():
        setattr(context, name, value)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain, context.wrap_socket(plain) as line:
        yield line


def asked(line: ssl.SSLSocket) -> bytes:
    line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"here"):
        answer += line.recv(4096)
    return answer


def test_nothing_older_than_tls_1_2_is_spoken(tmp_path: Path) -> None:
    with WebServer(an_app(), tls=written(tmp_path, a_pair())) as server:
        port = server.address[1]
        with a_line(port, maximum_version=ssl.TLSVersion.TLSv1_2) as line:
            assert line.version() == "TLSv1.2"
        with pytest.warns(DeprecationWarning, match="TLSv1_1"), pytest.raises((ssl.SSLError, ConnectionError)):
            a_line(port, maximum_version=ssl.TLSVersion.TLSv1_1).__enter__()


def in_one_file(folder: Path, pair: Pair) -> Tls:
    """Both in one file, which changes at once."""
    draft, path = folder / "draft", folder / "tls.pem"
    draft.write_bytes(pair.key + pair.certificate)
    draft.replace(path)
    return Tls(certificate=path, key=path)


def test_a_broken_file_is_told_once_and_the_last_good_one_goes_on(tmp_path: Path) -> None:
    first, second = a_pair(), a_pair()
    files = in_one_file(tmp_path, first)
    metrics = Metrics("tests")
    with (
        capture_logs() as logs,
        WebServer(an_app(), tls=files, tls_metrics=TlsMetrics(metrics), look_every=0.02) as server,
    ):
        port = server.address[1]
        in_one_file(tmp_path, Pair(b"nothing", b"", 0))
        wait_for(lambda: metrics.value("tls_certificate_changes_total", outcome="broken") == 1)
        assert serial_of(port) == first.serial
        in_one_file(tmp_path, second)
        wait_for(lambda: serial_of(port) == second.serial)
    assert [line["event"] for line in logs] == ["certificate_not_usable", "certificate_changed"]


@pytest.mark.parametrize("keep", ["certificate", "key"])
def test_a_pair_that_does_not_fit_changes_nothing(tmp_path: Path, keep: str) -> None:
    files = written(tmp_path, a_pair())
    rotation = Rotation(files)
    before = getattr(files, keep).read_bytes()
    written(tmp_path, a_pair())
    kept = getattr(files, keep)
    kept.write_bytes(before)
    assert not rotation.look()
    assert not rotation.look()


def test_files_that_vanish_and_come_back_are_followed(tmp_path: Path) -> None:
    files = written(tmp_path, a_pair())
    metrics = Metrics("tests")
    rotation = Rotation(files, metrics=TlsMetrics(metrics))
    assert not rotation.look()
    os.unlink(files.key)  # noqa: PTH108
    assert [rotation.look(), rotation.look()] == [False, False]
    assert metrics.value("tls_certificate_changes_total", outcome="broken") == 1
    written(tmp_path, a_pair())
    assert rotation.look()


def test_the_end_of_the_certificate_that_is_served_is_a_metric(tmp_path: Path) -> None:
    pair = a_pair()
    metrics = Metrics("tests")
    Rotation(written(tmp_path, pair), metrics=TlsMetrics(metrics))
    end = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()
    assert metrics.value("tls_certificate_expiry_timestamp_seconds") == end


def test_a_certificate_that_is_not_valid_yet_is_told(tmp_path: Path) -> None:
    with capture_logs() as logs:
        Rotation(written(tmp_path, a_pair(begins=dt.timedelta(minutes=30))), metrics=TlsMetrics(Metrics("tests")))
        Rotation(written(tmp_path, a_pair()), metrics=TlsMetrics(Metrics("others")))
    assert [line["event"] for line in logs] == ["certificate_not_valid_yet"]


def test_with_a_client_authority_only_its_clients_are_served_and_it_may_change(tmp_path: Path) -> None:
    server_pair, known, newer = a_pair(), a_pair("client"), a_pair("client")
    files = written(tmp_path, server_pair)
    authority = tmp_path / "clients.crt"
    authority.write_bytes(known.certificate)
    clients = []
    for name, pair in (("known", known), ("newer", newer)):
        (tmp_path / name).mkdir()
        clients.append(written(tmp_path / name, pair))
    tls = Tls(certificate=files.certificate, key=files.key, client_ca=authority)

    def served(port: int, client: Tls | None) -> bool:
        shown = {"cert_file": str(client.certificate), "key_file": str(client.key)} if client else {}
        with urllib3.PoolManager(ca_certs=str(files.certificate), **shown) as pool:  # type: ignore[arg-type]
            try:
                return pool.request("GET", f"https://localhost:{port}/", retries=False, timeout=PATIENCE).status == 200
            except urllib3.exceptions.HTTPError:
                return False

    with WebServer(an_app(), tls=tls, look_every=0.02) as server:
        port = server.address[1]
        assert [served(port, client) for client in (*clients, None)] == [True, False, False]
        authority.write_bytes(newer.certificate)
        wait_for(lambda: served(port, clients[1]))
        assert not served(port, clients[0])


def test_files_that_cannot_be_used_at_the_start_are_an_error_that_names_them(tmp_path: Path) -> None:
    tls = Tls(certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key", client_ca=tmp_path / "ca.crt")
    with pytest.raises(ConfigError, match=r"TLS with .*tls\.crt and .*tls\.key and .*ca\.crt: .*No such file"):
        Rotation(tls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(Tls):
    """Files with an unforeseen defect."""

    odd: threading.Event

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, or none for a moment."""
        if self.odd.is_set():
            raise LookupError("odd")
        return (self.certificate, self.key)


def test_whatever_goes_wrong_with_a_change_the_next_one_is_taken(tmp_path: Path) -> None:
    files, odd = written(tmp_path, a_pair()), threading.Event()
    with (
        capture_logs() as logs,
        WebServer(an_app(), tls=Odd(certificate=files.certificate, key=files.key, odd=odd), look_every=0.02) as server,
    ):
        odd.set()
        wait_for(lambda: any(line["event"] == "certificate_not_looked_at" for line in logs))
        odd.clear()
        fresh = a_pair()
        written(tmp_path, fresh)
        wait_for(lambda: serial_of(server.address[1]) == fresh.serial)
