"""The processes of the product as they run in a cluster, with what probes and the API server ask them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import urllib3
import yaml

from hami_plugins import examples
from hami_plugins.sandbox.apiserver import KOORDINATOR, VOLCANO, ApiServer
from tests.integration.volcano_vgpu.allocation.servers import a_node, a_pod
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE, wait_for

NODE: Final = "n1"
KINDS: Final = {
    "agent": ("volcano-vgpu", "agent"),
    "allocator": ("allocator", "run"),
    "koordinator": ("koordinator", "serve"),
}
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MIB: Final = 1 << 20
_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "new", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}


class Victim(NamedTuple):
    """A running process, with its ports; an agent has no webhooks."""

    pid: int
    port: int
    webhooks: int
    pool: urllib3.PoolManager
    bound: dict[str, Any] | None

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def peak(self) -> int:
        """Bytes that were resident at most since ``forget_peak``."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

    def forget_peak(self) -> None:
        """From now on the peak is counted anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def heaps(self) -> int:
        """Heaps of threads besides the main one: glibc reserves 64 MiB for each and makes a part of it accessible."""
        heaps, before, began = 0, "", 0
        for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            region, kind, *_ = line.split()
            begin, end = (int(each, 16) for each in region.split("-"))
            heaps += (before, kind) == ("rw-p", "---p") and end - began == 64 * MIB
            before, began = kind, begin
        return heaps

    def descriptors(self) -> int:
        """Open descriptors."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def healthy(self) -> bool:
        """Whether the liveness probe is answered."""
        return self._get("/healthz") == 200

    def scraped(self) -> bool:
        """Whether metrics are answered."""
        return self._get("/metrics") == 200

    def reviewed(self) -> bool:
        """Whether the webhook answers: about a Binding, or where there are none about a new pod."""
        request: dict[str, Any] = {"uid": "r", "operation": "CREATE", "namespace": "default", "dryRun": True}
        path = "/webhooks/pods"
        if self.bound is not None:
            metadata = {name: self.bound["metadata"][name] for name in ("name", "namespace", "uid")}
            target = {"kind": "Node", "name": NODE}
            binding = {"kind": "Binding", "metadata": metadata, "target": target}
            request |= {"name": metadata["name"], "subResource": "binding", "object": binding}
            path = "/webhooks/bindings"
        else:
            request["object"] = _POD
        request["resource"] = {"group": "", "version": "v1", "resource": "pods"}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        url = f"https://127.0.0.1:{self.webhooks}{path}"
        answer = self.pool.request("POST", url, body=json.dumps(body), retries=False, timeout=PATIENCE)
        return answer.status == 200 and bool(json.loads(answer.data)["response"]["allowed"])

    def serves(self) -> bool:
        """Whether all of that is answered."""
        return self.healthy() and self.scraped() and (not self.webhooks or self.reviewed())

    def _get(self, path: str) -> int:
        # A probe has a new connection each time.
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib3.PoolManager() as pool:
            return pool.request("GET", url, retries=False, timeout=PATIENCE).status


@contextmanager
def victim(kind: str, folder: Path, prepare: Callable[[], None] | None = None) -> Iterator[Victim]:
    """A process of this kind with an embedded API server, once it serves; ``prepare`` runs in it before it begins."""
    authority = str(a_certificate(folder).certificate)
    pool = urllib3.PoolManager(ca_certs=authority, server_hostname="localhost", assert_hostname="localhost")
    with ApiServer(kinds=(*VOLCANO, *KOORDINATOR)) as server, pool:
        server.put(a_node(NODE))
        bound = server.put(a_pod("waiting")) if kind == "allocator" else None
        ports = [_free(), _free()]
        kubeconfig, config, log = server.kubeconfig(folder / "kubeconfig"), folder / "config.yaml", folder / "log"
        config.write_text(yaml.safe_dump(_settings(kind, folder, ports)))
        more = ("--cards-file", str(_cards(folder))) if kind == "agent" else ()
        command = [*KINDS[kind], "--config", str(config), "--kubeconfig", str(kubeconfig), *more]
        with log.open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-m", "hami_plugins.cli", *command],
                stdout=written,
                stderr=written,
                preexec_fn=prepare,  # noqa: PLW1509 - writes one number to a file
            )
        try:
            made = Victim(process.pid, ports[0], 0 if kind == "agent" else ports[1], pool, bound)
            wait_for(lambda: _answers(made, process, log), f"it serves: {log.read_text()}")
            yield made
            assert process.poll() is None, log.read_text()
        finally:
            process.kill()
            process.wait()


def _answers(made: Victim, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return made.serves()
    except urllib3.exceptions.HTTPError:
        return False


def _settings(kind: str, folder: Path, ports: list[int]) -> dict[str, Any]:
    listen = {"host": "127.0.0.1", "port": ports[0]}
    if kind == "agent":
        kubelet = folder / "kubelet"
        kubelet.mkdir()
        places = {"kubeletDirectory": kubelet, "cdiDirectory": folder / "cdi", "hookPath": folder / "hook"}
        more = {"lockPath": folder / "lock", "podResourcesSocket": folder / "pod-resources"}
        return {"node": NODE, "listen": listen, **{name: str(path) for name, path in (places | more).items()}}
    return {
        "listen": listen,
        "webhooks": {"host": "127.0.0.1", "port": ports[1]},
        "certificate": {"directory": str(folder)},
        "service": {"namespace": "default"},
        "shutdownDelay": 0,
    }


def _cards(folder: Path) -> Path:
    path = folder / "cards.yaml"
    path.write_text(examples.live_text("cards"))
    return path


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])
