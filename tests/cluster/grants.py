"""The server of grants as processes of the private machine, and Volcano configured for it.

``Front`` stands for the Service: it hands connections to whichever replica is ready, as kube-proxy does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.slices import volcano_pod
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME: Final = "volcano-vgpu-grants"
NAMESPACE: Final = "volcano-system"
MARKER: Final = "hami-plugins.io/volcano-vgpu-grant"

RULES: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update", "patch"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "verbs": ["get", "patch"],
    },
)
"""All that the server may do when it makes its own certificates, and no more."""


class Front:
    """Forwards connections on a port of its own to the first replica that says it is ready."""

    def __init__(self, replicas: Callable[[], list[tuple[str, int]]]) -> None:
        self._replicas = replicas
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name=f"front-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
        self._thread.join()
        self._listener.close()
        with self._lock:
            held = list(self._open)
        for each in held:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, ExitStack() as stack:
            for address in self._replicas():
                with suppress(OSError):
                    behind = stack.enter_context(socket.create_connection(address, timeout=1))
                    behind.settimeout(None)
                    self._join(caller, behind)
                    return

    def _join(self, caller: socket.socket, behind: socket.socket) -> None:
        with self._lock:
            self._open |= {caller, behind}
        back = threading.Thread(target=_pump, args=(behind, caller), daemon=True)
        back.start()
        _pump(caller, behind)
        back.join()
        with self._lock:
            self._open -= {caller, behind}


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Hands on what comes until one of the two ends, and then ends both."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Replica:
    """One process of ``hami-plugins volcano-vgpu grants``."""

    def __init__(self, plane: ControlPlane, name: str, settings: Mapping[str, object]) -> None:
        self.plane = plane
        self.port, self.hook_port = free_port(), free_port()
        config = plane.machine.root / f"{name}.yaml"
        own = {
            "listen": {"host": "127.0.0.1", "port": self.port},
            "webhooks": {"host": "127.0.0.1", "port": self.hook_port},
            "log": {"level": "info", "form": "json"},
        }
        config.write_text(yaml.safe_dump({**settings, **own}))
        command = [sys.executable, "-m", "hami_plugins.cli", "volcano-vgpu", "grants", "--config", str(config)]
        environment = {"PYTHONPATH": str(Path.cwd()), "KUBECONFIG": "/nonexistent", "PATH": os.environ["PATH"]}
        self.component: Component = plane.program(
            name, command, rules=RULES, ready=lambda: not self.complaint("/healthz"), environment=environment
        )

    @property
    def ready(self) -> bool:
        return self.component.running and not self.complaint("/readyz")

    def complaint(self, path: str) -> str:
        """What a probe says is wrong; empty where nothing is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode() or str(error)
        except OSError as error:
            return str(error)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name that have these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


class Grants:
    """The server in one mode, its webhooks installed and Volcano's scheduler told. At the end all is as before."""

    def __init__(self, volcano: Volcano, mode: str, *, replicas: int = 1) -> None:
        self.volcano = volcano
        self.plane = volcano.plane
        self.mode = mode
        self._folder = self.plane.machine.root / f"grants-{mode}-{replicas}"
        self._folder.mkdir(exist_ok=True)
        self.replicas = [self._replica(at) for at in range(replicas)]
        self._calls = Front(lambda: [("127.0.0.1", each.port) for each in self.active()])
        self._hooks = Front(lambda: [("127.0.0.1", each.hook_port) for each in self.active()])

    def __enter__(self) -> Grants:
        self.plane.apply(HOOKS, self._configuration())
        for each in self.replicas:
            each.component.start()
        self.wait_active()
        wait_until(self._trusted, "the API server trusts the webhooks", 90, show=self.story)
        self.volcano.configure(self._conf())
        self.volcano.restart_scheduler()
        return self

    def __exit__(self, *_: object) -> None:
        self.plane.api.delete(f"{HOOKS}/{NAME}")
        for each in self.replicas:
            each.component.stop()
        for front in (self._calls, self._hooks):
            front.close()
        self.volcano.configure(CONFIGURATION)
        self.volcano.restart_scheduler()

    def active(self) -> list[Replica]:
        """The replicas that answer."""
        return [each for each in self.replicas if each.ready]

    def wait_active(self, timeout: float = 60.0) -> Replica:
        """The replica that answers, once one does."""
        return wait_until(self.active, "a replica answers", timeout, interval=0.02, show=self.story)[0]

    def story(self) -> str:
        """What the replicas say of themselves."""
        return "\n".join(each.complaint("/readyz") + each.component.log()[-2000:] for each in self.replicas)

    def command(self, *arguments: str) -> str:
        """What one of the commands about grants prints, with this mode's settings."""
        command = [sys.executable, "-m", "hami_plugins.cli", "volcano-vgpu", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout

    def _replica(self, at: int) -> Replica:
        keep = self._folder / f"certificates-{at}"
        keep.mkdir(exist_ok=True)
        settings = {
            "mode": self.mode,
            "service": {"namespace": NAMESPACE},
            "certificate": {"bootstrap": True, "directory": str(keep), "names": ["127.0.0.1"]},
            "reservation": 61,
            "lease": {"duration": 4, "deadline": 3, "retry": 0.5},
        }
        return Replica(self.plane, f"{self._folder.name}-{at}", settings)

    def _configuration(self) -> Object:
        url = f"https://127.0.0.1:{self._hooks.port}"
        found: Object = yaml.safe_load(self.command("webhooks", "--url", url))
        return found

    def _conf(self) -> str:
        """The recommended one, with the extender where this cluster has it."""
        printed = yaml.safe_load(self.command("conf", "--mode", self.mode, "-o", "yaml"))
        for tier in printed["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.urlPrefix"] = f"http://127.0.0.1:{self._calls.port}/extender"
        return yaml.safe_dump(printed, sort_keys=False)

    def _trusted(self) -> bool:
        """Whether a pod that asks for cards comes back marked; nothing is made."""
        asked = volcano_pod("probe")
        body = self.plane.api.request("POST", "/api/v1/namespaces/default/pods", asked, query={"dryRun": "All"})
        return MARKER in body.decode()
