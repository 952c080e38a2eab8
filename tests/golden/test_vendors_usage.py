"""What a share takes of its device in the cache, every vendor."""

from typing import Any

from hami_plugins.engine.inventory import RecordReader
from hami_plugins.engine.usage import usage_of
from hami_plugins.model.devices import CoreMask, Device, DeviceUsage, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from tests.golden import cases, notation

DEVIATIONS: dict[str, tuple[str, dict[str, int]]] = {
    "usage-014": (
        "HAMi counts only the slot while it places a pod, and cores and memory from the next pod on; we count all",
        {"used": 1, "usedcores": 100, "usedmem": 98304},
    ),
    "usage-015": (
        "HAMi counts the slices while it places a pod, and one container from the next pod on; we count the latter",
        {"used": 1, "usedcores": 50, "usedmem": 20480},
    ),
}
"""What differs on purpose: why, and what we count instead."""


@cases.each("hami-vendors/usage.yaml")
def test_share_counts_as_its_vector_says(case: cases.Case) -> None:
    given = case.given
    spec = notation.vendor(given["backend"])
    alloc = _partition(given["alloc"]) if "mig_profile" in given["alloc"] else given["alloc"]
    pods = [alloc] if not given["before"]["used"] else [_held(given["before"]), alloc]
    _, expected = DEVIATIONS.get(case.id, ("", case.expect["after"]))
    assert _counted(_usage(spec, pods)) == expected


def _held(before: dict[str, int]) -> dict[str, int]:
    return {"mem": before["usedmem"], "cores": before["usedcores"]}


def _usage(spec: VendorSpec, pods: list[dict[str, Any]]) -> DeviceUsage:
    """Read back what was written for these pods, one container each."""
    reader = RecordReader(notation.registry())
    texts = [f"dev-0,{spec.wire_word()},{pod['mem']},{pod['cores']}:;" for pod in pods]
    container = notation.container({})
    records = [reader.record(notation.pod(container, annotations={spec.keys.allocated: text}))[0] for text in texts]
    return usage_of(records, [DeviceId("dev-0")])[0]


def _counted(usage: DeviceUsage) -> dict[str, int]:
    masks = [mark.bits for mark in usage.marks if isinstance(mark, CoreMask)]
    return {"used": usage.slots, "usedcores": sum(masks) if masks else usage.cores, "usedmem": usage.memory}


def _partition(alloc: dict[str, Any]) -> dict[str, int]:
    """What a MIG card gives for a memory need: the profile, whatever was asked."""
    spec = notation.vendor("NVIDIA")
    profile = Profile(
        alloc["mig_profile"],
        MiB(alloc["profile_mem"]),
        CoreShare(alloc["profile_core"]),
        2,
        (SlicePlacement(0, 2),),
    )
    device = Device(
        vendor=spec.name,
        model="NVIDIA A100",
        slots=7,
        memory=MiB(40960),
        cores=CoreShare(100),
        index=0,
        mode="mig",
        profiles=(profile,),
    )
    request = DeviceRequest(vendor=spec.name, count=1, memory=Absolute(MiB(alloc["mem"])))
    assert spec.fitting.share_of is not None
    share = spec.fitting.share_of(
        Candidate(0, device, DeviceUsage()), ContainerRequest(request, DEFAULT_POLICY, NodeShape((device,)))
    )
    return {"mem": share.memory, "cores": share.cores}
