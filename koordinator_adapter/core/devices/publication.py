"""What is written of a node, if anything: its Device object, and the sums in the node itself.

Pure: objects in, one write or a reason out. Writes hold only for the version that was read. An object without the
adapter's label belongs to another component, and one on a node whose koordlet reports cards would be overwritten within
seconds: both are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.errors import WireError
from hami_plugins.model.units import NodeName
from hami_plugins.wire import fields, koordinator_devices
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import GPU_TYPE
from hami_plugins.wire.koordinator_devices import DeviceObject
from koordinator_adapter.core.devices.cards import NodeCards
from koordinator_adapter.core.devices.wanted import PUBLISHER, PUBLISHER_LABEL, wanted

_WRITTEN_ANEW: Final = frozenset({"labels", "annotations", "managedFields"})


@dataclass(frozen=True, slots=True)
class CreateObject:
    """The object is not there."""

    body: Json


@dataclass(frozen=True, slots=True)
class UpdateObject:
    """The object is there, and is to be this one instead."""

    body: Json


@dataclass(frozen=True, slots=True)
class KeepObject:
    """Nothing is written, because nothing has changed (``why`` is empty) or because it is not ours to write."""

    why: str = ""


PublishingStep = CreateObject | UpdateObject | KeepObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingPlan:
    """A step, and what an operator should know of the node's cards."""

    step: PublishingStep
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToPublish:
    """A node: its cards, its UID, the numbers of cards that its pods hold, and whether its koordlet reports cards."""

    found: NodeCards
    uid: str
    held: frozenset[int] = frozenset()
    reported: bool = False


def plan_of(site: NodeToPublish, live: Mapping[str, Any] | None, *, now: str) -> PublishingPlan:
    """What to do about a node's Device object; ``live`` is the object as it was read, ``now`` the time in RFC 3339."""
    found = site.found
    if live is not None and not is_ours(live):
        return PublishingPlan(
            step=KeepObject(_not_ours(found.node, live) if found.cards else ""), remarks=found.remarks
        )
    if live is None and not found.cards:
        return PublishingPlan(step=KeepObject(), remarks=found.remarks)
    if site.reported:
        return PublishingPlan(step=KeepObject(_reported(found.node)), remarks=found.remarks)
    known = None if live is None else _readable(live, found.node)
    made = wanted(found, known, site.held, now)
    remarks = (*found.remarks, *made.remarks)
    body = koordinator_devices.encode(made.object)
    others = _others(live)
    body["spec"]["devices"] += others
    owner = _owner(found.node, site.uid)
    if live is None or known is None:
        body["metadata"]["ownerReferences"] = [owner]
        return PublishingPlan(step=CreateObject(body), remarks=remarks)
    body["metadata"] = _metadata(live, body["metadata"], owner)
    same = _is_published(made.object, known, live, others=len(others))
    same = same and _owners(live["metadata"]) == body["metadata"]["ownerReferences"]
    return PublishingPlan(step=KeepObject() if same else UpdateObject(body), remarks=remarks)


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether we have written a Device object: everybody else writes all of its labels anew."""
    metadata = live.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and labels.get(PUBLISHER_LABEL) == PUBLISHER


def _reported(node: str) -> str:
    return (
        f"node {node}: its koordlet reports cards itself (gate Accelerators) and would overwrite any other Device "
        "object. Switch the feature gate off on this node, or leave its cards to koordlet"
    )


def contested(node: str, live: Mapping[str, Any] | None) -> str:
    """The note on an object of the adapter that another client changes, or deletes, again and again."""
    does = "changes its Device object" if live is not None else "deletes its Device object"
    return (
        f"node {node}: another client{_writers(live or {})} {does} after each write by this server; it is left "
        "unchanged for ten minutes. One of the two has to stop: end the other publisher (such as another installation "
        "of this adapter), or set devices.enabled to false or change devices.vendors"
    )


def _not_ours(node: str, live: Mapping[str, Any]) -> str:
    return (
        f"node {node}: another client publishes its Device object{_writers(live)}, which is left unchanged. To publish "
        "it from here, stop that publisher and delete the object: "
        f"kubectl delete devices.scheduling.koordinator.sh {node}"
    )


def _writers(live: Mapping[str, Any]) -> str:
    """Who has written an object, in parentheses; empty where the API server does not say."""
    managers = (live.get("metadata") or {}).get("managedFields") or []
    names = sorted({str(each.get("manager")) for each in managers if isinstance(each, dict) and each.get("manager")})
    return f" ({', '.join(names)})" if names else ""


def _readable(live: Mapping[str, Any], node: NodeName) -> DeviceObject:
    """The object, as far as anything of it can be read; one that says nothing is written anew, whole."""
    try:
        return koordinator_devices.decode(live)
    except WireError:
        return DeviceObject(node=node)


def _others(live: Mapping[str, Any] | None) -> list[Json]:
    """Devices that are not cards, with all their content: they belong to other components.

    One without a number is not among them: it ends Koordinator's scheduler (Koordinator 1.7.0
    ``pkg/scheduler/plugins/deviceshare/device_cache.go``).
    """
    devices = [each for each in _listed(live) if isinstance(each, dict) and isinstance(each.get("type"), str)]
    return [each for each in devices if each["type"] != GPU_TYPE and each.get("minor") is not None]


def _is_published(wanted: DeviceObject, known: DeviceObject, live: Mapping[str, Any], *, others: int) -> bool:
    """Whether the object has the intended cards, and otherwise only so many foreign devices."""
    return (
        {each.minor: each for each in known.cards} == {each.minor: each for each in wanted.cards}
        and (known.labels, known.annotations) == (wanted.labels, wanted.annotations)
        and len(_listed(live)) == len(wanted.cards) + others
    )


def _listed(live: Mapping[str, Any] | None) -> list[Any]:
    spec = (live or {}).get("spec")
    found = spec.get("devices") if isinstance(spec, dict) else None
    return found if isinstance(found, list) else []


def _owner(node: str, uid: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _metadata(live: Mapping[str, Any], ours: Json, owner: Json) -> Json:
    """The metadata as it stands, with our labels and our owner; what others put there is theirs."""
    held = live.get("metadata")
    before: Json = dict(held) if isinstance(held, dict) else {}
    others = [each for each in _owners(before) if isinstance(each, dict) and each.get("kind") != "Node"]
    kept = {name: value for name, value in before.items() if name not in _WRITTEN_ANEW}
    return {**kept, **ours, "ownerReferences": [owner, *others]}


def _owners(metadata: Json) -> list[Any]:
    try:
        return fields.items(metadata, "ownerReferences", "metadata")
    except WireError:
        return []
