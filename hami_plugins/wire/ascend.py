"""The annotation ``huawei.com/<chip>`` that Ascend's device plugin reads from a pod in addition to HAMi's lists, one
entry per NPU.

All containers of a pod are in one list, in order; the node agent looks devices up by id::

    [{"UUID":"92AC1C88","temp":"vir08","memory":8738}]
"""

from collections.abc import Iterable
from typing import NamedTuple

from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import documents, fields


class AllocatedNpu(NamedTuple):
    """One NPU: the template it is cut by (none for whole cards and soft shares), memory in MiB, cores in percent."""

    device: DeviceId
    template: str = ""
    memory: MiB = MiB(0)
    cores: CoreShare = CoreShare(0)


def encode(allocated: Iterable[AllocatedNpu]) -> str:
    """The text as HAMi writes it; empty and zero members are left out."""
    return documents.dump(
        [
            documents.filled({"UUID": device, "temp": template, "memory": memory, "core": cores})
            for device, template, memory, cores in allocated
        ]
    )


def decode(key: str, text: str) -> tuple[AllocatedNpu, ...]:
    """The entries of an annotation; raises ``WireError``."""
    return tuple(_allocated(item, f"{key}[{at}]") for at, item in enumerate(documents.load_list(key, text)))


def _allocated(item: object, place: str) -> AllocatedNpu:
    body = documents.folded(item, place)
    return AllocatedNpu(
        device=fields.device(body, "uuid", place),
        template=fields.text(body, "temp", place),
        memory=MiB(fields.natural(body, "memory", place)),
        cores=CoreShare(fields.natural(body, "core", place)),
    )
