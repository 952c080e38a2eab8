"""Labels and annotations of the three dialects that mean something to a translation."""

from typing import Final

from hami_plugins.model.units import VendorName
from hami_plugins.vendors import koordinator as vendor
from hami_plugins.wire import gang_keys, hami_core, koordinator, koordinator_hints
from hami_plugins.wire.koordinator import CORE, FPGA, GPU, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, RDMA, SHARED

ISOLATION: Final = koordinator.ISOLATION
HAMI_CORE: Final = koordinator.HAMI_CORE
HINT: Final = koordinator_hints.KEY
JOINT: Final = koordinator_hints.JOINT_KEY
PARTITION: Final = koordinator_hints.PARTITION_KEY
RESERVATION: Final = "scheduling.koordinator.sh/reservation-affinity"
MODEL_LABEL: Final = "node.koordinator.sh/gpu-model"
VENDOR_LABEL: Final = "node.koordinator.sh/gpu-vendor"
DEVICE_ID_LABEL: Final = vendor.CARD_LABEL
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
RECORDS: Final = koordinator.RECORDS
FOR_DEVICE_PLUGINS: Final = koordinator.FOR_DEVICE_PLUGINS

NO_CORE_LIMIT: Final = "hami-plugins.io/no-core-limit"
"""Ours: the cores per card that were booked for a container which had no limit of cores, so that it can be undone."""

OPT_IN: Final = "hami-plugins.io/koordinator"
"""Ours: label of namespaces and pods that are to be translated (``translate``), and of pods that are not (``ignore``).
"""

TRANSLATE: Final = "translate"
IGNORE: Final = "ignore"

INJECTED: Final = koordinator.INJECTED
VISIBLE: Final = koordinator.VISIBLE
MEMORY_LIMIT: Final = koordinator.MEMORY_LIMIT

CORE_POLICY_ENV: Final = hami_core.CORE_POLICY_ENV
PRIORITY_ENV: Final = "CUDA_TASK_PRIORITY"

OTHER_DEVICES: Final = frozenset({RDMA, FPGA})
"""Resources of Koordinator that are not cards: each is a request of its own."""

KNOWN: Final = frozenset({GPU, SHARED, CORE, MEMORY, RATIO, RDMA, FPGA, NPU_CORE, NPU_CPU, NPU_DVPP})
PREFIX: Final = "koordinator.sh/"

BESIDE: Final = {
    "metax-tech.com/sgpu": VendorName("Metax-SGPU"),
    "cambricon.com/mlu.smlu.vcore": VendorName("MLU"),
    "cambricon.com/mlu.smlu.vmemory": VendorName("MLU"),
}
"""What device plugins of other vendors want besides Koordinator's names (Koordinator 1.8.0
``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go``), and whose they are."""

VENDORS: Final = {
    VendorName("NVIDIA"): "nvidia",
    VendorName("MLU"): "cambricon",
    VendorName("Metax-SGPU"): "metax",
}
"""Vendors whose cards Koordinator divides, as the label of nodes spells them."""

COLOCATED: Final = koordinator.COLOCATED
