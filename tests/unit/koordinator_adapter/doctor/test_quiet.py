"""``koordinator doctor``: healthy states, results for half a cluster, and the output of findings."""

from __future__ import annotations

import pytest

from koordinator_adapter.core.doctor.diagnosis import Diagnosis, lines
from koordinator_adapter.core.doctor.evidence import DoctorFinding, DoctorSeverity
from tests.unit.koordinator_adapter.doctor.cluster import ISOLATION, RECORD, Raw, a_pod, a_program, diagnosis, healthy
from tests.unit.koordinator_adapter.doctor.test_diagnosis import Break, Cluster, args, broken, put, the, without

SHARED = "koordinator.sh/gpu.shared"
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"


def no_gate(objects: Cluster) -> None:
    args("manager", "--v=4")(objects)


def lacking(objects: Cluster) -> None:
    """No node advertises shared slots."""
    for amounts in (objects["node"]["status"]["capacity"], objects["node"]["status"]["allocatable"]):
        amounts.pop(SHARED, None)


def nobody_wants_limits(objects: Cluster) -> None:
    del objects["node"]["metadata"]["labels"][ISOLATION]
    del objects["pod"]


def unlabelled(owner: list[Raw]) -> Break:
    """A pod that shares a card without the label."""

    def change(objects: Cluster) -> None:
        objects["pod"]["metadata"] |= {"labels": {}, "ownerReferences": owner}

    return change


def test_shared_slots_that_every_node_advertises_are_no_finding() -> None:
    assert broken(no_gate) == ()


def test_a_manager_that_is_not_listed_is_told_by_name_to_advertise_what_its_webhook_adds() -> None:
    def change(objects: Cluster) -> None:
        lacking(objects)
        del objects["manager"]

    (finding,) = the("shared-slots", change)
    assert finding.about == "mutatingwebhookconfiguration/koordinator-mutating-webhook-configuration"
    assert finding.fix == (
        "kubectl -n koordinator-system edit deployment koord-manager   "
        "# --feature-gates=EnableSyncGPUSharedResource=true"
    )

    def nobody(objects: Cluster) -> None:
        change(objects)
        del objects["webhook"]

    assert the("shared-slots", nobody) == []


@pytest.mark.parametrize("runtime", ["cri-o://1.29.1", ""])
def test_runtimes_that_have_nri_or_are_not_told_are_no_finding(runtime: str) -> None:
    assert broken(put("node", "status", "nodeInfo", "containerRuntimeVersion", runtime)) == ()


def test_a_library_without_a_version_is_not_judged_by_it() -> None:
    unversioned = a_program("DaemonSet", "lib", "mv libvgpu.so.new libvgpu.so", image="registry.example/agent:latest")
    assert broken(lambda objects: objects.update(library=unversioned)) == ()


def test_a_flag_in_the_command_is_edited_by_hand() -> None:
    def change(objects: Cluster) -> None:
        part = objects["koordlet"]["spec"]["template"]["spec"]["containers"][0]
        part["command"] = ["koordlet", "--enable-nri-runtime-hook=false"]

    (finding,) = the("nri", change)
    assert finding.fix == ("kubectl -n koordinator-system edit daemonset koordlet   # --enable-nri-runtime-hook=true")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--config-namespace=elsewhere"], "elsewhere/slo-controller-config"),
        (["--config-namespace", "elsewhere"], "elsewhere/slo-controller-config"),
        (["--config-namespace", "--slo-config-name", "own"], "koordinator-system/own"),
        (["--config-namespace"], "koordinator-system/slo-controller-config"),
    ],
)
def test_the_managers_settings_are_looked_for_where_its_flags_say(words: list[str], place: str) -> None:
    def change(objects: Cluster) -> None:
        args("manager", "--feature-gates=EnableSyncGPUSharedResource=true", *words)(objects)
        del objects["settings"]

    (finding,) = the("colocation", change)
    assert finding.about == f"configmap/{place}"


def test_a_node_without_the_label_is_no_finding_where_nobody_wants_limits() -> None:
    assert the("isolation-label", nobody_wants_limits) == []


def test_an_empty_device_object_of_a_node_without_cards_is_no_finding() -> None:
    def change(objects: Cluster) -> None:
        objects["device"]["spec"]["devices"] = []
        objects["node"]["status"]["allocatable"] = {"cpu": "64"}
        del objects["pod"]

    assert the("device-object", change) == []


def test_partitions_that_cannot_be_read_are_told() -> None:
    def annotated(text: str) -> Break:
        return put("device", "metadata", "annotations", {PARTITIONS: text})

    assert the("device-object", annotated("{}")) == []
    (finding,) = the("device-object", annotated("["))
    assert (finding.severity, finding.about) == (DoctorSeverity.ERROR, "device/gpu-1")
    assert finding.words.startswith("partitions cannot be read")


def test_a_device_plugin_without_an_owner_is_ended_by_hand() -> None:
    plugin = a_pod("nvidia-device-plugin-x", containers=[{"name": "c", "image": "nvidia/k8s-device-plugin:1"}])
    plugin["metadata"] |= {"annotations": {}, "ownerReferences": []}
    (finding,) = the("device-plugin", lambda objects: objects.update(plugin=plugin))
    assert finding.fix == "kubectl -n ml get pods   # and end the device plugin on these nodes"


def test_a_pod_without_cards_on_a_node_without_cards_is_no_finding() -> None:
    plain = a_pod("plain", node="cpu-1", containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}])
    del plain["metadata"]["annotations"][RECORD]
    cpu_only = {"kind": "Node", "metadata": {"name": "cpu-1"}, "status": {}}
    assert broken(lambda objects: objects.update(plain=plain, cpu=cpu_only)) == ()


@pytest.mark.parametrize("owner", [[], [{"kind": "Job", "name": "train"}]], ids=["no owner", "a job"])
def test_a_pod_whose_owner_cannot_be_patched_gets_the_label_in_its_manifest(owner: list[Raw]) -> None:
    (finding,) = the("no-limits", unlabelled(owner))
    assert finding.fix == "hami-plugins koordinator translate -f MANIFEST --to koordinator --in-place"


def test_every_finding_is_printed_with_its_command_and_counted() -> None:
    objects = healthy()
    without("settings")(objects)
    objects["node"]["metadata"]["labels"][ISOLATION] = "hami-core"
    found = diagnosis(objects)
    printed = list(lines(found))
    assert not found.healthy
    assert printed[0].words.startswith("error: configmap/koordinator-system/slo-controller-config: is missing")
    assert printed[1].words.startswith("    kubectl -n koordinator-system create configmap")
    assert printed[-1].words == "2 errors"
    assert [line.tone for line in printed] == ["bad", "", "bad", "", "bad"]


def test_a_finding_without_a_command_is_one_line() -> None:
    note = DoctorFinding(check="nri", severity=DoctorSeverity.NOTE, about="nodes", words="something to know")
    assert [line.words for line in lines(Diagnosis((note,), ()))] == ["note: nodes: something to know", "1 note"]
