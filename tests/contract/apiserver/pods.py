"""Pods and nodes: defaults, status, bindings, graceful deletion."""

from __future__ import annotations

from typing import Any

from tests.contract.apiserver.api import MERGE, Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.refusals import first_cause, refused

NOBODY = "nobody.example"
"""A scheduler that does not exist, so that no real one touches the pods of the cases."""


def pod(name: str, *, containers: list[Object] | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    """A pod without a scheduler."""
    wanted = containers or [{"name": "c", "image": "i"}]
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"schedulerName": NOBODY, "containers": wanted, **spec},
    }


def binding(name: str, node: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


@case("a new pod is pending, and its spec is filled in")
def new_pod(api: Api) -> None:
    made = api.create(f"{api.workspace()}/pods", pod("a"))
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert "nodeName" not in spec


@case("limits become requests, and quantities come back in canonical form")
def quantities(api: Api) -> None:
    limits = {"volcano.sh/vgpu-memory": "16000", "volcano.sh/vgpu-number": 1, "cpu": "1000m", "memory": "1024Mi"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    made = api.create(f"{api.workspace()}/pods", pod("a", containers=[container]))
    resources = made["spec"]["containers"][0]["resources"]
    expected = {"volcano.sh/vgpu-memory": "16k", "volcano.sh/vgpu-number": "1", "cpu": "1", "memory": "1Gi"}
    assert resources == {"limits": expected, "requests": expected}
    assert made["status"]["qosClass"] == "Guaranteed"


@case("a quantity that is none is 400")
def bad_quantity(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "many"}}}
    reply = api.ask("POST", f"{api.workspace()}/pods", pod("a", containers=[container]))
    assert "quantities must match the regular expression" in refused(reply, 400, "BadRequest")


@case("an extended resource asks for what it limits")
def extended_resources(api: Api) -> None:
    resources = {"limits": {"volcano.sh/vgpu-number": 2}, "requests": {"volcano.sh/vgpu-number": 1}}
    reply = api.ask(
        "POST",
        f"{api.workspace()}/pods",
        pod("a", containers=[{"name": "c", "image": "i", "resources": resources}]),
    )
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("spec.containers[0].resources.requests", "FieldValueInvalid")


@case("an extended resource comes in whole numbers")
def whole_numbers(api: Api) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"volcano.sh/vgpu-number": "1.5"}}}
    reply = api.ask("POST", f"{api.workspace()}/pods", pod("a", containers=[container]))
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("spec.containers[0].resources.limits[volcano.sh/vgpu-number]", "FieldValueInvalid")


@case("a pod without containers is 422")
def empty_pod(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/pods", {**named("a"), "spec": {"containers": []}})
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("spec.containers", "FieldValueRequired")


@case("two containers of one name are 422")
def same_names(api: Api) -> None:
    twins = [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]
    reply = api.ask("POST", f"{api.workspace()}/pods", pod("a", containers=twins))
    refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("spec.containers[1].name", "FieldValueDuplicate")


@case("of a pod's spec the image may change and the command may not")
def fixed_spec(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/pods", pod("a"))
    made["spec"]["containers"][0]["image"] = "other"
    changed = api.ask("PUT", f"{space}/pods/a", made)
    assert changed.code == 200
    changed.body["spec"]["containers"][0]["command"] = ["sh"]
    reply = api.ask("PUT", f"{space}/pods/a", changed.body)
    assert "pod updates may not change fields other than" in refused(reply, 422, "Invalid")
    assert first_cause(reply) == ("spec", "FieldValueForbidden")


@case("no patch gives a pod its node")
def node_by_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    refused(api.ask("PATCH", f"{space}/pods/a", {"spec": {"nodeName": "n"}}, media=MERGE), 422, "Invalid")


@case("status on the main endpoint is ignored, and so is spec on status")
def status_apart(api: Api) -> None:
    space = api.workspace()
    path = f"{space}/pods/a"
    made = api.create(f"{space}/pods", {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert api.patch(path, {"status": {"phase": "Running"}})["status"]["phase"] == "Pending"
    patched = api.patch(f"{path}/status", {"spec": {"activeDeadlineSeconds": 5}, "status": {"phase": "Running"}})
    assert (patched["status"]["phase"], "activeDeadlineSeconds" in patched["spec"]) == ("Running", False)
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]


@case("annotations may be written through the status of a pod")
def annotated_by_status(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    patched = api.patch(f"{space}/pods/a/status", {"metadata": {"annotations": {"x": "y"}}})
    assert patched["metadata"]["annotations"] == {"x": "y"}


@case("a node keeps the status it is made with, and capacity alone is allocatable, too")
def node_status(api: Api) -> None:
    name = api.workspace().rsplit("/", maxsplit=1)[-1]
    path = api.remember(f"/api/v1/nodes/{name}")
    made = api.create("/api/v1/nodes", {**named(name), "status": {"capacity": {"cpu": "4"}}})
    assert (made["status"]["capacity"], made["status"]["allocatable"]) == ({"cpu": "4"}, {"cpu": "4"})
    patched = api.patch(f"{path}/status", {"status": {"capacity": {"volcano.sh/vgpu-memory": "320000"}}})
    assert patched["status"]["capacity"] == {"cpu": "4", "volcano.sh/vgpu-memory": "320k"}
    assert patched["status"]["allocatable"] == {"cpu": "4"}


@case("capacity on a node's main endpoint has no effect")
def capacity_by_main(api: Api) -> None:
    name = api.workspace().rsplit("/", maxsplit=1)[-1]
    path = api.remember(f"/api/v1/nodes/{name}")
    api.create("/api/v1/nodes", {**named(name), "status": {"capacity": {"cpu": "4"}}})
    reply = api.ask("PATCH", path, {"status": {"capacity": {"x/y": "1"}}}, media=MERGE)
    assert (reply.code, reply.body["status"]["capacity"]) == (200, {"cpu": "4"})


@case("a binding sets the node and lays its annotations over the pod's, not its labels", before="1.35")
def bound(api: Api) -> None:
    assert "labels" not in _bound(api)["metadata"]


@case("a binding sets the node and lays its annotations and its labels over the pod's", since="1.35")
def bound_with_labels(api: Api) -> None:
    """The gate PodTopologyLabelsAdmission, on by default from 1.35 on."""
    assert _bound(api)["metadata"]["labels"] == {"l": "m"}


def _bound(api: Api) -> Object:
    space = api.workspace()
    made = api.create(f"{space}/pods", pod("a", metadata={"annotations": {"x": "old", "y": "kept"}}))
    wanted = binding("a", "contract-node", annotations={"x": "new", "z": "more"}, labels={"l": "m"})
    reply = api.ask("POST", f"{space}/pods/a/binding", wanted)
    assert reply.code == 201
    assert reply.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    found = api.get(f"{space}/pods/a")
    assert found["spec"]["nodeName"] == "contract-node"
    assert found["metadata"]["annotations"] == {"x": "new", "y": "kept", "z": "more"}
    assert found["metadata"]["generation"] == made["metadata"]["generation"]
    scheduled = [each for each in found["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert [each["status"] for each in scheduled] == ["True"]
    return found


@case("a second binding is 409 and leaves no annotation")
def bound_twice(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    api.create(f"{space}/pods/a/binding", binding("a", "contract-node"))
    reply = api.ask("POST", f"{space}/pods/a/binding", binding("a", "other", annotations={"x": "y"}))
    message = refused(reply, 409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "contract-node"'
    )
    assert "annotations" not in api.get(f"{space}/pods/a")["metadata"]


@case("a binding for another identity is 409 and changes nothing")
def bound_by_mistake(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/pods", pod("a"))
    wanted = binding("a", "contract-node", uid="11111111-1111-1111-1111-111111111111")
    reply = api.ask("POST", f"{space}/pods/a/binding", wanted)
    assert "Precondition failed: UID in precondition" in refused(reply, 409, "Conflict")
    assert api.get(f"{space}/pods/a") == made
    right = binding("a", "contract-node", uid=made["metadata"]["uid"])
    assert api.ask("POST", f"{space}/pods/a/binding", right).code == 201


@case("a binding to a collection of bindings works, too")
def bound_the_old_way(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    assert api.ask("POST", f"{space}/bindings", binding("a", "contract-node")).code == 201
    assert api.get(f"{space}/pods/a")["spec"]["nodeName"] == "contract-node"


@case("a binding of a pod that is not there is 404")
def bound_nothing(api: Api) -> None:
    reply = api.ask("POST", f"{api.workspace()}/pods/a/binding", binding("a", "contract-node"))
    assert refused(reply, 404, "NotFound") == 'pods "a" not found'


@case("a binding of another name is 400")
def bound_other_name(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    for other in ("b", ""):
        reply = api.ask("POST", f"{space}/pods/a/binding", binding(other, "contract-node"))
        assert refused(reply, 400, "BadRequest") == "name in URL does not match name in Binding object"


@case("a pod with a scheduling gate cannot be bound")
def gated(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/pods", pod("a", schedulingGates=[{"name": "test.example/gate"}]))
    assert [each["reason"] for each in made["status"]["conditions"]] == ["SchedulingGated"]
    reply = api.ask("POST", f"{space}/pods/a/binding", binding("a", "contract-node"))
    assert "has non-empty .spec.schedulingGates" in refused(reply, 409, "Conflict")
    api.patch(f"{space}/pods/a", {"spec": {"schedulingGates": None}})
    assert api.ask("POST", f"{space}/pods/a/binding", binding("a", "contract-node")).code == 201


@case("a pod without a node goes at once, and the answer is the pod")
def unbound_deletion(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    reply = api.ask("DELETE", f"{space}/pods/a")
    assert (reply.code, reply.body["kind"]) == (200, "Pod")
    last = reply.body["metadata"]
    assert (last["deletionGracePeriodSeconds"], last["generation"]) == (0, 2)
    assert last["deletionTimestamp"]
    assert api.ask("GET", f"{space}/pods/a").code == 404


@case("a bound pod is marked and stays until it is deleted without grace")
def graceful_deletion(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/pods", pod("a"))
    api.create(f"{space}/pods/a/binding", binding("a", "contract-node"))
    marked = api.ask("DELETE", f"{space}/pods/a").body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert marked["deletionTimestamp"] > made["metadata"]["creationTimestamp"]
    assert marked["generation"] == made["metadata"]["generation"] + 1
    again = api.ask("DELETE", f"{space}/pods/a")
    assert (again.code, again.body["metadata"]["resourceVersion"]) == (200, marked["resourceVersion"])
    shorter = api.ask("DELETE", f"{space}/pods/a", {"gracePeriodSeconds": 1}).body["metadata"]
    assert shorter["generation"] == marked["generation"]
    assert shorter["deletionGracePeriodSeconds"] == 1
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    assert api.ask("DELETE", f"{space}/pods/a", {"gracePeriodSeconds": 0}).code == 200
    assert api.ask("GET", f"{space}/pods/a").code == 404


@case("a bound pod that has ended goes at once")
def ended_deletion(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    api.create(f"{space}/pods/a/binding", binding("a", "contract-node"))
    api.patch(f"{space}/pods/a/status", {"status": {"phase": "Succeeded"}})
    assert api.ask("DELETE", f"{space}/pods/a").code == 200
    assert api.ask("GET", f"{space}/pods/a").code == 404


@case("a pod that is being deleted cannot be bound")
def bound_too_late(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a", metadata={"finalizers": ["test.example/one"]}))
    api.ask("DELETE", f"{space}/pods/a")
    reply = api.ask("POST", f"{space}/pods/a/binding", binding("a", "contract-node"))
    assert "is being deleted, cannot be assigned to a host" in refused(reply, 409, "Conflict")
    api.patch(f"{space}/pods/a", {"metadata": {"finalizers": None}})
    assert api.ask("GET", f"{space}/pods/a").code == 404


@case("a dry eviction deletes nothing")
def dry_eviction(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    evicted = {"apiVersion": "policy/v1", "kind": "Eviction", **named("a"), "deleteOptions": {"dryRun": ["All"]}}
    reply = api.ask("POST", f"{space}/pods/a/eviction", evicted)
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert api.ask("GET", f"{space}/pods/a").code == 200


@case("options of a deletion may say that it is dry")
def dry_deletion(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    assert api.ask("DELETE", f"{space}/pods/a", options).code == 200
    assert api.ask("GET", f"{space}/pods/a").code == 200


@case("an eviction deletes the pod")
def eviction(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    evicted = {"apiVersion": "policy/v1", "kind": "Eviction", **named("a")}
    reply = api.ask("POST", f"{space}/pods/a/eviction", evicted)
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert api.ask("GET", f"{space}/pods/a").code == 404
