"""What a container gets: its environment, its mounts and its device files.

Names and values are those of Volcano's own plugin and of HAMi-core (volcano-vgpu-device-plugin 1.12.0
``pkg/plugin/server.go``, HAMi 2.10.0 ``pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go``). Deviations from
Volcano's plugin, on purpose:

* every card has its own limit of cores in addition to that of the first;
* ``CUDA_OVERSUBSCRIBE`` follows the scaling of memory, which is what it is about, not of cores;
* ``GPU_CORE_UTILIZATION_POLICY`` really is written where core limits are disabled;
* ``CUDA_DISABLE_CONTROL`` takes the library away unless its value says no, not whatever its value is;
* the name of the shared cache is made of pod and container, so that a container that starts again finds its own.

Under HAMi names and values are those of HAMi's plugin, and of these deviations the first and the last remain. Paths in
the container are HAMi's; on the host its directory is where it is under Volcano, so that a node keeps it when its
dialect changes.

The same values become a CDI device (``cdi_device``) or the answer of ``Allocate`` itself (``answer``).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse, DeviceSpec
from hami_plugins.node.kubelet.deviceplugin_pb2 import Mount as MountMessage
from hami_plugins.wire.hami_core import (
    LIBRARY,
    LIBRARY_IN_CONTAINER,
    LOCK_DIRECTORY,
    PRELOAD,
    PRELOAD_IN_CONTAINER,
)
from hami_plugins.wire.pods import containers_of, written
from volcano_vgpu.core.identity import NONCE_KEY
from volcano_vgpu.core.model import NodeInventory, SharingMode
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.core.shares import AllocatedContainer

CACHE_DIRECTORIES: Final = {
    Dialect.VOLCANO: "/tmp/vgpu",  # noqa: S108 - a path of the protocol, inside the container
    Dialect.HAMI: "/usr/local/vgpu",
}
LICENSE: Final = "license"
VALIDATOR: Final = "vgpuvalidator"
_LICENSED: Final = ((LICENSE, "/tmp/license"), (VALIDATOR, "/usr/bin/vgpuvalidator"))  # noqa: S108 - HAMi's paths
MPS_ROOT: Final = "/run/nvidia/mps"
MOST_THREADS: Final = 100
"""Per cent of a card's threads: all of them."""

DISABLE: Final = "CUDA_DISABLE_CONTROL"
CDI_VERSION: Final = "0.6.0"

_NO: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""What Go, and so HAMi's webhook, reads as false."""

_YES: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""What it reads as true."""

_CACHES: Final = uuid.UUID("6b1d1f6e-5a0e-4f0c-9a36-0d1f1f0f6d3a")


class HostMount(NamedTuple):
    """A file or directory of the host in the container."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """Everything that is added to a container."""

    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[HostMount, ...] = ()
    device_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditSettings:
    """What the operator sets about containers.

    ``factor`` is the MiB in a unit of the register; ``hook_path`` where library and caches are on the host,
    ``lock_path`` where the lock is; ``priority`` the resource that becomes ``CUDA_TASK_PRIORITY``; ``device_nodes`` the
    device files that every card needs and that this host has (empty: the runtime brings them); ``mps_root`` the control
    daemon's directory. ``licensed``: HAMi's license and its validator are in the library's directory.
    """

    dialect: Dialect = Dialect.VOLCANO
    mode: SharingMode = SharingMode.HAMI_CORE
    factor: int = 1
    memory_scaling: float = 1.0
    hook_path: str = "/usr/local/vgpu"
    lock_path: str = LOCK_DIRECTORY
    disable_core_limit: bool = False
    core_policy: str = "default"
    log_level: int | None = None
    active_oom_killer: bool = False
    gdrcopy: bool = True
    gds: bool = True
    mofed: bool = True
    priority: str = ""
    device_nodes: tuple[str, ...] = ()
    mps_root: str = MPS_ROOT
    licensed: bool = False

    @classmethod
    def of(cls, settings: AgentSettings, device_nodes: tuple[str, ...] = (), *, licensed: bool = False) -> EditSettings:
        """What the agent's settings say about containers."""
        container = settings.container
        return cls(
            dialect=settings.dialect,
            mode=settings.mode,
            factor=settings.memory_unit,
            memory_scaling=settings.device_memory_scaling,
            hook_path=settings.hook_path,
            lock_path=settings.lock_path,
            disable_core_limit=settings.disable_core_limit,
            core_policy=container.core_policy,
            log_level=container.log_level,
            active_oom_killer=container.active_oom_killer,
            gdrcopy=container.gdrcopy,
            gds=container.gds,
            mofed=container.mofed,
            priority=settings.names.priority,
            device_nodes=device_nodes,
            licensed=licensed and settings.speaks_hami,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The container that the edits are for. ``raw`` is its part of the pod's specification."""

    pod_uid: PodUid
    container: str
    raw: Mapping[str, Any]

    @property
    def directory(self) -> str:
        """The name of its directory on the host, as monitors look for it (HAMi 2.10.0
        ``pkg/monitor/nvidia/cudevshr.go``)."""
        return f"{self.pod_uid}_{self.container}"


def edits_of(
    allocated: AllocatedContainer, owner: Owner, settings: EditSettings, inventory: NodeInventory
) -> ContainerEdits:
    """What a container with this allocation gets; the same for ever for the same allocation and settings."""
    visible = ("NVIDIA_VISIBLE_DEVICES", ",".join(share.visible for share in allocated.shares))
    if settings.mode is SharingMode.MIG:
        return ContainerEdits(env=(visible, *_features(settings)))
    return ContainerEdits(
        env=(
            visible,
            *_limits(allocated, settings),
            *_library_words(owner, settings),
            *_mps(allocated, settings),
            *_features(settings),
        ),
        mounts=_mounts(owner, settings),
        device_nodes=_device_nodes(allocated, settings, inventory),
    )


def cache_name(directory: str) -> str:
    """The name of the shared cache in a container's directory."""
    return f"{uuid.uuid5(_CACHES, directory)}.cache"


def container_in(raw_pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A container's part of a pod's specification; empty where there is none of that name."""
    return next((each for each, _ in containers_of(raw_pod) if each.get("name") == name), {})


def cdi_device(name: str, edits: ContainerEdits, annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """The edits as a device of a CDI specification."""
    changes: dict[str, Any] = {"env": [f"{key}={value}" for key, value in edits.env]}
    if edits.mounts:
        changes["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["ro" if mount.read_only else "rw", "nosuid", "nodev", "bind"],
            }
            for mount in edits.mounts
        ]
    if edits.device_nodes:
        changes["deviceNodes"] = [{"path": path, "permissions": "rw"} for path in edits.device_nodes]
    return {"name": name, "annotations": dict(annotations), "containerEdits": changes}


def answer(nonce: str, edits: ContainerEdits) -> ContainerAllocateResponse:
    """The edits as an answer of ``Allocate``, for runtimes without CDI."""
    return ContainerAllocateResponse(
        envs=dict(edits.env),
        mounts=[
            MountMessage(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in edits.mounts
        ],
        devices=[DeviceSpec(container_path=path, host_path=path, permissions="rw") for path in edits.device_nodes],
        annotations={NONCE_KEY: nonce},
    )


def _limits(allocated: AllocatedContainer, settings: EditSettings) -> tuple[tuple[str, str], ...]:
    devices = allocated.devices
    memory = (
        (f"CUDA_DEVICE_MEMORY_LIMIT_{at}", f"{device.memory * settings.factor}m") for at, device in enumerate(devices)
    )
    cores = ((f"CUDA_DEVICE_SM_LIMIT_{at}", str(device.cores)) for at, device in enumerate(devices))
    first = [("CUDA_DEVICE_SM_LIMIT", str(device.cores)) for device in devices[:1]]
    return (*memory, *first, *cores)


def _library_words(owner: Owner, settings: EditSettings) -> tuple[tuple[str, str], ...]:
    directory = CACHE_DIRECTORIES[settings.dialect]
    words = [("CUDA_DEVICE_MEMORY_SHARED_CACHE", f"{directory}/{cache_name(owner.directory)}")]
    if settings.memory_scaling > 1:
        words.append(("CUDA_OVERSUBSCRIBE", "true"))
    policy = "disable" if settings.disable_core_limit else settings.core_policy
    if policy != "default":
        words.append(("GPU_CORE_UTILIZATION_POLICY", policy))
    if settings.log_level is not None:
        words.append(("LIBCUDA_LOG_LEVEL", str(settings.log_level)))
    if settings.active_oom_killer:
        words.append(("ACTIVE_OOM_KILLER", "true"))
    limits = written(owner.raw, "limits")
    if settings.priority and settings.priority in limits:
        words.append(("CUDA_TASK_PRIORITY", str(limits[settings.priority])))
    return tuple(words)


def _mps(allocated: AllocatedContainer, settings: EditSettings) -> tuple[tuple[str, str], ...]:
    """What MPS's client in the container reads: where the daemon is, and the limits of each of its processes.

    Memory is in MiB by the number of the card among those that the container sees, as HAMi-core numbers them
    (``0=1024M,1=2048M``); threads are one percentage for all cards, the smallest of those that limit any. Source:
    NVIDIA's MPS documentation, ``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`` and ``CUDA_MPS_ACTIVE_THREAD_PERCENTAGE``.
    """
    if settings.mode is not SharingMode.MPS:
        return ()
    devices = allocated.devices
    memory = ",".join(f"{at}={device.memory * settings.factor}M" for at, device in enumerate(devices))
    cores = [device.cores for device in devices if device.cores and not settings.disable_core_limit]
    threads = (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(min(*cores, MOST_THREADS))),) if cores else ()
    return (("CUDA_MPS_PIPE_DIRECTORY", "/mps/pipe"), ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory), *threads)


def _features(settings: EditSettings) -> tuple[tuple[str, str], ...]:
    on = (("NVIDIA_GDRCOPY", settings.gdrcopy), ("NVIDIA_GDS", settings.gds), ("NVIDIA_MOFED", settings.mofed))
    return tuple((name, "enabled") for name, enabled in on if enabled)


def _mounts(owner: Owner, settings: EditSettings) -> tuple[HostMount, ...]:
    hook = settings.hook_path.rstrip("/")
    mounts = [
        # Under HAMi the library is inside the next directory; runtimes mount a directory before what is in it.
        HostMount(LIBRARY_IN_CONTAINER, f"{hook}/{LIBRARY}", read_only=True),
        HostMount(CACHE_DIRECTORIES[settings.dialect], f"{hook}/vgpu/containers/{owner.directory}", read_only=False),
        HostMount(LOCK_DIRECTORY, settings.lock_path, read_only=False),
    ]
    if not _disabled(owner.raw, settings.dialect):
        mounts.append(HostMount(PRELOAD_IN_CONTAINER, f"{hook}/{PRELOAD}", read_only=True))
    if settings.licensed:
        mounts += [HostMount(inside, f"{hook}/{name}", read_only=True) for name, inside in _LICENSED]
    if settings.mode is SharingMode.MPS:
        mounts.append(HostMount("/mps/pipe", f"{settings.mps_root}/pipe", read_only=False))
        mounts.append(HostMount("/dev/shm", f"{settings.mps_root}/shm", read_only=False))  # noqa: S108 - MPS's own
    return tuple(mounts)


def _disabled(raw: Mapping[str, Any], dialect: Dialect) -> bool:
    """Whether the container wants no control.

    A value that is known only when it starts counts as yes under Volcano, and as no under HAMi.
    """
    values = [each.get("value") for each in raw.get("env") or () if each.get("name") == DISABLE]
    if dialect is Dialect.HAMI:
        return any(value in _YES for value in values)
    return any(value not in _NO for value in values)


def _device_nodes(allocated: AllocatedContainer, settings: EditSettings, inventory: NodeInventory) -> tuple[str, ...]:
    if not settings.device_nodes:
        return ()
    cards = [inventory.card(card) for card in dict.fromkeys(allocated.cards)]
    return (*settings.device_nodes, *(f"/dev/nvidia{card.minor}" for card in cards if card is not None))
