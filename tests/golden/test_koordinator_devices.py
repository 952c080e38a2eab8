"""What is published of nodes, and the sums in them, against the vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from hami_plugins.wire import koordinator_devices, quantity
from hami_plugins.wire.koordinator import CORE, FPGA, GPU, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, RDMA, SHARED
from hami_plugins.wire.koordinator_devices import LARGEST_MINOR, MODEL_LABEL, REASON, VENDOR_LABEL
from koordinator_adapter.core.devices import sums
from koordinator_adapter.core.devices.publication import CreateObject, UpdateObject
from tests.golden.cases import Case, each
from tests.unit.koordinator_adapter.devices.nodes import a_node, card, planned, published

XIDS = (13, 31, 43, 45, 68, 109)
DEVIATIONS = {
    "node-133a": "gpu.shared is written whatever koord-manager's gate: its webhook asks for it",
    "node-135": "gpu.shared is written whatever koord-manager's gate: its webhook asks for it",
    "node-no-colocation": "without colocation koord-manager writes nothing, and these sums are what is missing",
    "report-145a": "a card without a NUMA node cannot be told from one on node 0",
    "report-145b": "no register tells of buses; the NUMA node is published without one",
    "report-146": "links between cards are not published as partitions",
    "report-xpu-honor": "links between cards are not published as partitions",
    "report-xpu-minor": "the place in the list is a number already",
    "report-xpu-bad-file": "one register that cannot be read hides no other",
    "report-xpu-hides-nvml": "of several vendors none is published until one is named",
    "report-xpu-vendor": "of several vendors none is published until one is named",
    **{f"report-xid-{code}": "health is what a node's agent says; nobody here reads XIDs" for code in XIDS},
}
ASCEND = {
    "hami.io/node-register-Ascend310P": json.dumps(
        [
            {
                "id": "N",
                "index": 0,
                "count": 7,
                "devmem": 21_527,
                "devcore": 8,
                "type": "Ascend310P",
                "health": True,
            }
        ]
    )
}
NODES = (
    a_node(card(0), card(1, numa=1)),
    a_node(card(0, health=False), card(7, id="G/1", type="A model, with commas!")),
    a_node(*map(card, range(70))),
    a_node(**ASCEND),
)
SEVERAL_MAKERS = a_node(card(0), **ASCEND)


def bodies() -> Iterator[dict[str, Any]]:
    """Everything that is published of some nodes, and of the same after their cards have gone."""
    for node in NODES:
        body = published(node)
        yield body
        live = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        yield published(a_node(), live, held=frozenset({0}))


def all_devices(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(body["spec"]["devices"])


RULES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "name": lambda body: body["metadata"]["name"] == "n",
    "type": lambda body: {each_one["type"] for each_one in all_devices(body)} <= {"gpu", "rdma", "fpga"},
    "minor": lambda body: (
        all(0 <= each_one["minor"] <= LARGEST_MINOR for each_one in all_devices(body))
        and all(left["minor"] < right["minor"] for left, right in pairwise(all_devices(body)))
    ),
    "health": lambda body: all(isinstance(each_one["health"], bool) for each_one in all_devices(body)),
    "gpu-resources": lambda body: all(
        (each_one["resources"][CORE], each_one["resources"][RATIO]) == ("100", "100")
        and quantity.parse(each_one["resources"][MEMORY], key=MEMORY).nano > 0
        for each_one in all_devices(body)
    ),
    "topology": lambda body: all(
        {"socketID", "nodeID", "pcieID"} <= set(each_one["topology"]) for each_one in all_devices(body)
    ),
    "label-values": lambda body: all(
        len(value) <= 63 and value.replace("-", "").replace("_", "").replace(".", "").isalnum()
        for labels in (body["metadata"]["labels"], *(each_one.get("labels", {}) for each_one in all_devices(body)))
        for value in labels.values()
    ),
    "reason": lambda body: all(
        REASON.fullmatch(said["reason"]) and len(said["reason"]) <= 1024
        for each_one in all_devices(body)
        for said in each_one.get("conditions", ())
    ),
    "partitions": lambda body: "annotations" not in body["metadata"],
    "one-vendor": lambda body: {VENDOR_LABEL, MODEL_LABEL} <= set(body["metadata"]["labels"]),
    "owner": lambda body: (
        [(owner["kind"], owner["name"], owner["uid"]) for owner in body["metadata"]["ownerReferences"]]
        == [("Node", "n", "uid-n")]
    ),
    "names": lambda body: all(
        set(each_one["resources"]) <= {CORE, MEMORY, RATIO, NPU_CORE, NPU_CPU, NPU_DVPP, RDMA, FPGA}
        for each_one in all_devices(body)
    ),
}


@each("koordinator/device-rules.yaml")
def test_whatever_is_published_keeps_the_rule(case: Case) -> None:
    for body in bodies():
        assert RULES[case.given["rule"]](body), body


@each("koordinator/device-reason.yaml")
def test_a_reason_is_legal_or_not(case: Case) -> None:
    assert bool(REASON.fullmatch(case.given["reason"])) is case.expect["legal"]


@each("koordinator/device-reporting.yaml", without=[name for name in DEVIATIONS if name.startswith("report-")])
def test_a_card_is_reported_as_koordlet_reports_it(case: Case) -> None:
    size = quantity.parse(case.given.get("resources", {}).get("gpu-memory", "40Gi"), key=MEMORY)
    (found,) = all_devices(published(a_node(card(0, devmem=size.ceiling >> 20))))
    assert found["type"] == case.expect.get("type", "gpu")
    assert case.expect["resources"].items() <= found["resources"].items()
    assert found["resources"][MEMORY] == str(size)


def test_of_several_makers_none_is_published_where_koordlet_takes_the_first_ones_labels() -> None:
    assert not isinstance(planned(SEVERAL_MAKERS).step, CreateObject | UpdateObject)


@each("koordinator/node-sums.yaml")
def test_the_sums_are_those_of_koordinators_controller(case: Case) -> None:
    given = case.given["devices"]
    raw = {
        "metadata": {"name": "n", "labels": {VENDOR_LABEL: case.given["vendor"]} if case.given["vendor"] else {}},
        "spec": {"devices": [{"type": "gpu", "minor": at, **device} for at, device in enumerate(given or ())]},
    }
    found = dict(sums.sums_of(None if given is None else koordinator_devices.decode(raw)))
    if case.id in DEVIATIONS:
        assert found.pop(SHARED) == 100 * len(given)
    wanted = {name: quantity.parse(text, key=name).ceiling for name, text in case.expect.get("node", {}).items()}
    if case.expect.get("written", True):
        assert wanted.items() <= found.items()
    assert not {*case.expect.get("absent", ()), *case.expect.get("removed", ())} & set(found)
    assert set(case.expect.get("names", ())) <= set(found)
    assert set(case.expect.get("removed", sums.NAMES)) == set(sums.NAMES)
    assert (GPU in found) is (bool(found) and case.given["vendor"] in {None, "nvidia"})
