"""Containers that say what they were given, held against what Volcano wrote about the same pod."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.cluster.agents import CORES, HOOK, MEMORY, NUMBER
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod, shell
from tests.cluster.waiting import wait_until

IDS: Final = "volcano.sh/vgpu-ids-new"
LEFT: Final = "volcano.sh/devices-to-allocate"
PHASE: Final = "volcano.sh/bind-phase"
ALLOCATED_NODE: Final = "volcano.sh/vgpu-node"
FOREVER: Final = "sleep 2147483647"

_OVERBOOKED: Final = re.compile(r"Volcano allocated [0-9]+ slots of (\S+), which has ([0-9]+), .* delete the pod")
_END: Final = "-- that is all"
_SAY: Final = f"env; cat /proc/self/mountinfo; echo; echo '{_END}'; "
_MOUNTED: Final = ("/tmp/vgpu", "/usr/local/vgpu")  # noqa: S108 - where Volcano's and HAMi's plugins mount the cache
_CACHES: Final = HOOK.removeprefix("/var/lib") + "/vgpu/containers/"  # a mount is shown by its path on its own disk


_PLACING: Final = frozenset({IDS, LEFT, PHASE, ALLOCATED_NODE, "volcano.sh/vgpu-time", "scheduling.k8s.io/group-name"})
"""What Volcano writes on a pod that it places."""

UNALLOCATED: Final = "Volcano bound it without allocating a card"
"""How the agent's refusal of such a pod begins."""


def gpu(
    name: str = "main", *, number: int = 1, memory: int = 4096, cores: int = 0, then: str = FOREVER, **more: Any
) -> Object:
    """A container that asks for cards, prints what it was given and then runs ``then``."""
    limits = {NUMBER: str(number)} | ({MEMORY: str(memory)} if memory else {}) | ({CORES: str(cores)} if cores else {})
    return plain(name, then, resources={"limits": limits}, **more)


def plain(name: str, then: str = FOREVER, **more: Any) -> Object:
    """A container that asks for nothing and prints the same."""
    own = {"name": "OWN_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    return shell(_SAY + then, name, **more) | {"env": [own]}


def volcano_pod(name: str, *containers: Object, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod that Volcano schedules; keywords as of ``objects.pod_spec``."""
    return pod(name, *(containers or (gpu(),)), annotations=annotations, schedulerName="volcano", **spec)


def pods(namespace: str) -> str:
    """The collection of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def jobs(namespace: str) -> str:
    """The collection of a namespace's vcjobs."""
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


@dataclass(frozen=True)
class Said:
    """What a container printed: its environment, the pod that it belongs to, and the folder mounted as its cache."""

    env: Mapping[str, str]
    uid: str
    cache: str

    @property
    def slice(self) -> Mapping[str, str]:
        """The variables that make up its slice."""
        return {name: text for name, text in self.env.items() if name.startswith(("NVIDIA_VISIBLE", "CUDA_DEVICE_"))}


def said(plane: ControlPlane, namespace: str, name: str, container: str = "main", *, timeout: float = 60.0) -> Said:
    """What a container printed, once it has."""

    def printed() -> str:
        text = plane.pod_log(namespace, name, container)
        return text if _END in text else ""

    return read(wait_until(printed, f"container {container} of {namespace}/{name} has printed", timeout))


def read(text: str) -> Said:
    """What a container printed."""
    env: dict[str, str] = {}
    cache = ""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[4] in _MOUNTED:
            cache = fields[3]
        elif "=" in line and " " not in line.partition("=")[0]:
            key, _, value = line.partition("=")
            env[key] = value
    return Said(env, env.get("OWN_UID", ""), cache)


def allocated(found: Object) -> dict[str, list[tuple[str, str, str]]]:
    """Card, memory and cores of each container that asks, as the pod's own annotation has them."""
    segments = [
        [(fields[0], fields[2], fields[3]) for device in segment.split(":") if (fields := device.split(","))[0]]
        for segment in found["metadata"]["annotations"].get(IDS, "").split(";")
    ]
    asking = [
        each["name"]
        for each in found["spec"]["containers"]
        if {NUMBER, MEMORY} & each.get("resources", {}).get("limits", {}).keys()
    ]
    return dict(zip(asking, segments, strict=False))


def wanted(devices: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """The variables of a slice."""
    env = {"NVIDIA_VISIBLE_DEVICES": ",".join(card for card, _, _ in devices)}
    for at, (_, memory, cores) in enumerate(devices):
        env |= {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{memory}m", f"CUDA_DEVICE_SM_LIMIT_{at}": cores}
    return env | {"CUDA_DEVICE_SM_LIMIT": devices[0][2]} if devices else env


def amiss(plane: ControlPlane, found: Object, *, lent: Mapping[str, str] | None = None) -> list[str]:
    """How what the containers of a running pod printed differs from its annotation; empty where all is as allocated.

    ``lent`` names init containers, with the container whose slice each of them is to have.
    """
    namespace, name, uid = (found["metadata"][key] for key in ("namespace", "name", "uid"))
    allocations = allocated(found)
    allocations |= {borrower: allocations[lender] for borrower, lender in (lent or {}).items()}
    problems = [f"{name}: allocated nothing"] if not any(allocations.values()) else []
    for container, devices in allocations.items():
        printed = said(plane, namespace, name, container)
        given = {key: text for key, text in printed.slice.items() if key != "CUDA_DEVICE_MEMORY_SHARED_CACHE"}
        own_cache = printed.cache.endswith(f"{_CACHES}{uid}_{container}")
        if given != wanted(devices) or printed.uid != uid or not own_cache:
            problems.append(f"{name}/{container}: allocated {devices} to {uid}, it has {given}, {printed.cache}")
    return problems


def wait_refused(
    plane: ControlPlane, namespace: str, name: str, text: str, *, container: str = "", timeout: float = 60.0
) -> str:
    """The whole message of the waiting container (any, or that one) that is refused with ``text``."""

    def message() -> str:
        status = plane.api.get(f"{pods(namespace)}/{name}")["status"]
        every = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        texts = [
            str((each.get("state", {}).get("waiting") or {}).get("message", ""))
            for each in every
            if container in ("", each["name"])
        ]
        return next((each for each in texts if text in each), "")

    def story() -> str:
        found = plane.api.find(f"{pods(namespace)}/{name}") or {}
        return f"{found.get('status')}" + "".join(plane.events(namespace, name))

    return wait_until(message, f"{namespace}/{name} is refused with {text!r}", timeout, show=story)


def settled(plane: ControlPlane, namespace: str, names: Sequence[str], *, timeout: float = 120.0) -> list[Object]:
    """The pods of these names once each of them runs, or was rejected by the kubelet with a reason.

    Volcano 1.14.1 now and then binds a pod although giving it a card has just failed (``trials.md`` V19). The agent
    refuses it and says to delete it; that is done here, and it is made anew. So is one for which its card has no slot.
    """
    return _settled(plane, namespace, names, timeout)[0]


def _settled(plane: ControlPlane, namespace: str, names: Sequence[str], timeout: float) -> tuple[list[Object], int]:
    """The pods, and how often one had to be made anew."""
    unallocated: dict[str, Object] = {}
    anew = 0

    def all_of_them() -> list[Object]:
        nonlocal anew
        found = {each["metadata"]["name"]: each for each in plane.api.items(pods(namespace))}
        for name in unallocated.keys() - found.keys():
            plane.api.create(pods(namespace), unallocated.pop(name))
            anew += 1
        for name in found.keys() & set(names):
            if _unallocated(found[name]) or _overbooked(found[name], found.values()):
                unallocated[name] = _unscheduled(found[name])
                plane.api.delete(f"{pods(namespace)}/{name}")
        return [found[name] for name in names] if all(_is_settled(found[name]) for name in names) else []

    found = wait_until(
        all_of_them,
        f"all of {len(names)} pods run or were rejected",
        timeout,
        interval=0.2,
        show=partial(_unsettled, plane, namespace),
    )
    return found, anew


def _unallocated(found: Object) -> bool:
    """Whether Volcano bound a pod without a card, and the agent says so. A job's pod is its controller's."""
    metadata = found["metadata"]
    refused = UNALLOCATED in str(found["status"]) and IDS not in metadata.get("annotations", {})
    return refused and not metadata.get("ownerReferences") and not metadata.get("deletionTimestamp")


def _overbooked(found: Object, every: Iterable[Object]) -> bool:
    """Whether Volcano gave a pod a slot more than its card has, and the agent says so.

    The holders are counted on the objects of the API server alone: a slot that the agent forgot to free does not count.
    """
    said = _OVERBOOKED.search(str(found["status"].get("containerStatuses", "")))
    if said is None or found["metadata"].get("ownerReferences") or found["metadata"].get("deletionTimestamp"):
        return False
    card, slots = said[1], int(said[2])
    holders = [each for each in every if card in each["metadata"].get("annotations", {}).get(IDS, "")]
    return len([each for each in holders if each["status"].get("phase") in ("Pending", "Running")]) > slots


def _unscheduled(found: Object) -> Object:
    """The pod as it was before anybody placed it."""
    metadata = {key: found["metadata"].get(key, {}) for key in ("name", "labels", "annotations")}
    metadata["annotations"] = {key: text for key, text in metadata["annotations"].items() if key not in _PLACING}
    spec = {key: value for key, value in found["spec"].items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def served(
    plane: ControlPlane, namespace: str, bodies: Sequence[Object], *, timeout: float = 120.0
) -> tuple[list[Object], int]:
    """Makes pods, and waits until they are ``settled``; also returns how many Volcano had bound without a card."""
    for each in bodies:
        plane.api.create(pods(namespace), each)
    return _settled(plane, namespace, [each["metadata"]["name"] for each in bodies], timeout)


def _unsettled(plane: ControlPlane, namespace: str) -> str:
    found = (each for each in plane.api.items(pods(namespace)) if not _is_settled(each))
    return "\n".join(f"{each['metadata']['name']}: {each['status']}" for each in found)


def wait_serving(plane: ControlPlane, container: Object | None = None) -> None:
    """Until a pod with a slice runs: a kubelet that has just started knows no plugin, a scheduler no cards."""
    namespace = f"probe-{secrets.token_hex(3)}"
    plane.create_namespace(namespace)

    def verdict(name: str) -> str:
        found = plane.api.get(f"{pods(namespace)}/{name}")
        told = "bound without cards" if "has not examined" in str(found["status"]) else rejected(found)
        return told or ("runs" if found["status"].get("phase") == "Running" else "")

    try:
        for at in range(30):
            plane.api.create(pods(namespace), volcano_pod(f"p{at}", container or gpu()))
            if wait_until(partial(verdict, f"p{at}"), "the probe runs, or is told why not", 90) == "runs":
                return
            plane.touch_node()
        raise AssertionError("no pod with a slice ever runs")
    finally:
        plane.clear_namespace(namespace)
        plane.api.delete(f"/api/v1/namespaces/{namespace}")


def rejected(found: Object) -> str:
    """Why the kubelet did not admit a pod, empty where it did."""
    status = found["status"]
    return str(status.get("message") or "no reason") if status.get("phase") == "Failed" else ""


def _is_settled(found: Object) -> bool:
    status = found["status"]
    ready = [each.get("state", {}).get("running") for each in status.get("containerStatuses", [])]
    return status.get("phase") == "Failed" or (status.get("phase") == "Running" and all(ready) and bool(ready))
