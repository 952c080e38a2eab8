"""Which slots the kubelet is asked to hand out.

Slots are alike to the kubelet, and the allocation decides which slice a container gets, whatever slot it holds. If the
kubelet asks, it still receives slots of the allocated cards, so that its own bookkeeping, and any reader of it, names
the right cards; and never a slot that is in use by the agent's own records (``trials.md`` K8 and K12).

The call names no pod. The kubelet lists pods one by one as it admits them, so the one listed pod that requests slots
and has none is the right one (99 of 100, never wrong). In any doubt there is no preference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import containers_of, finished, written
from volcano_vgpu.core.assignments import allocated_cards
from volcano_vgpu.core.shares import NodeOffer


class Listed(NamedTuple):
    """A container as pod-resources lists it, with the slots of our resource that it holds."""

    namespace: str
    pod: str
    container: str
    slots: frozenset[str] = frozenset()


class AdmittedPod(NamedTuple):
    """The pod under admission.

    ``container`` is the first application of it that asks and has nothing yet, ``cards`` are those allocated to it and
    to the ones after it.
    """

    pod_uid: PodUid
    container: str
    cards: tuple[DeviceId, ...]


def admitted(
    listed: Iterable[Listed], pod_of: Callable[[str, str], Json | None], offer: NodeOffer
) -> AdmittedPod | None:
    """The pod that the kubelet is admitting, if that is sure. ``pod_of`` knows pods by namespace and name."""
    hands: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
    for row in listed:
        held = hands.setdefault((row.namespace, row.pod), {})
        held[row.container] = held.get(row.container, frozenset()) | row.slots
    found: list[AdmittedPod] = []
    for (namespace, name), held in hands.items():
        if all(held.values()):
            continue
        raw = pod_of(namespace, name)
        if raw is None:
            return None
        if (waiting := _waiting(raw, held, offer)) is not None:
            found.append(waiting)
    return found[0] if len(found) == 1 else None


def preferred(
    size: int,
    *,
    available: Sequence[str],
    required: Sequence[str],
    cards: Iterable[Sequence[str]],
    busy: Collection[str],
) -> tuple[str, ...]:
    """The slots to hand out: those required, then one of each allocated card, then any that are free.

    ``cards`` are the slots of each allocated card, ``busy`` those that are held. Empty where there is nothing to
    say: no card is allocated, and what is available is free.
    """
    free = [slot for slot in available if slot not in busy and slot not in required]
    steered = list(required)
    for card in cards:
        of_card = [slot for slot in card if slot in free and slot not in steered]
        steered.extend(of_card[:1])
    if len(steered) == len(required) and len(free) + len(required) == len(available):
        return ()
    rest = sorted(slot for slot in free if slot not in steered)
    return tuple((*steered, *rest)[:size])


def _waiting(raw: Json, held: Mapping[str, frozenset[str]], offer: NodeOffer) -> AdmittedPod | None:
    """The pod as the one under admission, if a container of it that asks has nothing."""
    if finished(raw):
        return None
    empty = [name for name in _asking(raw, offer.spec.resources.count) if not held.get(name)]
    if not empty:
        return None
    allocated = allocated_cards(raw, offer)
    cards = tuple(card for name in empty for card in allocated.get(name, ()))
    return AdmittedPod(PodUid(lenient.uid(raw)), empty[0], cards)


def _asking(raw: Json, resource: str) -> list[str]:
    """The containers that ask the kubelet for slots and are listed: applications and sidecars, in the pod's order."""
    return [
        str(each.get("name"))
        for each, kind in containers_of(raw)
        if kind is not ContainerKind.INIT and written(each, "limits").get(resource) not in (None, "0", 0)
    ]
