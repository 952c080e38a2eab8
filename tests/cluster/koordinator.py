"""Koordinator: its scheduler, and its manager with the controller of node resources and, on demand, its webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import definitions
from tests.cluster.api import Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.peers import koordinator
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

NAMESPACE: Final = "koordinator-system"
SCHEDULER: Final = "koord-scheduler"
DEVICES: Final = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_POD_PATHS: Final = frozenset({"/mutate-pod", "/validate-pod"})
_ARGUMENTS: Final = "kubescheduler.config.k8s.io/v1"


def _configuration(kubeconfig: Path) -> Object:
    """What is needed to share cards; the order of ``preFilter`` and of ``reserve`` matters (Koordinator 1.7.0
    ``config/manager/scheduler-config.yaml``)."""
    return {
        "apiVersion": _ARGUMENTS,
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                "pluginConfig": [
                    _arguments("NodeResourcesFit", _scoring("LeastAllocated", cpu=1, memory=1)),
                    _arguments("DeviceShare", _scoring("MostAllocated", **{"koordinator.sh/gpu-memory-ratio": 1})),
                ],
                "plugins": {
                    "queueSort": _instead("PrioritySort"),
                    "preFilter": _also("SchedulingHint", "Reservation", "NodeNUMAResource", "DeviceShare"),
                    "filter": _also("NodeNUMAResource", "DeviceShare", "Reservation"),
                    "postFilter": _instead("Reservation", "DefaultPreemption"),
                    "preScore": _also("Reservation"),
                    "score": _also(NodeNUMAResource=1, DeviceShare=1, Reservation=5000),
                    "reserve": _also("Reservation", "NodeNUMAResource", "DeviceShare"),
                    "preBind": _also("NodeNUMAResource", "DeviceShare", "Reservation", "DefaultPreBind"),
                    "bind": _instead("Reservation", "DefaultBinder"),
                },
            }
        ],
    }


def _arguments(name: str, values: Mapping[str, object]) -> Object:
    return {"name": name, "args": {"apiVersion": _ARGUMENTS, "kind": f"{name}Args", **values}}


def _scoring(strategy: str, **weights: int) -> Object:
    resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"scoringStrategy": {"type": strategy, "resources": resources}}


def _also(*names: str, **weights: int) -> Object:
    weighted = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"enabled": [*({"name": name} for name in names), *weighted]}


def _instead(*names: str) -> Object:
    return {"disabled": [{"name": "*"}], **_also(*names)}


class Koordinator:
    """Starts on creation: definitions, the scheduler, and the manager, which writes the sums of cards into nodes."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.machine = plane.machine
        self._folder = self.machine.root / "koordinator"
        self._folder.mkdir()
        plane.apply("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        definitions.install(plane, definitions.published(koordinator().place() / "data"))
        colocation = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": '{"enable":true}'}}
        plane.apply(f"/api/v1/namespaces/{NAMESPACE}/configmaps", colocation)
        self.scheduler = self._scheduler()
        self._metrics = free_port()
        self.manager = self._manager()
        plane.followers += [self.scheduler.renew, self.manager.renew]
        self.scheduler.start()
        self.manager.start()

    @contextmanager
    def webhooks(self) -> Iterator[None]:
        """Its webhooks for pods answer as well.

        They listen on every address of the machine, for which 1.7.0 has no flag; so no longer than one test needs them.
        """
        usual = self.manager
        kinds = self._register_hooks()
        usual.stop()
        self.manager = self._manager(hooks=free_port())
        try:
            self.manager.start()
            wait_until(self._trusted, "the API server trusts Koordinator's webhooks", 60, show=self.manager.log)
            yield
        finally:
            self.manager.stop()
            for path in kinds:
                self.plane.api.delete(path)
            self.manager = usual
            usual.start()

    def allocated(self, namespace: str, name: str) -> Any:
        """What Koordinator has recorded of a pod's cards."""
        pod = self.plane.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return json.loads(pod["metadata"]["annotations"]["scheduling.koordinator.sh/device-allocated"])

    def wait_bound(self, namespace: str, name: str, timeout: float = 60.0) -> Object:
        """The pod once it has a node; the failure shows what the scheduler says."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"

        def bound() -> Object | None:
            pod = self.plane.api.get(path)
            return pod if pod["spec"].get("nodeName") else None

        def story() -> str:
            pod = self.plane.api.find(path) or {}
            return json.dumps(pod.get("status"), indent=1) + "".join(self.plane.events(namespace, name))

        found = wait_until(bound, f"pod {namespace}/{name} is bound", timeout, show=story)
        assert found is not None
        return found

    def wait_refused(self, namespace: str, name: str, timeout: float = 60.0) -> str:
        """Why the scheduler does not place a pod, once it says so."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"

        def refused() -> str:
            conditions = self.plane.api.get(path)["status"].get("conditions") or []
            return next((str(each.get("message")) for each in conditions if each["type"] == "PodScheduled"), "")

        return wait_until(refused, f"pod {namespace}/{name} is refused", timeout)

    def _scheduler(self) -> Component:
        """With a ServiceAccount of Koordinator's own, as it would have in a cluster."""
        port = free_port()
        token = self.plane.account(SCHEDULER, EVERYTHING, namespace=NAMESPACE)
        config = self._folder / "koord.yaml"
        config.write_text(yaml.safe_dump(_configuration(self.plane.kubeconfig(SCHEDULER, token))))
        arguments = [
            str(self.plane.programs["koord-scheduler"]),
            f"--config={config}",
            f"--port={port}",
            "--address=127.0.0.1",
            "--secure-port=0",
            "--authentication-skip-lookup=true",
            "--feature-gates=DevicePluginAdaption=true",
            "--v=4",
        ]
        return Component(self.machine, SCHEDULER, arguments, ready=lambda: healthy(f"http://127.0.0.1:{port}/healthz"))

    def _manager(self, *, hooks: int = 0) -> Component:
        token = self.plane.account("koord-manager", EVERYTHING, namespace=NAMESPACE)
        gates = {
            "EnableSyncGPUSharedResource": True,
            "WebhookFramework": bool(hooks),
            "ValidatePodDeviceResource": True,
        }
        arguments = [
            str(self.plane.programs["koord-manager"]),
            f"--kubeconfig={self.plane.kubeconfig('koord-manager', token)}",
            "--enable-leader-election=false",
            f"--leader-election-namespace={NAMESPACE}",
            f"--config-namespace={NAMESPACE}",
            "--slo-config-name=slo-controller-config",
            f"--metrics-addr=127.0.0.1:{self._metrics}",
            f"--health-probe-addr=127.0.0.1:{free_port()}",
            "--enable-pprof=false",
            f"--feature-gates={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}",
            "--controllers=noderesource",
            "--v=4",
        ]
        environment = {"POD_NAMESPACE": NAMESPACE, "PATH": "/usr/bin:/bin"}
        if hooks:
            certificates = self._folder / "certificates"
            certificates.mkdir(exist_ok=True)
            environment |= {
                "WEBHOOK_HOST": "localhost",
                "WEBHOOK_PORT": str(hooks),
                "WEBHOOK_CERT_DIR": str(certificates),
            }
        return Component(
            self.machine,
            "koord-manager",
            arguments,
            ready=lambda: healthy(f"http://127.0.0.1:{self._metrics}/metrics"),  # it answers no probe of health
            environment=environment,
        )

    def _register_hooks(self) -> Sequence[str]:
        """The published configurations, as far as they are about pods; the manager puts its address into them."""
        paths = []
        for kind in ("Mutating", "Validating"):
            name = f"koordinator-{kind.lower()}-webhook-configuration"
            # A configuration that only changes others, for an overlay, names no service.
            all_hooks = [hook for each in _published(f"{kind}WebhookConfiguration") for hook in each["webhooks"]]
            served = [each for each in all_hooks if "service" in each.get("clientConfig", {})]
            hooks = [each for each in served if each["clientConfig"]["service"]["path"] in _POD_PATHS]
            assert hooks, f"{kind}: no webhooks for pods in the release"
            collection = f"{_ADMISSION}/{kind.lower()}webhookconfigurations"
            namespaces = {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}
            wanted = [{**each, "namespaceSelector": namespaces} for each in hooks]
            self.plane.api.delete(f"{collection}/{name}")
            body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
            self.plane.apply(collection, {**body, "metadata": {"name": name}, "webhooks": wanted})
            paths.append(f"{collection}/{name}")
        return paths

    def _trusted(self) -> bool:
        """Whether a pod that asks for cards comes back completed; nothing is made."""
        limits = {"koordinator.sh/gpu": "100"}
        container = {"name": "main", "image": "i", "resources": {"limits": limits, "requests": limits}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [container]}}
        asked = self.plane.api.request("POST", "/api/v1/namespaces/default/pods", body, query={"dryRun": "All"})
        return b"koordinator.sh/gpu.shared" in asked


def _published(kind: str) -> list[Object]:
    """The objects of a kind that the release publishes."""
    found: list[Object] = []
    for path in sorted((koordinator().place() / "data").glob("*.yaml")):
        listed = yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
        found += [each for each in listed if isinstance(each, dict) and each.get("kind") == kind]
    return found
