"""Objects for the API server, as small as they can be and still run on the private machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.cluster.api import Object
from tests.cluster.images import BASE

FOREVER: Final = ("sleep", "2147483647")


def container(
    name: str = "main",
    *,
    command: Sequence[str] = FOREVER,
    limits: Mapping[str, str | int] | None = None,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Object:
    """A container of the busybox image; ``command`` is an argv. ``limits`` are also its requests."""
    body: Object = {"name": name, "image": BASE, "imagePullPolicy": "Never", "command": list(command)}
    if limits:
        body["resources"] = {"limits": {key: str(value) for key, value in limits.items()}}
    if env:
        body["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return {**body, **more}


def shell(script: str, name: str = "main", **more: Any) -> Object:
    """A container that runs a shell script."""
    return container(name, command=["sh", "-ec", script], **more)


def pod_spec(
    *containers: Object,
    init: Sequence[Object] = (),
    node: str | None = None,
    restart: str = "Never",
    grace: int = 0,
    **more: Any,
) -> Object:
    """A pod on the host's network. ``node`` binds it at once, past every scheduler."""
    spec: Object = {
        "containers": list(containers) or [container()],
        "hostNetwork": True,
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if init:
        spec["initContainers"] = list(init)
    if node:
        spec["nodeName"] = node
    return {**spec, **more}


def pod(name: str, *containers: Object, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod; keywords as of ``pod_spec``."""
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(*containers, **spec)}


def binding(name: str, node: str, *, annotations: Mapping[str, str] | None = None, uid: str = "") -> Object:
    """What puts a pod on a node."""
    metadata: Object = {"name": name} | ({"annotations": dict(annotations)} if annotations else {})
    metadata |= {"uid": uid} if uid else {}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}


def task(name: str, replicas: int, template: Object) -> Object:
    """One task of a Volcano job; ``template`` is a pod spec."""
    return {"name": name, "replicas": replicas, "template": {"spec": template}}


def vcjob(name: str, *tasks: Object, minimum: int | None = None, queue: str = "default", **spec: Any) -> Object:
    """A Volcano job, a gang of ``minimum`` pods; of all pods when not given."""
    wanted = sum(each["replicas"] for each in tasks) if minimum is None else minimum
    body = {"schedulerName": "volcano", "queue": queue, "minAvailable": wanted, "tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def queue(name: str, *, weight: int = 1, **spec: Any) -> Object:
    """A Volcano queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, "reclaimable": True, **spec},
    }
