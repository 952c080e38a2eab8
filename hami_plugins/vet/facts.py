"""What people get wrong about particular vendors: foreign names, limits that a ``VendorSpec`` does not say.

Everything that the registered vendors say themselves (names, units, webhook) is asked of them, not written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_plugins.model.units import MiB, VendorName
from hami_plugins.vendors import volcano

FOREIGN_RESOURCES: Final[Mapping[str, str]] = {
    "aws.amazon.com/neuron_device": "AWS' device plugin",
    "cambricon.com/mlu": "Cambricon's own device plugin",
    "huawei.com/Ascend310": "Huawei's own device plugin",
    "huawei.com/Ascend910": "Huawei's own device plugin",
    "huawei.com/npu-core": "Huawei's own device plugin",
    "nvidia.com/gpu.shared": "NVIDIA's time slicing",
    **dict.fromkeys(volcano.OLDER_SHARING, "Volcano's older GPU sharing"),
}
"""Resources near the names of HAMi that really exist, and who hands them out."""

PRESENT_NAMES: Final[Mapping[str, str]] = {
    "volcano.sh/gpu-memory": "volcano.sh/vgpu-memory: {} (with volcano.sh/vgpu-number: 1)",
    "volcano.sh/gpu-number": "volcano.sh/vgpu-number: {}",
}
"""The replacement for a resource of an older plugin, with its amount, if a later plugin of the same vendor has it."""

WHOLE_WHEN_SEVERAL: Final[Mapping[VendorName, str]] = {
    **dict.fromkeys(
        map(VendorName, ("MR-V100", "MR-V50", "BI-V150", "BI-V100")), "the webhook asks for all their cores"
    ),
    VendorName("MLU"): "the plugin gets only the slice of the first card",
    VendorName("DCU"): "a virtual DCU is a slice of one card",
    VendorName("Mthreads"): "the webhook overwrites memory and cores with whole cards",
}
"""Vendors whose cards are shared only one at a time, although the scheduler takes the request."""

SETS_TOGETHER: Final[Mapping[VendorName, tuple[int, ...]]] = {
    VendorName("kunlun"): (1, 2, 4, 8),
    VendorName("XPU"): (1, 2, 4, 8),
}
"""How many cards of a vendor are ever linked."""

PAIRED: Final = frozenset({VendorName("Ascend910C")})
"""Vendors whose devices go together in twos."""

USUAL_CARDS: Final = (*range(1, 9), 16)
"""How many shareable cards machines have."""

TRAINIUM_SETS: Final = (1, 4, 8, 16)
"""How many Trainium devices AWS allocates together on instances with rings."""

LINKED_POOL: Final = ("hami-plugins.io/neuron-sets", "linked")
"""The label of node pools that allocate any number of them, where a vendor that knows pools takes this one's place."""

NEURON: Final = VendorName("AWSNeuron")

MEMORY_IS_A_GUESS: Final = frozenset({VendorName("Enflame")})
"""Vendors that take the same number for GB or MiB, depending on the card."""

TAKES_UNITS: Final = frozenset({VendorName("Metax-SGPU")})
"""Vendors that read memory with a unit behind the number as bytes."""

LARGEST_CARD: Final[Mapping[VendorName, MiB]] = {
    **dict.fromkeys(map(VendorName, ("MR-V100", "MR-V50", "BI-V150", "BI-V100")), MiB(128 << 10)),
    VendorName("MLU"): MiB(128 << 10),
    VendorName("Mthreads"): MiB(128 << 10),
    VendorName("Metax-SGPU"): MiB(192 << 10),
}
"""More memory than any card of the vendor has, where amounts are not in MiB and so easily mistaken."""

LARGEST_OF_ALL: Final = MiB(384 << 10)
"""More memory than any card on the market has."""

SMALLEST_USEFUL: Final = MiB(256)
"""Less than a runtime needs for itself."""

ONE_CARD_PER_POD: Final = frozenset({VendorName("Metax-GPU"), VendorName("Mthreads")})
"""Vendors that give all containers of a pod the same card, or none."""

WHOLE_CORES: Final[Mapping[VendorName, int]] = {VendorName("Mthreads"): 16}
"""A whole card in the vendor's cores, if that is not 100."""

MEMORY_STEPS: Final[Mapping[VendorName, tuple[int, ...]]] = {VendorName("Mthreads"): (2, 4, 8, 16, 32, 64, 96)}
"""Amounts of memory, in the vendor's units, that its webhook takes for a single card."""

BESIDE_KOORDINATOR: Final = frozenset({VendorName("MLU"), VendorName("Metax-SGPU")})
"""Vendors whose device plugins need names of their own in addition to Koordinator's (Koordinator 1.7.0
``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go``)."""

COUNT_IS_OPTIONAL: Final = frozenset({NEURON, VendorName("Enflame")})
"""Vendors that can be asked for cores or memory instead of a number of cards."""

CORES_ARE_TOTALS: Final = frozenset(map(VendorName, ("Mthreads", "MR-V100", "MR-V50", "BI-V150", "BI-V100")))
"""Vendors whose cores are those of all cards of the container together."""


class AllowedValues(NamedTuple):
    """What an annotation may say. ``many`` allows a comma list of the words, ``shown`` is how many of them to name."""

    allowed: tuple[str, ...]
    many: bool = False
    shown: int = 5


_TRUTH: Final = ("true", "false", "True", "False", "TRUE", "FALSE", "t", "f", "T", "F", "1", "0")
"""What Go takes for a truth value."""

VALUES: Final[Mapping[str, AllowedValues]] = {
    "hami.io/node-scheduler-policy": AllowedValues(("binpack", "spread")),
    "hami.io/gpu-scheduler-policy": AllowedValues(("binpack", "spread", "mutex", "numa", "topology-aware"), many=True),
    "huawei.com/vnpu-mode": AllowedValues(("hami-core",)),
    "metax-tech.com/sgpu-app-class": AllowedValues(("online", "offline")),
    "metax-tech.com/sgpu-qos-policy": AllowedValues(("best-effort", "fixed-share", "burst-share")),
    "metax-tech.com/sgpu-topology-aware": AllowedValues(_TRUTH, shown=2),
    "nvidia.com/numa-bind": AllowedValues(_TRUTH, shown=2),
    "nvidia.com/vgpu-mode": AllowedValues(("hami-core", "mig", "mps"), many=True),
    "volcano.sh/vgpu-mode": AllowedValues(("hami-core", "mig")),
    "volcano.sh/vgpu-podgroup-policy": AllowedValues(("spread",)),
}
"""What annotations with a fixed set of values may say; anything else is ignored, or refused by the webhook."""

REFUSED_VALUES: Final = frozenset({"metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"})
"""Annotations whose other values the webhook refuses."""
