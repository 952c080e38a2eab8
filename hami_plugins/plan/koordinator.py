"""Where Koordinator's scheduler may do otherwise than a plan says, and what of a pod a plan does not look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Refused
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import ANY_DEVICE, DeviceRequest, Percent
from hami_plugins.queueing.stages import PodPlan, Stage
from hami_plugins.vendors.koordinator import ISOLATION, NAME, NO_CARDS
from hami_plugins.wire import koordinator_hints
from hami_plugins.wire.koordinator import GPU_TYPE, NPU_CORE

_PARTITION: Final = koordinator_hints.PARTITION_KEY
_NARROW: Final = koordinator_hints.WITHIN_ONE_NUMA_NODE - {"NUMANode"}


def notes(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    """What is to be known of one pod; nothing where another scheduler has it, and nothing of it is Koordinator's."""
    yield from _given_up(plan, snapshot)
    yield from _placed_all_the_same(plan)
    if plan.stage is Stage.PLACED:
        yield from _not_looked_at(plan)


def _placed_all_the_same(plan: PodPlan) -> Iterator[str]:
    """Where Koordinator 1.7.0 has room for a pod that a plan refuses: it compares percentages, and truncates those that
    it computes from bytes, so a card in partial use counts as free (Koordinator 1.7.0
    ``pkg/scheduler/plugins/deviceshare/device_cache.go``)."""
    decision, request = plan.decision, _request(plan)
    if plan.stage is not Stage.NODES or not isinstance(decision, Refused) or request is None:
        return
    full = {name for name, refusal in decision.by_node if refusal.words == NO_CARDS}
    for entry in plan.before.nodes:
        free = list(_free_by_percent(entry, request)) if entry.name in full else []
        if len(free) < request.count:
            continue
        cards = ", ".join(str(index) for index, used in free if used)
        yield (
            f"Koordinator 1.7.0 may place it on {entry.name} all the same: it compares percentages, and cuts off "
            f"what is less than one of them, so that it would promise memory of card {cards} there twice"
        )
        return


def _free_by_percent(entry: NodeEntry, request: DeviceRequest) -> Iterator[tuple[int, bool]]:
    """The number of each card that has room by truncated percentages, and whether it is in partial use.

    Each pod's share is truncated, so that the percentage of their sum exceeds Koordinator's count.
    """
    percent = request.memory.of_device if isinstance(request.memory, Percent) else rules.FULL
    for position in entry.state.shape.positions.get(NAME, ()):
        device, used = entry.state.shape.devices[position], entry.state.usage[position]
        if not device.healthy or not device.memory:
            continue
        enough = rules.percent_of(used.memory, device.memory) + percent <= rules.FULL
        if enough and (not request.cores or used.cores + request.cores <= device.cores):
            yield device.index, bool(used.memory)


def _request(plan: PodPlan) -> DeviceRequest | None:
    """What a pod asks Koordinator for in percent of any cards; nothing where it is in bytes, or of chosen cards."""
    if plan.intake.dialect is not Dialect.KOORDINATOR:
        return None
    for container in plan.intake.demand.devices.containers:
        for each in container.requests:
            chosen = each.selector != ANY_DEVICE or {name for name, _ in each.options} - {ISOLATION}
            if each.vendor == NAME and isinstance(each.memory, Percent) and not chosen:
                return each
    return None


def _given_up(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    """Where Koordinator's scheduler ends its search: at the first node with cards that lacks the pod's label."""
    wanted = plan.pod.labels.get(ISOLATION)
    if plan.intake.dialect is not Dialect.KOORDINATOR or wanted is None or plan.stage is not Stage.PLACED:
        return
    if dict(plan.pod.constraints.selector).get(ISOLATION) is not None or not _shares(plan):
        return
    for entry in snapshot.nodes:
        if NAME in entry.state.shape.positions and entry.facts.labels.get(ISOLATION) != wanted:
            yield (
                f"Koordinator's scheduler may give up on it at node {entry.name}, which has cards and no label "
                f"{ISOLATION}={wanted}; give the pod a nodeSelector of it"
            )
            return


def _not_looked_at(plan: PodPlan) -> Iterator[str]:
    """Wishes that Koordinator's scheduler looks at and a plan does not, so that the pod may get no place there."""
    names = {name for container in plan.pod.containers for name in container.requests}
    if plan.intake.dialect is not Dialect.KOORDINATOR and NPU_CORE not in names:
        return
    given = plan.pod.annotations
    for key, met in ((koordinator_hints.KEY, _scope), (koordinator_hints.JOINT_KEY, _joint), (_PARTITION, _partition)):
        text = given.get(key)
        if text is None:
            continue
        try:
            words = met(text)
        except WireError as error:
            words = f"Koordinator cannot read it and lets the pod wait: {error.why}"
        if words:
            yield f"{key}: {words}"
    if NPU_CORE in names:
        yield f"{NPU_CORE} is compared with the node's sums alone, and not with what is free of one NPU"


def _scope(text: str) -> str:
    hint = koordinator_hints.decode(text).get(GPU_TYPE)
    if hint is None or hint.scope not in _NARROW:
        return ""
    return f"the plan keeps the cards within one NUMA node, and does not look at {hint.scope}"


def _joint(text: str) -> str:
    joint = koordinator_hints.decode_joint(text)
    apart = "has to hold" if joint.scope else "is rather wanted"
    return f"{joint.scope or 'nearness'} of {' and '.join(joint.types)} {apart}, and a plan does not check it"


def _partition(text: str) -> str:
    preferred = koordinator_hints.decode_partition(text)
    return f"cards of one partition are wanted ({preferred.policy}), and a plan does not look at partitions"


def _shares(plan: PodPlan) -> bool:
    """Whether a pod has parts of cards: only for those the label matters."""
    requests = [each for container in plan.intake.demand.devices.containers for each in container.requests]
    return any(each.option(ISOLATION) is not None for each in requests)
