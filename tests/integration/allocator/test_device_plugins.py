"""HAMi's device plugins serve the pods that the allocator binds: each gets its own devices, and the lock is returned.

The plugins are peers that follow the real ones step by step: ``tests/device_plugins``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hami_plugins.kube.client import connect_to
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from tests.cluster.api import Api
from tests.contract.kubelet.plugin import ScriptedPlugin
from tests.device_plugins.base import Answer, DevicePlugin, PluginError, decoded, notes_of
from tests.device_plugins.early import nvidia_2_4
from tests.device_plugins.hami import nvidia
from tests.integration.allocator.device_plugin_sites import (
    ALLOCATOR,
    ASCEND_LIMITS,
    CHIP,
    DCU_LIMITS,
    MLU_LIMITS,
    MLU_LOCK,
    NVIDIA_LIMITS,
    HamiCluster,
    Raw,
    a_pod,
    ascend_node,
    dcu_node,
    hami,
    mixed_node,
    mlu_node,
    mthreads_node,
    with_ascend,
    with_cambricon,
    with_hygon,
    with_nvidia,
)
from tests.integration.allocator.hami_pods import ALLOCATED, PHASE, TO_ALLOCATE
from tests.integration.allocator.hami_pods import a_node as nvidia_node
from tests.waiting import wait_for

Maker = Callable[[Api, str], Mapping[str, DevicePlugin]]
VENDORS: dict[str, tuple[str, Callable[[str], Raw], Maker, Mapping[str, str], str, str]] = {
    "nvidia": ("NVIDIA", nvidia_node, with_nvidia, NVIDIA_LIMITS, "nvidia.com/gpumem", ALLOCATED),
    "nvidia-2.4": (
        "NVIDIA",
        nvidia_node,
        lambda api, node: {"nvidia.com/gpu": nvidia_2_4(api, node)},
        NVIDIA_LIMITS,
        "nvidia.com/gpumem",
        ALLOCATED,
    ),
    "nvidia-2.5": (
        "NVIDIA",
        nvidia_node,
        lambda api, node: {"nvidia.com/gpu": nvidia(api, node, phases=("allocating",))},
        NVIDIA_LIMITS,
        "nvidia.com/gpumem",
        ALLOCATED,
    ),
    "ascend": (CHIP, ascend_node, with_ascend, ASCEND_LIMITS, "", f"hami.io/{CHIP}-devices-allocated"),
    "hygon": ("DCU", dcu_node, with_hygon, DCU_LIMITS, "hygon.com/dcumem", "hami.io/dcu-devices-allocated"),
}


@pytest.mark.parametrize("name", VENDORS)
def test_pods_bound_at_once_are_each_served_with_their_own_devices(tmp_path: Path, name: str) -> None:
    vendor, a_node, plugin, limits, memory, key = VENDORS[name]
    nodes, count = ("n1", "n2"), 16
    with hami(tmp_path, *map(a_node, nodes), vendors=[vendor]) as cluster:
        asked = [{**limits, **({memory: str(1000 + at)} if memory else {})} for at in range(count)]
        pods = cluster.create(*(a_pod(f"p{at:02}", each) for at, each in enumerate(asked)))
        with cluster.kubelets(cluster.plugins(plugin)) as kubelets:
            assert set(cluster.bind_all(pods, nodes)) == {""}
            wait_for(lambda: len(kubelets.served) == count)
            wait_for(cluster.no_locks)
        assert not kubelets.refused
        for served in kubelets.served:
            assert served.right, served
            notes = cluster.notes(served.pod)
            assert [served.answer.devices] == decoded(notes[key], keep_empty=False)
            assert notes[PHASE] == "success"


def test_cambricons_plugin_is_asked_twice_and_makes_each_pods_own_profile(tmp_path: Path) -> None:
    nodes, count = ("n1", "n2"), 8
    with hami(tmp_path, *map(mlu_node, nodes), vendors=["MLU"]) as cluster:
        cores = [{**MLU_LIMITS, "cambricon.com/mlu.smlu.vcore": str(5 + at)} for at in range(count)]
        pods = cluster.create(*(a_pod(f"p{at}", each) for at, each in enumerate(cores)))
        with cluster.kubelets(cluster.plugins(with_cambricon)) as kubelets:
            assert set(cluster.bind_all(pods, nodes)) == {""}
            wait_for(lambda: len(kubelets.served) == 2 * count)
            wait_for(cluster.no_locks)
        assert not kubelets.refused
        for served in kubelets.served:
            assert served.right, served
            notes = cluster.notes(served.pod)
            assert served.answer.devices == (notes["CAMBRICON_DSMLU_PROFILE"],)
            assert notes["CAMBRICON_DSMLU_ASSIGNED"] == "true"


def test_the_lock_stays_until_all_containers_are_served_init_containers_first(tmp_path: Path) -> None:
    sizes = [{"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(1000 + at)} for at in range(3)]
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        several, next_one = cluster.create(a_pod("several", *sizes[1:], init=sizes[:1]), a_pod("next"))
        owners: list[str] = []
        plugin = with_nvidia(cluster.api, "n1")["nvidia.com/gpu"]
        with cluster.kubelets(
            {"n1": {"nvidia.com/gpu": _Watched(plugin, lambda: owners.append(cluster.owner("n1")))}}
        ) as kubelets:
            assert cluster.bind(several, "n1") == ""
            assert cluster.bind(next_one, "n1") == ""
            wait_for(lambda: len(kubelets.served) == 4)
            wait_for(cluster.no_locks)
        given = [
            (each.container, each.answer.environment["CUDA_DEVICE_MEMORY_LIMIT_0"]) for each in kubelets.of("several")
        ]
        writes = cluster.lock_writes()
    assert all(each.right for each in kubelets.served)
    assert given == [("i0", "1000m"), ("c0", "1001m"), ("c1", "1002m")]
    assert owners == ["several", "several", "several", "next"]
    assert writes == 4


class _Watched:
    """A plugin that calls back before it answers."""

    def __init__(self, plugin: DevicePlugin, told: Callable[[], object]) -> None:
        self._plugin, self._told = plugin, told

    def allocate(self, counts: Sequence[int]) -> list[Answer]:
        self._told()
        return self._plugin.allocate(counts)


def test_pods_of_two_vendors_with_two_locks_do_not_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    node = mixed_node("n1", nvidia_node("n1"), mlu_node("n1"))
    kinds = ([NVIDIA_LIMITS], [MLU_LIMITS], [{**NVIDIA_LIMITS, **MLU_LIMITS}])
    with hami(tmp_path, node, vendors=["NVIDIA", "MLU"]) as cluster:
        pods = cluster.create(*(a_pod(f"p{at}", *kinds[at % 3]) for at in range(9)))
        with cluster.kubelets(cluster.plugins(with_nvidia, with_cambricon)) as kubelets:
            assert set(cluster.bind_all(pods, ["n1"])) == {""}
            wait_for(lambda: len(kubelets.served) == 3 * (1 + 2 + 3))
            wait_for(cluster.no_locks)
        assert not kubelets.refused
        assert all(each.right for each in kubelets.served)
        taken = cluster.place.server.requests.total(verb="patch", resource="nodes", agent=ALLOCATOR, code=200)
    assert taken == 9


def test_a_pod_costs_two_writes_with_a_lock_besides_the_plugins_own_and_none_without(tmp_path: Path) -> None:
    """The lock, and the label for HAMi's monitor, because this API server takes no labels from a Binding."""
    label = {"hami.io/vgpu-node": "n1"}
    free = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "2", "mthreads.com/sgpu-core": "1"}
    with hami(tmp_path, nvidia_node("n1"), mthreads_node("n2"), vendors=["NVIDIA", "Mthreads"]) as cluster:
        requests, count = cluster.place.server.requests, 10
        locked = cluster.create(*(a_pod(f"l{at}") for at in range(count)))
        unlocked = cluster.create(*(a_pod(f"u{at}", free) for at in range(count)))
        requests.clear()
        assert set(cluster.bind_all(unlocked, ["n2"])) == {""}
        assert requests.writes(resource="nodes") == 0
        assert requests.total(verb="create", subresource="binding") == count
        with cluster.kubelets({"n1": with_nvidia(cluster.api, "n1")}, runs=False) as kubelets:
            assert set(cluster.bind_all(locked, ["n1"])) == {""}
            wait_for(lambda: len(kubelets.served) == count)
            wait_for(cluster.no_locks)
            wait_for(lambda: all(cluster.pod(f"l{at}")["metadata"].get("labels") == label for at in range(count)))
        assert requests.writes(resource="pods", subresource="", agent=ALLOCATOR) == count
        assert requests.total(verb="create", subresource="binding", agent=ALLOCATOR) == 2 * count
        assert requests.writes(resource="nodes", agent=ALLOCATOR, code=200) == count
        assert requests.writes(resource="nodes", code=200) == 2 * count


def test_handshakes_and_registers_of_nodes_stay_as_their_plugins_wrote_them(tmp_path: Path) -> None:
    made = (nvidia_node("n1"), ascend_node("n2"), dcu_node("n3"), mlu_node("n4"))
    makers = (with_nvidia, with_ascend, with_hygon, with_cambricon)
    limits = (NVIDIA_LIMITS, ASCEND_LIMITS, DCU_LIMITS, MLU_LIMITS)
    with hami(tmp_path, *made, vendors=["NVIDIA", CHIP, "DCU", "MLU"]) as cluster:
        before = {name: cluster.node(name) for name in cluster.nodes()}
        pods = cluster.create(*(a_pod(f"p{at}", each) for at, each in enumerate(limits)))
        with cluster.kubelets(cluster.plugins(*makers)) as kubelets:
            assert set(cluster.bind_all(pods, ("n1", "n2", "n3", "n4"))) == {""}
            wait_for(lambda: len(kubelets.served) == 5)
            wait_for(cluster.no_locks)
        after = {name: cluster.node(name) for name in cluster.nodes()}
    assert {name: notes_of(raw) for name, raw in after.items()} == {name: notes_of(raw) for name, raw in before.items()}
    assert {name: raw["status"] for name, raw in after.items()} == {name: raw["status"] for name, raw in before.items()}


def test_the_containers_of_a_kubelet_find_the_limits_of_their_own_pods(tmp_path: Path) -> None:
    """The plugin is asked over its socket, as the kubelet asks it, and the kubelet starts the containers."""
    count, gpu = 6, "nvidia.com/gpu"
    with hami(tmp_path, nvidia_node("n1")) as cluster, tempfile.TemporaryDirectory() as root:
        peer = nvidia(cluster.api, "n1")

        def allocate(ids: Sequence[str]) -> messages.ContainerAllocateResponse:
            return messages.ContainerAllocateResponse(envs=peer.allocate([len(ids)])[0].environment)

        api = connect_to(cluster.place.server.url, component="kubelet")
        with EmulatedKubelet(api, "n1", Path(root), times=Times.fast()) as kubelet:
            slots = {f"GPU-n1-{card}-{at}": True for card in range(2) for at in range(10)}
            plugin = ScriptedPlugin(kubelet.plugin_directory, gpu, slots)
            plugin.options, plugin.allocate = messages.DevicePluginOptions(), allocate
            plugin.start()
            wait_for(lambda: cluster.node("n1")["status"]["allocatable"].get(gpu) == "20")
            sizes = [{gpu: "1", "nvidia.com/gpumem": str(1000 + at)} for at in range(count)]
            pods = cluster.create(*(a_pod(f"p{at}", size) for at, size in enumerate(sizes)))
            assert set(cluster.bind_all(pods, ["n1"])) == {""}
            wait_for(lambda: len(kubelet.running()) == count and cluster.no_locks())
            found = {each.pod: each.env for each in kubelet.running()}
            plugin.stop()
        api.close()
    limits = {name: env["CUDA_DEVICE_MEMORY_LIMIT_0"] for name, env in found.items()}
    assert limits == {f"default/p{at}": f"{1000 + at}m" for at in range(count)}


# A plugin that fails


def test_a_pod_that_its_plugin_refuses_fails_and_the_next_one_is_served(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        wrong, next_one = cluster.create(a_pod("wrong", {**NVIDIA_LIMITS, "nvidia.com/gpu": "2"}), a_pod("next"))
        with cluster.kubelets(
            cluster.plugins(with_nvidia), before=lambda pod: _one_card_less(cluster, pod)
        ) as kubelets:
            assert cluster.bind(wrong, "n1") == ""
            assert cluster.bind(next_one, "n1") == ""
            wait_for(lambda: kubelets.of("next"))
            wait_for(cluster.no_locks)
        assert kubelets.refused == {"wrong": "device number not matched"}
        assert cluster.notes("wrong")[PHASE] == "failed"
        assert cluster.pod("wrong")["status"]["phase"] == "Failed"
        assert kubelets.of("next")[0].right


def _one_card_less(cluster: HamiCluster, pod: Raw) -> None:
    """Another client has removed a card from the list of ``wrong``."""
    if pod["metadata"]["name"] == "wrong":
        first = notes_of(pod)[TO_ALLOCATE].split(":")[0]
        cluster.annotate_pod("wrong", {TO_ALLOCATE: f"{first}:;"})


def test_a_failed_pod_of_a_plugin_without_release_gives_its_lock_back(tmp_path: Path) -> None:
    with hami(tmp_path, mlu_node("n1"), vendors=["MLU"]) as cluster:
        wrong, next_one = cluster.create(a_pod("wrong", MLU_LIMITS), a_pod("next", MLU_LIMITS))
        with cluster.kubelets(
            cluster.plugins(with_cambricon), before=lambda pod: _no_profile(cluster, pod)
        ) as kubelets:
            assert cluster.bind(wrong, "n1") == ""
            assert cluster.lock("n1", MLU_LOCK) is not None
            assert cluster.bind(next_one, "n1") == ""
            wait_for(lambda: len(kubelets.of("next")) == 2)
            wait_for(cluster.no_locks)
        assert kubelets.refused == {"wrong": "get profile from annotation: none"}
        assert all(each.right for each in kubelets.served)


def _no_profile(cluster: HamiCluster, pod: Raw) -> None:
    """Another client has spoilt the profile of ``wrong``."""
    if pod["metadata"]["name"] == "wrong":
        cluster.annotate_pod("wrong", {"CAMBRICON_DSMLU_PROFILE": "none"})


# The recorded steps of the plugins, where no test of the allocator needs them


def test_without_a_lock_the_first_pod_in_the_servers_order_is_served(tmp_path: Path) -> None:
    """The guess that the lock saves pods from."""
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        later, earlier = cluster.create(a_pod("b"), a_pod("a"))
        assert cluster.bind(later, "n1") == ""
        cluster.annotate_node("n1", lock=None)
        assert cluster.bind(earlier, "n1") == ""
        cluster.annotate_node("n1", lock=None)
        (answer,) = nvidia(cluster.api, "n1").allocate([1])
    assert answer.pod == "a"


@pytest.mark.parametrize(
    ("lock", "text"),
    [
        ("2026-11-24T00:00:00Z,default", "malformed lock annotation: expected 3 parts, got 2"),
        ("lock", "Invalid isoformat string"),
        ("2026-11-24T00:00:00Z,default,gone", "404"),
        (None, "no binding pod found on node n1"),
    ],
)
def test_where_no_pod_is_found_nothing_is_written(tmp_path: Path, lock: str | None, text: str) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        cluster.annotate_node("n1", lock=lock)
        cluster.place.server.requests.clear()
        with pytest.raises(PluginError, match=text):
            nvidia(cluster.api, "n1").allocate([1])
        requests = cluster.place.server.requests
        assert requests.writes(resource="nodes") + requests.writes(resource="pods") == 0
        assert cluster.lock("n1") == lock


def test_p4_and_p5_one_patch_for_all_containers_of_a_call_and_none_left_is_an_error(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        (pod,) = cluster.create(a_pod("p", NVIDIA_LIMITS, NVIDIA_LIMITS))
        assert cluster.bind(pod, "n1") == ""
        requests, plugin = cluster.place.server.requests, nvidia(cluster.api, "n1")
        requests.clear()
        assert [each.container for each in plugin.allocate([1, 1])] == ["c0", "c1"]
        ours = requests.total(verb="patch", resource="pods", agent=ALLOCATOR)
        assert requests.total(verb="patch", resource="pods") - ours == 2  # the list, and then the phase
        assert cluster.notes("p")[TO_ALLOCATE] == ";;;"
        cluster.annotate_node("n1", lock="2026-11-24T00:00:00Z,default,p")
        with pytest.raises(PluginError, match="no pending device allocation found"):
            plugin.allocate([1])
        assert cluster.notes("p")[PHASE] == "failed"
        wait_for(cluster.no_locks)
