"""The webhooks as an API server asks them: opt-in, warnings, limits, records, certificates."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest
import urllib3

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect, connect_to
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.translation.vocabulary import IGNORE, ISOLATION, MEMORY_LIMIT, OPT_IN, TRANSLATE, VISIBLE
from koordinator_adapter.core.webhooks import TRANSLATE_PATH
from koordinator_adapter.server.app import AdapterServer
from tests.integration.koordinator_adapter.servers import TOKEN, Site, a_node, a_pod
from tests.integration.web.certificates import a_certificate
from tests.waiting import wait_for

VOLCANO = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096", "volcano.sh/vgpu-cores": "50"}
HAMI = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "40"}
WANTED = {OPT_IN: TRANSLATE}
CONFIGURATIONS = (
    paths.webhook_configuration("mutating", "koordinator-adapter"),
    paths.webhook_configuration("validating", "koordinator-adapter"),
)
RECORD = json.dumps(
    {
        "gpu": [
            {"minor": 0, "id": "GPU-n1-0", "resources": {CORE: "40", MEMORY: "8Gi", RATIO: "20"}},
            {"minor": 1, "id": "GPU-n1-1", "resources": {CORE: "40", MEMORY: "8Gi", RATIO: "20"}},
        ]
    }
)


def namespace(cluster: Site, name: str, **labels: str) -> None:
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def create(cluster: Site, pod: dict[str, Any], api: KubeClient | None = None) -> dict[str, Any]:
    pod = json.loads(json.dumps(pod))
    found: Any = (api or cluster.api).create(paths.pods(pod["metadata"]["namespace"]), pod)
    return dict(found)


def limits(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return found


def warned(server: AdapterServer, cluster: Site, pod: dict[str, Any]) -> list[str]:
    """The warnings for the creator of a pod; API servers pass them on with their answer."""
    user = {"username": "alice", "groups": []}
    request = {"uid": "u", "operation": "CREATE", "namespace": "default", "userInfo": user, "object": pod}
    request |= {"kind": {"group": "", "version": "v1", "kind": "Pod"}, "resource": {"resource": "pods"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert server.webhook_address is not None
    with urllib3.PoolManager(ca_certs=str(cluster.folder / "tls.crt")) as pool:
        answer = pool.request("POST", f"https://localhost:{server.webhook_address[1]}{TRANSLATE_PATH}", json=review)
    response = answer.json()["response"]
    assert response["allowed"], response
    return list(response.get("warnings", ()))


def scheduler(cluster: Site) -> KubeClient:
    """A client that the API server takes for Koordinator's scheduler."""
    kubeconfig = cluster.server.kubeconfig(cluster.folder / "scheduler.kubeconfig", token=TOKEN)
    return connect(kubeconfig=str(kubeconfig), component="koord-scheduler")


def test_pods_and_namespaces_with_the_label_are_translated_and_no_others(cluster: Site) -> None:
    namespace(cluster, "team", **WANTED)
    cluster.install(cluster.start())
    inside = {"namespace": "team"}
    by_pod = create(cluster, a_pod("a", HAMI, labels=WANTED))
    by_namespace = create(cluster, a_pod("b", HAMI, **inside))
    for made in (by_pod, by_namespace):
        assert limits(made) == {SHARED: "2", CORE: "80", MEMORY: "16Gi"}
        assert made["spec"]["schedulerName"] == "koord-scheduler"
        assert made["spec"]["nodeSelector"] == {ISOLATION: "HAMi-core", "node.koordinator.sh/gpu-vendor": "nvidia"}
    assert limits(create(cluster, a_pod("c", HAMI))) == HAMI
    assert limits(create(cluster, a_pod("d", HAMI, labels={OPT_IN: IGNORE}, **inside))) == HAMI


def test_a_pod_is_told_of_groups_and_quotas_that_are_not_there_and_of_no_others(
    cluster: Site,
) -> None:
    version = "scheduling.sigs.k8s.io/v1alpha1"
    namespace(cluster, "elsewhere")
    cluster.put(
        {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "here", "namespace": "default"}},
        {"apiVersion": version, "kind": "ElasticQuota", "metadata": {"name": "ml", "namespace": "elsewhere"}},
    )
    server = cluster.start()

    def warnings(group: str, queue: str) -> list[str]:
        keys = {"scheduling.k8s.io/group-name": group, "volcano.sh/queue-name": queue}
        pod = a_pod("a", VOLCANO, labels=WANTED, annotations=keys)
        pod["spec"]["schedulerName"] = "volcano"
        return [each for each in warned(server, cluster, pod) if "PodGroup" in each or "ElasticQuota" in each]

    assert warnings("here", "ml") == []
    (about_group,) = warnings("nowhere", "ml")
    assert "waits until there is a PodGroup nowhere" in about_group
    (about_quota,) = warnings("here", "other")
    assert "names the ElasticQuota other" in about_quota
    cluster.put({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "late", "namespace": "default"}})
    wait_for(lambda: warnings("late", "ml") == [], "the group is known")


def test_a_refused_pod_gets_the_reason(cluster: Site) -> None:
    cluster.install(cluster.start())
    with pytest.raises(KubeError, match="no cards in mode mps"):
        create(cluster, a_pod("a", HAMI, labels=WANTED, annotations={"nvidia.com/vgpu-mode": "mps"}))


def test_who_asks_for_nothing_special_is_not_kept_waiting_by_a_server_that_is_away(cluster: Site) -> None:
    server = cluster.start()
    cluster.install(server)
    server.stop()
    create(cluster, a_pod("a", {"cpu": "1"}))
    with pytest.raises(KubeError):
        create(cluster, a_pod("b", HAMI, labels=WANTED))


def test_a_server_that_is_away_keeps_no_pod_of_koordinators_and_no_controller_waiting(cluster: Site) -> None:
    injection: dict[str, Any] = {"injection": {"mode": "always"}}
    server = cluster.start(**injection)
    cluster.install(server, **injection)
    shared = {SHARED: "1", RATIO: "50"}
    tracked = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
    create(cluster, a_pod("native", shared, labels={ISOLATION: "HAMi-core"}, **tracked))
    create(cluster, a_pod("translated", HAMI, labels=WANTED, **tracked))
    as_scheduler = scheduler(cluster)
    for name in ("native", "translated"):
        as_scheduler.merge_patch(paths.pod("default", name), {"metadata": {"annotations": {ALLOCATED_KEY: RECORD}}})
    as_scheduler.close()
    server.stop()
    for name in ("native", "translated"):
        cluster.api.merge_patch(paths.pod("default", name), {"metadata": {"finalizers": None}})
    create(cluster, a_pod("another", shared, labels={ISOLATION: "HAMi-core"}))


def test_limits_are_filled_in_by_the_update_that_records_the_cards(cluster: Site) -> None:
    injection: dict[str, Any] = {"injection": {"mode": "always"}}
    cluster.install(cluster.start(**injection), **injection)
    made = create(cluster, a_pod("a", HAMI, labels=WANTED))
    env = {each["name"]: each for each in made["spec"]["containers"][0]["env"]}
    assert env["CUDA_DEVICE_SM_LIMIT_1"]["value"] == "40"
    as_scheduler = scheduler(cluster)
    record = {"metadata": {"annotations": {ALLOCATED_KEY: RECORD}}}
    found = as_scheduler.merge_patch(paths.pod("default", "a"), record)["metadata"]["annotations"]
    assert found[VISIBLE] == "GPU-n1-0,GPU-n1-1"
    assert [found[f"{MEMORY_LIMIT}{card}"] for card in (0, 1)] == [str(8 << 30)] * 2
    broken = json.dumps({"gpu": [{"minor": 0}]})
    with pytest.raises(KubeError, match=f"says no {MEMORY}"):
        as_scheduler.merge_patch(paths.pod("default", "a"), {"metadata": {"annotations": {ALLOCATED_KEY: broken}}})
    as_scheduler.close()


def test_a_pod_that_overrides_its_limits_is_refused_with_the_remedy(cluster: Site) -> None:
    cluster.install(cluster.start())
    pod = a_pod("a", {SHARED: "1", RATIO: "50"}, labels={ISOLATION: "HAMi-core"})
    pod["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "mine"}}]
    with pytest.raises(KubeError, match="Name its variables one by one under env"):
        create(cluster, pod)


def test_what_the_cluster_is_like_counts_from_the_moment_it_is(cluster: Site) -> None:
    server = cluster.start()
    cluster.install(server)
    by_id = {"nvidia.com/use-gpuuuid": "GPU-n1-0"}
    with pytest.raises(KubeError, match="labels of its Device objects"):
        create(cluster, a_pod("a", HAMI, labels=WANTED, annotations=by_id))
    cluster.put(a_node("n1"))
    wait_for(lambda: cluster.device("n1") and cluster.value(server, "devices") == 1, "the node is published")
    create(cluster, a_pod("b", HAMI, labels=WANTED, annotations=by_id))
    with pytest.raises(KubeError, match="the largest card"):
        create(cluster, a_pod("c", HAMI | {"nvidia.com/gpumem": "50000"}, labels=WANTED))
    namespace(cluster, "system", **{"control-plane": "", **WANTED})

    def refused() -> bool:
        try:
            cluster.api.create(f"{paths.pods('system')}?dryRun=All", a_pod("d", HAMI, namespace="system"))
        except KubeError as error:
            return "control-plane" in str(error)
        return False

    wait_for(refused, "the namespace is known")


def test_pods_without_limits_are_named_and_counted(cluster: Site) -> None:
    cluster.put(a_node("n1"))
    server = cluster.start()
    for name, labels in (("labelled", {ISOLATION: "HAMi-core"}), ("plain", {})):
        pod = a_pod(name, {SHARED: "1", RATIO: "50"}, labels=labels, annotations={ALLOCATED_KEY: RECORD})
        pod["spec"]["nodeName"] = "n1"
        cluster.put(pod)
    wait_for(lambda: cluster.value(server, "unlimited_pods") == 2, "both are counted")
    found = {each["pod"]: each["what"] for each in json.loads(cluster.get(server, "/findings")[1])["unlimitedPods"]}
    assert "GPUEnvInject" in found["default/labelled"]
    assert "lacks the label" in found["default/plain"]
    koordlet = a_pod("koordlet", {}, labels={"koord-app": "koordlet"})
    koordlet["spec"] |= {"nodeName": "n1"}
    koordlet["spec"]["containers"][0]["command"] = ["koordlet", "--feature-gates", "GPUEnvInject=true"]
    cluster.put(koordlet)
    wait_for(lambda: cluster.value(server, "unlimited_pods") == 1, "koordlet limits those with the label")


def test_a_certificate_changes_under_load_and_no_pod_is_lost(cluster: Site) -> None:
    server = cluster.start()
    cluster.install(server)
    stop = threading.Event()
    failures: list[str] = []
    made = [0] * 4

    def load(worker: int) -> None:
        api = connect_to(cluster.server.url, component="load")
        while not stop.is_set():
            try:
                create(cluster, a_pod(f"w{worker}-{made[worker]}", HAMI, labels=WANTED), api)
            except KubeError as error:
                failures.append(str(error))
            made[worker] += 1
        api.close()

    workers = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    try:
        before = (cluster.folder / "tls.crt").read_bytes()
        next_one = cluster.folder / "next"
        next_one.mkdir()
        a_certificate(next_one)
        after = (next_one / "tls.crt").read_bytes()
        for path in CONFIGURATIONS:
            hooks = [dict(each) for each in cluster.api.get(path)["webhooks"]]
            for hook in hooks:
                hook["clientConfig"] = {**hook["clientConfig"], "caBundle": base64.b64encode(before + after).decode()}
            cluster.api.merge_patch(path, {"webhooks": hooks})
        for name in ("tls.key", "tls.crt"):
            (next_one / name).replace(cluster.folder / name)
        wait_for(
            lambda: cluster.value(server, "tls_certificate_changes_total", outcome="taken") >= 1,
            "the new one is served",
        )
        wait_for(lambda: sum(made) > 200, "pods come in")
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert not failures
    assert all(limits(each).get(SHARED) == "2" for each in cluster.server.objects("pods"))
