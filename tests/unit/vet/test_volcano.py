"""The rules about Volcano: for which releases they hold, what puts them right, and the numbers that they say."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.allocations.manifests import stale_allocations
from hami_plugins.engine.intake import Rules
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.manifests import Document
from hami_plugins.vendors import awsneuron, builtin, volcano
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version
from hami_plugins.vet import VetFinding, VetSettings, VetSeverity, cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects
from tests.unit.vet import clusters

OLD = Version(1, 14, 1)
NEW = Version(1, 16, 0)
REGISTER = "volcano.sh/node-vgpu-register"
CARD = "GPU-0,10,24576,NVIDIA-NVIDIA A10,true,hami-core:"


def a_pod(limits: str, **annotations: str) -> dict[str, Any]:
    said = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    found = clusters.member("pod", "")
    found["metadata"]["annotations"] = said
    found["spec"]["containers"] = [{"name": "main", "resources": {"limits": yaml.safe_load(f"{{{limits}}}")}}]
    return found


def found(*objects: dict[str, Any], chosen: VetSettings | None = None, cluster: bool = False) -> tuple[VetFinding, ...]:
    snapshot = snapshot_of(clusters.OBJECTS, builtin()) if cluster else None
    sources = vet.read(yaml.safe_dump_all(objects), source="f")
    return vet.vet(sources.documents, builtin(), chosen, snapshot)


def rules(*objects: dict[str, Any], chosen: VetSettings | None = None) -> set[str]:
    return {each.rule for each in found(*objects, chosen=chosen)}


def documents_of(*objects: dict[str, Any]) -> tuple[Document, ...]:
    return tuple(cluster_objects.of({"kind": "List", "items": list(objects)}, "dump.json"))


def judged(*objects: dict[str, Any], chosen: VetSettings | None = None) -> tuple[VetFinding, ...]:
    """Findings about the objects of a cluster itself."""
    return vet.vet((), builtin(), chosen, ClusterObjects(snapshot_of(objects, builtin()), documents_of(*objects)))


def a_node(register: str = CARD, *, handshake: str = "Reported", number: str = "10") -> dict[str, Any]:
    annotations = {REGISTER: register, "volcano.sh/node-vgpu-handshake": handshake}
    devices = {"volcano.sh/vgpu-number": number, "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"}
    return clusters.node("n1", {key: value for key, value in annotations.items() if value}, devices)


LISTS_IDS = a_pod("volcano.sh/vgpu-number: 1", **{"volcano.sh__vgpu_use_gpuuuid": "GPU-0"})
LISTS_FOREIGN_IDS = a_pod("volcano.sh/vgpu-number: 1", **{"nvidia.com__use_gpuuuid": "GPU-0"})
CORES_ALONE = a_pod("volcano.sh/vgpu-cores: 20")
TWO_CONTAINERS = a_pod("volcano.sh/vgpu-number: 1")
TWO_CONTAINERS["spec"]["containers"].append({**TWO_CONTAINERS["spec"]["containers"][0], "name": "second"})


@pytest.mark.parametrize(
    ("pod", "release", "assigner", "expected"),
    [
        (LISTS_IDS, OLD, DeviceAssigner.VOLCANO, {"HP408"}),
        (LISTS_IDS, None, DeviceAssigner.VOLCANO, {"HP408"}),
        (LISTS_IDS, OLD, DeviceAssigner.POLICY, {"HP408"}),
        (LISTS_IDS, NEW, DeviceAssigner.VOLCANO, set()),
        (LISTS_IDS, OLD, DeviceAssigner.WEBHOOK, set()),
        (LISTS_IDS, OLD, DeviceAssigner.EXTENDER, set()),
        (LISTS_FOREIGN_IDS, NEW, DeviceAssigner.VOLCANO, {"HP408"}),
        (LISTS_FOREIGN_IDS, NEW, DeviceAssigner.EXTENDER, set()),
        (TWO_CONTAINERS, OLD, DeviceAssigner.VOLCANO, {"HP311"}),
        (TWO_CONTAINERS, NEW, DeviceAssigner.VOLCANO, {"HP311"}),
        (TWO_CONTAINERS, OLD, DeviceAssigner.POLICY, set()),
        (TWO_CONTAINERS, OLD, DeviceAssigner.EXTENDER, set()),
        (CORES_ALONE, NEW, DeviceAssigner.VOLCANO, {"HP206"}),
        (CORES_ALONE, NEW, DeviceAssigner.WEBHOOK, set()),
    ],
)
def test_a_rule_holds_for_its_releases_and_where_nobody_else_assigns_cards(
    pod: dict[str, Any], release: Version | None, assigner: DeviceAssigner, expected: set[str]
) -> None:
    assert rules(pod, chosen=VetSettings(release=release, assigner=assigner)) == expected


def test_a_message_and_the_document_name_the_releases() -> None:
    (finding,) = found(LISTS_IDS)
    assert "(Volcano before 1.16.0); select models" in finding.message
    assert finding.holds_for == "Volcano before 1.16.0"
    assert vet.BY_ID["HP408"].holds_for == "Volcano before 1.16.0; not with devices assigned by extender and webhook"
    assert vet.BY_ID["HP721"].holds_for == "Volcano from 1.13.0 on"
    assert vet.BY_ID["HP101"].holds_for == ""
    assert found(TWO_CONTAINERS)[0].holds_for == "volcano-vgpu-device-plugin up to 1.12"


def a_deployment(image: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("volcanosh/vc-scheduler:v1.16.0", set()),
        ("volcanosh/vc-scheduler:v1.14.1", {"HP408"}),
        ("volcanosh/vc-scheduler:latest", {"HP408"}),
        ("volcanosh/vc-scheduler:v1.17.0", {"HP408"}),
        ("volcanosh/vc-webhook-manager:v1.16.0", {"HP408"}),
    ],
)
def test_the_release_is_read_off_the_image_of_the_scheduler(image: str, expected: set[str]) -> None:
    assert rules(LISTS_IDS, a_deployment(image)) == expected
    assert rules(LISTS_IDS, a_deployment(image), chosen=VetSettings(release=NEW)) == set()


def admission(kind: str, name: str, **body: Any) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **body}


def without_bindings(configuration: dict[str, Any]) -> dict[str, Any]:
    kept = [each for each in configuration["webhooks"] if each["rules"][0]["resources"] == ["pods"]]
    assert 0 < len(kept) < len(configuration["webhooks"])
    return {**configuration, "webhooks": kept}


def of_another_product(configuration: dict[str, Any]) -> dict[str, Any]:
    hooks = [{**each, "name": each["name"].replace("hami-plugins.io", "example")} for each in configuration["webhooks"]]
    return {**configuration, "webhooks": hooks}


def test_the_webhooks_on_bindings_tell_that_cards_are_allocated_by_the_allocator() -> None:
    installed = clusters.the_webhooks(volcano.SPEC)
    assert rules(LISTS_IDS, installed) == set()
    assert rules(LISTS_IDS, clusters.the_webhooks(awsneuron.SPEC, volcano.SPEC)) == set()
    assert rules(LISTS_IDS, clusters.the_webhooks(awsneuron.SPEC)) == {"HP408"}
    assert rules(LISTS_IDS, without_bindings(installed)) == {"HP408"}
    assert rules(LISTS_IDS, of_another_product(installed)) == {"HP408"}
    assert rules(LISTS_IDS, {**installed, "kind": "ValidatingWebhookConfiguration"}) == {"HP408"}


def a_policy(**spec: Any) -> dict[str, Any]:
    """The policy that strips allocations, as a chart names it."""
    found, _ = stale_allocations.policy()
    return {**found, "metadata": {"name": "cards-stale-allocations"}, "spec": {**found["spec"], **spec}}


def test_the_policy_on_bindings_does_not_make_volcano_read_more() -> None:
    assert rules(LISTS_IDS, a_policy()) == {"HP408", "HP741"}
    elsewhere = a_policy(matchConstraints={"resourceRules": [{"resources": ["pods"]}]})
    another = a_policy(mutations=[{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}])
    assert rules(LISTS_IDS, elsewhere, another) == {"HP408"}
    assert rules(LISTS_IDS, {**a_policy(), "kind": "ValidatingAdmissionPolicy"}) == {"HP408"}


def test_the_policy_on_bindings_breaks_releases_that_allocation_by_them() -> None:
    policy = a_policy()
    assert [each.severity for each in found(policy, chosen=VetSettings(release=NEW))] == [VetSeverity.ERROR]
    assert [each.severity for each in found(policy)] == [VetSeverity.NOTE]
    assert found(policy, chosen=VetSettings(release=OLD)) == ()
    assert [each.rule for each in judged(policy, a_node(), chosen=VetSettings(release=NEW))] == ["HP741"]


def the(rule: str, findings: tuple[VetFinding, ...]) -> VetFinding:
    (finding,) = (each for each in findings if each.rule == rule)
    return finding


def test_an_unadvertised_percentage_is_an_error_with_a_cluster_and_said_once() -> None:
    pod = a_pod("volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory-percentage: 50")
    finding = the("HP707", found(pod, cluster=True))
    assert finding.severity is VetSeverity.ERROR
    assert "none of the 3 nodes advertises it, so Volcano never enqueues the pod" in finding.message
    assert {each.rule for each in found(pod, cluster=True)} == {"HP707"}
    assert {each.rule for each in found(pod)} == {"HP701"}


def test_an_advertised_percentage_is_right_once_it_is_configured() -> None:
    node = clusters.node("n1", {}, {"volcano.sh/vgpu-memory-percentage": "100"})
    pod = a_pod("volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory-percentage: 50")
    sources = vet.read(yaml.safe_dump(pod), source="f")
    said = vet.vet(sources.documents, builtin(), None, snapshot_of([node], builtin()))
    assert "HP707" not in {each.rule for each in said}
    assert "HP701" in {each.rule for each in said}


def a_queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_a_pod_that_slips_under_a_cap_is_told_with_its_numbers() -> None:
    queue = a_queue("capped", capability={"volcano.sh/vgpu-memory": "30000"})
    two = a_pod("volcano.sh/vgpu-number: 2, volcano.sh/vgpu-memory: 20000")
    two["metadata"]["annotations"] = {clusters.QUEUE: "capped"}
    assert (
        "gets 2 x 20000 and counts 20000 of volcano.sh/vgpu-memory against the 30000 that queue capped may have"
        in next(each.message for each in found(queue, two) if each.object == "Pod default/pod")
    )
    whole = a_pod("volcano.sh/vgpu-number: 2")
    whole["metadata"]["annotations"] = {clusters.QUEUE: "capped"}
    assert "gets 2 whole cards and counts 0 of" in next(
        each.message for each in found(queue, whole) if each.object == "Pod default/pod"
    )


@pytest.mark.parametrize(
    ("limits", "fix"),
    [
        (
            "volcano.sh/vgpu-number: 2, volcano.sh/vgpu-memory: 20000",
            "use one card per container, or cap volcano.sh/vgpu-number instead",
        ),
        (
            "volcano.sh/vgpu-number: 2",
            "write volcano.sh/vgpu-memory and use one card per container, or cap volcano.sh/vgpu-number instead",
        ),
    ],
)
def test_memory_that_is_written_need_not_be_written(limits: str, fix: str) -> None:
    pod = a_pod(limits)
    pod["metadata"]["annotations"] = {clusters.QUEUE: "capped"}
    queue = a_queue("capped", capability={"volcano.sh/vgpu-memory": "30000"})
    assert [each.fix for each in found(queue, pod) if each.object == "Pod default/pod"] == [fix]


def test_a_cap_that_is_exceeded_is_a_warning_and_one_that_is_not_a_note() -> None:
    (cores, memory) = (each for each in judged(*clusters.OBJECTS) if each.rule == "HP721")
    assert memory.severity is VetSeverity.WARNING
    assert "the pods of the queue hold 6000 of 4000" in memory.message
    assert cores.severity is VetSeverity.NOTE


def test_cards_of_another_vendor_are_none_that_a_queue_caps() -> None:
    other = clusters.holder(
        "other", "", {clusters.QUEUE: "exceeded", "hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,9000,9:;"}
    )
    del other["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"]
    memory = [each for each in judged(*clusters.OBJECTS, other) if each.rule == "HP721"][1]
    assert "the pods of the queue hold 6000 of 4000" in memory.message


def test_what_is_said_of_the_clusters_own_objects_names_them_and_the_dump() -> None:
    finding = the("HP731", judged(a_node(""), clusters.OBJECTS[0]))
    assert (finding.file, finding.line, finding.object) == ("dump.json", 1, "Node n1")
    assert finding.path[:2] == ("items", 0)


def test_the_clusters_objects_can_be_overlooked_by_annotation() -> None:
    node = a_node("")
    node["metadata"]["annotations"]["hami-plugins.io/vet-ignore"] = "HP731"
    assert judged(node) == ()


def test_an_object_that_is_listed_and_declared_is_judged_once() -> None:
    node = a_node("")
    sources = vet.read(yaml.safe_dump(node), source="f")
    cluster = ClusterObjects(snapshot_of([node], builtin()), documents_of(node))
    assert [each.file for each in vet.vet(sources.documents, builtin(), None, cluster)] == ["f"]


def test_typed_lists_and_snapshot_files_are_taken_apart() -> None:
    group = clusters.group("g", phase="Inqueue")
    bare = {key: value for key, value in group.items() if key not in ("kind", "apiVersion")}
    file = {"kind": "ClusterSnapshot", "items": [{**group, "apiVersion": "v1"}, "nonsense", {"kind": "Pod"}]}
    for raw in ({"kind": "PodGroupList", "items": [bare]}, file):
        (document,) = cluster_objects.of(raw, "dump.json")
        assert document.raw["apiVersion"] == "scheduling.volcano.sh/v1beta1"


def test_only_nodes_queues_and_gangs_of_a_cluster_are_judged() -> None:
    pod = a_pod("volcano.sh/vgpu-cores: 20")
    assert judged(pod, a_node(), a_deployment("volcanosh/vc-scheduler:v1.14.1")) == ()


def test_an_agent_that_has_gone_and_left_its_slots_crashes_the_scheduler_of_one_release() -> None:
    def told(release: Version | None, assigner: DeviceAssigner = DeviceAssigner.VOLCANO) -> str:
        chosen = VetSettings(release=release, assigner=assigner)
        return "".join(each.message for each in found(a_node(""), chosen=chosen))

    assert "the scheduler of 1.14.1 crashes there" in told(OLD)
    assert "crashes there" in told(None)
    assert "bound without one" in told(NEW)
    assert "crashes there" not in told(NEW)
    assert "crashes there" in told(OLD, DeviceAssigner.WEBHOOK)
    assert told(OLD, DeviceAssigner.EXTENDER) == ""


@pytest.mark.parametrize(("release", "expected"), [(OLD, {"HP731"}), (Version(1, 14, 3), set()), (None, {"HP731"})])
def test_a_handshake_is_missed_by_the_releases_that_look_for_it(release: Version | None, expected: set[str]) -> None:
    assert rules(a_node(handshake=""), chosen=VetSettings(release=release)) == expected


def test_beside_the_master_of_volcanos_plugin_an_older_volcano_has_no_cards() -> None:
    finding = the("HP731", found(a_node(handshake=""), chosen=VetSettings(release=OLD)))
    assert "it has no annotation volcano.sh/node-vgpu-handshake (Volcano before 1.14.3 and" in finding.message
    assert finding.fix.startswith("run volcano-vgpu's agent or volcano-vgpu-device-plugin up to 1.12 there")
    assert "or Volcano 1.14.3, 1.15.1 or later" in finding.fix


@pytest.mark.parametrize("resource", ["volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"])
@pytest.mark.parametrize(
    ("release", "assigner", "expected"),
    [
        (OLD, DeviceAssigner.VOLCANO, False),
        (Version(1, 14, 3), DeviceAssigner.VOLCANO, True),
        (Version(1, 15, 0), DeviceAssigner.VOLCANO, False),
        (Version(1, 15, 1), DeviceAssigner.VOLCANO, True),
        (NEW, DeviceAssigner.VOLCANO, True),
        (NEW, DeviceAssigner.EXTENDER, False),
    ],
)
def test_releases_without_a_handshake_need_memory_and_cores_in_the_status(
    resource: str, release: Version, assigner: DeviceAssigner, expected: bool
) -> None:
    node = a_node()
    del node["status"]["allocatable"][resource]
    findings = found(node, chosen=VetSettings(release=release, assigner=assigner))
    missing = [each for each in findings if each.rule == "HP731"]
    assert [f"it offers no {resource} (Volcano from 1.14.3" in each.message for each in missing] == [True] * expected


def test_two_writers_are_named_with_what_and_when() -> None:
    node = a_node()
    owned: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{REGISTER}": {}}}}
    sums: dict[str, Any] = {"f:status": {"f:capacity": {"f:volcano.sh/vgpu-memory": {}, "f:volcano.sh/vgpu-cores": {}}}}
    node["metadata"]["managedFields"] = [
        {"manager": "one", "time": "2026-11-21T07:00:00Z", "fieldsV1": owned},
        {"manager": "two", "fieldsV1": sums},
    ]
    message = the("HP732", found(node)).message
    assert f"(one at 2026-11-21T07:00:00Z: {REGISTER}; two: volcano.sh/vgpu-memory, volcano.sh/vgpu-cores)" in message


def test_sums_say_which_way_they_are_wrong() -> None:
    assert "pods wait although a card has room" in the("HP733", found(a_node(number="9"))).message
    assert "pods are let in that no card has room for" in the("HP733", found(a_node(number="11"))).message


def test_an_idle_queue_that_keeps_cards_back_while_others_wait_is_a_warning() -> None:
    queue = a_queue("kept", guarantee={"resource": {"volcano.sh/vgpu-number": "4"}})
    said = the("HP725", judged(*clusters.OBJECTS, queue))
    assert said.severity is VetSeverity.WARNING
    assert "guarantee volcano.sh/vgpu-number=4 of 10 in the cluster, and the queue is idle while 4 pods" in said.message
    busy = clusters.holder("busy-in-kept", "", {clusters.QUEUE: "kept"})
    assert the("HP725", judged(*clusters.OBJECTS, queue, busy)).severity is VetSeverity.NOTE


@pytest.mark.parametrize(
    ("rules", "job", "said"),
    [
        (Rules(queue_hierarchy=True), False, "Volcano places no pod of the cluster while this one is there"),
        (Rules(queue_hierarchy=True), True, "the webhook refuses the job"),
        (Rules(), True, "the webhook refuses the job"),
        (Rules(), False, ""),
        (Rules(queue_hierarchy=True, queue_plugin="proportion"), False, ""),
    ],
)
def test_a_queue_above_others_takes_no_jobs_and_pods_in_it_may_stop_everybody(
    rules: Rules, job: bool, said: str
) -> None:
    queues = [a_queue("team"), *(a_queue(name, parent="team") for name in ("night", "day"))]
    pod = a_pod("volcano.sh/vgpu-number: 1")
    pod["metadata"]["annotations"] = {clusters.QUEUE: "team"}
    jobs = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"queue": "team"},
    }
    findings = [
        each for each in found(*queues, jobs if job else pod, chosen=VetSettings(rules=rules)) if each.rule == "HP708"
    ]
    assert [each.message.split(": ")[2].partition(" (seen")[0] for each in findings] == ([said] if said else [])
    assert all(each.fix == "use one of those below it: day, night" for each in findings)


def test_a_gang_that_was_let_in_and_never_fits_is_told_with_what_it_takes() -> None:
    message = the("HP726", judged(*clusters.OBJECTS)).message
    assert "only 1 of its 2 waiting pods fit, even when all nodes are idle; it needs 2" in message
    assert "others do without volcano.sh/vgpu-number=2" in message


def test_what_a_gang_takes_is_told_as_far_as_it_can_be_read() -> None:
    odd = [each for each in clusters.OBJECTS if each["metadata"]["name"] != "giants"]
    giants = clusters.group("giants", phase="Inqueue")
    giants["spec"]["minResources"]["volcano.sh/vgpu-number"] = "two"
    what = the("HP726", judged(*odd, giants)).what
    assert "It waits for ever (" in what
    assert "others do without" not in what


def test_a_gang_of_the_cluster_that_lacks_pods_is_told_before_it_runs() -> None:
    lone = clusters.group("lone", phase="Inqueue")
    pod = clusters.waiting("of-lone", "lone", 1000)
    assert {each.rule for each in judged(a_node(), lone, pod)} == {"HP705"}
    assert judged(a_node(), {**lone, "status": {"phase": "Running"}}, pod) == ()


def test_a_gang_by_hand_is_told_what_its_pods_ask_together() -> None:
    group = clusters.group("g", phase="Pending")
    del group["spec"]["minResources"]
    pods = [clusters.waiting(f"g-{at}", "g", 1000) for at in range(3)]
    fix = the("HP722", judged(a_node(), group, *pods)).fix
    assert fix == "write minResources: {volcano.sh/vgpu-memory: 2000, volcano.sh/vgpu-number: 2}, and cpu and memory"


def test_a_quota_of_the_cluster_and_one_of_the_manifests_hold_together() -> None:
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "small"},
        "spec": {
            "minAvailable": 3,
            "tasks": [{"name": "w", "replicas": 3, "template": {"spec": {"containers": [{"name": "c"}]}}}],
        },
    }
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "small"},
        "spec": {"hard": {"pods": "2"}},
    }
    message = the("HP724", found(job, quota, cluster=True)).message
    assert "lets in 2 of 3 pods (pods: asks 1, 2 of 2 are taken), and the gang needs 3" in message
    assert "HP724" not in {each.rule for each in found(job, cluster=True)}


def test_several_neuron_devices_of_volcano_are_chosen_where_the_allocator_serves_them() -> None:
    pod = a_pod("aws.amazon.com/neuron: 4")
    installed = clusters.the_webhooks(volcano.SPEC, awsneuron.SPEC)
    assert "HP508" in rules(pod)
    assert "HP508" in rules(pod, of_another_product(installed))
    assert "HP508" in rules(pod, clusters.the_webhooks(volcano.SPEC))
    assert "HP508" not in rules(pod, installed)
    assert "HP508" not in rules(pod, chosen=VetSettings(assigner=DeviceAssigner.EXTENDER))
    assert "HP508" in rules(pod, chosen=VetSettings(assigner=DeviceAssigner.VOLCANO))
    assert "HP508" not in rules(pod, installed, chosen=VetSettings(assigner=DeviceAssigner.VOLCANO))


def test_webhooks_in_a_list_of_an_api_server_have_no_version_of_their_own() -> None:
    listed = {key: value for key, value in clusters.the_webhooks(awsneuron.SPEC).items() if key != "apiVersion"}
    pod = vet.read(yaml.safe_dump(a_pod("aws.amazon.com/neuron: 4")), source="f").documents
    for objects, expected in (((), True), ((listed,), False)):
        cluster = ClusterObjects(None, documents_of(*objects))
        assert ("HP508" in {each.rule for each in vet.vet(pod, builtin(), None, cluster)}) is expected


@pytest.mark.parametrize(
    ("taint", "fix"),
    [
        ({"key": "dedicated", "value": "cards"}, "it fits with a toleration of the taint dedicated: cards"),
        ({"key": "node.kubernetes.io/unreachable"}, "it fits once the taint node.kubernetes.io/unreachable is removed"),
    ],
)
def test_a_taint_that_is_all_that_keeps_a_pod_away_is_named(taint: dict[str, str], fix: str) -> None:
    node = a_node()
    node["spec"] = {"taints": [{**taint, "effect": "NoSchedule"}]}
    documents = vet.read(yaml.safe_dump(a_pod("volcano.sh/vgpu-number: 1")), source="f").documents
    (finding,) = vet.vet(documents, builtin(), None, snapshot_of([node], builtin()))
    assert (finding.rule, finding.fix) == ("HP803", fix)


def test_what_two_pods_hold_of_one_card_too_much_is_said_once() -> None:
    def holding(name: str, memory: int) -> dict[str, Any]:
        pod = a_pod(f"volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: {memory}")
        pod["metadata"] |= {"name": name, "uid": name}
        pod["metadata"]["annotations"] = {"volcano.sh/vgpu-ids-new": f"GPU-0,NVIDIA,{memory},10:"}
        pod["spec"]["nodeName"] = "n1"
        return pod | {"status": {"phase": "Running"}}

    twice = [each for each in judged(a_node(), holding("a", 20_000), holding("b", 20_000)) if each.rule == "HP737"]
    assert len(twice) == 1, twice
    assert not [each for each in judged(a_node(), holding("a", 20_000), holding("b", 4_000)) if each.rule == "HP737"]
