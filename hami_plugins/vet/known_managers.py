"""The programs that give out devices of a node, and by what each is known: its container, resource or DRA driver.

Besides these, the vendors' own registers and resources tell (``managers``). Sources: the charts and manifests of
NVIDIA's k8s-device-plugin 0.19 and GPU Operator 25.10, HAMi 2.10.0, volcano-vgpu-device-plugin 1.12.0, Koordinator
1.7.0, and the vendors' manifests that ``vendors.facts`` names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import inside, mappings, text, texts

_SCHEDULED = "take the node out of its nodeSelector"


class KnownManager(NamedTuple):
    """A program that gives out devices: whose devices, what it is called, and how it is kept off a node."""

    vendor: str
    name: str
    remedy: str


HAMI_NVIDIA: Final = KnownManager(
    "NVIDIA",
    "HAMi's device plugin",
    "keep HAMi's off the node (devicePlugin.nvidiaNodeSelector of chart hami; by default the label gpu=on)",
)
OUR_AGENT: Final = KnownManager(
    "NVIDIA", "the agent of volcano-vgpu", "keep the agent off the node (agent.nodeSelector of chart volcano-vgpu)"
)
VOLCANO: Final = KnownManager(
    "NVIDIA", "Volcano's vGPU plugin", "take the node out of the nodeSelector of volcano-device-plugin"
)
NVIDIA: Final = KnownManager(
    "NVIDIA", "NVIDIA's device plugin", "take the node out of the nodeSelector of NVIDIA's device plugin"
)
GPU_OPERATOR: Final = KnownManager(
    "NVIDIA",
    "the GPU Operator's device plugin",
    "set devicePlugin.enabled=false in the GPU Operator's values, or label the node "
    "nvidia.com/gpu.deploy.device-plugin=false",
)
KOORDINATOR: Final = KnownManager(
    "NVIDIA",
    "Koordinator",
    "switch koordlet's gates Accelerators and GPUEnvInject off on the node and delete its Device object",
)

_GPUSHARE: Final = KnownManager("NVIDIA", "gpushare's device plugin", f"{_SCHEDULED} (label gpushare=true)")
_OLDER_VOLCANO: Final = KnownManager("NVIDIA", "Volcano's older GPU plugin", _SCHEDULED)
_HUAWEI: Final = KnownManager("Huawei", "Huawei's own device plugin", _SCHEDULED)
_HAMI_ASCEND: Final = KnownManager("Huawei", "ascend-device-plugin", f"{_SCHEDULED} (label ascend=on)")
_ROCM: Final = KnownManager("AMD", "ROCm's device plugin", _SCHEDULED)
_HAMI_AMD: Final = KnownManager("AMD", "amd-device-plugin of Project-HAMi", _SCHEDULED)

RESOURCES: Final[Mapping[str, KnownManager]] = {
    "nvidia.com/gpu.shared": NVIDIA,
    "volcano.sh/gpu-memory": _OLDER_VOLCANO,
    "volcano.sh/gpu-number": _OLDER_VOLCANO,
    "aliyun.com/gpu-mem": _GPUSHARE,
    "huawei.com/Ascend310": _HUAWEI,
    "huawei.com/Ascend910": _HUAWEI,
}
"""Resources that one program alone offers."""

DRIVERS: Final[Mapping[str, KnownManager]] = {
    "gpu.nvidia.com": KnownManager(
        "NVIDIA",
        "the DRA driver gpu.nvidia.com",
        "set resources.gpus.enabled=false in the values of nvidia-dra-driver-gpu, or take the node out of "
        "kubeletPlugin.nodeSelector",
    ),
    "hami-core-gpu.project-hami.io": KnownManager("NVIDIA", "the DRA driver hami-core-gpu.project-hami.io", _SCHEDULED),
    "gpu.amd.com": KnownManager("AMD", "the DRA driver gpu.amd.com", _SCHEDULED),
    "neuron.aws.com": KnownManager("AWS", "the DRA driver neuron.aws.com", _SCHEDULED),
}
"""DRA drivers of devices. ``compute-domain.nvidia.com`` is not among them: it gives out channels, and no card."""

TOLD_BY_KOORDINATOR: Final = frozenset(
    {"Cambricon's device plugin", "Huawei's own device plugin", "MetaX's device plugin"}
)
"""Device plugins that give out what Koordinator's scheduler has written on the pod (Koordinator 1.7.0
``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go``)."""

_IMAGES: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], KnownManager], ...]] = tuple(
    (re.compile(image), re.compile(container), manager)
    for image, container, manager in (
        (r".*/volcano-vgpu-agent", r".*", OUR_AGENT),
        (r".*/volcano-vgpu-device-plugin", r".*", VOLCANO),
        (r".*/volcano-device-plugin", r".*", _OLDER_VOLCANO),
        (r"(.*/)?projecthami/hami", r"device-plugin", HAMI_NVIDIA),
        (r".*/(k8s-gpushare-plugin|gpushare-device-plugin)", r".*", _GPUSHARE),
        (r"(.*/)?rocm/k8s-device-plugin", r".*", _ROCM),
        # Feature discovery and the control daemon of MPS run from the same image, and give nothing out.
        (r".*/k8s-device-plugin", r"nvidia-device-plugin.*", NVIDIA),
        (r"(.*/)?projecthami/amd-device-plugin", r".*", _HAMI_AMD),
        (r"(.*/)?projecthami/ascend-device-plugin", r".*", _HAMI_ASCEND),
        (r"(.*/)?ascend-k8sdeviceplugin", r".*", _HUAWEI),
    )
)
"""Programs by image (without tag and digest) and name of the container."""

_OPERATORS: Final = "nvidia-device-plugin-daemonset"
"""The label ``app`` of the device plugin that the GPU Operator makes; other charts have other labels."""


def program_of(pod: Json) -> KnownManager | None:
    """The program that a pod, or the template of one, runs; ``None`` for a pod that gives no devices out."""
    labels = texts(inside(pod, "metadata").get("labels"))
    for container in mappings(inside(pod, "spec").get("containers")):
        name = text(container.get("name"))
        for containers, manager in _of_image(text(container.get("image"))):
            if containers.fullmatch(name):
                return GPU_OPERATOR if manager is NVIDIA and labels.get("app") == _OPERATORS else manager
    return None


@lru_cache(maxsize=4096)
def _of_image(image: str) -> tuple[tuple[re.Pattern[str], KnownManager], ...]:
    """What may run from an image, by the name of the container; a cluster has far fewer images than pods."""
    head, slash, last = image.partition("@")[0].rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    return tuple((containers, manager) for images, containers, manager in _IMAGES if images.fullmatch(name))
