"""What the adapter's server costs: pods that wait for its webhook, nodes that wait for their Device objects, writes."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.measuring import Figure, figure
from tests.bench.processes import Worker
from tests.bench.translation import pods
from tests.integration.web.certificates import a_certificate

NODES = 1_000
RATE = 200
SECONDS = 15.0
CALLERS = 8
IDLE_SECONDS = 30.0
CHANGES = 50

_LONGEST_WAIT = 300.0
_LOOK_SECONDS = 0.25
"""Between two looks, which cost the API server some milliseconds each."""


@contextmanager
def _running(nodes: int) -> Iterator[tuple[Worker, Worker, str, Path]]:
    """The API server with so many nodes, and the adapter, which is still to be started."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        a_certificate(folder)
        with (
            Worker("tests.bench.device_cluster") as cluster,
            Worker("tests.bench.adapter_server", str(folder)) as server,
        ):
            yield cluster, server, cluster.ask("start", nodes=nodes), folder


def webhook(rate: int = RATE, seconds: float = SECONDS) -> Iterator[Figure]:
    """Pods in other words over TLS, at times that do not depend on answers: who waits for a slow one counts as well."""
    with _running(nodes=100) as (cluster, server, url, folder):
        port = server.ask("start", url=url)
        _until(lambda: cluster.ask("counts")["summed"] == 100, "the nodes are published")
        context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
        bodies = [_review(raw) for raw in pods(200)]
        _called(port, context, bodies, rate=rate, seconds=2.0)
        before = server.load.cpu_seconds
        taken = _called(port, context, bodies, rate=rate, seconds=seconds)
        spent = server.load.cpu_seconds - before
    name = f"adapter: a pod's webhook over TLS, {rate} requests/s"
    yield figure(name, taken, p99_at_most=10)
    yield figure(f"adapter: CPU time for each of these {len(taken):,} pods", [spent * 1000 / len(taken)])


def devices(nodes: int = NODES) -> Iterator[Figure]:
    """Cards of nodes without a Device object, then silence, then cards that fall ill."""
    name = f"adapter: {nodes:,} nodes x 8"
    with _running(nodes=nodes) as (cluster, server, url, _):
        cluster.ask("clear")
        began = time.monotonic()
        server.ask("start", url=url)
        _until(lambda: _served(cluster, nodes), "the nodes are published")
        yield figure(
            f"{name}: cold start to all published and summed", [time.monotonic() - began], unit="s", at_most=20
        )
        time.sleep(2.0)
        told = cluster.ask("counts")["written"]
        yield figure(f"{name}: Device objects written", [told["create devices.scheduling.koordinator.sh"]], unit="")
        yield figure(
            f"{name}: writes for each node until it is quiet", [sum(told.values()) / nodes], unit="", at_most=3
        )
        cluster.ask("clear")
        time.sleep(IDLE_SECONDS)
        quiet = sum(cluster.ask("counts")["written"].values())
        yield figure(f"{name}: writes in {IDLE_SECONDS:.0f} s of idleness", [quiet], unit="", at_most=0)
        cluster.ask("clear")
        began = time.monotonic()
        cluster.ask("fall_ill", nodes=CHANGES)
        _until(lambda: cluster.ask("ill") == CHANGES, "the ill cards are published")
        yield figure(f"{name}: {CHANGES} cards fall ill, until published", [time.monotonic() - began], unit="s")
        time.sleep(2.0)
        written = cluster.ask("counts")["written"]
        each = written.get("update devices.scheduling.koordinator.sh", 0) / CHANGES
        yield figure(f"{name}: writes of a Device object for a change", [each], unit="", at_most=1)
        yield figure(f"{name}: memory of the server", [server.load.resident_mib], unit="MiB")


def _served(cluster: Worker, nodes: int) -> Any:
    told = cluster.ask("counts")
    return told if told["devices"] == told["summed"] == nodes else None


def _review(raw: dict[str, Any]) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "team",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": raw,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _called(port: int, context: ssl.SSLContext, bodies: list[bytes], *, rate: int, seconds: float) -> list[float]:
    """Milliseconds from when each request was due until its answer."""
    taken: list[list[float]] = [[] for _ in range(CALLERS)]
    failed: list[str] = []
    begin = time.perf_counter() + 0.2

    def call(caller: int) -> None:
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=30)
        connection.connect()
        for turn in range(caller, int(rate * seconds), CALLERS):
            due = begin + turn / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("POST", "/webhooks/pods", bodies[turn % len(bodies)])
            answer = connection.getresponse()
            text = answer.read()
            taken[caller].append((time.perf_counter() - due) * 1000)
            if answer.status != 200 or b'"patch"' not in text:
                failed.append(text.decode()[:200])
        connection.close()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise ValueError(f"{len(failed)} pods were not translated: {failed[0]}")
    return [each for one in taken for each in one]


def _until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + _LONGEST_WAIT
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_LONGEST_WAIT:.0f} s: {what}")
        time.sleep(_LOOK_SECONDS)
    return found
