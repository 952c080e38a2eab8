"""The allocator as processes of the private machine, and Volcano configured for it.

``Front`` stands for the Service of several replicas: it hands connections to the one that is ready, as kube-proxy does.
A single replica is spoken to without it, for it adds to what is measured.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from hami_plugins.web.certificates import Material, renewed, write
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.slices import volcano_pod
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME: Final = "hami-plugins-allocator"
NAMESPACE: Final = "volcano-system"
LOOK: Final = 0.1
"""Seconds between two looks at who is ready."""

MARKER: Final = "hami-plugins.io/allocator"

RULES: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update", "patch"]},
)
"""All that a server may do that makes its own certificates and serves Volcano's vGPUs."""

ALLOCATOR_RULES: Final = (
    *RULES,
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
)
"""All that the server of Volcano's vGPUs and of Neuron devices may do, and no more."""

_WATCH: Final = ["get", "list", "watch"]
RIGHTS_TO_EVICT: Final = (
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": _WATCH},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _WATCH},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _WATCH},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
)
"""Further permissions of the server if pods are evicted for others."""


class Front:
    """Forwards connections on a port of its own to the first replica that said lately that it is ready."""

    def __init__(self, replicas: Callable[[], list[tuple[str, int]]]) -> None:
        self._replicas = replicas
        self._ready: list[tuple[str, int]] = []
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name=f"front-{self.port}", daemon=True)
        self._probe = threading.Thread(target=self._look, name=f"front-{self.port}-probe", daemon=True)
        for each in (self._thread, self._probe):
            each.start()

    def close(self) -> None:
        """Ends."""
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in accept
        for each in (self._thread, self._probe):
            each.join()
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Ends every connection that is open."""
        with self._lock:
            held = list(self._open)
        for each in held:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _look(self) -> None:
        while not self._ended.wait(LOOK):
            self._ready = self._replicas()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, ExitStack() as stack:
            for address in self._ready:
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
    """One process of ``hami-plugins allocator run``, or of another ``product`` and ``word``.

    It may do what ``rules`` say; ``arguments`` are further ones.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        settings: Mapping[str, object],
        *,
        product: str = "allocator",
        word: str = "run",
        rules: Sequence[Object] = ALLOCATOR_RULES,
        arguments: Sequence[str] = (),
    ) -> None:
        self.plane = plane
        self.port, self.hook_port = free_port(), free_port()
        self.product = product
        self.config = config = plane.machine.root / f"{name}.yaml"
        own = {
            "listen": {"host": "127.0.0.1", "port": self.port},
            "webhooks": {"host": "127.0.0.1", "port": self.hook_port},
            "log": {"level": "info", "form": "json"},
            "shutdownDelay": 0,
        }
        config.write_text(yaml.safe_dump({**settings, **own}))
        command = [sys.executable, "-m", "hami_plugins.cli", product, word, "--config", str(config), *arguments]
        environment = {"PYTHONPATH": str(Path.cwd()), "KUBECONFIG": "/nonexistent", "PATH": os.environ["PATH"]}
        self.component: Component = plane.program(
            name, command, rules=rules, ready=lambda: not self.complaint("/healthz"), environment=environment
        )

    @property
    def ready(self) -> bool:
        return self.component.running and not self.complaint("/readyz")

    def complaint(self, path: str) -> str:
        """The failure reported by a probe; empty if it passes."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode() or str(error)
        except OSError as error:
            return str(error)

    def certificate(self) -> bytes:
        """What a client meets now, PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self.hook_port), timeout=5).encode()

    def establish_trust(self) -> None:
        """The API server trusts the certificates that it makes, as an operator has it."""
        cluster = ("--kubeconfig", str(self.plane.admin_kubeconfig))
        command("trust", "--config", str(self.config), *cluster, product=self.product)

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


def marks(plane: ControlPlane, asks: Object, key: str) -> bool:
    """Whether a pod that asks for devices comes back marked, because a webhook was asked; nothing is made."""
    body = plane.api.request("POST", "/api/v1/namespaces/default/pods", asks, query={"dryRun": "All"})
    return key in body.decode()


def command(*arguments: str, product: str = "allocator") -> str:
    """What one of the commands of the allocator prints."""
    whole = [sys.executable, "-m", "hami_plugins.cli", product, *arguments]
    return subprocess.run(whole, check=True, capture_output=True, text=True).stdout


class Allocator:
    """The server in one mode, its webhooks installed and Volcano's scheduler told. At the end all is as before.

    ``flags`` are the scheduler's, in addition to those of the harness; ``actions`` take the place of those that
    ``conf`` prints, and so does ``queues`` that of the plugin that divides the cluster. ``preemption`` is the setting
    of that name. Without ``bootstrap`` the test makes the certificate (``certify``).
    """

    def __init__(
        self,
        volcano: Volcano,
        mode: str,
        *,
        replicas: int = 1,
        flags: Sequence[str] = (),
        actions: str = "",
        bootstrap: bool = True,
        preemption: Mapping[str, object] | None = None,
        queues: str = "proportion",
    ) -> None:
        self.volcano = volcano
        self.plane = volcano.plane
        self.mode = mode
        self._folder = self.plane.machine.root / f"allocator-{mode}-{replicas}"
        self._folder.mkdir(exist_ok=True)
        self._flags = tuple(flags)
        self._actions = actions
        self._preemption = preemption
        self._queues = queues
        self._bootstrap = bootstrap
        self._material: Material | None = None
        self.replicas = [self._replica(at) for at in range(replicas)]
        self.fronts: list[Front] = []
        self._calls, self._hooks = self.replicas[0].port, self.replicas[0].hook_port
        if replicas > 1:
            self.fronts.append(Front(lambda: [("127.0.0.1", each.port) for each in self.active()]))
            self.fronts.append(Front(lambda: [("127.0.0.1", each.hook_port) for each in self.active()]))
            self._calls, self._hooks = (front.port for front in self.fronts)

    def __enter__(self) -> Allocator:
        if not self._bootstrap:
            self.certify()
        self.plane.apply(HOOKS, self._configuration())
        for each in self.replicas:
            each.component.start()
        self.wait_active()
        if self._bootstrap:
            self.replicas[0].establish_trust()
        wait_until(
            lambda: marks(self.plane, volcano_pod("probe"), MARKER),
            "the API server trusts the webhooks",
            90,
            show=self.story,
        )
        self.volcano.configure(self._conf())
        self.volcano.set_flags(*self._flags)
        self.volcano.restart_scheduler()
        return self

    def __exit__(self, *_: object) -> None:
        self.plane.api.delete(f"{HOOKS}/{NAME}")
        for each in self.replicas:
            each.component.stop()
        for front in self.fronts:
            front.close()
        self.volcano.configure(CONFIGURATION)
        self.volcano.set_flags()
        self.volcano.restart_scheduler()

    def certify(self) -> bytes:
        """Gives the replicas a new certificate of the same authority; its chain, PEM."""
        held = self._material and replace(self._material, chain=b"", key=b"")
        self._material = renewed(held, ["127.0.0.1"], datetime.now(UTC))
        for at in range(len(self.replicas)):
            write(self._material, self._certificates(at))
        return self._material.chain

    def shows(self, chain: bytes) -> bool:
        """Whether a new connection to any replica gets this certificate."""
        return all(each.certificate() == chain for each in self.replicas)

    def cut(self) -> None:
        """Ends all connections to the replicas."""
        for front in self.fronts:
            front.cut()

    def active(self) -> list[Replica]:
        """The replicas that answer."""
        return [each for each in self.replicas if each.ready]

    def wait_active(self, timeout: float = 60.0) -> Replica:
        """The replica that answers, once one does."""
        return wait_until(self.active, "a replica answers", timeout, interval=0.02, show=self.story)[0]

    def story(self) -> str:
        """What the replicas say of themselves."""
        return "\n".join(each.complaint("/readyz") + each.component.log()[-2000:] for each in self.replicas)

    def _certificates(self, at: int) -> Path:
        return self._folder / f"certificates-{at}"

    def _replica(self, at: int) -> Replica:
        keep = self._certificates(at)
        keep.mkdir(exist_ok=True)
        files = {"file": "tls.pem", "key": "tls.pem"}
        bootstrap = {"bootstrap": True, "names": ["127.0.0.1"]}
        settings = {
            "volcano": {"mode": self.mode},
            "service": {"namespace": NAMESPACE},
            "certificate": {"directory": str(keep), **(bootstrap if self._bootstrap else files)},
            "reservation": 61,
            "lease": {"duration": 4, "deadline": 3, "retry": 0.5},
        }
        if self._preemption is None:
            return Replica(self.plane, f"{self._folder.name}-{at}", settings)
        settings["preemption"] = dict(self._preemption)
        return Replica(self.plane, f"{self._folder.name}-{at}", settings, rules=(*ALLOCATOR_RULES, *RIGHTS_TO_EVICT))

    def _configuration(self) -> Object:
        trusted = () if self._bootstrap else ("--ca-file", str(self._certificates(0) / "ca.crt"))
        found: Object = yaml.safe_load(command("webhooks", "--url", f"https://127.0.0.1:{self._hooks}", *trusted))
        return found

    def _conf(self) -> str:
        """The recommended one, with the extender where this cluster has it."""
        config = str(self.replicas[0].config)
        printed = yaml.safe_load(command("conf", "--config", config, "--mode", self.mode, "-o", "yaml"))
        printed["actions"] = self._actions or printed["actions"]
        for tier in printed["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "proportion":
                    plugin["name"] = self._queues
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.urlPrefix"] = f"http://127.0.0.1:{self._calls}/extender"
        return yaml.safe_dump(printed, sort_keys=False)
