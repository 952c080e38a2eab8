"""Pod objects: what decisions read of them, and how a wrong one is named."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod, Requirement, Toleration
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import PodUid
from hami_plugins.wire import objects, pods
from tests.unit.wire import mutations

FULL: dict[str, Any] = {
    "metadata": {
        "namespace": "team",
        "name": "train-0",
        "uid": "u-1",
        "labels": {"app": "train"},
        "annotations": {"nvidia.com/use-gputype": "A100"},
        "deletionTimestamp": "2026-08-21T10:00:00Z",
    },
    "spec": {
        "schedulerName": "volcano",
        "nodeName": "n1",
        "priority": 7,
        "runtimeClassName": "nvidia",
        "schedulingGates": [{"name": "quota"}],
        "nodeSelector": {"zone": "b", "gpu": "on"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["amd64", "arm64"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                        {"matchExpressions": []},
                    ]
                }
            }
        },
        "tolerations": [{"key": "gpu", "value": "on", "effect": "NoSchedule"}, {"operator": "Exists"}],
        "initContainers": [
            {"name": "fetch", "resources": {"requests": {"cpu": "2"}}},
            {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        ],
        "containers": [
            {
                "name": "main",
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "A"}],
                "securityContext": {"privileged": True},
                "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}},
            },
            {"name": "side"},
        ],
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"memory": "1Gi", "nvidia.com/gpu": "9"}},
    },
    "status": {
        "phase": "Running",
        "initContainerStatuses": [
            {"name": "fetch", "state": {"terminated": {"exitCode": 0}}},
            {"name": "proxy", "state": {"running": {}}},
        ],
    },
}


def a_pod(
    *, init: tuple[dict[str, Any], ...] = (), main: tuple[dict[str, Any], ...] = (), **spec: Any
) -> dict[str, Any]:
    """A pod named default/x whose containers have these resources."""
    return {
        "metadata": {"name": "x"},
        "spec": {"initContainers": list(init), "containers": list(main), **spec},
    }


def asking(cpu: str, *, always: bool = False) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": "Always"} if always else {})}


def cpu_of(read: Pod) -> float:
    return dict(read.constraints.requests)["cpu"] / NANO


def test_everything_that_decisions_read_is_read() -> None:
    read = objects.pod(FULL)
    assert read.full_name == "team/train-0"
    assert (read.uid, read.phase, read.priority, read.scheduler) == ("u-1", "Running", 7, "volcano")
    assert (read.node, read.runtime_class) == ("n1", "nvidia")
    assert (read.gates, read.terminating, read.init_finished) == (("quota",), True, True)
    assert (read.labels, read.annotations) == ({"app": "train"}, {"nvidia.com/use-gputype": "A100"})


def test_containers_come_with_init_containers_first_and_know_their_kind() -> None:
    read = objects.pod(FULL)
    assert [(container.name, container.kind) for container in read.containers] == [
        ("fetch", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
        ("main", ContainerKind.APP),
        ("side", ContainerKind.APP),
    ]
    main = read.containers[2]
    assert main.privileged
    assert main.env == {"NVIDIA_VISIBLE_DEVICES", "A"}
    assert not read.containers[3].privileged


def test_missing_requests_are_taken_from_the_limits_as_the_api_server_does() -> None:
    main = objects.pod(FULL).containers[2]
    assert {name: amount.text for name, amount in main.requests.items()} == {"nvidia.com/gpu": "1", "cpu": "1"}


def test_requests_stay_as_written_when_told_so() -> None:
    read = objects.pod(FULL, default_requests=False)
    assert {name: amount.text for name, amount in read.containers[2].requests.items()} == {"cpu": "1"}


def test_where_the_pod_may_go_is_read() -> None:
    where = objects.pod(FULL).constraints
    assert where.selector == (("gpu", "on"), ("zone", "b"))
    assert where.node == "n1"
    assert where.affinity == (
        (Requirement("arch", "In", ("amd64", "arm64")),),
        (Requirement("metadata.name", "In", ("n1",), on_field=True),),
    )
    assert where.tolerations == (Toleration("gpu", "Equal", "on", "NoSchedule"), Toleration(operator="Exists"))


def test_an_affinity_of_empty_terms_matches_no_node() -> None:
    rule: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    assert objects.pod(a_pod(affinity={"nodeAffinity": rule})).constraints.affinity == ()


def test_a_preference_is_no_constraint() -> None:
    rule: dict[str, Any] = {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
    assert objects.pod(a_pod(affinity={"nodeAffinity": rule})).constraints.affinity is None


def test_a_lean_pod_gets_the_defaults() -> None:
    read = objects.pod({"metadata": {"generateName": "job-"}, "spec": None, "status": {}})
    assert read == Pod(namespace="default", name="job-")


def test_what_is_booked_is_the_peak_of_starting_and_running() -> None:
    running = objects.pod(a_pod(init=(asking("1"),), main=(asking("2"), asking("500m"))))
    assert cpu_of(running) == 2.5
    starting = objects.pod(a_pod(init=(asking("4"), asking("3")), main=(asking("2"), asking("500m"))))
    assert cpu_of(starting) == 4


def test_a_sidecar_counts_beside_the_applications_and_the_init_containers_after_it() -> None:
    sidecar = asking("1", always=True)
    assert cpu_of(objects.pod(a_pod(init=(asking("3"), sidecar), main=(asking("1"),)))) == 3
    assert cpu_of(objects.pod(a_pod(init=(sidecar, asking("3")), main=(asking("1"),)))) == 4
    assert cpu_of(objects.pod(a_pod(init=(sidecar,), main=(asking("5"),)))) == 6


def test_overhead_is_added_and_pod_level_amounts_replace_the_sum() -> None:
    booked = dict(objects.pod(FULL).constraints.requests)
    assert booked == {"cpu": int(2.25 * NANO), "memory": 2**30 * NANO, "nvidia.com/gpu": NANO}


@pytest.mark.parametrize(
    ("statuses", "finished"),
    [
        (None, False),
        ([{"name": "fetch", "state": {"running": {}}}], False),
        ([{"name": "fetch", "state": {"terminated": {"exitCode": 1}}}], False),
        ([{"name": "other", "state": {"terminated": {"exitCode": 0}}}], False),
        ([{"name": "fetch", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}], True),
    ],
)
def test_init_containers_are_finished_once_all_of_them_ended_well(statuses: object, finished: bool) -> None:
    raw = a_pod(init=({"name": "fetch"},))
    raw["status"] = {"initContainerStatuses": statuses}
    assert objects.pod(raw).init_finished is finished


@pytest.mark.parametrize(
    ("where", "value", "key"),
    [
        ((), [], "pod"),
        (("metadata",), 1, "pod ?: metadata"),
        (("metadata", "namespace"), 1, "pod ?: metadata.namespace"),
        (("metadata", "labels"), "a", "pod team/train-0: metadata.labels"),
        (("metadata", "labels", "app"), 1, "pod team/train-0: metadata.labels[app]"),
        (("spec",), "x", "pod team/train-0: spec"),
        (("spec", "priority"), True, "pod team/train-0: spec.priority"),
        (("spec", "priority"), "high", "pod team/train-0: spec.priority"),
        (("spec", "containers"), {}, "pod team/train-0: spec.containers"),
        (("spec", "containers", 1), None, "pod team/train-0: spec.containers[1]"),
        (("spec", "containers", 0, "env", 1), "A=1", "pod team/train-0: spec.containers[0].env[1]"),
        (
            ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
            "one",
            "pod team/train-0: spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
        (
            ("spec", "containers", 0, "securityContext", "privileged"),
            "yes",
            "pod team/train-0: spec.containers[0].securityContext.privileged",
        ),
        (("spec", "overhead", "cpu"), [], "pod team/train-0: spec.overhead[cpu]"),
        (("spec", "tolerations", 0, "key"), 1, "pod team/train-0: spec.tolerations[0].key"),
        (("status", "phase"), 1, "pod team/train-0: status.phase"),
    ],
)
def test_a_wrong_type_is_named_by_its_path(where: tuple[Any, ...], value: object, key: str) -> None:
    with pytest.raises(WireError) as caught:
        objects.pod(replaced(FULL, where, value))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("where", "value", "key"),
    [
        (("operator",), "in", ".matchExpressions[0].operator"),
        (("values", 1), 2, ".matchExpressions[0].values[1]"),
        (("values",), "amd64", ".matchExpressions[0].values"),
    ],
)
def test_a_wrong_affinity_is_named_by_its_path(where: tuple[Any, ...], value: object, key: str) -> None:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    way = ("spec", "affinity", "nodeAffinity", rule, "nodeSelectorTerms", 0, "matchExpressions", 0)
    with pytest.raises(WireError) as caught:
        objects.pod(replaced(FULL, (*way, *where), value))
    assert caught.value.key == f"pod team/train-0: spec.affinity.nodeAffinity.{rule}.nodeSelectorTerms[0]{key}"


@given(mutations.damaged(FULL))
def test_a_damaged_pod_gives_a_pod_or_a_wire_error(raw: Any) -> None:
    with suppress(WireError):
        assert isinstance(objects.pod(raw), Pod)


@given(mutations.junk)
def test_any_json_gives_a_pod_or_a_wire_error(raw: Any) -> None:
    with suppress(WireError):
        objects.pod(raw)
    with suppress(WireError):
        objects.pod({"metadata": raw, "spec": raw, "status": raw})


def replaced(document: Any, where: tuple[Any, ...], value: object) -> Any:
    """The document with one value replaced; shares nothing with the original on the way there."""
    if not where:
        return value
    inner = dict(document) if isinstance(document, dict) else list(document)
    inner[where[0]] = replaced(inner[where[0]], where[1:], value)
    return inner


def test_of_a_pod_that_cannot_be_read_node_phase_and_allocation_are_certain() -> None:
    broken = {
        "metadata": {"namespace": "x", "name": "a", "annotations": {"ids": "c", "n": 1}, "labels": "none"},
        "spec": {"nodeName": "n1", "containers": "none"},
        "status": {"phase": "Running"},
    }
    found = pods.certain(broken, PodUid("u"), lambda texts: tuple(Container(name=each) for each in texts.values()))
    assert (found.namespace, found.name, found.uid, found.node, found.phase) == ("x", "a", "u", "n1", "Running")
    assert found.annotations == {"ids": "c"}
    assert [each.name for each in found.containers] == ["c"]


@pytest.mark.parametrize("broken", [{}, {"metadata": 1, "spec": [], "status": "x"}])
def test_a_pod_without_anything_is_pending_and_on_no_node(broken: dict[str, object]) -> None:
    found = pods.certain(broken, PodUid("u"), lambda _texts: ())
    assert (found.namespace, found.node, found.phase) == ("", None, "Pending")


def test_one_thing_of_a_raw_pod_is_read_without_the_rest() -> None:
    amounts = {"limits": {"cpu": 1}}
    raw = {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"kind": "Job"}, "another"]},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "restartPolicy": "Always", "resources": amounts}, 3],
            "initContainers": [{"name": "fetch"}, {"name": "mesh", "restartPolicy": "Always", "resources": []}],
        },
        "status": {"phase": "Failed"},
    }
    assert (pods.node_of(raw), pods.finished(raw), pods.leaving(raw)) == ("n1", True, True)
    assert pods.owners(raw) == [{"kind": "Job"}]
    read = [(each["name"], str(kind), pods.written(each, "limits")) for each, kind in pods.containers_of(raw)]
    assert read == [("fetch", "init", {}), ("mesh", "sidecar", {}), ("main", "app", {"cpu": 1})]


@pytest.mark.parametrize("broken", [{}, {"metadata": 1, "spec": [], "status": "x"}])
def test_of_a_broken_pod_nothing_is_there(broken: dict[str, object]) -> None:
    assert (pods.node_of(broken), pods.finished(broken), pods.leaving(broken)) == ("", False, False)
    assert (pods.owners(broken), [*pods.containers_of(broken)]) == ([], [])


@pytest.mark.parametrize(
    ("annotations", "labels", "preemptable"),
    [
        ({}, {}, True),
        ({"volcano.sh/preemptable": "false"}, {}, False),
        ({}, {"volcano.sh/preemptable": "false"}, False),
        ({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, True),
    ],
)
def test_a_pod_may_be_evicted_unless_it_says_otherwise(
    annotations: dict[str, str], labels: dict[str, str], preemptable: bool
) -> None:
    raw = {"metadata": {"name": "p", "annotations": annotations, "labels": labels}}
    assert objects.pod(raw).preemptable is preemptable


def test_a_policy_of_never_keeps_others_from_being_evicted_for_a_pod() -> None:
    assert objects.pod({"metadata": {"name": "p"}}).preempts
    assert not objects.pod({"metadata": {"name": "p"}, "spec": {"preemptionPolicy": "Never"}}).preempts


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}], "PreemptionByScheduler"),
        ([{"type": "DisruptionTarget", "status": "True"}], "DisruptionTarget"),
        ([{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}], ""),
        ([{"type": "Ready", "status": "True", "reason": "Fine"}, "no condition"], ""),
        (7, ""),
    ],
)
def test_a_pod_that_is_about_to_be_ended_says_why(conditions: object, reason: str) -> None:
    assert objects.pod({"metadata": {"name": "p"}, "status": {"conditions": conditions}}).disruption == reason


def test_the_node_on_which_room_is_made_is_read_and_a_malformed_one_is_none() -> None:
    for written, node in (("n1", "n1"), ("", None), (7, None), (None, None)):
        assert objects.pod({"metadata": {"name": "p"}, "status": {"nominatedNodeName": written}}).nominated == node


@pytest.mark.parametrize(
    ("spec", "takes"),
    [
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}, False),
        ({"containers": [{"name": "c"}, {"name": "d", "ports": [{"hostPort": 80}]}]}, True),
        ({"initContainers": [{"name": "c", "ports": [{"hostPort": 80}]}], "containers": []}, True),
        ({"containers": [], "hostNetwork": True}, True),
        ({"containers": [{"name": "c", "ports": "all"}], "hostNetwork": "yes"}, False),
    ],
)
def test_a_pod_that_takes_ports_of_its_node_is_known(spec: Any, *, takes: bool) -> None:
    assert pods.takes_host_ports({"spec": spec}) is takes
