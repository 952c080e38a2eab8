"""What releases of Volcano do otherwise than a plan says: a table of releases, pods and sentences.

Sources: ``trials.md`` V14, V18 and V19, Volcano 1.14.1 ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``; the releases
are in ``vendors.volcano_releases``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import Instance
from hami_plugins.model.pods import Container
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import NoFit, Reason
from hami_plugins.queueing.context import PodContext, asks_for_cards, waits_for_room, was_tried
from hami_plugins.queueing.stages import Stage
from hami_plugins.vendors import awsneuron, volcano_releases
from hami_plugins.vendors.volcano_releases import Quirk
from hami_plugins.wire import allocator_mark


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRule:
    """Pods that get a note when the release does ``quirk``. ``{volcano}`` in it is the release.

    ``unasked`` rules are about what the pod itself asks for; they are printed even if no release is given.
    """

    name: str
    quirk: Quirk
    applies: Callable[[PodContext], bool]
    words: str | Callable[[PodContext], str]
    unasked: bool = False


def _meets_sick_cards(case: PodContext) -> bool:
    decision = case.plan.decision
    if decision is None or not asks_for_cards(case.plan):
        return False
    if not isinstance(decision, Placed):
        reasons = {reason for _, why in decision.by_node if isinstance(why, NoFit) for reason, _ in why.reasons}
        return Reason.HEALTH in reasons
    entry = case.plan.before.nodes[case.plan.before.position[decision.node]]
    vendors = {share.vendor for share in decision.shares()}
    return any(device.vendor in vendors and not device.healthy for device in entry.state.shape.devices)


def _has_side_containers(case: PodContext) -> bool:
    containers = case.plan.intake.demand.devices.containers
    return asks_for_cards(case.plan) and any(
        each.requests and each.kind is not ContainerKind.APP for each in containers
    )


def _said_of_side_containers(case: PodContext) -> str:
    words = "{volcano} counts init containers and sidecars for the node's sums alone and gives them no cards"
    decision, containers = case.plan.decision, case.plan.pod.containers
    refusals = () if decision is None or isinstance(decision, Placed) else tuple(why for _, why in decision.by_node)
    beside = (why.container for why in refusals if isinstance(why, NoFit))
    names = sorted({containers[at].name for at in beside if containers[at].kind is not ContainerKind.APP})
    if not names:
        return words
    return (
        f"{words}: where the rest of the pod fits it binds the pod all the same, and container {names[0]}, for which "
        "this "
        "plan finds no card, has no slice of its own"
    )


def _has_cards_in_several_containers(case: PodContext) -> bool:
    containers = case.plan.intake.demand.devices.containers
    asking = sum(1 for each in containers if each.requests and each.kind is ContainerKind.APP)
    return asks_for_cards(case.plan) and asking > 1


def _gets_two_slots(case: PodContext) -> bool:
    allocations = case.placed.shares() if case.placed is not None and asks_for_cards(case.plan) else ()
    cut = Counter(share.device for share in allocations if isinstance(share.mark, Instance))
    return any(count > 1 for count in cut.values())


def _asks_for_cores_alone(case: PodContext) -> bool:
    def alone(container: Container, spec: VendorSpec) -> bool:
        names = spec.resources
        cores = container.amount(names.cores)
        others = (container.amount(names.count), container.amount(names.memory))
        return cores is not None and cores.nano > 0 and others == (None, None)

    return any(alone(container, spec) for container in case.plan.pod.containers for spec in case.course.specs)


def _asks_for_what_nobody_has(case: PodContext) -> bool:
    names = {spec.resources.memory_percentage for spec in case.course.specs} - case.course.advertised - {""}
    return any(container.amount(name) for container in case.plan.pod.containers for name in names)


def _is_on_a_troubled_node(case: PodContext) -> bool:
    entry = None if case.placed is None else case.course.snapshot.node(case.placed.node)
    return entry is not None and not entry.facts.ready


def _meets_a_mute_node(case: PodContext) -> bool:
    return asks_for_cards(case.plan) and case.course.mute is not None and was_tried(case.plan)


def _outgrows_its_queue(case: PodContext) -> bool:
    """Whether a pod gets more of cards than it counts for in a queue that has a limit on that."""
    queue = case.course.snapshot.queues.get(case.course.queue_of(case.plan))
    if case.placed is None or queue is None:
        return False
    plain = dict(case.plan.pod.constraints.requests)
    for spec in case.course.specs:
        shares = [share for share in case.placed.shares() if share.vendor == spec.name]
        names, factor = spec.resources, spec.memory_factor()
        gets = {
            names.memory: sum(share.memory for share in shares) // factor,
            names.cores: sum(s.cores for s in shares),
        }
        if any(name in queue.capability and amount * NANO > plain.get(name, 0) for name, amount in gets.items()):
            return True
    return False


def _has_no_queue(case: PodContext) -> bool:
    hold = case.plan.hold
    return hold is not None and not hold.shortages and not case.unit.made_late


def _comes_behind_another(case: PodContext) -> bool:
    placed = case.placed
    if placed is None or not placed.shares() or not asks_for_cards(case.plan):
        return False
    return case.course.first_on[placed.node] != case.plan.pod.full_name


def _competes(case: PodContext) -> bool:
    return case.course.queue_of(case.plan) in case.course.rivals and asks_for_cards(case.plan)


def _is_of_a_waiting_gang(case: PodContext) -> bool:
    if not case.unit.gang or case.unit.min_member < 2 or not asks_for_cards(case.plan):
        return False
    return case.plan.unit in case.course.tried_in_vain or case.plan.pod.full_name in {
        pod.full_name
        for pod in case.course.snapshot.pending
        if any(pod.annotations.get(spec.keys.allocated) for spec in case.course.specs)
    }


def _meets_a_blocked_gang(case: PodContext) -> bool:
    return bool(case.course.blocked) and asks_for_cards(case.plan) and was_tried(case.plan)


def _meets_the_leaving(case: PodContext) -> bool:
    return case.course.leaving and asks_for_cards(case.plan) and case.plan.stage is Stage.NODES


def _shares_a_card_with_itself(case: PodContext) -> bool:
    if case.placed is None or not asks_for_cards(case.plan):
        return False
    cards = Counter(
        device
        for allocation in case.placed.containers
        if allocation.kind is ContainerKind.APP
        for device in {share.device for share in allocation.shares}
    )
    return any(count > 1 for count in cards.values())


def _gets_several_neuron_devices(case: PodContext) -> bool:
    """Whether the pod gets linked devices by our plan, of which Volcano itself chooses none."""
    notes = case.plan.pod.annotations
    if case.placed is None or notes.get(allocator_mark.KEY):
        return False
    shares = [share for share in case.placed.shares() if share.vendor == awsneuron.SPEC.name]
    entry = case.course.snapshot.node(case.placed.node)
    there = 0 if entry is None else len(entry.state.shape.positions.get(awsneuron.SPEC.name, ()))
    return 1 < len(shares) < there


def _gets_cards(case: PodContext) -> bool:
    return case.placed is not None and asks_for_cards(case.plan) and bool(case.placed.shares())


def _stays_inqueue(case: PodContext) -> bool:
    known = case.course.snapshot.pod_groups.get(case.unit.group)
    counts = known is None or known.min_resources is not None
    waits = waits_for_room(case.plan) or case.plan.unit in case.course.tried_in_vain
    return bool(case.course.snapshot.queues) and counts and waits


RULES: Final = (
    ReleaseRule(
        name="unchosen-devices",
        quirk=volcano_releases.UNCHOSEN_DEVICES,
        applies=_gets_several_neuron_devices,
        words="{volcano} only counts Neuron devices: without the allocator (hami-plugins allocator run) the kubelet "
        "hands out any free ones, which need not be those named here, nor linked",
        unasked=True,
    ),
    ReleaseRule(
        name="unhealthy-card",
        quirk=volcano_releases.HEALTH_IGNORED,
        applies=_meets_sick_cards,
        words="{volcano} does not look at health: it may give the pod an unhealthy card",
        unasked=True,
    ),
    ReleaseRule(
        name="side-containers",
        quirk=volcano_releases.SIDE_CONTAINERS,
        applies=_has_side_containers,
        words=_said_of_side_containers,
        unasked=True,
    ),
    ReleaseRule(
        name="containers-of-plugin",
        quirk=volcano_releases.PLUGIN_TOTALS,
        applies=_has_cards_in_several_containers,
        words="with volcano-vgpu-device-plugin up to 1.12 on the node kubelet fails the pod "
        "(UnexpectedAdmissionError): "
        "it matches no pod of which several containers ask for cards; volcano-vgpu's agent does",
        unasked=True,
    ),
    ReleaseRule(
        name="same-slot",
        quirk=volcano_releases.SAME_SLOT,
        applies=_gets_two_slots,
        words="{volcano} may give containers of the pod the same MIG slot",
        unasked=True,
    ),
    ReleaseRule(
        name="cores-alone",
        quirk=volcano_releases.CORES_ALONE,
        applies=_asks_for_cores_alone,
        words="{volcano} binds a container that asks for cores alone without any card",
    ),
    ReleaseRule(
        name="percentage",
        quirk=volcano_releases.PERCENTAGE,
        applies=_asks_for_what_nobody_has,
        words="{volcano} never places a pod that asks for a percentage of memory which no node has in its status, "
        "whatever the device configuration names",
    ),
    ReleaseRule(
        name="not-ready",
        quirk=volcano_releases.READY_IGNORED,
        applies=_is_on_a_troubled_node,
        words="{volcano} looks at taints and at spec.unschedulable and not at the Ready condition: it uses this node, "
        "which is not ready",
    ),
    ReleaseRule(
        name="no-register",
        quirk=volcano_releases.CRASH,
        applies=_meets_a_mute_node,
        words=lambda case: (
            f"{{volcano}} ends with a nil pointer at the first pod that it tries on {case.course.mute}, "
            "which offers slots and has registered no cards; nothing is placed until that is fixed"
        ),
    ),
    ReleaseRule(
        name="unknown-cards",
        quirk=volcano_releases.UNKNOWN_CARDS,
        applies=_meets_a_mute_node,
        words=lambda case: (
            f"{{volcano}} may bind the pod to {case.course.mute} without a card: the node offers slots and has "
            "registered no cards that it can read, so that the sums of the node are all it looks at"
        ),
        unasked=True,
    ),
    ReleaseRule(
        name="plain-caps",
        quirk=volcano_releases.PLAIN_CAPS,
        applies=_outgrows_its_queue,
        words=lambda case: (
            f"{{volcano}} compares the capability of queue {case.course.queue_of(case.plan)} with plain "
            "requests, not with what cards give: its pods may hold more than that"
        ),
    ),
    ReleaseRule(
        name="silent-queue",
        quirk=volcano_releases.SILENT_QUEUE,
        applies=_has_no_queue,
        words="{volcano} leaves the pod without PodGroup, condition or event: its webhook refuses the PodGroup, and "
        "nothing on the pod says so",
    ),
    ReleaseRule(
        name="stuck-queues",
        quirk=volcano_releases.STUCK_QUEUES,
        applies=_competes,
        words=lambda case: (
            f"{{volcano}} lets in more of queues {' and '.join(case.course.rivals)} together than there "
            "are cards; who is above its share never steps back, and cards stay idle: who gets them is chance"
        ),
    ),
    ReleaseRule(
        name="stale-gang",
        quirk=volcano_releases.STALE_GANG,
        applies=_is_of_a_waiting_gang,
        words="{volcano} binds a gang that had to wait with the ids of an earlier try that was rolled back: cards of "
        "another node, one card named by several pods, and only some 12 to 38 s after there is room",
    ),
    ReleaseRule(
        name="blocked-gang",
        quirk=volcano_releases.BOOKED_BY_TRIES,
        applies=_meets_a_blocked_gang,
        words=lambda case: (
            f"{{volcano}} tries gang {case.course.blocked}, which does not fit, in every session and "
            "leaves cards booked and ids on its pods: others come in many sessions later, or never"
        ),
    ),
    ReleaseRule(
        name="task-minima",
        quirk=volcano_releases.TASKS_BY_NUMBER,
        applies=lambda case: case.plan.unit in case.course.starved,
        words="{volcano} tries the pods of a gang by priority and number, and not first those that its tasks "
        "need: others of the gang take the room, and it may never start",
    ),
    ReleaseRule(
        name="partial-gang",
        quirk=volcano_releases.PARTIAL_GANG,
        applies=lambda case: case.plan.unit in case.course.cut_short,
        words="{volcano} lets the quota take in some of the Job's pods, by chance; they wait for the others for ever",
    ),
    ReleaseRule(
        name="leaving-freed",
        quirk=volcano_releases.LEAVING_FREED,
        applies=_meets_the_leaving,
        words="{volcano} does not count the cards of pods that are being deleted: it may give them away while they run",
    ),
    ReleaseRule(
        name="kept-for-waiting",
        quirk=volcano_releases.KEPT_FOR_WAITING,
        applies=lambda case: case.plan.pod.full_name in case.course.kept,
        words="{volcano} may keep what is free on the node for a pod that comes first and waits for one that is being "
        "deleted: this pod also waits until then",
    ),
    ReleaseRule(
        name="first-container",
        quirk=volcano_releases.FIRST_CONTAINER,
        applies=_shares_a_card_with_itself,
        words="{volcano} counts only the first of the pod's containers on a card: the card may be allocated again",
    ),
    ReleaseRule(
        name="counted-twice",
        quirk=volcano_releases.COUNTED_TWICE,
        applies=_comes_behind_another,
        words="{volcano} counts a pod that has just been bound twice until its node changes: a pod that comes after it "
        "gets another card than need be, or waits for that",
    ),
    ReleaseRule(
        name="stays-inqueue",
        quirk=volcano_releases.HELD_GATE,
        applies=_stays_inqueue,
        words="{volcano} has let its PodGroup in and keeps counting it, whether it ever fits or not",
    ),
    ReleaseRule(
        name="fresh-scheduler",
        quirk=volcano_releases.FRESH,
        applies=_gets_cards,
        words="{volcano} binds pods without looking at cards from its start until their node changes",
    ),
)
"""In the order in which they are printed."""
