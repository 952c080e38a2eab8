"""Jobs whose pods stay within one UltraServer: each container receives the number of its pod's machine in it.

The number is known once the pod has a node. The allocator writes the node's labels on the pod with its Binding, and a
container's variables may be taken from there. Source: AWS Neuron SDK 2.32 ``src/k8/k8s-ultraserver-init-script.sh``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from neuron_topology.core import names
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.jobs.templates import TemplateChange, with_variables

MACHINES: Final[Mapping[str, Literal[2, 4]]] = {"ultraserver-2": 2, "ultraserver-4": 4}
"""The tiers that are UltraServers, with their machines."""

CONFIGURATION: Final = "NEURON_ULTRASERVER_NODE_CONFIG"
"""How many machines; AWS's script for init containers makes the rest of it."""

_WHOLE: Final = INSTANCE_TYPES["trn2u.48xlarge"].devices

MODE: Final = "NEURON_RT_ULTRASERVER_MODE"
_OF_FOUR: Final = "1"
"""Which of the two kinds of two machines it is, 2 or 3, no label says."""


def told(spec: Json, place: str) -> tuple[Json, list[TemplateChange]]:
    """A job's ``spec`` with the variables in its containers for Neuron, where it stays within one UltraServer.

    A container's own variables are left as they are, and so is a container that requests a part of a machine. Raises
    ``WireError`` for a job that fits no UltraServer.
    """
    topology = fields.member(spec, "networkTopology", place)
    tier = fields.text(topology, "highestTierName", f"{place}.networkTopology")
    machines = MACHINES.get(tier)
    if machines is None or fields.text(topology, "mode", f"{place}.networkTopology") == "soft":
        return spec, []
    if why := _impossible(spec, machines, place):
        raise WireError(f"{place}.networkTopology.highestTierName", tier, why)
    changes: list[TemplateChange] = []
    tasks = [_task(task, machines, f"{place}.tasks[{at}]", changes) for at, task in enumerate(spec["tasks"])]
    return ({**spec, "tasks": tasks}, changes) if changes else (spec, [])


def _impossible(spec: Json, machines: Literal[2, 4], place: str) -> str:
    """Why no UltraServer can ever hold as many of the job's pods as start together; empty where one may."""
    devices = []
    for at, task in enumerate(spec["tasks"]):
        where = f"{place}.tasks[{at}].template.spec"
        pod = fields.member(fields.member(task, "template", place), "spec", where)
        kind = INSTANCE_TYPES.get(fields.text_map(pod, "nodeSelector", where).get(names.INSTANCE_LABEL, ""))
        if kind is not None and machines not in kind.ultraserver:
            return f"{kind.name} is in no UltraServer of {machines}; name a wider tier, as network-layer-3"
        devices.append(sum(_devices(each, where) for each in fields.items(pod, "containers", where)))
    together = fields.natural(spec, "minAvailable", place) * min(devices, default=0)
    if together > machines * _WHOLE:
        return (
            f"{together} devices have to start together, and an UltraServer of {machines} has {machines * _WHOLE}; "
            "name a wider tier, or ask for fewer"
        )
    return ""


def _devices(container: Json, place: str) -> int:
    limits = fields.member(fields.member(container, "resources", place), "limits", f"{place}.resources")
    return quantity.parse(limits.get(names.DEVICES, 0), key=f"{place}[{names.DEVICES}]").nano // NANO


def _task(task: Json, machines: Literal[2, 4], place: str, changes: list[TemplateChange]) -> Json:
    template = fields.member(task, "template", place)
    pod = fields.member(template, "spec", f"{place}.template")
    where = f"{place}.template.spec"
    containers = [
        _container(each, machines, f"{where}.containers[{at}]", changes)
        for at, each in enumerate(fields.items(pod, "containers", where))
    ]
    return {**task, "template": {**template, "spec": {**pod, "containers": containers}}}


def _container(container: Json, machines: Literal[2, 4], place: str, changes: list[TemplateChange]) -> Json:
    if _devices(container, place) != _WHOLE:
        return container
    container, missing = with_variables(container, _variables(machines), place)
    if missing:
        what = f"its place in an UltraServer of {machines}, from annotations of the pod"
        changes.append(TemplateChange(f"{place}.env", what))
    return container


def _variables(machines: Literal[2, 4]) -> tuple[Json, ...]:
    places = {
        "NEURON_RT_ULTRASERVER_SERVER_ID": names.ultraserver_label("server", machines),
        "NEURON_RT_ULTRASERVER_NODE_ID": names.ultraserver_label("node", machines),
    }
    mode = ({"name": MODE, "value": _OF_FOUR},) if machines == max(MACHINES.values()) else ()
    return (
        {"name": CONFIGURATION, "value": str(machines)},
        *mode,
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": _path(label)}}} for name, label in places.items()),
    )


def _path(label: str) -> str:
    return f"metadata.annotations['{names.ULTRASERVER_PLACES[label]}']"
