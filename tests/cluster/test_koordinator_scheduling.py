"""Pods in HAMi's and Volcano's words, placed by the real Koordinator on cards that the adapter publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hami_plugins.engine import koordinator as rules
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, RATIO, SHARED, decode
from koordinator_adapter.core import allocations
from koordinator_adapter.core.refusals import cause_of
from tests.cluster.api import ApiError
from tests.cluster.koordinator import SCHEDULER, Koordinator
from tests.cluster.koordinator_adapter import ISOLATION, WHOLE, Adapter, CardNodes, a_card, a_pod
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.waiting import wait_until

RECORD = "scheduling.koordinator.sh/device-allocated"
VISIBLE, LIMIT = "hami-plugins.io/visible-devices", "hami-plugins.io/memory-limit-"


@pytest.fixture(scope="module")
def adapter(koordinator: Koordinator) -> Iterator[Adapter]:
    """The server, which gives pods their limits as well, and leaves koord-manager ten seconds for the sums."""
    with Adapter(koordinator, injection={"mode": "always"}, devices={"grace": 10}) as running:
        yield running


@pytest.fixture
def nodes(koordinator: Koordinator, adapter: Adapter) -> Iterator[CardNodes]:
    """Two nodes of two cards, published."""
    with CardNodes(koordinator) as made:
        for name in (made.add(), made.add()):
            made.wait_summed(name, 200)
        yield made


def hami(count: int, **amounts: int) -> Mapping[str, int]:
    return {"nvidia.com/gpu": count, **{f"nvidia.com/{name}": amount for name, amount in amounts.items()}}


def volcano(count: int, **amounts: int) -> Mapping[str, int]:
    return {"volcano.sh/vgpu-number": count, **{f"volcano.sh/vgpu-{name}": amount for name, amount in amounts.items()}}


def _sorted(text: str) -> str:
    """The text with the names in brackets in order, in which 1.7.0 does not put them."""
    before, bracket, rest = text.partition("[")
    names, end, after = rest.partition("]")
    return f"{before}{bracket}{' '.join(sorted(names.split()))}{end}{after}"


def placed(koordinator: Koordinator, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod once the real scheduler has bound it."""
    koordinator.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return dict(koordinator.wait_bound(namespace, pod["metadata"]["name"]))


def test_the_objects_that_are_published_become_the_sums_of_koordinators_own_controller(
    koordinator: Koordinator, adapter: Adapter
) -> None:
    before = {what: adapter.writes(what) for what in ("created", "sums")}
    with CardNodes(koordinator) as nodes:
        name = nodes.add()
        nodes.wait_summed(name, 200)
        node = koordinator.plane.api.get(f"/api/v1/nodes/{name}")
        offered = node["status"]["allocatable"]
        assert [offered[each] for each in (GPU, CORE, RATIO, SHARED)] == ["200"] * 4
        assert offered[MEMORY] == "80Gi"
        assert node["metadata"]["labels"]["node.koordinator.sh/gpu-model"] == "NVIDIA-A100"
        assert (adapter.writes("created"), adapter.writes("sums")) == (before["created"] + 1, before["sums"])


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        (hami(1, gpumem=8192, gpucores=30), [(8192, 30)]),
        (hami(2, gpumem=4096, gpucores=20), [(4096, 20), (4096, 20)]),
        (hami(1, **{"gpumem-percentage": 50}, gpucores=50), [(WHOLE // 2, 50)]),
        (hami(2), [(WHOLE, 100), (WHOLE, 100)]),
        (volcano(1, memory=8192, cores=30), [(8192, 30)]),
        (volcano(2, memory=1024, cores=10), [(1024, 10), (1024, 10)]),
        (volcano(1, **{"memory-percentage": 25}, cores=25), [(WHOLE // 4, 25)]),
        (volcano(1, cores=100), [(WHOLE, 100)]),
    ],
)
def test_what_koordinator_records_is_what_the_translation_promised(
    koordinator: Koordinator, nodes: CardNodes, namespace: str, limits: Mapping[str, int], shares: list[tuple[int, int]]
) -> None:
    pod = placed(koordinator, namespace, a_pod("a", limits, nodeSelector=dict(nodes.selector)))
    node = pod["spec"]["nodeName"]
    held = allocations.assigned(decode(pod["metadata"]["annotations"][RECORD]))
    assert [(each.memory, each.cores) for each in held] == shares
    assert {each.device for each in held} <= {f"GPU-{node}-{card}" for card in range(2)}
    assert len({each.device for each in held}) == len(shares)


def test_limits_come_with_the_record_card_by_card(koordinator: Koordinator, nodes: CardNodes, namespace: str) -> None:
    pod = placed(
        koordinator,
        namespace,
        a_pod("a", hami(2, **{"gpumem-percentage": 25}, gpucores=40), nodeSelector=dict(nodes.selector)),
    )
    found = pod["metadata"]["annotations"]
    node = pod["spec"]["nodeName"]
    assert found[VISIBLE] == f"GPU-{node}-0,GPU-{node}-1"
    assert [found[f"{LIMIT}{card}"] for card in range(2)] == [str((WHOLE // 4) << 20)] * 2
    env = {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
    assert env["CUDA_DEVICE_SM_LIMIT_1"]["value"] == "40"


def test_a_card_is_chosen_by_its_id(koordinator: Koordinator, nodes: CardNodes, namespace: str) -> None:
    wanted = f"GPU-{nodes.names[1]}-1"
    annotations = {"nvidia.com/use-gpuuuid": wanted}
    pod = placed(koordinator, namespace, a_pod("a", hami(1, gpumem=1000, gpucores=10), annotations=annotations))
    assert koordinator.allocated(namespace, "a")["gpu"][0]["id"] == wanted
    assert pod["spec"]["nodeName"] == nodes.names[1]


def test_an_ill_card_gets_no_pods_and_a_swapped_one_has_a_number_of_its_own(
    koordinator: Koordinator, adapter: Adapter, namespace: str
) -> None:
    with CardNodes(koordinator) as nodes:
        name = nodes.add()
        nodes.wait_summed(name, 200)
        selector = dict(nodes.selector)
        small = hami(1, gpumem=1000, gpucores=10)
        placed(koordinator, namespace, a_pod("before", small, nodeSelector=selector))
        nodes.tell(name, a_card(name, 0, health=False), a_card(name, 1))
        nodes.wait_summed(name, 100)
        placed(koordinator, namespace, a_pod("after", small, nodeSelector=selector))
        assert koordinator.allocated(namespace, "after")["gpu"][0]["minor"] == 1
        nodes.tell(name, a_card(name, 0, id="GPU-new"), a_card(name, 1))
        nodes.wait_summed(name, 200)
        minors = {each["id"]: each["minor"] for each in adapter.device(name)["spec"]["devices"]}
        assert minors == {f"GPU-{name}-0": 0, f"GPU-{name}-1": 1, "GPU-new": 2}
        placed(koordinator, namespace, a_pod("whole", hami(1), nodeSelector=selector))
        assert koordinator.allocated(namespace, "whole")["gpu"][0]["id"] == "GPU-new"


@pytest.mark.parametrize(
    "limits",
    [
        {CORE: 50},
        {SHARED: 1},
        {CORE: 50, RATIO: 150},
        {SHARED: 3, RATIO: 50},
        {CORE: 10, MEMORY: "1Gi", RATIO: 10},
        {GPU: 150},
    ],
)
def test_what_the_real_scheduler_refuses_is_what_is_predicted(
    koordinator: Koordinator, nodes: CardNodes, namespace: str, limits: Mapping[str, object]
) -> None:
    """In a namespace that is not translated, so that no webhook stops the pod before."""
    pod = a_pod("a", limits, translated=False, schedulerName=SCHEDULER, nodeSelector=dict(nodes.selector))
    koordinator.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    said = koordinator.wait_refused(namespace, "a")
    amounts = {name: (1 << 30) if amount == "1Gi" else int(str(amount)) for name, amount in limits.items()}
    predicted = rules.request_of(amounts)
    assert isinstance(predicted, rules.IllegalRequest)
    assert _sorted(predicted.words) in _sorted(said)
    assert cause_of(said) is not None


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (hami(1, gpumem=15_000, gpucores=1), "Insufficient GPU Devices"),
        (hami(3, gpumem=1000, gpucores=10), "Insufficient gpu devices"),
    ],
)
def test_a_translated_pod_that_does_not_fit_is_told_so_in_words_that_are_known(
    koordinator: Koordinator, nodes: CardNodes, namespace: str, limits: Mapping[str, int], text: str
) -> None:
    selector = dict(nodes.selector)
    for at in range(4):
        placed(koordinator, namespace, a_pod(f"busy-{at}", hami(1, gpumem=30_000, gpucores=30), nodeSelector=selector))
    koordinator.plane.api.create(f"/api/v1/namespaces/{namespace}/pods", a_pod("a", limits, nodeSelector=selector))
    said = koordinator.wait_refused(namespace, "a")
    assert text in said
    assert cause_of(said) is not None


def test_koordinators_own_webhook_leaves_translated_pods_as_they_are(
    koordinator: Koordinator, adapter: Adapter, nodes: CardNodes, namespace: str
) -> None:
    pods = [
        a_pod(f"p-{at}", limits)
        for at, limits in enumerate(
            (
                hami(1, gpumem=8192, gpucores=30),
                hami(2, **{"gpumem-percentage": 50}),
                hami(2),
                volcano(1, memory=4096, cores=100),
                {GPU: 200},
                {MEMORY: "8Gi"},
            )
        )
    ]

    def seen() -> list[Any]:
        found = [adapter.asked(namespace, pod) for pod in pods]
        parts = ("labels", "annotations")
        return [(each["spec"], *(each["metadata"].get(part) for part in parts)) for each in found]

    alone = seen()
    with koordinator.webhooks():
        assert seen() == alone


def test_nobody_but_the_scheduler_records_cards_or_takes_limits_away(
    control_plane: ControlPlane, koordinator: Koordinator, nodes: CardNodes, namespace: str
) -> None:
    rights = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]
    somebody = control_plane.client(control_plane.account("somebody", rights))
    path = f"/api/v1/namespaces/{namespace}/pods"
    forged = a_pod("forged", {"cpu": 1}, translated=False, annotations={RECORD: '{"gpu":[{"minor":0}]}'})
    with pytest.raises(ApiError, match="is not one of them"):
        somebody.create(path, forged)
    pod = placed(
        koordinator, namespace, a_pod("a", hami(1, gpumem=1000, gpucores=10), nodeSelector=dict(nodes.selector))
    )
    key = next(iter(ISOLATION))
    assert pod["metadata"]["labels"][key] == "HAMi-core"
    for change in ({"labels": {key: None}}, {"annotations": {RECORD: None}}):
        with pytest.raises(ApiError, match="is not one of them"):
            somebody.merge_patch(f"{path}/a", {"metadata": change})
    with pytest.raises(ApiError, match="is not one of them"):
        somebody.merge_patch(f"{path}/a", {"metadata": {"annotations": {VISIBLE: "all"}}})
    changed = somebody.merge_patch(f"{path}/a", {"metadata": {"annotations": {"mine": "x"}}})
    assert changed["metadata"]["annotations"] == {**pod["metadata"]["annotations"], "mine": "x"}
    somebody.close()


def test_where_koordinators_controller_does_not_write_the_sums_pods_are_placed_on_ours(
    koordinator: Koordinator, adapter: Adapter, namespace: str
) -> None:
    koordinator.manager.stop()
    try:
        with CardNodes(koordinator) as nodes:
            name = nodes.add()
            before = adapter.writes("sums")
            nodes.wait_summed(name, 200)
            wait_until(lambda: adapter.writes("sums") == before + 1, "the write is counted")
            limits = hami(1, gpumem=8192, gpucores=30)
            placed(koordinator, namespace, a_pod("a", limits, nodeSelector=dict(nodes.selector)))
            koordinator.manager.start()
            ours = koordinator.plane.api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"]
            nodes.tell(name, a_card(name, 0), a_card(name, 1, health=False))
            nodes.wait_summed(name, 100)
            theirs = koordinator.plane.api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"]
            assert {key for key in ours if key.startswith("koordinator.sh/gpu")} == {
                key for key in theirs if key.startswith("koordinator.sh/gpu")
            }
    finally:
        if not koordinator.manager.running:
            koordinator.manager.start()


def test_while_nothing_happens_nothing_is_written(adapter: Adapter, nodes: CardNodes) -> None:
    wait_until(lambda: adapter.server.metric("koordinator_adapter_waiting_nodes") == 0, "nothing waits")
    before = [adapter.writes(what) for what in ("created", "changed", "sums", "labels", "conflict", "failed")]
    for name in nodes.names:
        adapter.plane.touch_node(name)
    wait_until(lambda: adapter.server.metric("koordinator_adapter_waiting_nodes") == 0, "nothing waits")
    assert [adapter.writes(what) for what in ("created", "changed", "sums", "labels", "conflict", "failed")] == before
