"""Which pods are between two schedulers: waiting for HAMi, assigned and not bound, bound and not served, or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.allocations.assigned import foreign_assignment
from hami_plugins.allocations.cache import KEEP
from hami_plugins.allocations.lock_demand import EXPIRY, FAILED
from hami_plugins.allocations.state import CacheState
from hami_plugins.allocations.takeover.values import (
    TakeoverContext,
    TakeoverFinding,
    TakeoverObjects,
    error,
    info,
    listed,
    warning,
)
from hami_plugins.engine.annotate import BIND_TIME_KEY, PHASE_KEY, TIME_KEY
from hami_plugins.errors import WireError
from hami_plugins.model.pods import FINISHED, Pod
from hami_plugins.model.units import PodUid
from hami_plugins.wire import lenient, objects, pods
from hami_plugins.wire.fields import Json

_AGAIN: Final = "delete it, so that it is created again and marked"


def of_pods(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    """Pods that wait, then pods that run with something wrong, in the words of ``audit``."""
    state = CacheState(context.product.registry, keep=KEEP)
    waiting: list[str] = []
    for raw in found.nodes:
        try:
            state.see_node(objects.node_object(raw))
        except WireError:
            continue  # the checks of nodes tell it
    for raw in found.pods:
        pod, fault = _read(raw, context)
        if pod.node is not None:
            state.see_pod(pod, 0, fault=fault)
            yield from _of_bound(pod, context)
        elif pod.phase not in FINISHED and not fault and context.product.of_hami(pod):
            told = _of_waiting(pod, context)
            yield from told
            waiting.extend(() if told else (pod.full_name,))
    if waiting:
        what = f"{len(waiting)} pods without the allocator's mark wait for HAMi's scheduler ({listed(waiting)})"
        yield info("pods", what, "keep HAMi's scheduler until they are bound, or delete them: new ones are marked")
    for each in state.findings():
        yield error(f"node {each.node}", each.text, "see `hami-plugins allocator audit`")


def _read(raw: Json, context: TakeoverContext) -> tuple[Pod, str]:
    """A pod, and why it cannot be read."""
    try:
        return objects.pod(raw), ""
    except WireError as wrong:
        return pods.certain(raw, PodUid(lenient.uid(raw)), context.product.containers_of), str(wrong)


def _of_waiting(pod: Pod, context: TakeoverContext) -> tuple[TakeoverFinding, ...]:
    """What is to be told of a waiting pod by itself; nothing where HAMi's scheduler has not assigned it anything."""
    product = context.product
    if pod.scheduler != product.rules.webhook.scheduler:
        what = f"asks for devices and waits for {pod.scheduler or 'the default scheduler'}: no webhook has changed it"
        return (warning(f"pod {pod.full_name}", what, _AGAIN),)
    assigned = foreign_assignment(pod, product.registry, marker=product.marker[0])
    if assigned is None:
        return ()
    place, age = f"pod {pod.full_name}", _age(pod.annotations, TIME_KEY, context)
    if age is not None and age <= KEEP:
        what = f"HAMi's scheduler assigned it devices of node {assigned.node} {age} s ago, and has not bound it yet"
        return (info(place, what, f"held for it for {KEEP:.0f} s"),)
    since = "at an unreadable time" if age is None else f"{age} s ago"
    what = f"HAMi's scheduler assigned it devices of node {assigned.node} {since}, and counts them until it is gone"
    return (warning(place, what, "delete the pod; the allocator does not hold them any more"),)


def _of_bound(pod: Pod, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    phase = pod.annotations.get(PHASE_KEY)
    if pod.phase != "Pending" or not phase:
        return
    place = f"pod {pod.full_name}"
    if phase == FAILED:
        yield warning(place, f"the device plugin of node {pod.node} has refused it", "see its log, and delete the pod")
    age = _age(pod.annotations, BIND_TIME_KEY, context)
    if phase == "allocating" and age is not None and age > EXPIRY:
        what = f"bound to node {pod.node} for {age} s, and its device plugin has not answered"
        yield warning(place, what, "see the plugin's log and the node's lock, and delete the pod")


def _age(annotations: Mapping[str, str], key: str, context: TakeoverContext) -> int | None:
    text = annotations.get(key, "")
    return int(context.now.timestamp()) - int(text) if text.isdecimal() else None
