"""The pod template of a task: its containers' resources, its tolerations, and the names that its commands use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import CONTAINER_LISTS
from neuron_topology.core import efa, names
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.jobs import demands, node_capacity, volumes
from neuron_topology.core.jobs.demands import DemandRemark
from neuron_topology.core.jobs.node_capacity import HostCapacity
from neuron_topology.core.named_resources import NAMED

NODE_ENV: Final = "NEURON_NODE_NAME"
"""The node that a pod runs on."""

ORDER_ENV: Final = "NEURON_NODE_ORDER"
"""The nodes of the cluster by their place in the network, with commas: members of a gang that number themselves by the
place of their node in it have neighbours in rank that are neighbours in the network."""

TOLERATION: Final[Json] = {"key": names.TAINT, "operator": "Exists", "effect": "NoSchedule"}
"""As EKS writes it for pods that ask for the resource of this name, and for no others."""

TIER_ENV: Final = "NEURON_NETWORK_TIER"
"""The widest part of the network that the gang may span, by its tier's name: TorchX cannot say it of a job."""

LNC_ENV: Final = "NEURON_LOGICAL_NC_CONFIG"
"""How many physical cores act as one in the process; the node's plugin counts cores at the node's own setting."""

_NETWORK: Final[tuple[Json, ...]] = tuple({"name": name, "value": value} for name, value in efa.VARIABLES.items())

_BROKEN_NAME: Final = re.compile(r"\$\{VC_[A-Z0-9_]*-[A-Z0-9_-]*_HOSTS(?=[:}])")
"""A variable as TorchX refers to it when a role's name has a hyphen. Volcano exports it with ``_``, and a shell reads
what follows the hyphen as text."""

_MILLI: Final = NANO // 1000


class TemplateChange(NamedTuple):
    """What was done, and where."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class PatchedTemplate(NamedTuple):
    """The ``spec`` of a template, whether it asks for Neuron, what was done to it, and what remains to be said."""

    spec: Json
    asks: bool
    changes: tuple[TemplateChange, ...] = ()
    remarks: tuple[DemandRemark, ...] = ()


def patch(
    spec: Json, node_order: Sequence[str], rooms: Mapping[str, HostCapacity], place: str, *, pods: int
) -> PatchedTemplate:
    """The template as it should be, the given one where it asks for nothing of Neuron's. Raises ``WireError``.

    ``pods`` is the size of the whole job. ``rooms`` is the most that nodes of an instance type leave for pods; for
    other types EKS's usual nodes are taken.
    """
    changes: list[TemplateChange] = []
    changed = _each_container(spec, place, changes)
    askings = demands.read(changed, place)
    if not demands.asks(askings):
        return PatchedTemplate(spec, asks=False)
    selector = fields.text_map(spec, "nodeSelector", place)
    kind = INSTANCE_TYPES.get(selector.get(names.INSTANCE_LABEL, ""))
    remarks: tuple[DemandRemark, ...] = ()
    if kind is not None:
        remarks = (*demands.possible(askings, kind, selector, pods=pods), *_settings(changed, kind, place))
        changed = _inside_the_node(changed, kind, rooms.get(kind.name), place, changes)
    changed = _reaching_others(_tolerating(changed, place, changes), place, changes)
    changed, claims = volumes.one_per_claim(changed, place)
    for claim in claims:
        what = f"claim {claim} is one volume: kubelets before 1.35 never start a pod that names it in two"
        changes.append(TemplateChange(f"{place}.volumes", what))
    if node_order:
        changed = _told_the_order(changed, ",".join(node_order), place, changes)
    return PatchedTemplate(changed, True, tuple(changes), remarks)


def tier_of(spec: Json, place: str) -> str:
    """The tier that a container of the template names; empty where none does."""
    for at, container in enumerate(fields.items(spec, "containers", place)):
        where = f"{place}.containers[{at}]"
        if tier := _variable(fields.whole(container, where), TIER_ENV, where):
            return tier
    return ""


def _variable(container: Json, name: str, place: str) -> str:
    """The value of a container's variable, empty where it has none."""
    for each in fields.items(container, "env", place):
        if isinstance(each, dict) and each.get("name") == name:
            return fields.text(each, "value", f"{place}.env")
    return ""


def _settings(spec: Json, kind: InstanceType, place: str) -> Iterator[DemandRemark]:
    """Remarks on an LNC that the machine does not have, or that counts the requested cores otherwise than the node."""
    for at, container in enumerate(fields.items(spec, "containers", place)):
        where = f"{place}.containers[{at}]"
        lnc = _variable(container, LNC_ENV, where)
        limits = fields.member(fields.member(container, "resources", where), "limits", where)
        choices = tuple(map(str, kind.lnc_choices))
        if lnc and lnc not in choices:
            there = " or ".join(choices) or "no such setting"
            yield DemandRemark(f"{where}.env[{LNC_ENV}]", f"{lnc}: {kind.name} has {there}")
        elif lnc and names.CORES in limits:
            what = f"the node counts {names.CORES} at its own setting, which may be another than {lnc}"
            yield DemandRemark(f"{where}.env[{LNC_ENV}]", f"{what}; ask for {names.DEVICES} instead")


def _each_container(spec: Json, place: str, changes: list[TemplateChange]) -> Json:
    for group in CONTAINER_LISTS:
        containers = []
        for at, raw in enumerate(fields.items(spec, group, place)):
            where = f"{fields.path(place, group)}[{at}]"
            containers.append(_container(fields.whole(raw, where), where, changes))
        if containers:
            spec = {**spec, group: containers}
    return spec


def _container(container: Json, place: str, changes: list[TemplateChange]) -> Json:
    resources = fields.member(container, "resources", place)
    inside = fields.path(place, "resources")
    limits = _renamed(fields.member(resources, "limits", inside), f"{inside}.limits", changes)
    requests = _renamed(fields.member(resources, "requests", inside), f"{inside}.requests", changes)
    limits, requests = _equal(limits, requests, inside, changes)
    if (limits, requests) != (resources.get("limits") or {}, resources.get("requests") or {}):
        container = {**container, "resources": {**resources, "limits": limits, "requests": requests}}
    return _with_real_names(container, place, changes)


def _renamed(amounts: Json, place: str, changes: list[TemplateChange]) -> Json:
    """The old name of the devices is the new one, which plugins advertise and EKS tolerates a taint for."""
    if names.LEGACY_DEVICES not in amounts:
        return amounts
    amount = amounts[names.LEGACY_DEVICES]
    if names.DEVICES in amounts and amounts[names.DEVICES] != amount:
        why = (
            f"{names.DEVICES} says {amounts[names.DEVICES]}; it is the new name of the same devices, remove the old one"
        )
        raise WireError(f"{place}[{names.LEGACY_DEVICES}]", str(amount), why)
    changes.append(TemplateChange(place, f"{names.LEGACY_DEVICES} is {names.DEVICES} now"))
    return {names.DEVICES if name == names.LEGACY_DEVICES else name: held for name, held in amounts.items()}


def _equal(limits: Json, requests: Json, place: str, changes: list[TemplateChange]) -> tuple[Json, Json]:
    """Requests as large as the limits: Volcano counts requests, and the API server fills in those of pods alone."""
    for name in demands.EXTENDED:
        limit, request = limits.get(name), requests.get(name)
        if limit is None and request is None:
            continue
        amounts = {_amount(held, f"{place}[{name}]") for held in (limit, request) if held is not None}
        if len(amounts) > 1:
            why = f"the limit is {limit} and the request is {request}; Kubernetes requires them to be equal"
            raise WireError(f"{place}[{name}]", str(request), why)
        if limit is None:
            limits = {**limits, name: request}
            changes.append(TemplateChange(f"{place}.limits", f"{name} {request}, as requested"))
        elif request is None:
            requests = {**requests, name: limit}
            changes.append(
                TemplateChange(f"{place}.requests", f"{name} {limit}, as limited, so that Volcano counts it")
            )
    return limits, requests


def _amount(raw: object, key: str) -> int:
    """A whole number of devices."""
    if not isinstance(raw, str | int | float) or isinstance(raw, bool):
        raise fields.wrong(key, raw, "a whole number")
    amount = quantity.parse(raw, key=key)
    if amount.nano % NANO or amount.nano < 0:
        raise fields.wrong(key, raw, "a whole number, 0 or more")
    return amount.nano // NANO


def _with_real_names(container: Json, place: str, changes: list[TemplateChange]) -> Json:
    for name in ("command", "args"):
        written = fields.texts(container, name, place)
        right = [_BROKEN_NAME.sub(lambda found: found[0].replace("-", "_"), each) for each in written]
        if right != written:
            container = {**container, name: right}
            changes.append(
                TemplateChange(f"{place}.{name}", "the host of rank 0 by the name that Volcano exports, without '-'")
            )
    return container


class _Most(NamedTuple):
    """How much of a resource a pod may ask for, in nano units, and who says so."""

    resource: str
    nano: int
    why: str

    def __str__(self) -> str:
        return f"{_spelled(self.nano, self.resource)}, {self.why}"


def _inside_the_node(
    spec: Json, kind: InstanceType, own: HostCapacity | None, place: str, changes: list[TemplateChange]
) -> Json:
    """Requests that the node can meet besides its daemons; limits may exceed the capacity, and all requests may if the
    capacity is unknown.

    A named part of a machine is for EKS's usual nodes. Where the cluster's own leave less, it is cut to the same part
    of that: otherwise the last parts of a machine would find no room.
    """
    if own is None and not kind.host_known:
        return spec
    left = node_capacity.for_pods(kind) if own is None else own.share(_named_devices(spec, kind, place), kind.devices)
    of = f"the cluster's {kind.name} nodes leave" if own else f"EKS usually leaves on a {kind.name}"
    part = "" if left == own or own is None else "its part of "
    why = f"{part}the most that {of} besides the daemons"
    spec = _capped(spec, _Most("cpu", left.millicpu * _MILLI, why), place, changes)
    return _capped(spec, _Most("memory", left.memory * NANO, why), place, changes)


def _named_devices(spec: Json, kind: InstanceType, place: str) -> int:
    """The devices of the named part of a machine that the pod's cpu is of; all of them where it is of none."""
    containers = fields.items(spec, "containers", place)
    asked = sum(_plain_request(each, "cpu", place) for each in containers)
    parts = (each for each in NAMED.values() if each.instance_type == kind.name)
    sizes = (each.devices[names.DEVICES] for each in parts if each.requested_millicpu * _MILLI == asked)
    return next(sizes, kind.devices)


def _capped(spec: Json, most: _Most, place: str, changes: list[TemplateChange]) -> Json:
    """The pod's requests of a resource cut down to what there is; the largest one gives."""
    name = most.resource
    containers = fields.items(spec, "containers", place)
    asked = [_plain_request(each, name, f"{place}.containers[{at}]") for at, each in enumerate(containers)]
    excess = sum(asked) - most.nano
    if excess <= 0:
        return spec
    largest = max(range(len(asked)), key=asked.__getitem__)
    left = asked[largest] - excess
    where = f"{place}.containers[{largest}].resources.requests"
    if left <= 0:
        short = f"the pod needs more {name} than {most}; ask for less"
        raise WireError(where, _spelled(sum(asked), name), short)
    text = _spelled(left, name)
    what = f"{name} {text} instead of {_spelled(asked[largest], name)}: the pod may ask for {most}"
    changes.append(TemplateChange(where, what))
    container = containers[largest]
    resources = container["resources"]
    requests = {**(resources.get("requests") or {}), name: text}
    smaller = {**container, "resources": {**resources, "requests": requests}}
    return {**spec, "containers": [*containers[:largest], smaller, *containers[largest + 1 :]]}


def _plain_request(container: Json, name: str, place: str) -> int:
    """The request in nano units; the limit where there is none, as the API server fills it in."""
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        held = (resources.get(kind) or {}).get(name)
        if isinstance(held, str | int | float):
            return quantity.parse(held, key=f"{place}.resources.{kind}[{name}]").nano
    return 0


def _spelled(nano: int, name: str) -> str:
    return f"{nano // _MILLI}m" if name == "cpu" else f"{nano // NANO // node_capacity.MEGA}M"


def _tolerating(spec: Json, place: str, changes: list[TemplateChange]) -> Json:
    written = fields.items(spec, "tolerations", place)
    if any(_tolerates(each) for each in written):
        return spec
    changes.append(TemplateChange(f"{place}.tolerations", f"the taint {names.TAINT} of Neuron nodes"))
    return {**spec, "tolerations": [*written, dict(TOLERATION)]}


def _tolerates(raw: object) -> bool:
    """Whether a toleration covers the taint with any value."""
    if not isinstance(raw, dict) or raw.get("operator", "Equal") != "Exists":
        return False
    return raw.get("key") in (None, "", names.TAINT) and raw.get("effect") in (None, "", "NoSchedule")


def _reaching_others(spec: Json, place: str, changes: list[TemplateChange]) -> Json:
    """The variables of EFA for containers with interfaces; what a container takes from a ConfigMap is not known."""
    told = []
    for at, container in enumerate(fields.items(spec, "containers", place)):
        where = f"{place}.containers[{at}]"
        limits = fields.member(fields.member(container, "resources", where), "limits", where)
        suits = names.EFA in limits and "envFrom" not in container
        fuller, missing = with_variables(container, _NETWORK if suits else (), where)
        if missing:
            changes.append(TemplateChange(f"{where}.env", f"{', '.join(missing)}, so that EFA is used"))
        told.append(fuller)
    return {**spec, "containers": told}


def with_variables(container: Json, variables: Sequence[Json], place: str) -> tuple[Json, list[str]]:
    """The container with those of the variables that it does not set itself, and their names."""
    written = fields.items(container, "env", place)
    own = {str(each.get("name")) for each in written if isinstance(each, dict)}
    missing = [each for each in variables if each["name"] not in own]
    return {**container, "env": [*written, *missing]} if missing else container, [each["name"] for each in missing]


def _told_the_order(spec: Json, order: str, place: str, changes: list[TemplateChange]) -> Json:
    variables = (
        {"name": NODE_ENV, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": ORDER_ENV, "value": order},
    )
    told = []
    for at, container in enumerate(fields.items(spec, "containers", place)):
        where = f"{place}.containers[{at}]"
        written = fields.items(container, "env", where)
        ours = [each["name"] for each in variables]
        env = [*(each for each in written if not isinstance(each, dict) or each.get("name") not in ours), *variables]
        if env != written:
            changes.append(TemplateChange(f"{where}.env", f"{ORDER_ENV} and {NODE_ENV}, to number the members by"))
        told.append({**container, "env": env} if env != written else container)
    return {**spec, "containers": told}
