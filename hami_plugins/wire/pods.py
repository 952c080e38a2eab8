"""A Pod object of the API server, or one that a person wrote, to the ``Pod`` that decisions look at.

Everything else in the object is ignored. Maps of texts are handed on as they are: do not change the object afterwards.
``pod`` is strict. The functions that read one thing of a raw pod never refuse it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from hami_plugins.model.pods import (
    FINISHED,
    Container,
    NodeConstraints,
    Pod,
    PodClaim,
    Requirement,
    ResourceList,
    Toleration,
    UsedClaim,
)
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import fields, kubernetes_gangs, neighbours, quantity
from hami_plugins.wire.allocator_mark import NOMINATED_KEY
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import PREEMPTABLE_KEY
from hami_plugins.wire.lenient import inside, mappings, seconds, text, texts

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
DISRUPTION: Final = "DisruptionTarget"
"""The condition of a pod that is about to be ended for another one, or because of its node."""

_NO_NAMES: Final[frozenset[str]] = frozenset()
_shared_toleration = lru_cache(maxsize=1024)(Toleration)


CONTAINER_LISTS: Final = ("initContainers", "containers")
"""The members of a pod's spec that list its containers, in the order in which they start."""


def finished(raw: Json) -> bool:
    """Whether a pod, as the API server has it, has ended and holds nothing any more."""
    return inside(raw, "status").get("phase") in FINISHED


def leaving(raw: Json) -> bool:
    """Whether a pod, or any other object, is being deleted."""
    return inside(raw, "metadata").get("deletionTimestamp") is not None


def node_of(raw: Json) -> str:
    """The node that a pod is bound to; empty while it has none."""
    return text(inside(raw, "spec").get("nodeName"))


def owners(raw: Json) -> list[Json]:
    """The objects that own a pod, or any other object."""
    return mappings(inside(raw, "metadata").get("ownerReferences"))


def containers_of(raw: Json) -> Iterator[tuple[Json, ContainerKind]]:
    """The containers of a pod as they are written, in the order in which they start, each with its kind."""
    spec = inside(raw, "spec")
    for name in CONTAINER_LISTS:
        for each in mappings(spec.get(name)):
            yield each, kind_of(each.get("restartPolicy"), name)


def written(container: Json, name: str) -> Json:
    """The ``limits`` or ``requests`` of a container as they are written."""
    return inside(container, "resources", name)


def takes_host_ports(raw: Json) -> bool:
    """Whether a pod takes ports of its node, with ``hostNetwork`` all of its own; no other pod may have them there."""
    ports = (port for container, _ in containers_of(raw) for port in mappings(container.get("ports")))
    return any(port.get("hostPort") for port in ports) or inside(raw, "spec").get("hostNetwork") is True


def pod(raw: object, *, default_requests: bool = True) -> Pod:
    """The pod; raises ``WireError`` with the path of the first member that is not what it should be.

    ``default_requests`` copies limits into missing requests as the API server does when a pod is created. A pod without
    namespace is in ``default``; one without name (the name is still to be generated) is called by its prefix.
    """
    body = fields.whole(raw, "pod")
    metadata = fields.member(body, "metadata", "pod ?:")
    namespace = fields.text(metadata, "namespace", "pod ?: metadata") or "default"
    name = fields.text(metadata, "name", "pod ?: metadata") or fields.text(metadata, "generateName", "pod ?: metadata")
    place = f"pod {namespace}/{name or '?'}:"
    spec = fields.member(body, "spec", place)
    status = fields.member(body, "status", place)
    in_metadata, in_spec = f"{place} metadata", f"{place} spec"
    labels = fields.text_map(metadata, "labels", in_metadata)
    containers = tuple(
        _container(raw, f"{in_spec}.{listed}[{at}]", listed, default_requests=default_requests)
        for listed in CONTAINER_LISTS
        for at, raw in enumerate(fields.items(spec, listed, in_spec))
    )
    annotations = fields.text_map(metadata, "annotations", in_metadata)
    node = fields.text(spec, "nodeName", in_spec)
    return Pod(
        namespace=namespace,
        name=name,
        uid=PodUid(fields.text(metadata, "uid", in_metadata)),
        labels=labels,
        annotations=annotations,
        containers=containers,
        scheduler=fields.text(spec, "schedulerName", in_spec),
        node=NodeName(node) if node else None,
        phase=fields.text(status, "phase", f"{place} status") or "Pending",
        priority=fields.number(spec, "priority", in_spec),
        priority_class=fields.text(spec, "priorityClassName", in_spec),
        runtime_class=fields.text(spec, "runtimeClassName", in_spec) or None,
        gates=_gates(spec, in_spec),
        terminating=metadata.get("deletionTimestamp") is not None,
        init_finished=_init_finished(status, containers, f"{place} status"),
        constraints=_constraints(spec, containers, in_spec),
        neighbours=neighbours.decode(spec, labels, namespace, in_spec),
        made_at=seconds(metadata.get("creationTimestamp")),
        preempts=may_preempt(spec, in_spec),
        preemptable=annotations.get(PREEMPTABLE_KEY, labels.get(PREEMPTABLE_KEY, "")) != "false",
        nominated=_nominated(status, annotations),
        disruption=_disruption(status),
        owner=_controller(body),
        claims=_claims(spec, status, in_spec) if "resourceClaims" in spec else (),
        native_group=kubernetes_gangs.named_in(spec, in_spec),
    )


def _controller(raw: Json) -> str:
    """The controller of the pod as ``Kind/name``; unreadable owners are left out."""
    for each in owners(raw):
        kind, name = text(each.get("kind")), text(each.get("name"))
        if each.get("controller") is True and kind and name:
            return f"{kind}/{name}"
    return ""


def _claims(spec: Json, status: Json, place: str) -> tuple[PodClaim, ...]:
    """The claims of a pod. Unreadable reports of controllers about the claims they created are left out."""
    made = {text(each.get("name")): each for each in mappings(status.get("resourceClaimStatuses"))}
    found = []
    for at, raw in enumerate(fields.items(spec, "resourceClaims", place)):
        inside = f"{place}.resourceClaims[{at}]"
        body = fields.whole(raw, inside)
        name = fields.text(body, "name", inside)
        reported = made.get(name)
        found.append(
            PodClaim(
                name=name,
                claim=fields.text(body, "resourceClaimName", inside),
                template=fields.text(body, "resourceClaimTemplateName", inside),
                made=None if reported is None else text(reported.get("resourceClaimName")),
            )
        )
    return tuple(found)


def _gates(spec: Json, place: str) -> tuple[str, ...]:
    """The names of scheduling gates; one that is written wrongly counts all the same."""
    found = fields.items(spec, "schedulingGates", place)
    return tuple(str(each.get("name", "")) if isinstance(each, Mapping) else "" for each in found)


def _nominated(status: Json, annotations: Mapping[str, str]) -> NodeName | None:
    """The node on which room is made for the pod."""
    found = text(status.get("nominatedNodeName")) or annotations.get(NOMINATED_KEY)
    return NodeName(found) if found else None


def may_preempt(raw: Json, place: str) -> bool:
    """Whether other pods may be evicted for this pod, or for those of this PriorityClass."""
    return fields.text(raw, "preemptionPolicy", place) != "Never"


def certain(raw: Json, uid: PodUid, containers_of: Callable[[Mapping[str, str]], tuple[Container, ...]]) -> Pod:
    """What is certain of a pod that ``pod`` refuses: node, phase and texts, so that its devices do not count as free.

    ``containers_of`` makes the containers from the annotations, which say what was allocated. What init containers hold
    counts in addition then: which container is which is not known.
    """
    metadata, node = inside(raw, "metadata"), node_of(raw)
    annotations = texts(metadata.get("annotations"))
    return Pod(
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        uid=uid,
        annotations=annotations,
        containers=containers_of(annotations),
        node=NodeName(node) if node else None,
        phase=text(inside(raw, "status").get("phase")) or "Pending",
    )


def _container(raw: object, place: str, listed: str, *, default_requests: bool) -> Container:
    body = fields.whole(raw, place)
    kind = kind_of(fields.text(body, "restartPolicy", place), listed)
    resources = fields.member(body, "resources", place)
    limits: ResourceList = {}
    requests: ResourceList = {}
    if resources:
        limits = _amounts(resources, "limits", f"{place}.resources")
        requests = _amounts(resources, "requests", f"{place}.resources")
        if default_requests and limits:
            requests = {**limits, **requests} if requests else limits
    return Container(
        name=fields.text(body, "name", place),
        kind=kind,
        limits=limits,
        requests=requests,
        env=_env(body, place) if "env" in body else _NO_NAMES,
        privileged=fields.flag(fields.member(body, "securityContext", place), "privileged", f"{place}.securityContext"),
        claims=_used_claims(resources, f"{place}.resources") if "claims" in resources else (),
    )


def _used_claims(resources: Json, place: str) -> tuple[UsedClaim, ...]:
    found = []
    for at, raw in enumerate(fields.items(resources, "claims", place)):
        inside = f"{place}.claims[{at}]"
        body = fields.whole(raw, inside)
        found.append(UsedClaim(fields.text(body, "name", inside), fields.text(body, "request", inside)))
    return tuple(found)


def kind_of(restart_policy: object, listed: str) -> ContainerKind:
    """The kind of a container, by its list: a sidecar is an init container that is always restarted."""
    if listed == "containers":
        return ContainerKind.APP
    return ContainerKind.SIDECAR if restart_policy == "Always" else ContainerKind.INIT


def _amounts(holder: Json, name: str, place: str) -> ResourceList:
    found = fields.member(holder, name, place)
    return quantity.amounts(found, key=fields.path(place, name)) if found else {}


def _env(body: Json, place: str) -> frozenset[str]:
    names = set()
    for at, raw in enumerate(fields.items(body, "env", place)):
        inside = f"{place}.env[{at}]"
        names.add(fields.text(fields.whole(raw, inside), "name", inside))
    return frozenset(names)


def _disruption(status: Json) -> str:
    """Why the pod is about to be ended; what cannot be read of its conditions is left out, as remarks of others."""
    for raw in mappings(status.get("conditions")):
        if raw.get("type") == DISRUPTION and raw.get("status") == "True":
            return text(raw.get("reason")) or DISRUPTION
    return ""


def _init_finished(status: Json, containers: Iterable[Container], place: str) -> bool:
    """Whether every init container that runs to its end has done so well. Until a kubelet reports, none has.

    HAMi looks at all init statuses (``util.AllInitContainersSucceeded``) and so waits for sidecars, which never end.
    """
    ended = {}
    for at, raw in enumerate(fields.items(status, "initContainerStatuses", place)):
        inside = f"{place}.initContainerStatuses[{at}]"
        body = fields.whole(raw, inside)
        state = fields.member(body, "state", inside)
        terminated = fields.member(state, "terminated", f"{inside}.state")
        well = bool(terminated) and fields.number(terminated, "exitCode", f"{inside}.state.terminated") == 0
        ended[fields.text(body, "name", inside)] = well
    plain = (container.name for container in containers if container.kind is ContainerKind.INIT)
    return bool(ended) and all(ended.get(name, False) for name in plain)


def _constraints(spec: Json, containers: tuple[Container, ...], place: str) -> NodeConstraints:
    node = fields.text(spec, "nodeName", place)
    selector = fields.text_map(spec, "nodeSelector", place)
    return NodeConstraints(
        selector=tuple(sorted(selector.items())) if selector else (),
        affinity=_affinity(spec, place) if "affinity" in spec else None,
        tolerations=_tolerations(spec, place) if "tolerations" in spec else (),
        requests=_effective_requests(spec, containers, place),
        node=NodeName(node) if node else None,
    )


def _affinity(spec: Json, place: str) -> tuple[tuple[Requirement, ...], ...] | None:
    """Required node affinity as an OR of ANDs."""
    affinity = fields.member(spec, "affinity", place)
    node_affinity = fields.member(affinity, "nodeAffinity", f"{place}.affinity")
    if node_affinity.get(_REQUIRED) is None:
        return None
    required = fields.member(node_affinity, _REQUIRED, f"{place}.affinity.nodeAffinity")
    return node_terms(required, f"{place}.affinity.nodeAffinity.{_REQUIRED}")


def node_terms(selector: Json, place: str) -> tuple[tuple[Requirement, ...], ...]:
    """A node selector as an OR of ANDs; a term without requirements matches no node, so it is left out."""
    terms = []
    for at, raw in enumerate(fields.items(selector, "nodeSelectorTerms", place)):
        inside = f"{place}.nodeSelectorTerms[{at}]"
        body = fields.whole(raw, inside)
        term = (
            *node_requirements(body, "matchExpressions", inside, on_field=False),
            *node_requirements(body, "matchFields", inside, on_field=True),
        )
        if term:
            terms.append(term)
    return tuple(terms)


def node_requirements(body: Json, name: str, place: str, *, on_field: bool) -> Iterable[Requirement]:
    for at, raw in enumerate(fields.items(body, name, place)):
        inside = f"{place}.{name}[{at}]"
        requirement = fields.whole(raw, inside)
        operator = fields.text(requirement, "operator", inside)
        if operator not in _OPERATORS:
            raise fields.wrong(f"{inside}.operator", operator, f"one of {', '.join(sorted(_OPERATORS))}")
        key = fields.text(requirement, "key", inside)
        yield Requirement(key, operator, tuple(fields.texts(requirement, "values", inside)), on_field)


def _tolerations(spec: Json, place: str) -> tuple[Toleration, ...]:
    found = []
    for at, raw in enumerate(fields.items(spec, "tolerations", place)):
        inside = f"{place}.tolerations[{at}]"
        body = fields.whole(raw, inside)
        found.append(
            _shared_toleration(
                fields.text(body, "key", inside),
                fields.text(body, "operator", inside) or "Equal",
                fields.text(body, "value", inside),
                fields.text(body, "effect", inside),
            )
        )
    return tuple(found)


def _effective_requests(spec: Json, containers: tuple[Container, ...], place: str) -> tuple[tuple[str, int], ...]:
    """What kube-scheduler books for the pod, per resource in nano units, by name."""
    if len(containers) == 1:
        booked = {name: amount.nano for name, amount in containers[0].requests.items()}
    else:
        booked = booked_for(containers)
    if "resources" in spec:
        for name, amount in _amounts(fields.member(spec, "resources", place), "requests", f"{place}.resources").items():
            if name in ("cpu", "memory") or name.startswith("hugepages-"):
                booked[name] = amount.nano
    if "overhead" in spec:
        _add(booked, _amounts(spec, "overhead", place))
    return tuple(sorted(booked.items()))


def booked_for(containers: Iterable[Container]) -> dict[str, int]:
    """What these containers ask for at their peak, per resource in nano units.

    The largest of: applications with all sidecars; each init container with the sidecars started before it.
    """
    together: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in containers:
        if container.kind is ContainerKind.INIT:
            for name, amount in container.requests.items():
                starting[name] = max(starting.get(name, 0), amount.nano + sidecars.get(name, 0))
            continue
        _add(together, container.requests)
        if container.kind is ContainerKind.SIDECAR:
            _add(sidecars, container.requests)
    for name, nano in starting.items():
        together[name] = max(together.get(name, 0), nano)
    return together


def _add(total: dict[str, int], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount.nano
