"""The document of what containers use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.wire import documents, usage
from hami_plugins.wire.usage import CardUsage, ContainerUsage, MemoryUse, NodeUsage, ReadStatus, UsageDoubt
from tests.unit.wire import mutations

GIB = 1 << 30

amounts = st.integers(0, 1 << 50)
memories = st.builds(MemoryUse, amounts, amounts, amounts, amounts)
ratios = st.floats(0, 100)
names = st.text("abc-.0", min_size=1, max_size=10)
cards = st.builds(
    CardUsage,
    card=st.sampled_from([DeviceId("GPU-a"), DeviceId("GPU-b")]),
    allocated=st.none() | amounts,
    cores_allocated=st.none() | ratios,
    limit=st.none() | amounts,
    used=st.none() | memories,
    utilization=st.none() | ratios,
)
containers = st.builds(
    ContainerUsage,
    pod_uid=names.map(PodUid),
    container=names,
    namespace=names,
    pod=names,
    reading=st.sampled_from(ReadStatus),
    problem=names,
    cards=st.lists(cards, max_size=3).map(tuple),
    processes=st.integers(0, 1024),
    unconfirmed=st.integers(0, 1024),
    gone=st.integers(0, 1024),
    last_kernel_age=st.none() | ratios,
    doubts=st.frozensets(st.sampled_from(UsageDoubt)),
)
nodes = st.builds(
    NodeUsage, node=names.map(NodeName), time=names, containers=st.lists(containers, max_size=3).map(tuple)
)


@given(nodes)
def test_decode_undoes_encode_through_json(found: NodeUsage) -> None:
    assert usage.decode(documents.load("usage", documents.dump(usage.encode(found)))) == found


def a_document(**changes: Any) -> dict[str, Any]:
    card = {"id": "GPU-a", "memoryAllocatedBytes": 20 * GIB}
    container = {"podUid": "u", "container": "main", "namespace": "ml", "pod": "p", "cards": [card]}
    return {"kind": "DeviceUsage", "node": "n", "time": "", "containers": [container]} | changes


def test_what_is_not_said_is_not_known() -> None:
    (container,) = usage.decode(a_document()).containers
    assert container.reading is ReadStatus.READ
    assert container.cards == (CardUsage(card=DeviceId("GPU-a"), allocated=20 * GIB),)


def damaged(*path: str | int, value: object) -> dict[str, Any]:
    document = a_document()
    *way, last = path
    holder: Any = document
    for step in way:
        holder = holder[step]
    holder[last] = value
    return document


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "usage"),
        (a_document(kind="VolcanoCards"), "volcano-vgpu usage -o json"),
        (damaged("containers", 0, "cards", 0, "id", value=""), "containers[0].cards[0].id"),
        (damaged("containers", 0, "cards", 0, "memoryAllocatedBytes", value=-1), "cards[0].memoryAllocatedBytes"),
        (damaged("containers", 0, "cards", 0, "utilizationRatio", value=-0.1), "cards[0].utilizationRatio"),
        (damaged("containers", 0, "cards", 0, "utilizationRatio", value=True), "cards[0].utilizationRatio"),
        (damaged("containers", 0, "reading", value="perhaps"), "one of read, not-ready"),
        (damaged("containers", 0, "doubts", value=["many"]), "one of may-be-stale"),
    ],
)
def test_an_error_names_the_place_and_what_is_allowed(document: object, says: str) -> None:
    with pytest.raises(WireError) as error:
        usage.decode(document)
    assert says in str(error.value)


@given(mutations.damaged(a_document()))
def test_a_damaged_document_is_read_or_refused(document: object) -> None:
    try:
        usage.decode(document)
    except WireError:
        return


def test_a_pod_of_several_nodes_is_found_by_its_name_and_one_without_by_its_uid() -> None:
    one = ContainerUsage(pod_uid=PodUid("u1"), container="a", namespace="ml", pod="p")
    two = ContainerUsage(pod_uid=PodUid("u1"), container="b", namespace="ml", pod="p")
    lost = ContainerUsage(pod_uid=PodUid("u2"), container="a")
    found = usage.by_pod(
        [
            NodeUsage(node=NodeName("n1"), time="", containers=(one, lost)),
            NodeUsage(node=NodeName("n2"), time="", containers=(two,)),
        ]
    )
    assert found == {"ml/p": (one, two), "pod u2": (lost,)}


def test_what_is_allocated_and_not_used_is_unused_where_both_are_known() -> None:
    card = CardUsage(card=DeviceId("GPU-a"), allocated=20 * GIB, used=MemoryUse(GIB, 0, GIB, 0))
    over = CardUsage(card=DeviceId("GPU-b"), allocated=GIB, used=MemoryUse(0, 0, 2 * GIB, 0))
    idle = CardUsage(card=DeviceId("GPU-c"), allocated=GIB)
    assert ContainerUsage(pod_uid=PodUid("u"), container="a", cards=(card, over, idle)).unused == 18 * GIB
