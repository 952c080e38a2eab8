"""No user forges an allocation of HAMi's vendors: what a pod or a Binding brings, the allocator's own takes its place.

The embedded API server has no admission policy, so every later write of an annotation succeeds here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.fleet import put_fleet
from tests import raw_objects
from tests.integration.allocator.sites import MARK, Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

SHAPES = {
    "NVIDIA": ("a100-80x8", {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}),
    "Ascend310P": ("310px4", {"huawei.com/Ascend310P": "1"}),
    "MLU": ("mlu370x8", {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "1"}),
    "DCU": ("dcu-z100x4", {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000"}),
}
"""By vendor a node, and what a pod asks of it."""

KEYS = {
    "NVIDIA": ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-mig-allocations"),
    "Ascend310P": (
        "hami.io/Ascend310P-devices-allocated",
        "hami.io/Ascend310P-devices-to-allocate",
        "huawei.com/Ascend310P",
        "predicate-time",
    ),
    "MLU": (
        "hami.io/cambricon-mlu-devices-allocated",
        "hami.io/cambricon-mlu-devices-to-allocate",
        "CAMBRICON_DSMLU_PROFILE",
        "CAMBRICON_DSMLU_ASSIGNED",
    ),
    "DCU": ("hami.io/dcu-devices-allocated", "hami.io/dcu-devices-to-allocate"),
}
BOOKKEEPING = ("hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-node", "hami.io/vgpu-time")
FORGED = {key: "forged" for keys in (*KEYS.values(), BOOKKEEPING) for key in keys}

every_vendor = pytest.mark.parametrize("vendor", SHAPES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Client]]:
    with site(tmp_path_factory.mktemp("site")) as made:
        for shape, _ in SHAPES.values():
            put_fleet(made.server, f"{shape}=3")
        client = made.start(vendors=list(SHAPES))
        made.install(client, vendors=list(SHAPES))
        yield made, client


@pytest.fixture
def user(place: tuple[Site, Client]) -> Iterator[KubeClient]:
    client = connect_to(place[0].server.url, component="user")
    yield client
    client.close()


def a_pod(name: str, vendor: str, annotations: dict[str, str] | None = None, node: str = "") -> dict[str, Any]:
    metadata = {"namespace": "default", "annotations": {"mine": "x", **(annotations or {})}}
    asks = raw_objects.container(limits=SHAPES[vendor][1], image="i")
    return raw_objects.pod(f"{name}-{vendor.lower()}", asks, metadata=metadata, node=node)


def node_of(place: Site, vendor: str, at: int) -> str:
    """One node of a vendor; each test has its own, because the locks of plugins stay."""
    names = sorted(str(each["metadata"]["name"]) for each in place.server.objects("nodes"))
    return [each for each in names if each.startswith(f"added-{SHAPES[vendor][0]}-")][at]


def annotations_of(place: Site, pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = place.server.get("pods", pod["metadata"]["name"], "default")["metadata"]["annotations"]
    return found


def by_the_scheduler(client: Client, pod: dict[str, Any], node: str) -> str:
    metadata = pod["metadata"]
    body = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": node}
    status, text = client.post(client.plain(f"{SCHEDULER_PATH}/bind"), json.dumps(body).encode())
    assert status == 200, text
    return str(json.loads(text)["Error"])


@every_vendor
def test_a_copied_manifest_loses_the_records_of_all_vendors(place: tuple[Site, Client], vendor: str) -> None:
    (pod,) = place[0].create(a_pod("copied", vendor, {**FORGED, MARK: "forged"}))
    assert pod["metadata"]["annotations"] == {"mine": "x", MARK: "extender"}


@every_vendor
def test_the_author_is_warned_of_each_record(place: tuple[Site, Client], vendor: str) -> None:
    _, answer = place[1].create(a_pod("warned", vendor, FORGED))
    assert answer["allowed"]
    assert {each.split()[1] for each in answer["warnings"]} == set(FORGED)


@every_vendor
@pytest.mark.parametrize("key", FORGED)
def test_a_pod_with_a_node_and_a_record_is_not_created(
    place: tuple[Site, Client], user: KubeClient, vendor: str, key: str
) -> None:
    with pytest.raises(KubeError, match="which only a scheduler writes") as refused:
        user.create(paths.pods("default"), a_pod("placed", vendor, {key: "forged"}, node_of(place[0], vendor, 0)))
    assert refused.value.status in {400, 403}


@every_vendor
@pytest.mark.parametrize("sender", ["scheduler", "user"])
def test_records_that_are_written_before_the_binding_or_in_it_have_no_effect(
    place: tuple[Site, Client], user: KubeClient, vendor: str, sender: str
) -> None:
    site_, client = place
    (pod,) = site_.create(a_pod(sender, vendor))
    name = pod["metadata"]["name"]
    user.merge_patch(paths.pod("default", name), {"metadata": {"annotations": FORGED}})
    node = node_of(site_, vendor, ["scheduler", "user"].index(sender))
    if sender == "scheduler":
        wait_for(lambda: by_the_scheduler(client, pod, node) == "", "bound")
    else:
        metadata = {"name": name, "annotations": {**FORGED, MARK: "extender"}}
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        wait_for(lambda: _bound(user, name, body), "bound")
    given = annotations_of(site_, pod)
    assert given[KEYS[vendor][0]] not in ("", "forged")
    assert given["hami.io/bind-phase"] == "allocating"
    assert given["hami.io/vgpu-node"] == node
    assert not [key for key, value in given.items() if value == "forged"]


def _bound(user: KubeClient, name: str, body: dict[str, Any]) -> bool:
    try:
        user.create(paths.pod_binding("default", name), body)
    except KubeError as error:
        if error.status != 503:  # the cache has not seen the pod yet
            raise
        return False
    return True
