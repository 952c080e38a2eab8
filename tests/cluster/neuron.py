"""The allocator as a process of the private machine, nodes of Trainium, and schedulers that ask it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.core.hardware.fabric import mask_of
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES, EFA, INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL
from tests.cluster.allocator import HOOKS, MARKER, NAME, RULES, Replica, command, marks
from tests.cluster.api import Object
from tests.cluster.card_nodes import NODES, Pool
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import container, pod, pod_spec, task, vcjob
from tests.cluster.processes import Component
from tests.cluster.slices import jobs, pods
from tests.cluster.volcano import CONFIGURATION, Volcano
from tests.cluster.waiting import wait_until

TRN1: Final = "trn1.32xlarge"
PRODUCT: Final = "neuron"
KUBE_SCHEDULER: Final = "neuron-kube-scheduler"
"""How pods name the kube-scheduler that asks the server."""


NEURON_RULES: Final = (
    *RULES[1:],
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
)
"""All that a server of Neuron devices may do."""


@dataclass(slots=True)
class Machines(Pool):
    """Nodes of Trainium without kubelets."""

    kinds: dict[str, str] = field(default_factory=dict)

    def boot(self, count: int = 1, *, kind: str = TRN1, family: str = "linked", **labels: str) -> list[str]:
        """More nodes of an instance type; their names."""
        known = INSTANCE_TYPES[kind]
        names = [f"{self.name}-{len(self.cards) + at}" for at in range(count)]
        amounts = {
            "cpu": "128",
            "memory": "512Gi",
            "pods": "500",
            DEVICES: str(known.devices),
            CORES: str(known.devices * known.logical_cores()),
            EFA: "8",
        }
        for name in names:
            own = {"kubernetes.io/hostname": name, INSTANCE_LABEL: kind, FAMILY_LABEL: family, **labels}
            metadata = {"name": name, "labels": {**own, **self.selector}}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self.plane.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
            self.cards[name] = ()
            self.kinds[name] = kind
        self._wait_taking_pods()
        return names

    def faults(self, bound: Iterable[Object] | None = None) -> list[str]:
        """Every bound pod without devices, and every device that two of them hold."""
        found: list[str] = []
        holders: dict[tuple[str, int], str] = {}
        for each in self.bound() if bound is None else bound:
            name, node = each["metadata"]["name"], each["spec"]["nodeName"]
            ids = ids_of(each)
            if not ids and DEVICES in each["spec"]["containers"][0].get("resources", {}).get("limits", {}):
                found.append(f"{name}: bound to {node} without devices")
            found += [
                f"device {number} of {node} is given to {other} and {name}"
                for number in ids
                if (other := holders.setdefault((node, number), name)) != name
            ]
        return found

    def unlinked(self) -> list[str]:
        """Bound pods whose devices are not a set that is wired together."""
        found = []
        for each in filter(ids_of, self.bound()):
            node = each["spec"]["nodeName"]
            fabric = INSTANCE_TYPES[self.kinds[node]].fabric
            members = mask_of(ids_of(each))
            inside = sum((fabric.masks[at] & members).bit_count() for at in ids_of(each)) // 2
            wanted = {1: 0, 2: 1, 4: 4, 8: 12, 16: 32}[members.bit_count()]
            if inside != wanted:
                found.append(f"{each['metadata']['name']} on {node}: {ids_of(each)} have {inside} links")
        return found


class Submissions:
    """One test's pods and jobs, on one pool of machines."""

    def __init__(self, plane: ControlPlane, machines: Machines, namespace: str) -> None:
        self.plane, self.machines, self.namespace = plane, machines, namespace

    def pod(self, name: str, devices: int = 4, *, scheduler: str = "volcano", **more: Any) -> Object:
        spec = {"nodeSelector": dict(self.machines.selector), "schedulerName": scheduler, **more}
        body = pod(name, container(limits={DEVICES: devices}), **spec)
        written = body["metadata"].pop("annotations", None)
        made = self.plane.api.create(pods(self.namespace), body)
        if not written:
            return made
        # No new pod may bring a node and an allocation.
        return self.plane.api.merge_patch(f"{pods(self.namespace)}/{name}", {"metadata": {"annotations": written}})

    def gang(
        self,
        name: str,
        members: int,
        amount: int,
        *,
        resource: str = DEVICES,
        annotations: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        spec = pod_spec(
            container(limits={resource: amount}), nodeSelector=dict(self.machines.selector), schedulerName="volcano"
        )
        body = vcjob(name, task("worker", members, spec), **more)
        body["metadata"]["annotations"] = dict(annotations or {})
        self.plane.api.create(jobs(self.namespace), body)

    def see(self, name: str) -> Object:
        return self.plane.api.get(f"{pods(self.namespace)}/{name}")

    def members(self, prefix: str) -> list[Object]:
        every = self.plane.api.items(pods(self.namespace))
        return [each for each in every if each["metadata"]["name"].startswith(prefix)]

    def told(self, prefix: str) -> str:
        """Messages for these pods, and for the PodGroups of the namespace."""
        found = []
        for each in self.members(prefix):
            conditions = each["status"].get("conditions", [])
            found += [str(condition.get("message", "")) for condition in conditions]
            found += self.plane.events(self.namespace, each["metadata"]["name"])
        groups = self.plane.api.items(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{self.namespace}/podgroups")
        return "\n".join([*found, *(json.dumps(each.get("status")) for each in groups)])

    def wait_bound(self, prefix: str, count: int, timeout: float = 60.0) -> list[Object]:
        """Those pods, once all of them are bound."""

        def bound() -> list[Object]:
            found = self.members(prefix)
            return found if len(found) == count and all(each["spec"].get("nodeName") for each in found) else []

        return wait_until(bound, f"{count} pods {prefix}* are bound", timeout, show=lambda: self.told(prefix))

    def wait_told(self, prefix: str, text: str) -> str:
        def found() -> str:
            said = self.told(prefix)
            return said if text in said else ""

        return wait_until(found, f"{prefix}* is told {text!r}", 60, show=lambda: self.told(prefix))


class NeuronAllocator:
    """The server, its webhooks installed, Volcano and a kube-scheduler told to ask it. At the end all is as before.

    ``plugins`` are Volcano's, in addition to those that ``conf`` prints.
    """

    def __init__(self, volcano: Volcano, *, plugins: Sequence[str] = ()) -> None:
        self.volcano = volcano
        self._plugins = tuple(plugins)
        self.plane = volcano.plane
        folder = self.plane.machine.root / "allocator-neuron"
        folder.mkdir(exist_ok=True)
        settings = {
            "service": {"namespace": "kube-system"},
            "certificate": {"directory": str(folder), "bootstrap": True, "names": ["127.0.0.1"]},
            "reservation": 61,
            "lease": {"duration": 4, "deadline": 3, "retry": 0.5},
        }
        self.replica = Replica(self.plane, "allocator-neuron", settings)
        self.scheduler = self._kube_scheduler()

    def __enter__(self) -> NeuronAllocator:
        printed = command("webhooks", "--url", f"https://127.0.0.1:{self.replica.hook_port}")
        self.plane.apply(HOOKS, yaml.safe_load(printed))
        self.replica.component.start()
        self.wait_ready()
        self.replica.establish_trust()
        probe = pod("probe", container(limits={DEVICES: 1}))
        wait_until(
            lambda: marks(self.plane, probe, MARKER),
            "the API server trusts the webhooks",
            90,
            show=self.replica.component.log,
        )
        self.volcano.configure(self._volcano_conf())
        self.volcano.restart_scheduler()
        self.scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.stop()
        self.plane.api.delete(f"{HOOKS}/{NAME}")
        self.replica.component.stop()
        self.volcano.configure(CONFIGURATION)
        self.volcano.restart_scheduler()

    def wait_ready(self) -> None:
        wait_until(lambda: self.replica.ready, "the server answers", 60, show=self.replica.component.log)

    def _volcano_conf(self) -> str:
        printed = yaml.safe_load(command("conf", "-o", "yaml"))
        for tier in printed["tiers"]:
            for plugin in tier["plugins"]:
                if plugin["name"] == "extender":
                    plugin["arguments"]["extender.urlPrefix"] = f"http://127.0.0.1:{self.replica.port}/extender"
        printed["tiers"][-1]["plugins"] += [{"name": name} for name in self._plugins]
        return yaml.safe_dump(printed, sort_keys=False)

    def _kube_scheduler(self) -> Component:
        """A second kube-scheduler, for pods that name it."""
        conf: Mapping[str, Any] = yaml.safe_load(command("conf", "--kube-scheduler", "-o", "yaml"))
        (extender,) = conf["extenders"]
        config = {
            **conf,
            "extenders": [{**extender, "urlPrefix": f"http://127.0.0.1:{self.replica.port}/scheduler"}],
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.plane.admin_kubeconfig)},
            "profiles": [{"schedulerName": KUBE_SCHEDULER}],
        }
        path = self.plane.machine.root / f"{KUBE_SCHEDULER}.yaml"
        path.write_text(yaml.safe_dump(config))
        return self.plane.scheduler(KUBE_SCHEDULER, f"--config={path}")


def ids_of(found: Object) -> list[int]:
    """The devices that AWS's plugin is to give a pod."""
    text = found["metadata"].get("annotations", {}).get(IDS_KEY, "")
    return [int(each) for each in text.split(",") if each]
