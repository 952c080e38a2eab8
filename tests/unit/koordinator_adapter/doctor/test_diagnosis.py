"""``koordinator doctor``: a cluster in which nothing is wrong, and each thing that can be."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from koordinator_adapter.core.doctor import diagnosis as diagnoses
from koordinator_adapter.core.doctor.evidence import DoctorFinding, DoctorSeverity
from tests.unit.koordinator_adapter.doctor.cluster import (
    ISOLATION,
    RECORD,
    VENDOR,
    Raw,
    a_card,
    a_pod,
    a_program,
    diagnosis,
    healthy,
)

Cluster = dict[str, Raw]
Break = Callable[[Cluster], Any]
ERROR, WARNING, NOTE = DoctorSeverity


def broken(change: Break) -> tuple[DoctorFinding, ...]:
    objects = healthy()
    change(objects)
    return diagnosis(objects).findings


def only(change: Break) -> DoctorFinding:
    (found,) = broken(change)
    return found


def the(check: str, change: Break) -> list[DoctorFinding]:
    return [each for each in broken(change) if each.check == check]


def put(*path: Any) -> Break:
    """Sets the last of the words at the place that the others lead to."""

    def change(objects: Cluster) -> None:
        holder: Any = objects
        for step in path[:-2]:
            holder = holder[step]
        holder[path[-2]] = path[-1]

    return change


def args(program: str, *words: str) -> Break:
    return put(program, "spec", "template", "spec", "containers", 0, "args", list(words))


def without(name: str) -> Break:
    return lambda objects: objects.pop(name)


def with_pod(**changes: Any) -> Break:
    return lambda objects: objects.update(pod=a_pod(**changes))


def test_nothing_is_wrong_with_a_cluster_in_which_nothing_is_wrong() -> None:
    found = diagnosis(healthy())
    assert found.findings == ()
    assert found.unseen == ()
    assert found.healthy
    assert [line.words for line in diagnoses.lines(found)] == ["nothing is wrong"]


@pytest.mark.parametrize(
    ("change", "check", "severity", "about", "words"),
    [
        (without("settings"), "colocation", ERROR, "configmap/koordinator-system/slo-controller-config", "is missing"),
        (put("settings", "data", "colocation-config", "{"), "colocation", ERROR, "slo-controller-config", "not JSON"),
        (put("settings", "data", {}), "colocation", ERROR, "slo-controller-config", "does not enable"),
        (
            args("koordlet", "-feature-gates=Accelerators=true"),
            "koordlet",
            ERROR,
            "daemonset/koordinator-system/koordlet",
            "GPUEnvInject is off",
        ),
        (
            args("koordlet", "--feature-gates=GPUEnvInject=true", "--enable-nri-runtime-hook=false"),
            "nri",
            ERROR,
            "daemonset/koordinator-system/koordlet",
            "does not use NRI",
        ),
        (
            put("node", "status", "nodeInfo", "containerRuntimeVersion", "containerd://1.6.28"),
            "nri",
            ERROR,
            "node/gpu-1",
            "containerd://1.6.28, which has no NRI",
        ),
        (
            put("node", "status", "nodeInfo", "containerRuntimeVersion", "containerd://1.7.13"),
            "nri",
            NOTE,
            "nodes",
            "switched off unless its configuration says otherwise: gpu-1",
        ),
        (without("library"), "library", ERROR, "daemonset", "no component copies libvgpu.so"),
        (
            lambda objects: objects.update(
                library=a_program("DaemonSet", "lib", "mv libvgpu.so.new libvgpu.so", image="projecthami/hami:v2.5.0")
            ),
            "library",
            ERROR,
            "daemonset/koordinator-system/lib",
            "2.5.0, which does not work with drivers after 570: gpu-1",
        ),
        (
            lambda objects: objects.update(library=a_program("DaemonSet", "lib", "mv libvgpu.so.v2.6.0 libvgpu.so")),
            "library",
            WARNING,
            "daemonset/koordinator-system/lib",
            "stops vLLM",
        ),
        (
            put("profile", "data", "a", healthy()["profile"]["data"]["koord-scheduler-config"].replace("reserve", "x")),
            "scheduler-profile",
            ERROR,
            "configmap/koordinator-system/koord-scheduler-config",
            "not at reserve",
        ),
        (
            put("profile", "data", "a", "kind: KubeSchedulerConfiguration: ["),
            "device-object",
            ERROR,
            "configmap/koordinator-system/koord-scheduler-config",
            "not usable YAML",
        ),
        (put("node", "status", "allocatable", {"cpu": "1"}), "node-sums", ERROR, "node/gpu-1", "does not offer koord"),
        (put("device", "spec", "devices", 1, a_card(63)), "device-object", ERROR, "device/gpu-1", "card 63"),
        (
            lambda objects: objects["device"]["spec"]["devices"].append({**a_card(1), "minor": None}),
            "device-object",
            ERROR,
            "device/gpu-1",
            "spec.devices[2].minor",
        ),
        (
            lambda objects: objects["device"]["spec"]["devices"][1].pop("topology"),
            "device-object",
            WARNING,
            "device/gpu-1",
            "no topology",
        ),
        (
            put("device", "spec", "devices", 1, "resources", {"koordinator.sh/gpu-core": "100"}),
            "device-object",
            WARNING,
            "device/gpu-1",
            "card 1 has no koordinator.sh/gpu-memory",
        ),
        (put("device", "metadata", "name", "gone"), "device-object", WARNING, "device/gone", "not exist"),
        (put("node", "metadata", "labels", {ISOLATION: "hami-core"}), "isolation-label", ERROR, "node/gpu-1", "acts"),
        (put("node", "metadata", "labels", {}), "isolation-label", ERROR, "node/gpu-1", "gives up on a pod"),
        (
            put("node", "status", "allocatable", {**healthy()["node"]["status"]["allocatable"], "nvidia.com/gpu": "2"}),
            "device-plugin",
            ERROR,
            "node/gpu-1",
            "offers nvidia.com/gpu beside",
        ),
        (put("pod", "metadata", "annotations", {}), "record", ERROR, "pod/ml/half", "without a record"),
        (put("pod", "metadata", "annotations", RECORD, "{"), "record", ERROR, "pod/ml/half", "is invalid"),
        (
            put("pod", "metadata", "annotations", RECORD, '{"gpu":[{"minor":5,"resources":{}}]}'),
            "record",
            ERROR,
            "pod/ml/half",
            "does not report: 5",
        ),
        (put("pod", "metadata", "labels", {}), "no-limits", WARNING, "pod/ml/half", "nothing limits it"),
        (
            put("pod", "spec", "containers", 0, "resources", {"limits": {"koordinator.sh/gpu-shared": "1"}}),
            "request",
            ERROR,
            "pod/ml/half",
            "gpu-shared",
        ),
        (put("namespace", "metadata", "labels", {"control-plane": "x"}), "request", WARNING, "pod/ml/half", "leaves"),
        (
            put(
                "pod",
                a_pod(node=None)
                | {
                    "status": {
                        "conditions": [
                            {
                                "type": "PodScheduled",
                                "status": "False",
                                "message": "0/1 nodes are available: 1 Insufficient koordinator.sh/gpu.shared.",
                            }
                        ]
                    }
                },
            ),
            "waiting",
            WARNING,
            "pod/ml/half",
            "no node advertises",
        ),
    ],
)
def test_each_thing_that_can_be_wrong_is_found_with_what_to_do(
    change: Break, check: str, severity: DoctorSeverity, about: str, words: str
) -> None:
    found = the(check, change)
    assert [each for each in found if words in each.words and about in each.about and each.severity is severity], found


@pytest.mark.parametrize(
    "words",
    [
        ("-feature-gates", "Accelerators=true,GPUEnvInject=true"),
        ("-feature-gates=Accelerators=true", "--feature-gates=GPUEnvInject=True"),
        ("--feature-gates=AllAlpha=true",),
    ],
)
def test_gates_count_however_they_are_written(words: tuple[str, ...]) -> None:
    objects = healthy()
    args("koordlet", *words)(objects)
    assert diagnosis(objects).findings == ()


def test_one_broken_thing_makes_one_finding() -> None:
    assert only(without("settings")).fix == (
        "kubectl -n koordinator-system create configmap slo-controller-config "
        """--from-literal=colocation-config='{"enable":true}'"""
    )


def patched(finding: DoctorFinding, objects: Cluster, name: str) -> Cluster:
    """The cluster after the command of a finding, which patches the arguments of one container."""
    words = shlex.split(finding.fix)
    (change,) = json.loads(words[words.index("-p") + 1])
    container = objects[name]["spec"]["template"]["spec"]["containers"][0]
    at = change["path"].rpartition("/")[2]
    if change["op"] == "add":
        container["args"].append(change["value"])
    else:
        container["args"][int(at)] = change["value"]
    return objects


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("koordlet", args("koordlet", "-v=4", "-feature-gates=Accelerators=true,GPUEnvInject=false")),
        ("koordlet", args("koordlet", "-v=4")),
        ("koordlet", args("koordlet", "--feature-gates=GPUEnvInject=true", "--enable-nri-runtime-hook=false")),
        ("library", args("library", "cp -f /lib/libvgpu.so.v2.6.1 /vgpu/libvgpu.so && sleep 1")),
    ],
)
def test_the_command_of_a_finding_heals_it(name: str, change: Break) -> None:
    objects = healthy()
    change(objects)
    (finding,) = diagnosis(objects).findings
    assert diagnosis(patched(finding, objects, name)).findings == ()


def test_the_manager_is_told_to_advertise_what_its_webhook_adds() -> None:
    objects = healthy()
    args("manager", "--v=4", "--feature-gates=Other=true")(objects)
    del objects["node"]["status"]["allocatable"]["koordinator.sh/gpu.shared"]
    (finding,) = diagnosis(objects).findings
    assert "--feature-gates=Other=true,EnableSyncGPUSharedResource=true" in finding.fix
    healed = patched(finding, objects, "manager")
    assert diagnosis(healed).findings == ()
    args("manager", "--feature-gates=DisableDeviceResourceSpec=true")(objects)
    assert diagnosis(objects).findings == ()


def test_a_merge_patch_keeps_what_the_settings_say_beside_colocation() -> None:
    finding = only(put("settings", "data", "colocation-config", '{"enable":false,"cpuReclaimThresholdPercent":60}'))
    words = shlex.split(finding.fix)
    data = json.loads(words[words.index("-p") + 1])["data"]
    assert json.loads(data["colocation-config"]) == {"enable": True, "cpuReclaimThresholdPercent": 60}


def test_a_pod_without_label_gets_it_by_its_deployment() -> None:
    (finding,) = the("no-limits", put("pod", "metadata", "labels", {"pod-template-hash": "6d4b9"}))
    assert finding.fix.startswith("kubectl -n ml patch deployment/serving --type=merge")
    assert finding.fix.count("HAMi-core") == 2


def test_pods_of_other_schedulers_on_published_cards_are_told_with_the_command_that_records_them() -> None:
    def change(objects: Cluster) -> None:
        objects["pod"]["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,8192,50:;"}
        objects["pod"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}

    assert only(change).fix == "hami-plugins koordinator migrate --records -n ml --apply"


def test_pods_of_a_device_plugin_on_published_cards_are_told() -> None:
    def change(objects: Cluster) -> None:
        objects["pod"]["metadata"]["annotations"] = {}
        objects["pod"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}

    assert "from a device plugin" in only(change).words


def test_pods_on_nodes_without_published_cards_are_nobodys_business() -> None:
    def change(objects: Cluster) -> None:
        objects["cpu-only"] = {"kind": "Node", "metadata": {"name": "cpu-1"}, "status": {}}
        objects["other"] = a_pod("other", node="cpu-1")

    assert broken(change) == ()


def test_a_pod_in_koordinators_words_on_a_node_without_a_device_object_is_counted_by_nobody() -> None:
    def change(objects: Cluster) -> None:
        objects["pod"]["metadata"]["annotations"] = {}
        del objects["device"]
        objects["node"]["status"]["allocatable"] = {"cpu": "64"}

    (finding,) = the("record", change)
    assert (finding.about, finding.severity) == ("pod/ml/half", ERROR)
    assert "whose cards are not published" in finding.words
    assert finding.fix.startswith("kubectl get devices.scheduling.koordinator.sh gpu-1")


def test_a_device_plugin_is_kept_off_the_nodes_by_its_daemonset() -> None:
    plugin = a_pod("nvidia-device-plugin-x", containers=[{"name": "c", "image": "nvidia/k8s-device-plugin:1"}])
    plugin["metadata"] |= {
        "annotations": {},
        "ownerReferences": [{"kind": "DaemonSet", "name": "nvidia-device-plugin"}],
    }
    finding = only(lambda objects: objects.update(plugin=plugin))
    assert (finding.check, finding.severity) == ("device-plugin", WARNING)
    words = shlex.split(finding.fix)
    assert words[:4] == ["kubectl", "-n", "ml", "patch"]
    assert "daemonset/nvidia-device-plugin" in words
    assert "DoesNotExist" in json.dumps(json.loads(words[words.index("-p") + 1]))


def test_resources_that_no_plugin_offers_any_more_are_taken_off_the_node() -> None:
    offered = {**healthy()["node"]["status"]["allocatable"], "nvidia.com/gpu": "2"}
    finding = only(put("node", "status", "allocatable", offered))
    assert "/status/capacity/nvidia.com~1gpu" in finding.fix


def test_sums_that_differ_are_told_and_small_differences_are_not() -> None:
    near = {**healthy()["node"]["status"]["allocatable"], "koordinator.sh/gpu-memory": "45Gi"}
    assert broken(put("node", "status", "allocatable", near)) == ()
    far = {**near, "koordinator.sh/gpu-memory": "24Gi"}
    assert (
        "koordinator.sh/gpu-memory 25769803776 instead of 51539607552"
        in only(put("node", "status", "allocatable", far)).words
    )


def test_an_unhealthy_card_is_a_note_and_its_part_is_not_missed() -> None:
    def change(objects: Cluster) -> None:
        objects["device"]["spec"]["devices"][1]["health"] = False
        halves = {"koordinator.sh/gpu": "100", "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24Gi"}
        objects["node"]["status"]["allocatable"] |= {**halves, "koordinator.sh/gpu-memory-ratio": "100"}

    assert (only(change).severity, only(change).words[:18]) == (NOTE, "unhealthy cards: 1")


def a_gap(objects: Cluster) -> None:
    """The second card has the number that the third had."""
    objects["device"]["spec"]["devices"][1]["minor"] = 2


def test_numbers_that_are_no_places_are_told_where_koordlet_shows_cards_by_them() -> None:
    finding = only(a_gap)
    assert (finding.check, finding.severity, finding.about) == ("card-numbers", WARNING, "device/gpu-1")
    assert "card 2 is in place 1" in finding.words
    assert "restart the node" in finding.fix

    def unused(objects: Cluster) -> None:
        a_gap(objects)
        args("koordlet", "-feature-gates=Accelerators=true")(objects)

    assert "card-numbers" not in {each.check for each in broken(unused)}


def test_the_place_of_a_card_is_where_the_nodes_agent_has_it() -> None:
    def swapped(objects: Cluster) -> None:
        register = [{"id": f"GPU-{at}", "index": 1 - at, "count": 10, "devmem": 24_576} for at in range(2)]
        objects["node"]["metadata"]["annotations"] = {"hami.io/node-nvidia-register": json.dumps(register)}
        objects["device"]["metadata"]["labels"]["hami-plugins.io/publisher"] = "koordinator-adapter"

    finding = only(swapped)
    assert "card 0 is in place 1, card 1 is in place 0" in finding.words
    assert "kubectl delete devices.scheduling.koordinator.sh gpu-1" in finding.fix


def test_a_card_that_has_vanished_has_no_place() -> None:
    def vanished(objects: Cluster) -> None:
        a_gap(objects)
        gone = {
            "type": "Healthy",
            "status": "False",
            "reason": "Vanished",
            "lastTransitionTime": "2026-11-22T12:00:00Z",
        }
        objects["device"]["spec"]["devices"].append({**a_card(1), "health": False, "conditions": [gone]})

    assert "card 2 is in place 1:" in the("card-numbers", vanished)[0].words


def test_an_empty_device_object_of_a_node_with_cards_is_told() -> None:
    def change(objects: Cluster) -> None:
        objects["device"]["spec"]["devices"] = []
        objects["node"]["status"]["allocatable"] = {"nvidia.com/gpu": "2"}
        del objects["pod"]

    assert "MIG mode" in only(change).words


def test_a_node_without_the_label_matters_more_where_pods_want_it() -> None:
    def second(objects: Cluster) -> None:
        node, device = healthy()["node"], healthy()["device"]
        node["metadata"] = {"name": "gpu-2"}
        device["metadata"] = {"name": "gpu-2"}
        objects |= {"second": node, "second-device": device}

    assert only(second).severity is ERROR

    def nobody(objects: Cluster) -> None:
        second(objects)
        del objects["pod"]

    assert only(nobody).severity is WARNING

    def waits(objects: Cluster) -> None:
        second(objects)
        objects["pod"] = a_pod(node=None, nodeSelector={})

    assert {each.check for each in broken(waits)} == {"isolation-label", "no-selector"}


def test_nodes_and_pods_of_another_isolation_provider_are_fine() -> None:
    def change(objects: Cluster) -> None:
        objects["node"]["metadata"]["labels"][ISOLATION] = "MPS"
        objects["pod"]["metadata"]["labels"] = {ISOLATION: "MPS"}

    assert the("isolation-label", change) == []
    assert the("no-limits", change) == []
    assert the("no-selector", change) == []


def test_a_pod_without_a_selector_is_told_of_the_nodes_of_another_isolation_provider() -> None:
    def change(objects: Cluster) -> None:
        objects["node"]["metadata"]["labels"][ISOLATION] = "MPS"
        objects["pod"] = a_pod(node=None)
        objects["pod"]["spec"].pop("nodeSelector", None)

    (finding,) = the("no-selector", change)
    assert "gpu-1" in finding.words


def with_npus(labels: dict[str, str]) -> Break:
    """A second node, whose cards are Huawei's."""

    def change(objects: Cluster) -> None:
        node, device = healthy()["node"], healthy()["device"]
        node["metadata"] = {"name": "npu-1", "labels": {**labels, VENDOR: "huawei"}}
        device["metadata"] = {"name": "npu-1", "labels": {VENDOR: "huawei"}}
        objects |= {"second": node, "second-device": device}

    return change


@pytest.mark.parametrize(
    ("namespace", "trusted", "found"),
    [
        ("batch", "", 1),
        ("batch", "system:serviceaccount:batch:koord-scheduler", 0),
        ("batch", "system:serviceaccounts:batch", 0),
        ("batch", '":koord-scheduler"', 0),
        ("koordinator-system", "", 0),
    ],
)
def test_a_scheduler_that_may_not_write_its_records_is_named(namespace: str, trusted: str, found: int) -> None:
    def change(objects: Cluster) -> None:
        objects["scheduler"]["metadata"]["namespace"] = namespace
        objects["policy"]["spec"]["matchConditions"][-1]["expression"] += f" || '{trusted}'"

    findings = the("record-writers", change)
    assert len(findings) == found
    for finding in findings:
        assert "system:serviceaccount:batch:koord-scheduler" in finding.words
        assert "allocationPolicy.users" in finding.fix

    def of_another(objects: Cluster) -> None:
        change(objects)
        objects["policy"]["spec"]["matchConditions"][0]["expression"] = "['hami.io/vgpu-devices-allocated']"

    assert the("record-writers", of_another) == []


def test_a_node_that_does_not_say_whose_cards_it_has_gets_no_translated_pod() -> None:
    def change(objects: Cluster) -> None:
        del objects["node"]["metadata"]["labels"][VENDOR]

    (finding,) = the("vendor-label", change)
    assert finding.about == "node/gpu-1"
    assert f"{VENDOR}=nvidia" in finding.words
    assert "koord-manager" in finding.fix

    def without_device(objects: Cluster) -> None:
        change(objects)
        del objects["device"]["metadata"]["labels"][VENDOR]

    assert the("vendor-label", without_device) == []


@pytest.mark.parametrize("limits", [{"koordinator.sh/gpu-memory": "1Gi", "metax-tech.com/sgpu": 1}, {}])
def test_pods_on_cards_that_hami_core_does_not_know_lack_no_label(limits: dict[str, object]) -> None:
    npu = {"huawei.com/npu-core": 10, "huawei.com/npu-cpu": 3, "koordinator.sh/gpu-memory": "32Gi"}

    def change(objects: Cluster) -> None:
        objects["pod"]["metadata"]["labels"] = {}
        amounts = {"koordinator.sh/gpu.shared": 1, **(limits or npu)}
        objects["pod"]["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}

    assert the("no-limits", change) == []


def test_nodes_of_other_vendors_are_fine_without_the_label_of_hami_core() -> None:
    assert the("isolation-label", with_npus({})) == []


def test_pods_without_a_selector_are_still_told_of_nodes_of_other_vendors() -> None:
    def change(objects: Cluster) -> None:
        with_npus({})(objects)
        objects["pod"] = a_pod(node=None, nodeSelector={})

    (finding,) = the("no-selector", change)
    assert "npu-1" in finding.words


def test_the_label_of_hami_core_on_a_node_of_another_vendor_is_to_be_removed() -> None:
    (finding,) = the("isolation-label", with_npus({ISOLATION: "HAMi-core"}))
    assert finding.severity is ERROR
    assert finding.fix == f"kubectl label node npu-1 {ISOLATION}-"
    assert "HAMi-core limits NVIDIA cards only, and the cards are huawei's" in finding.words


@pytest.mark.parametrize(("ours", "severity"), [("a-koordinator-adapter", NOTE), ("z-koordinator-adapter", WARNING)])
def test_hamis_webhook_matters_more_where_it_comes_before_the_translation(ours: str, severity: DoctorSeverity) -> None:
    def change(objects: Cluster) -> None:
        for name in ("hami-webhook", ours):
            objects[name] = {
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [{"name": "x.y"}],
            }

    finding = only(change)
    assert (finding.check, finding.severity) == ("webhook-order", severity)


def injecting(mode: str) -> Break:
    def change(objects: Cluster) -> None:
        objects["own"] = {
            "kind": "ConfigMap",
            "metadata": {"name": "one-koordinator-adapter-server", "namespace": "adapter"},
            "data": {"settings.yaml": f"injection: {{mode: {mode}}}"},
        }

    return change


def own_webhook(name: str) -> Raw:
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "a-koordinator-adapter"},
        "webhooks": [{"name": f"{name}.koordinator-adapter.hami-plugins.io"}],
    }


def test_limits_that_nobody_would_write_are_told() -> None:
    def without_records(objects: Cluster) -> None:
        injecting("auto")(objects)
        objects["ours"] = own_webhook("pods")

    finding = only(without_records)
    assert (finding.check, finding.severity) == ("limits-webhook", ERROR)
    assert finding.about == "configmap/adapter/one-koordinator-adapter-server"
    assert finding.fix.startswith("kubectl -n adapter get configmap one-koordinator-adapter-server")
    assert "koordinator webhooks --config settings.yaml | kubectl apply -f -" in finding.fix


def test_limits_that_the_webhook_writes_and_those_that_nobody_wants_are_no_finding() -> None:
    def with_records(objects: Cluster) -> None:
        injecting("always")(objects)
        objects["ours"] = own_webhook("records")

    assert broken(with_records) == ()
    assert broken(injecting("never")) == ()


def test_own_settings_that_mean_nothing_are_told() -> None:
    assert "mode" in only(injecting("[]")).words


def test_what_a_listing_lacks_is_said_and_not_guessed() -> None:
    objects = {name: raw for name, raw in healthy().items() if name in {"node", "device", "pod"}}
    found = diagnosis(objects)
    assert found.findings == ()
    assert len(found.unseen) == 5
    assert [line.words for line in diagnoses.lines(found)][-1] == "nothing is wrong in what was looked at"


def test_an_object_that_cannot_be_read_is_told_and_hides_no_other() -> None:
    finding = only(
        lambda objects: objects.update(bad={"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": 3}})
    )
    assert "containers" in finding.words
    assert finding.fix == "kubectl get -o yaml -A pod   # and correct it"


def test_a_diagnosis_is_a_document() -> None:
    objects = healthy()
    del objects["settings"]
    said = diagnoses.document(diagnosis(objects))
    assert said["kind"] == "Diagnosis"
    assert said["findings"][0]["check"] == "colocation"
