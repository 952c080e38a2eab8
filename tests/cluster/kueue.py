"""The real Kueue: the manager with its webhooks, which admits pods of one namespace by quota."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import definitions
from tests.cluster.api import ApiError, Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.peers import KUEUE
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

PAGE: Final = Path("docs/reference/workloads.md")
"""Tells operators how Kueue counts; it runs with the settings there."""
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
TOTAL_MEMORY: Final = "nvidia.com/total-gpumem"
"""By its settings, MiB of a pod's cards together: what it asks of each times their number."""
_VERSION: Final = "kueue.x-k8s.io/v1beta2"
_GROUP: Final = f"/apis/{_VERSION}"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_POD_HOOKS: Final = frozenset({"mpod.kb.io", "vpod.kb.io"})


class Kueue:
    """Not started yet; its definitions are there. It may do everything, and manages pods of labelled namespaces."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._data = KUEUE.place() / "data"
        definitions.install(plane, definitions.published(self._data))
        folder = plane.machine.root / "kueue"
        hooks, health = free_port(), free_port()
        self._url = f"https://127.0.0.1:{hooks}"
        settings = folder / "settings.yaml"
        etc = self._certificates(folder)
        settings.write_text(yaml.safe_dump(_settings(hooks, health, etc / "kueue" / "metrics" / "certs")))
        kubeconfig = plane.kubeconfig("kueue", plane.account("kueue", EVERYTHING))
        program = [str(plane.programs["kueue"]), f"--config={settings}", f"--kubeconfig={kubeconfig}"]
        # Its metrics' certificate is read from a fixed path, so that it gets an /etc of its own.
        arguments = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(etc), *program]
        ready = f"http://127.0.0.1:{health}/readyz"
        self.component = Component(plane.machine, "kueue", arguments, ready=lambda: healthy(ready))

    def __enter__(self) -> Kueue:
        self.component.start()
        for collection, body in self._hooks():
            self.plane.apply(f"{_ADMISSION}/{collection}", body)
        flavor = {"metadata": {"name": "cards"}, "spec": {}}
        wait_until(
            lambda: self._applied("resourceflavors", "ResourceFlavor", flavor),
            "its webhooks answer",
            60,
            show=self.component.log,
        )
        return self

    def __exit__(self, *_: object) -> None:
        for collection, body in self._hooks():
            self.plane.api.delete(f"{_ADMISSION}/{collection}/{body['metadata']['name']}")
        if self.component.running:
            self.component.stop()

    def queue(self, namespace: str, name: str, quota: Mapping[str, int]) -> None:
        """A LocalQueue with a ClusterQueue of its own, in which higher priority evicts lower."""
        self.plane.api.merge_patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"test/kueue": "yes"}}})
        resources = [{"name": key, "nominalQuota": str(value)} for key, value in quota.items()]
        group = {"coveredResources": list(quota), "flavors": [{"name": "cards", "resources": resources}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "LowerPriority"},
        }
        self._applied("clusterqueues", "ClusterQueue", {"metadata": {"name": namespace}, "spec": spec})
        local = {"metadata": {"name": name}, "spec": {"clusterQueue": namespace}}
        self._applied(f"namespaces/{namespace}/localqueues", "LocalQueue", local)

    def priority(self, name: str, value: int) -> None:
        """A class of priority that only Kueue reads."""
        self._applied("workloadpriorityclasses", "WorkloadPriorityClass", {"metadata": {"name": name}, "value": value})

    def log(self) -> str:
        """What it printed last."""
        return self.component.log()[-4000:]

    def _applied(self, collection: str, kind: str, body: Object) -> Object:
        try:
            return self.plane.apply(f"{_GROUP}/{collection}", {"apiVersion": _VERSION, "kind": kind, **body})
        except ApiError as error:
            raise AssertionError(str(error)) from error

    def _certificates(self, folder: Path) -> Path:
        """An ``/etc`` with what Kueue looks for there."""
        etc = folder / "etc"
        held = etc / "kueue" / "metrics" / "certs"
        held.mkdir(parents=True)
        shutil.copy(self.plane.pki.server_certificate, held / "tls.crt")
        shutil.copy(self.plane.pki.server_key, held / "tls.key")
        (etc / "hosts").write_text("127.0.0.1 localhost\n")
        return etc

    def _hooks(self) -> Iterator[tuple[str, Object]]:
        """Its own, with those for pods in labelled namespaces alone, as its installation leaves system ones out."""
        authority = base64.b64encode(self.plane.pki.ca.read_bytes()).decode()
        for body in yaml.safe_load_all((self._data / "manifests.yaml").read_text()):
            kept = []
            for hook in body["webhooks"]:
                resources = {group for rule in hook["rules"] for group in rule["apiGroups"]}
                if hook["name"] not in _POD_HOOKS and resources != {"kueue.x-k8s.io"}:
                    continue
                path = hook["clientConfig"]["service"]["path"]
                client = {"url": f"{self._url}{path}", "caBundle": authority}
                chosen = {"namespaceSelector": {"matchLabels": {"test/kueue": "yes"}}}
                kept.append({**hook, "clientConfig": client, **(chosen if hook["name"] in _POD_HOOKS else {})})
            name = f"kueue-{body['metadata']['name']}"
            yield f"{body['kind'].lower()}s", {"metadata": {"name": name}, "webhooks": kept}


def _settings(hooks: int, health: int, certificates: Path) -> Mapping[str, Any]:
    (resources,) = re.findall(r"^```yaml\n(resources:.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kube-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": hooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchLabels": {"test/kueue": "yes"}},
        **yaml.safe_load(resources),
    }


def workloads(namespace: str) -> str:
    """The collection of a namespace's Workloads, one for each pod that Kueue manages."""
    return f"{_GROUP}/namespaces/{namespace}/workloads"
