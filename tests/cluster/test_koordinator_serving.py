"""The adapter's server as the API server and Prometheus meet it: while its certificate changes, and when scraped."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.cluster.allocator import Replica
from tests.cluster.api import Api, ApiError
from tests.cluster.koordinator import Koordinator
from tests.cluster.koordinator_adapter import NODE_RULES, Adapter, CardNodes, a_pod
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.monitored import recorded
from tests.cluster.waiting import wait_until

ASKED = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 10}


class Load:
    """Some clients that create pods to be translated, several times a second each; nothing is made."""

    def __init__(self, plane: ControlPlane, namespace: str, clients: int = 4) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._permits = threading.Semaphore(clients)
        self._clients = clients
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask, args=(plane.client(plane.api.token),), name=f"load-{at}")
            for at in range(clients)
        ]

    def __enter__(self) -> Load:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While no request is on its way."""
        for _ in range(self._clients):
            self._permits.acquire()
        yield
        self._permits.release(self._clients)

    def wait_more(self, count: int) -> None:
        """Wait until so many more are answered, or one has failed."""
        wanted = self.answered + count
        wait_until(lambda: self.failed or self.answered >= wanted, f"{count} more answers", 60)

    def _ask(self, api: Api) -> None:
        pod = a_pod("load", ASKED)
        while not self._ended.wait(0.05):
            with self._permits:
                try:
                    made = json.loads(api.request("POST", self._path, pod, query={"dryRun": "All"}))
                    limits = made["spec"]["containers"][0]["resources"]["limits"]
                    told = "" if "koordinator.sh/gpu.shared" in limits else str(limits)
                except ApiError as error:
                    told = str(error)
            with self._lock:
                self.answered += 1
                self.failed += [told] if told else []
        api.close()


def test_a_certificate_that_changes_under_load_fails_no_request(
    koordinator: Koordinator, control_plane: ControlPlane, namespace: str
) -> None:
    """After each change the idle connections are ended, so that the API server meets the new one."""
    with Adapter(koordinator, bootstrap=False) as adapter, Load(control_plane, namespace) as load:
        assert adapter.front is not None
        for _ in range(4):
            load.wait_more(20)
            wait_until(partial(adapter.shows, adapter.certify()), "the new one is shown", 30)
            with load.quiet():
                adapter.front.cut()
                time.sleep(0.1)  # the API server sees that they have ended before it would use one
        load.wait_more(20)
        changes = adapter.server.metric("koordinator_adapter_tls_certificate_changes_total", outcome="taken")
    assert load.failed == []
    assert load.answered >= 100
    assert changes >= 4


def test_what_is_scraped_is_what_dashboard_and_alerts_are_tried_on(
    koordinator: Koordinator, control_plane: ControlPlane, namespace: str, *, update_golden: bool
) -> None:
    """The recorded scrapes have no names that real ones have not: the server's, and its part's on a node."""
    root = control_plane.machine.root / f"node-part-{namespace}"
    library = root / "library"
    library.mkdir(parents=True)
    # It begins as a library of this machine does, and nothing loads it.
    (library / "libvgpu.so").write_bytes(Path(sys.executable).read_bytes()[:64])
    with (
        Adapter(koordinator, injection={"mode": "always"}, devices={"grace": 0}) as adapter,
        CardNodes(koordinator) as nodes,
    ):
        name = nodes.add()
        nodes.wait_summed(name, 200)
        pod = a_pod("scraped", ASKED, nodeSelector=dict(nodes.selector))
        control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
        koordinator.wait_bound(namespace, "scraped")
        settings = {
            "injection": {"mode": "always", "hookPath": str(root / "vgpu"), "lockPath": str(root / "lock")},
            "node": {"librarySource": str(library)},
        }
        part = Replica(
            control_plane,
            root.name,
            settings,
            product="koordinator",
            word="node",
            rules=NODE_RULES,
            arguments=("--node-name", name),
        )
        part.component.start()
        try:
            wait_until(lambda: part.metric("koordinator_adapter_node_limits_promised") == 1, "it promises limits")
            recorded("koordinator-server", adapter.server.port, update=update_golden)
            recorded("koordinator-node", part.port, update=update_golden)
        finally:
            part.component.stop()
