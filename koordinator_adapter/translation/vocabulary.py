"""Labels and annotations of the three dialects that mean something to a translation."""

from typing import Final

from hami_plugins.wire import gang_keys, koordinator_hints
from hami_plugins.wire.koordinator import CORE, FPGA, GPU, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, RDMA, SHARED

ISOLATION: Final = "koordinator.sh/gpu-isolation-provider"
"""Label of pods whose limits are to be enforced, and of nodes that can."""

HAMI_CORE: Final = "HAMi-core"
"""The only value of the label that anybody acts upon; case counts."""

HINT: Final = koordinator_hints.KEY
JOINT: Final = koordinator_hints.JOINT_KEY
PARTITION: Final = koordinator_hints.PARTITION_KEY
RESERVATION: Final = "scheduling.koordinator.sh/reservation-affinity"
MODEL_LABEL: Final = "node.koordinator.sh/gpu-model"
VENDOR_LABEL: Final = "node.koordinator.sh/gpu-vendor"
DEVICE_ID_LABEL: Final = "gpu-uuid"
"""Label of a card in a Device object that this package publishes; koordlet's objects have none."""

QUOTA: Final = "quota.scheduling.koordinator.sh/name"
QUOTA_PREFIX: Final = "quota.scheduling.koordinator.sh/"
GROUP: Final = gang_keys.KOORDINATOR_GROUP_LABEL
OLD_GROUP: Final = gang_keys.KOORDINATOR_OLD_GROUP_LABEL
GANG_PREFIX: Final = "gang.scheduling.koordinator.sh/"
GANG_NAME: Final = gang_keys.KOORDINATOR_GANG_KEY
MIN_AVAILABLE: Final = gang_keys.KOORDINATOR_LEAST_KEY
WAITING: Final = "gang.scheduling.koordinator.sh/waiting-time"
MODE: Final = gang_keys.KOORDINATOR_MODE_KEY
SCHEDULER_LABEL: Final = "scheduling.koordinator.sh/scheduler-name"
"""Overrides ``spec.schedulerName`` inside Koordinator."""

CLASS_LABELS: Final = ("koordinator.sh/qosClass", "koordinator.sh/priority", "koordinator.sh/priority-class")
RECORDS: Final = (
    "scheduling.koordinator.sh/device-allocated",
    "scheduling.koordinator.sh/bind-timestamp",
    "scheduling.koordinator.sh/gpu-minors",
    "scheduling.koordinator.sh/reservation-allocated",
)
"""What Koordinator's scheduler writes on a pod that it has placed."""

FOR_DEVICE_PLUGINS: Final = (
    "predicate-time",
    NPU_CORE,
    "huawei.com/Ascend310P",
    "CAMBRICON_DSMLU_ASSIGHED",
    "CAMBRICON_DSMLU_PROFILE",
    "metax-tech.com/gpu-devices-allocated",
)
"""The same for device plugins of makers (``koordinator.md`` 2.2), with the gate DevicePluginAdaption; the spelling is
Koordinator's."""

NO_CORE_LIMIT: Final = "hami-plugins.io/no-core-limit"
"""Ours: the cores per card that were booked for a container which had no limit of cores, so that it can be undone."""

OPT_IN: Final = "hami-plugins.io/koordinator"
"""Ours: label of namespaces and pods that are to be translated (``translate``), and of pods that are not (``ignore``).
"""

TRANSLATE: Final = "translate"
IGNORE: Final = "ignore"

INJECTED: Final = "hami-plugins.io/limits"
"""Ours: how many cards' limits the containers take from annotations of the pod."""

VISIBLE: Final = "hami-plugins.io/visible-devices"
"""Ours: the cards that the containers see, by id."""

MEMORY_LIMIT: Final = "hami-plugins.io/memory-limit-"
"""Ours, with the place of a card after it: the bytes that the containers may use there."""

CORE_POLICY_ENV: Final = "GPU_CORE_UTILIZATION_POLICY"
PRIORITY_ENV: Final = "CUDA_TASK_PRIORITY"

OTHER_DEVICES: Final = frozenset({RDMA, FPGA})
"""Resources of Koordinator that are no cards: each is a request of its own."""

KNOWN: Final = frozenset({GPU, SHARED, CORE, MEMORY, RATIO, RDMA, FPGA, NPU_CORE, NPU_CPU, NPU_DVPP})
PREFIX: Final = "koordinator.sh/"
