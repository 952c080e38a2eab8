"""HAMi's side of the allocator as a process of the private machine, and a kube-scheduler that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from tests.cluster.agents import GPU
from tests.cluster.allocator import HOOKS, RIGHTS_TO_EVICT, Front, Replica, command, marks
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import container, pod
from tests.cluster.processes import Component
from tests.cluster.slices import FOREVER, plain
from tests.cluster.waiting import wait_until

PRODUCT: Final = "allocator"
SCHEDULER: Final = "hami-scheduler"
LEASE: Final = 4
"""Seconds after which the standby may take over from a leader that has died."""

MARK: Final = "hami-plugins.io/allocator"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
GPU_MEMORY: Final = "nvidia.com/gpumem"
GPU_CORES: Final = "nvidia.com/gpucores"

RULES: Final = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "update", "patch"]},
)
"""All that the server may do, and no more."""


def hami_gpu(
    name: str = "main", *, gpus: int = 1, memory: int = 4096, cores: int = 0, then: str = FOREVER, **more: Any
) -> Object:
    """A container that asks for cards in HAMi's words, prints what it was given and then runs ``then``."""
    limits = {GPU: str(gpus), GPU_MEMORY: str(memory)} | ({GPU_CORES: str(cores)} if cores else {})
    return plain(name, then, resources={"limits": limits}, **more)


class HamiAllocator:
    """The server for NVIDIA's cards, its webhooks installed, and a kube-scheduler told to ask it.

    Several ``replicas`` stand behind a Service of which one answers at a time. With ``preemption`` it may evict.
    ``nodes`` is how many of them ``filter`` names.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        replicas: int = 1,
        preemption: Mapping[str, object] | None = None,
        nodes: str = "all",
    ) -> None:
        self.plane = plane
        folder = plane.machine.root / "hami-allocator"
        folder.mkdir(exist_ok=True)
        settings = {
            "vendors": ["NVIDIA"],
            "service": {"namespace": "kube-system"},
            "certificate": {"directory": str(folder), "bootstrap": True, "names": ["127.0.0.1"]},
            "reservation": 61,
            "lease": {"duration": LEASE, "deadline": 3, "retry": 0.5},
            "scheduler": {"nodes": nodes},
            **({} if preemption is None else {"preemption": dict(preemption)}),
        }
        rules = RULES if preemption is None else (*RULES, *RIGHTS_TO_EVICT)
        names = ("hami-allocator", *(f"hami-allocator-{at}" for at in range(1, replicas)))
        self.replicas = [Replica(plane, name, settings, product=PRODUCT, word="run", rules=rules) for name in names]
        self.replica = self.replicas[0]
        self._calls, self._hooks = self.replica.port, self.replica.hook_port
        self._fronts: list[Front] = []
        if replicas > 1:
            self._fronts.append(Front(lambda: [("127.0.0.1", each.port) for each in self.replicas if each.ready]))
            self._fronts.append(Front(lambda: [("127.0.0.1", each.hook_port) for each in self.replicas if each.ready]))
            self._calls, self._hooks = (front.port for front in self._fronts)
        self.scheduler = self._kube_scheduler()
        self.webhooks: Object = {}

    def __enter__(self) -> HamiAllocator:
        url = f"https://127.0.0.1:{self._hooks}"
        self.webhooks = yaml.safe_load(self.told("webhooks", "--url", url))
        self.plane.apply(HOOKS, self.webhooks)
        for each in self.replicas:
            each.component.start()
        answers = "the server answers"
        wait_until(lambda: any(each.ready for each in self.replicas), answers, 60, show=self.replica.component.log)
        self.replica.establish_trust()
        probe = pod("probe", container(limits={GPU: 1}))
        wait_until(
            lambda: marks(self.plane, probe, MARK),
            "the API server trusts the webhooks",
            90,
            show=self.replica.component.log,
        )
        self.scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the scheduler and the server, and takes the webhooks away."""
        for each in (self.scheduler, *(replica.component for replica in self.replicas)):
            if each.running:
                each.stop()
        for front in self._fronts:
            front.close()
        name = self.webhooks["metadata"]["name"]
        if self.plane.api.find(f"{HOOKS}/{name}") is not None:
            self.plane.api.delete(f"{HOOKS}/{name}")

    def told(self, *arguments: str) -> str:
        """What a command of the allocator prints, with the server's settings."""
        return command(*arguments, "--config", str(self.replica.config), product=PRODUCT)

    def _kube_scheduler(self) -> Component:
        conf: Mapping[str, Any] = yaml.safe_load(self.told("conf", "--kube-scheduler", "-o", "yaml"))
        return kube_scheduler(self.plane, conf, f"http://127.0.0.1:{self._calls}/scheduler")


def kube_scheduler(plane: ControlPlane, conf: Mapping[str, Any], url: str) -> Component:
    """A second kube-scheduler, for pods that name it, with the extender of ``conf``, which it finds at ``url``."""
    (extender,) = conf["extenders"]
    config = {
        **conf,
        "extenders": [{**extender, "urlPrefix": url}],
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.admin_kubeconfig)},
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    path = plane.machine.root / f"{SCHEDULER}.yaml"
    path.write_text(yaml.safe_dump(config))
    return plane.scheduler(SCHEDULER, f"--config={path}")


def allocated_to(found: Object) -> dict[str, list[tuple[str, str, str]]]:
    """Card, memory and cores of each container, init containers included, as HAMi's annotation has them."""
    text = found["metadata"]["annotations"].get(ALLOCATED, "")
    spec = found["spec"]
    names = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
    pieces = [
        [(fields[0], fields[2], fields[3]) for device in piece.split(":") if (fields := device.split(","))[0]]
        for piece in text.split(";")
    ]
    return dict(zip(names, pieces, strict=False))
