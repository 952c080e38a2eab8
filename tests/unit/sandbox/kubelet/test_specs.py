"""What is read in a pod object."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.sandbox.kubelet import environment, specs
from hami_plugins.sandbox.kubelet.runtime import ContainerProgram, program_of
from hami_plugins.sandbox.kubelet.specs import Role

R = "example.com/slot"


def a_container(name: str, amount: object = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {R: amount, "cpu": "1"}}, **more}


def a_pod(**spec: Any) -> specs.PodSpec:
    metadata = {"uid": "u", "name": "p", "namespace": "ns", "annotations": {"a/b": "c"}}
    return specs.read({"metadata": metadata, "spec": {"nodeName": "n1", **spec}})


def test_containers_come_in_the_order_of_their_treatment() -> None:
    pod = a_pod(
        initContainers=[a_container("i"), a_container("s", restartPolicy="Always")], containers=[a_container("c")]
    )
    assert [(each.name, each.role) for each in pod.containers] == [
        ("i", Role.INIT),
        ("s", Role.SIDECAR),
        ("c", Role.APP),
    ]


def test_only_extended_resources_count() -> None:
    assert a_pod(containers=[a_container("c", "2")]).containers[0].limits == {R: 2}


def test_a_pod_asks_for_the_larger_of_its_start_and_its_run() -> None:
    side = a_container("s", 1, restartPolicy="Always")
    pod = a_pod(initContainers=[side, a_container("i", 5)], containers=[a_container("c", 2), a_container("d", 2)])
    assert pod.requests == {R: 6}


def test_an_amount_that_is_none_is_named() -> None:
    with pytest.raises(WireError, match=r"container c: limits\[example.com/slot\]"):
        a_pod(containers=[a_container("c", "many")])


@pytest.mark.parametrize(
    ("resource", "extended"),
    [
        ("cpu", False),
        ("example.com/slot", True),
        ("kubernetes.io/batch-cpu", False),
        ("requests.example.com/x", False),
    ],
)
def test_an_extended_resource_has_a_domain_that_is_not_kubernetes_own(resource: str, extended: bool) -> None:
    assert specs.is_extended(resource) is extended


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["true"], ContainerProgram(seconds=0)),
        (["false"], ContainerProgram(seconds=0, exit_code=1)),
        (["sleep", "3"], ContainerProgram(seconds=3)),
        (["sh", "-c", "sleep 2; exit 7"], ContainerProgram(seconds=2, exit_code=7)),
        (["sh", "-c", "trap '' TERM; sleep 1000"], ContainerProgram(seconds=1000, stubborn=True)),
        (["python", "train.py"], ContainerProgram()),
        ([], ContainerProgram()),
    ],
)
def test_simple_commands_are_understood(command: list[str], program: ContainerProgram) -> None:
    pod = a_pod(containers=[a_container("c", command=command)])
    assert program_of(pod, pod.containers[0]) == program


def test_an_init_container_of_unknown_work_ends_well() -> None:
    pod = a_pod(initContainers=[a_container("i", command=["fetch"])], containers=[a_container("c")])
    assert program_of(pod, pod.containers[0]) == ContainerProgram(seconds=0)


def test_the_downward_api_is_served(tmp_path: Any) -> None:
    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        {"name": "PLAIN", "value": "v"},
        field("UID", "metadata.uid"),
        field("NODE", "spec.nodeName"),
        field("NOTE", "metadata.annotations['a/b']"),
        field("NOBODY", "status.podIP"),
    ]
    mounts = [{"name": "host", "mountPath": "/h", "readOnly": True}, {"name": "own", "mountPath": "/o"}]
    volumes = [{"name": "host", "hostPath": {"path": "/var/x"}}, {"name": "own", "emptyDir": {}}]
    pod = a_pod(containers=[a_container("c", env=env, volumeMounts=mounts)], volumes=volumes)
    found = environment.edits(pod, pod.containers[0], volumes=tmp_path)
    assert dict(found.env) == {"PLAIN": "v", "UID": "u", "NODE": "n1", "NOTE": "c", "NOBODY": ""}
    assert [(mount.host, mount.container, mount.read_only) for mount in found.mounts] == [
        ("/var/x", "/h", True),
        (str(tmp_path / "u" / "own"), "/o", False),
    ]
