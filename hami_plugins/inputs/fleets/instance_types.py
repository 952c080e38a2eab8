"""Instance types of EC2 whose nodes can be told before they exist: those of the shapes, and further sizes.

Sources: AWS' page on accelerated instance types (vCPUs, memory, devices); memory of an A10G and of an A100 as
``nvidia-smi`` reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hami_plugins.inputs.fleets.shapes import SHAPES, Cards, FleetShape, Gpu, HostShape, Identity, neuron, nvidia
from hami_plugins.model.node_pools import INSTANCE_TYPE
from hami_plugins.model.units import MiB

_A10G: Final = Gpu(product="NVIDIA A10G", memory=MiB(23028))
_A100_40: Final = Gpu(product="NVIDIA A100-SXM4-40GB", memory=MiB(40960), nvlinks=12, per_switch=2)
_T4: Final = Gpu(product="Tesla T4", memory=MiB(15360))
_NAME: Final = re.compile(r"(?P<family>(?P<category>[a-z]+)(?P<generation>\d+)[a-z-]*)\.(?P<size>[a-z0-9-]+)")


def _type(name: str, cpus: int, memory_gib: int, devices: int, cards: Callable[[Identity], Cards]) -> FleetShape:
    return FleetShape(name=name, host=HostShape(name, cpus, memory_gib), devices=devices, cards=cards)


INSTANCE_TYPES: Final[Mapping[str, FleetShape]] = {
    **{shape.host.instance: shape for shape in reversed(tuple(SHAPES.values())) if "." in shape.host.instance},
    **{
        shape.name: shape
        for shape in (
            _type("g4dn.xlarge", 4, 16, 1, nvidia(_T4, 1)),
            _type("g4dn.12xlarge", 48, 192, 4, nvidia(_T4, 4)),
            _type("g5.xlarge", 4, 16, 1, nvidia(_A10G, 1)),
            _type("g5.2xlarge", 8, 32, 1, nvidia(_A10G, 1)),
            _type("g5.12xlarge", 48, 192, 4, nvidia(_A10G, 4)),
            _type("g5.48xlarge", 192, 768, 8, nvidia(_A10G, 8)),
            _type("p4d.24xlarge", 96, 1152, 8, nvidia(_A100_40, 8)),
            _type("inf2.xlarge", 4, 16, 1, neuron(2, efa=0)),
            _type("inf2.8xlarge", 32, 128, 1, neuron(2, efa=0)),
            _type("inf2.24xlarge", 96, 384, 6, neuron(2, efa=0)),
            _type("trn1.2xlarge", 8, 32, 1, neuron(2, efa=0)),
            _type("trn2.3xlarge", 12, 128, 1, neuron(4, efa=1)),
        )
    },
}
"""Every known type by its name, which is the value of the node label ``node.kubernetes.io/instance-type``."""


def labels_of(shape: FleetShape) -> dict[str, str]:
    """The labels that a node has by its type alone, as Karpenter and the cloud write them."""
    host = shape.host
    labels = {
        INSTANCE_TYPE: host.instance,
        "beta.kubernetes.io/instance-type": host.instance,
        "kubernetes.io/arch": host.arch,
        "kubernetes.io/os": "linux",
        "karpenter.k8s.aws/instance-cpu": str(host.cpus),
        "karpenter.k8s.aws/instance-memory": str(host.memory_gib * 1024),
    }
    for match in _NAME.finditer(host.instance):
        labels |= {f"karpenter.k8s.aws/instance-{part}": text for part, text in match.groupdict().items()}
    return labels
