"""Scheduler, API server and the allocator together: what Volcano alone gets wrong, and what becomes of it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hami_plugins.allocations.manifests.stale_allocations import KEYS as VOLCANO_KEYS
from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.volcano import EmulatedVolcano, ExtenderArguments
from hami_plugins.vendors.volcano import RESOURCES
from tests.integration.volcano_vgpu.allocation.servers import IDS, NODE, Client, Site, a_node, a_pod
from tests.unit.allocator.products import MARK, target, webhooks
from tests.waiting import wait_for

WHOLE = 40_960
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def install(cluster: Site, client: Client) -> None:
    """Has the API server ask this replica."""
    address = client.server.webhook_address
    assert address is not None
    authority = base64.b64encode((cluster.folder / "tls.crt").read_bytes()).decode()
    where = target(namespace="allocator-system", url=f"https://localhost:{address[1]}", ca=authority)
    cluster.put(webhooks(where))


@contextmanager
def volcano(cluster: Site, client: Client | None = None, *, asks: bool = False, **options: Any) -> Iterator[None]:
    """The scheduler; with ``asks`` it knows no cards itself."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    cluster.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
    if asks:
        assert client is not None
        options["extenders"] = (ExtenderArguments(url=client.plain(EXTENDER_PATH), managed=RESOURCES.all()),)
    api = connect_to(cluster.server.url, component="volcano")
    with EmulatedVolcano(api, period=0.02, **options):
        yield
    api.close()


def a_gang(name: str, replicas: int, memory: int) -> dict[str, Any]:
    template = {"spec": {**a_pod("unused", memory=memory)["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "tasks": [{"name": "w", "replicas": replicas, "template": template}]},
    }


def pods(cluster: Site, prefix: str) -> list[dict[str, Any]]:
    return [each for each in cluster.server.objects("pods") if each["metadata"]["name"].startswith(prefix)]


def all_bound(cluster: Site, prefix: str, count: int) -> list[dict[str, Any]]:
    found = pods(cluster, prefix)
    return found if len(found) == count and all(each["spec"].get("nodeName") for each in found) else []


def wrong(cluster: Site) -> list[str]:
    """What is wrong with the allocations of all bound pods: another node's cards, or more than a card has."""
    found: list[str] = []
    promised: Counter[str] = Counter()
    for each in cluster.server.objects("pods"):
        node, annotations = each["spec"].get("nodeName"), each["metadata"].get("annotations") or {}
        if node is None or "resources" not in each["spec"]["containers"][0]:
            continue
        name = each["metadata"]["name"]
        cards = [record.split(",") for record in annotations.get(IDS, "").split(":") if record]
        if not cards:
            found.append(f"{name}: no cards")
        if annotations.get(NODE, node) != node or any(not card[0].startswith(f"GPU-{node}-") for card in cards):
            found.append(f"{name} on {node}: {annotations.get(NODE)} {cards}")
        promised.update({card[0]: int(card[2]) for card in cards})
    return found + [f"{card}: {memory}" for card, memory in promised.items() if memory > WHOLE]


def occupy(cluster: Site, node: str) -> list[str]:
    """Fills a node; the answer names the pods."""
    names = [f"busy-{node}-{at}" for at in range(2)]
    ids = [f"GPU-{node}-{at},NVIDIA,{WHOLE},0:" for at in range(2)]
    cluster.put(*(a_pod(name, memory=WHOLE, node=node, ids=each) for name, each in zip(names, ids, strict=True)))
    return names


def gang_that_waits(cluster: Site, *, tried: bool) -> None:
    """A gang of four, with room for two of it; then room for all."""
    busy = occupy(cluster, "n1")
    connect_to(cluster.server.url).create(JOBS, a_gang("train", 4, 30_000))
    wait_for(lambda: len(pods(cluster, "train")) == 4, "its pods are made")
    wait_for(lambda: all(_conditions(each) for each in pods(cluster, "train")), "it has been tried")
    if tried:
        wait_for(lambda: _tried(cluster) == 2, "the try is on its pods")
    for name in busy:
        cluster.server.delete("pods", name, "default", grace=0)
    wait_for(lambda: all_bound(cluster, "train", 4), "all four are bound")


def _tried(cluster: Site) -> int:
    return sum(IDS in each["metadata"]["annotations"] for each in pods(cluster, "train"))


def _conditions(pod: dict[str, Any]) -> list[Any]:
    return pod.get("status", {}).get("conditions") or []


def test_alone_volcano_binds_a_gang_that_had_to_wait_with_the_cards_of_an_earlier_try(cluster: Site) -> None:
    with volcano(cluster, leaves_tries=True):
        gang_that_waits(cluster, tried=True)
    assert wrong(cluster)


def test_mode_webhook_puts_a_gang_that_had_to_wait_right(cluster: Site) -> None:
    client = cluster.start(volcano={"mode": "webhook"})
    install(cluster, client)
    with volcano(cluster, leaves_tries=True):
        gang_that_waits(cluster, tried=True)
    assert wrong(cluster) == []
    assert cluster.value(client, "refusals_total", reason="cards") == 0


def test_from_the_cache_a_gang_that_had_to_wait_gets_its_own_cards(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    with volcano(cluster, client, asks=True):
        gang_that_waits(cluster, tried=False)
    assert wrong(cluster) == []
    assert cluster.value(client, "answers_total", kind="binding", outcome="reserved") == 4
    for each in pods(cluster, "train"):
        assert set(VOLCANO_KEYS) <= each["metadata"]["annotations"].keys()
        assert MARK in each["metadata"]["annotations"]


def test_a_pod_that_waits_says_why_in_numbers_and_the_next_that_fits_is_bound(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    api = connect_to(cluster.server.url)
    with volcano(cluster, client, asks=True):
        api.create(paths.pods("default"), a_pod("huge", memory=50_000))
        told = wait_for(lambda: _conditions(pods(cluster, "huge")[0]), "it is told why")
        assert "2 vGPU memory: asked 50,000 MiB on 1 card; largest free 40,960 MiB" in told[0]["message"]
        api.create(paths.pods("default"), a_pod("fits", memory=WHOLE))
        wait_for(lambda: all_bound(cluster, "fits", 1), "the next one is bound")
    assert wrong(cluster) == []


def test_exactly_what_is_left_is_bound_and_one_more_mebibyte_is_not(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    api = connect_to(cluster.server.url)
    with volcano(cluster, client, asks=True):
        for at in range(4):
            api.create(paths.pods("default"), a_pod(f"first-{at}", memory=30_000))
        wait_for(lambda: all_bound(cluster, "first", 4), "four are bound")
        api.create(paths.pods("default"), a_pod("more", memory=10_961))
        for at in range(4):
            api.create(paths.pods("default"), a_pod(f"exact-{at}", memory=10_960))
        wait_for(lambda: all_bound(cluster, "exact", 4), "four exact ones are bound")
        assert not all_bound(cluster, "more", 1)
    assert wrong(cluster) == []


@pytest.mark.parametrize("mode", ["extender", "webhook"])
def test_servers_that_come_and_go_under_load_lose_no_slice_and_give_none_twice(cluster: Site, mode: str) -> None:
    cluster.put(*(a_node(f"m{at}", cards=2) for at in range(4)))
    first = cluster.start("one", volcano={"mode": mode})
    install(cluster, first)
    api = connect_to(cluster.server.url)

    def burst(kind: str) -> None:
        for at in range(12):
            api.create(paths.pods("default"), a_pod(f"load-{kind}-{at}", memory=10_000))

    with volcano(cluster, first, asks=mode == "extender"):
        burst("a")
        wait_for(lambda: sum("nodeName" in each["spec"] for each in pods(cluster, "load")) >= 4, "some are bound")
        port = first.server.address[1], first.server.webhook_address
        cluster.end(first)
        burst("b")
        assert port[1] is not None
        where: dict[str, Any] = {
            "listen": {"host": "127.0.0.1", "port": port[0]},
            "webhooks": {"host": "127.0.0.1", "port": port[1][1]},
        }
        cluster.start("two", volcano={"mode": mode}, **where)
        burst("c")
        wait_for(lambda: all_bound(cluster, "load", 36), "all are bound")
    assert wrong(cluster) == []


def test_while_the_server_is_away_marked_pods_wait_and_plain_ones_pass(cluster: Site) -> None:
    client = cluster.start(volcano={"mode": "webhook"})
    install(cluster, client)
    api = connect_to(cluster.server.url)
    api.create(paths.pods("default"), a_pod("marked"))
    plain = a_pod("plain")
    plain["spec"]["containers"][0].pop("resources")
    api.create(paths.pods("default"), plain)
    cluster.end(client)
    api.create(paths.pods("default"), a_pod("late"))
    with volcano(cluster):
        wait_for(lambda: all_bound(cluster, "plain", 1), "plain pods are bound")
        wait_for(lambda: all_bound(cluster, "late", 1), "one that nobody could mark is bound as Volcano has it")
        told = wait_for(lambda: _conditions(pods(cluster, "marked")[0]), "the marked one is told")
        assert "failed to bind to node" in told[0]["message"]
        assert not all_bound(cluster, "marked", 1)


def bind(cluster: Site, pod: dict[str, Any], **metadata: str) -> KubeError | None:
    """Posts a Binding to n1; what the API server says against it."""
    told = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} | metadata
    body = {"metadata": told, "target": {"kind": "Node", "name": "n1"}}
    try:
        connect_to(cluster.server.url).create(paths.pod_binding("default", told["name"]), body)
    except KubeError as error:
        return error
    return None


def test_bindings_that_the_api_server_refuses_itself_hold_nothing(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    bound, waiting = cluster.put(a_pod("bound", memory=WHOLE, node="n2"), a_pod("waiting", memory=WHOLE))
    wait_for(lambda: cluster.value(client, "pods") == 2, "the watch shows them")
    for error in (bind(cluster, bound), bind(cluster, waiting, uid="another")):
        assert error is not None
        assert error.status == 409
    assert cluster.value(client, "assumptions", state="answered") == 0


def test_a_binding_that_fails_after_the_answer_keeps_its_cards_for_the_next_try_of_the_same_pod(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    raw = a_pod("p", memory=WHOLE)
    raw["spec"]["schedulingGates"] = [{"name": "wait"}]
    (pod,) = cluster.put(raw)
    error = bind(cluster, pod)
    assert error is not None
    assert error.status == 409
    assert cluster.value(client, "assumptions", state="answered") == 1
    del pod["spec"]["schedulingGates"]
    cluster.put(pod)
    assert bind(cluster, pod) is None
    assert wrong(cluster) == []
    wait_for(lambda: cluster.value(client, "assumptions", state="answered") == 0, "the watch has the word")


def test_both_ways_to_bind_a_pod_get_an_allocation_and_a_dry_run_leaves_nothing(cluster: Site) -> None:
    client = cluster.start()
    install(cluster, client)
    (pod,) = cluster.put(a_pod("p"))
    api = connect_to(cluster.server.url)
    body = {"metadata": {"name": "p", "uid": pod["metadata"]["uid"]}, "target": {"kind": "Node", "name": "n1"}}
    api.create(f"{paths.pod_binding('default', 'p')}?dryRun=All", body)
    assert cluster.value(client, "assumptions", state="answered") == 0
    api.create("/api/v1/namespaces/default/bindings", body)
    assert set(VOLCANO_KEYS) <= pods(cluster, "p")[0]["metadata"]["annotations"].keys()
