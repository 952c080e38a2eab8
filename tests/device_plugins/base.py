"""The common parts of all device plugins: an answer, an error, the annotations that list devices, writes of pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tests.cluster.api import Api, Object

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

LOCK: Final = "hami.io/mutex.lock"
PHASE: Final = "hami.io/bind-phase"
TIME: Final = "hami.io/bind-time"
NODE: Final = "hami.io/vgpu-node"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"

WORDS: Final = (
    "NVIDIA",
    "MLU",
    "DCU",
    "GCU",
    "Enflame",
    "Mthreads",
    "Metax",
    "kunlun",
    "XPU",
    "AMD",
    "Vastai",
    "Ascend",
)
"""Vendor words that a list which is not served completely may contain (``upstream.md hami-core 2.3``)."""

Devices = tuple[str, ...]
"""The records of one container, such as ``GPU-a,NVIDIA,3000,30``."""


class PluginError(Exception):
    """The kubelet gets this text, and fails the pod with UnexpectedAdmissionError."""


class Answer(NamedTuple):
    """A container's allocation: the pod and the container that the plugin takes it for, and devices."""

    namespace: str
    pod: str
    container: str
    devices: Devices
    environment: Mapping[str, str]


class DevicePlugin(Protocol):
    """A plugin of one node."""

    def allocate(self, counts: Sequence[int]) -> list[Answer]:
        """The answer to the kubelet's call for containers that get so many ids. Raises ``PluginError``."""


def notes_of(raw: Object) -> dict[str, str]:
    """An object's annotations."""
    found: dict[str, str] = raw["metadata"].get("annotations") or {}
    return found


def path_of(pod: Object) -> str:
    """Where the API server has a pod."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def annotate_pod(api: Api, pod: Object, **annotations: str) -> None:
    """One strategic merge patch, without the version of the pod (HAMi ``PatchPodAnnotations``)."""
    written = {{"phase": PHASE}.get(key, key): text for key, text in annotations.items()}
    api.request("PATCH", path_of(pod), {"metadata": {"annotations": written}}, content_type=STRATEGIC)


def decoded(text: str, *, keep_empty: bool) -> list[Devices]:
    """The records of each container. Later plugins keep empty pieces, also the last (``upstream.md hami-core 2.5``)."""
    containers = [tuple(each for each in piece.split(":") if "," in each) for piece in text.split(";")]
    if any(each.count(",") < 3 for devices in containers for each in devices):
        raise PluginError("pod annotation format error, missing fields, do not use nodeName in task spec")
    return containers if keep_empty else [each for each in containers if each]


def encoded(containers: Sequence[Devices]) -> str:
    """One ``;`` a container."""
    return "".join("".join(f"{each}:" for each in devices) + ";" for devices in containers)


def uuids(devices: Devices) -> list[str]:
    """The ids of the devices."""
    return [each.split(",")[0] for each in devices]


Environment = Callable[[Object, Devices], Mapping[str, str]]
"""What a container of the pod finds of its devices."""


def environment_of_nvidia(_pod: Object, devices: Devices) -> Mapping[str, str]:
    """``upstream.md hami-core 7.5``."""
    found = {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{each.split(',')[2]}m" for at, each in enumerate(devices)}
    cores = devices[0].split(",")[3]
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(uuids(devices)), "CUDA_DEVICE_SM_LIMIT": cores, **found}
