"""A card that objects for several reasons counts under the one that HAMi's Fit of its vendor looks at first.

Each chain is the order of a vendor's checks (``Fit`` in HAMi 2.10.0 ``pkg/device/*/device.go``). A card is made
to fail at every link from one on, and the words have to name that link, whatever else is wrong with the card.
"""

from typing import Any

import pytest

from tests.golden import cases
from tests.golden.test_vendors_fit import problems

Row = dict[str, Any]

WORDS = {
    "health": "CardNotHealth",
    "unplaced": "CardNotHealth",
    "unhealthy": "CardUnhealthy",
    "cordon": "CardCordoned",
    "type": "CardTypeMismatch",
    "mode": "ModeNotFit",
    "class": "CardAppClassMismatch",
    "quality": "CardQosPolicyMismatch",
    "id": "CardUuidMismatch",
    "slots": "CardTimeSlicingExhausted",
    "mutex": "ExclusiveDeviceAllocateConflict",
    "quota": "ResourceQuotaNotFit",
    "memory": "CardInsufficientMemory",
    "cores": "CardInsufficientCore",
    "whole": "ExclusiveDeviceAllocateConflict",
    "sold": "CardComputeUnitsExhausted",
    "held": "CardNotFoundCustomFilterRule",
    "wings": "NumaNotFit",
    "busy": "ExclusiveDeviceAllocateConflict",
}
"""What a card fails at, in HAMi's words."""

PLAIN = ("Ascend910A", "Ascend910B3", "Ascend310P", "Ascend910C", "MR-V100", "BI-V150")
CHAINS = (
    ("NVIDIA", "health cordon type id slots mutex quota memory cores whole"),
    ("NVIDIA", "unplaced cordon type id slots mutex quota memory sold"),
    ("MLU", "health id slots mutex quota memory cores whole"),
    ("MLU", "health id slots mutex quota memory sold"),
    ("DCU", "health type id slots mutex memory cores whole"),
    ("DCU", "health type id slots mutex memory sold"),
    *((vendor, "health id slots mutex memory cores whole") for vendor in PLAIN),
    *((vendor, "health id slots mutex memory sold") for vendor in PLAIN),
    ("Ascend910B3", "mode health id slots mutex memory"),
    ("Metax-GPU", "health slots mutex memory cores whole"),
    ("Metax-SGPU", "unhealthy class id slots mutex memory cores whole"),
    ("Metax-SGPU", "unhealthy class quality id slots mutex memory cores"),
    ("Metax-SGPU", "unhealthy quality id slots mutex memory sold"),
    ("Mthreads", "health id slots mutex memory cores held"),
    ("Mthreads", "health id slots mutex memory sold held"),
    ("kunlun", "id busy"),
    ("XPU", "id memory"),
    ("GCU", "health busy"),
    ("Enflame", "mode health id slots mutex memory cores"),
    ("AMD", "health type id slots mutex memory cores"),
    ("AWSNeuron", "health id slots mutex cores"),
    ("Vastai", "health id slots mutex"),
    ("Biren", "health id slots mutex"),
)
"""Vendors and what a card of theirs can fail at, in the order in which HAMi looks. No slots are looked at of Kunlun
cards and of whole Enflame cards, and no ids of whole Enflame and MetaX cards."""

IDS = {
    "NVIDIA": "nvidia.com/use-gpuuuid",
    "MLU": "cambricon.com/use-gpuuuid",
    "DCU": "hygon.com/use-gpuuuid",
    "Metax-SGPU": "metax-tech.com/use-gpuuuid",
    "Mthreads": "mthreads.ai/use-gpuuuid",
    "kunlun": "baidu.com/use-gpuuuid",
    "XPU": "hami.io/use-xpu-uuid",
    "Enflame": "enflame.com/use-gpuuuid",
    "AMD": "amd.com/use-gpu-uuid",
    "AWSNeuron": "aws.amazon.com/use-neuron-uuid",
    "Vastai": "vastaitech.com/use-gpuuuid",
    "Biren": "birentech.com/use-gpuuuid",
}
TYPES = {"NVIDIA": "nvidia.com/use-gputype", "DCU": "hygon.com/use-dcutype", "AMD": "amd.com/use-gputype"}
FULL_CORES = {"Mthreads": 16, "AWSNeuron": 3}
"""Cores of a card if they are not percentages; those of a Neuron device are a mask."""

LINKS = [
    pytest.param(vendor, chain.split()[at:], id=f"{vendor}-{'-'.join(chain.split()[at:])}")
    for vendor, chain in CHAINS
    for at in range(len(chain.split()))
]


@pytest.mark.parametrize(("vendor", "links"), LINKS)
def test_the_first_link_of_the_chain_is_counted(vendor: str, links: list[str]) -> None:
    given = _given(vendor, links)
    word = "wings" if vendor in ("kunlun", "XPU") and links[0] != "id" else links[0]
    expect = {"fit": False, "reason": f"1/1 {WORDS[word]}"}
    assert problems(cases.Case("chain", given, expect, {}), expect) == []


@pytest.mark.parametrize("vendor", sorted({vendor for vendor, _ in CHAINS}))
def test_a_card_without_any_of_them_is_taken(vendor: str) -> None:
    fits = {"fit": True, "picks": ["dev-0"]}
    given = _given(vendor, [])
    if vendor in ("kunlun", "XPU"):
        given["devices"] = [{**given["devices"][0], "id": f"dev-{at}", "index": at} for at in range(8)]
    assert problems(cases.Case("idle", given, fits, {}), fits) == []


def test_no_cards_are_given_up_for_the_numa_node_of_an_unhealthy_card() -> None:
    given = _given("NVIDIA", [])
    card = given["devices"][0]
    unplaced = {**card, "id": "dev-1", "used": 1, "count": 7, "mode": "mig", "numa": 1}
    given |= {"devices": [unplaced, {**card, "numa": 0}], "annotations": {"nvidia.com/numa-bind": "true"}}
    given["request"]["nums"] = 2
    expect = {"fit": False, "reason": "1/2 AllocatedCardsInsufficientRequest, 1/2 CardNotHealth"}
    assert problems(cases.Case("numa", given, expect, {}), expect) == []


def _given(vendor: str, links: list[str]) -> Row:
    """One card, and a request, that fail at each of the links."""
    full = FULL_CORES.get(vendor, 100)
    used = 1 if {"slots", "mutex", "whole", "busy", "unplaced", "class", "quality", "sold"}.intersection(links) else 0
    extra: Row = {"quota_limit_mib": 0} if "quota" in links else {}
    if "class" in links:
        extra["device_pod_app_classes"] = {"dev-0": ["online"]}
    if "held" in links:
        extra["already_allocated_uuids"] = ["dev-1"]
    return {
        "backend": vendor,
        "request": _request(vendor, links, full),
        "devices": [
            {
                "id": "dev-0",
                "index": 0,
                "used": used,
                "count": used if "slots" in links else used + 1,
                "usedmem": 40_960 if "memory" in links else 0,
                "totalmem": 40_960,
                "usedcores": full if {"cores", "sold"}.intersection(links) else 0,
                "totalcore": full,
                "health": "health" not in links and "unhealthy" not in links,
                "type": vendor,
                "mode": "mig" if "unplaced" in links else "",
                "custominfo": {
                    "QosPolicy": "burst-share",
                    "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
                },
            }
        ],
        "annotations": _annotations(vendor, links),
        "node_annotations": {"hami.io/device-cordon": "dev-0"} if "cordon" in links else {},
        "extra": extra,
    }


def _request(vendor: str, links: list[str], full: int) -> Row:
    cores = 0 if "sold" in links else full if "whole" in links else full // 2
    memory = 20_480
    if vendor == "Enflame":
        memory = 4 if "mode" in links else 3
    if vendor == "XPU":
        memory = 24_576
    return {"nums": 1, "memreq": memory, "pct": 0, "cores": cores, "type": vendor}


def _annotations(vendor: str, links: list[str]) -> dict[str, str]:
    found = {}
    if "id" in links:
        found[IDS.get(vendor, f"hami.io/use-{vendor}-uuid")] = "dev-9"
    if "type" in links:
        found[TYPES[vendor]] = "A-CARD-OF-ANOTHER-MODEL"
    if "mutex" in links:
        found["hami.io/gpu-scheduler-policy"] = "mutex"
    if "quality" in links:
        found["metax-tech.com/sgpu-qos-policy"] = "fixed-share"
    elif vendor == "Metax-SGPU":
        found["metax-tech.com/sgpu-qos-policy"] = "burst-share"
    if vendor.startswith("Ascend") and "mode" in links:
        found["huawei.com/vnpu-mode"] = "hami-core"
    return found
