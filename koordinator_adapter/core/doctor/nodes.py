"""Checks of nodes and of what is published of their cards."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId
from hami_plugins.wire import documents, koordinator_devices, koordinator_hints
from hami_plugins.wire.koordinator import CORE, MEMORY, SHARED, WHOLE_CARDS, misspells_hami_core
from hami_plugins.wire.koordinator_devices import LARGEST_MINOR, DeviceObject, PublishedDevice
from koordinator_adapter.core.devices import koordlet
from koordinator_adapter.core.devices.cards import NVIDIA
from koordinator_adapter.core.devices.koordlet import NAME as KOORDLET
from koordinator_adapter.core.devices.sums import sums_of
from koordinator_adapter.core.devices.wanted import PUBLISHER_LABEL, VANISHED_REASON
from koordinator_adapter.core.doctor.evidence import (
    DoctorFinding,
    DoctorSeverity,
    Evidence,
    NodeEvidence,
    merge_patch,
    several,
)
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION, VENDOR_LABEL

_TOLERATED: Final = 0.1
"""By how much Koordinator's manager lets a node's sums differ before it writes them again."""

_OTHERS: Final = (*WHOLE_CARDS, "volcano.sh/vgpu-number")
"""What device plugins of others offer of the same cards."""

_PLUGIN: Final = "device-plugin"


def sums(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Nodes offer what their Device objects say."""
    for machine, published in evidence.card_nodes():
        wanted = {name: amount for name, amount in sums_of(published).items() if name != SHARED}
        absent = [name for name in sorted(wanted) if not machine.offers(name)]
        wrong = [
            f"{name} {machine.offers(name)} instead of {amount}"
            for name, amount in sorted(wanted.items())
            if name not in absent and abs(machine.offers(name) - amount) > _TOLERATED * amount
        ]
        if absent:
            yield _node(
                machine,
                "node-sums",
                DoctorSeverity.ERROR,
                f"does not offer {', '.join(absent)}, so pods that request them are not placed here",
                "kubectl -n koordinator-system rollout restart deployment koord-manager",
            )
        if wrong:
            yield _node(
                machine,
                "node-sums",
                DoctorSeverity.WARNING,
                f"offers {', '.join(wrong)}",
                "kubectl -n koordinator-system rollout restart deployment koord-manager",
            )


def labels(evidence: Evidence) -> Iterator[DoctorFinding]:
    """A card node without the label ends the search of every pod that wants limits, wherever it would fit.

    HAMi-core limits NVIDIA's cards only. Nodes of other vendors have no label; the check of pods reports those whose
    search ends there.
    """
    nodes = []
    for machine, published in evidence.card_nodes():
        if published.vendor in {"", NVIDIA}:
            nodes.append((machine, published))
        elif machine.labels.get(ISOLATION) == HAMI_CORE:
            words = (
                f"has {ISOLATION}={HAMI_CORE}, but HAMi-core limits NVIDIA cards only, and the cards are "
                f"{published.vendor}'s: pods that share NVIDIA cards are placed here"
            )
            yield _node(
                machine,
                "isolation-label",
                DoctorSeverity.ERROR,
                words,
                f"kubectl label node {machine.name} {ISOLATION}-",
            )
    promised = any(machine.labels.get(ISOLATION) == HAMI_CORE for machine, _ in nodes)
    wanting = any(each.pod.labels.get(ISOLATION) == HAMI_CORE for each in evidence.pods)
    for machine, _ in nodes:
        value = machine.labels.get(ISOLATION)
        if value is not None and not misspells_hami_core(value):
            continue
        fix = f"kubectl label node {machine.name} {ISOLATION}={HAMI_CORE}{' --overwrite' if value is not None else ''}"
        if value is not None:
            words = f"has {ISOLATION}={value}, which no component acts on: write {HAMI_CORE}"
            yield _node(machine, "isolation-label", DoctorSeverity.ERROR, words, fix)
        elif promised or wanting:
            words = (
                f"has cards and no label {ISOLATION}: Koordinator's scheduler gives up on a pod with the label as soon "
                "as it looks here, unless the pod has a nodeSelector of it"
            )
            yield _node(
                machine, "isolation-label", DoctorSeverity.ERROR if wanting else DoctorSeverity.WARNING, words, fix
            )


def vendors(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Nodes say whose cards they have: translated pods select them by it, and without it they fit nowhere."""
    for machine, published in evidence.card_nodes():
        if published.vendor and machine.labels.get(VENDOR_LABEL) != published.vendor:
            words = f"lacks the label {VENDOR_LABEL}={published.vendor} of its Device object: translated pods select it"
            fix = "kubectl -n koordinator-system rollout restart deployment koord-manager   # it copies the label"
            yield _node(machine, "vendor-label", DoctorSeverity.WARNING, words, fix)


def rivals(evidence: Evidence) -> Iterator[DoctorFinding]:
    """One owner of the cards of a node: a device plugin next to Koordinator allocates them a second time."""
    plugins = {
        each.pod.node: each
        for each in evidence.pods
        if each.pod.node is not None and any(_PLUGIN in word for word in (each.pod.name, *each.images))
    }
    for machine, _ in evidence.card_nodes():
        offered = [name for name in _OTHERS if machine.offers(name)]
        seen = plugins.get(machine.name)
        if not offered and seen is None:
            continue
        what = f"offers {', '.join(offered)}" if offered else "runs a device plugin"
        who = f" ({seen.pod.full_name})" if seen is not None else ""
        yield _node(
            machine,
            "device-plugin",
            DoctorSeverity.ERROR if offered else DoctorSeverity.WARNING,
            f"{what}{who} besides Koordinator's resources: the same cards are allocated twice",
            _kept_off(seen.pod.namespace, seen.owner) if seen is not None else _emptied(machine, offered),
        )


def objects(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Device objects that end the scheduler, say nothing, or are of nodes that are not there."""
    for place, why in evidence.unreadable:
        kind, _, name = place.partition("/")
        where = f"-n {name.replace('/', f' {kind} ')}" if name else f"-A {kind}"
        fix = f"kubectl get -o yaml {where}   # and correct it"
        yield DoctorFinding(check="device-object", severity=DoctorSeverity.ERROR, about=place, words=why, fix=fix)
    for name, published in sorted(evidence.devices.items()):
        fix = (
            "kubectl -n koordinator-system delete pod -l k8s-app=koordlet "
            f"--field-selector spec.nodeName={name}   # koordlet reports again"
        )
        for error in published.wrong:
            yield _device(published, DoctorSeverity.ERROR, f"{error.key.partition(': ')[2]}: {error.why}", fix)
        if "Node" in evidence.kinds and name not in evidence.machines:
            gone = f"kubectl delete devices.scheduling.koordinator.sh {name}"
            yield _device(published, DoctorSeverity.WARNING, "describes a node that does not exist", gone)
            continue
        yield from _cards(published, evidence.machines.get(name), fix)


def numbers(evidence: Evidence) -> Iterator[DoctorFinding]:
    """koordlet's hook shows cards by number, and NVIDIA's runtime takes a number for the place in its own list."""
    agent = evidence.program(KOORDLET)
    if agent is None or not koordlet.is_on(agent.gates(), koordlet.INJECTION):
        return
    for machine, published in evidence.card_nodes():
        moved = _moved(machine, published)
        if published.vendor not in {"", NVIDIA} or not moved:
            continue
        words = (
            f"{several(moved)}: koordlet's hook shows cards by number, which NVIDIA's runtime takes for the place, "
            "so containers see other cards"
        )
        anew = f"kubectl drain {machine.name} --ignore-daemonsets   # and then "
        if PUBLISHER_LABEL in published.labels:
            anew += f"kubectl delete devices.scheduling.koordinator.sh {machine.name}"
        else:
            anew += "restart the node, so that the driver numbers its cards anew"
        yield DoctorFinding(
            check="card-numbers",
            severity=DoctorSeverity.WARNING,
            about=f"device/{machine.name}",
            words=words,
            fix=anew,
        )


CHECKS: Final = (objects, numbers, sums, labels, vendors, rivals)


def _moved(machine: NodeEvidence, published: DeviceObject) -> list[str]:
    """Cards whose number is not their place; if no agent reports places, cards are in the order of numbers."""
    there = sorted(each.minor for each in published.cards if not _is_gone(each))
    return [
        f"card {each.minor} is in place {place}"
        for each in published.cards
        if not _is_gone(each)
        and (place := machine.places.get(DeviceId(each.id), there.index(each.minor))) != each.minor
    ]


def _is_gone(card: PublishedDevice) -> bool:
    return any(each.reason == VANISHED_REASON for each in card.conditions)


def _cards(published: DeviceObject, machine: NodeEvidence | None, fix: str) -> Iterator[DoctorFinding]:
    cards = published.cards
    if not cards:
        if machine is not None and any(machine.offers(name) for name in _OTHERS):
            words = "is empty although the node has cards (koordlet reports none where one of them is in MIG mode)"
            yield _device(published, DoctorSeverity.WARNING, words, fix)
        return
    for each in cards:
        if each.minor > LARGEST_MINOR:
            words = f"card {each.minor}: numbers after {LARGEST_MINOR} are mistaken for others"
            yield _device(published, DoctorSeverity.ERROR, words, fix)
        lacking = [name for name in (CORE, MEMORY) if name not in each.resources]
        if lacking and published.vendor != "huawei":
            words = f"card {each.minor} has no {' and no '.join(lacking)}, so they are not counted there"
            yield _device(published, DoctorSeverity.WARNING, words, fix)
    text = published.annotations.get(koordinator_devices.PARTITIONS_KEY)
    if text is not None:
        try:
            koordinator_hints.decode_partitions(text)
        except WireError as error:
            words = f"partitions cannot be read, so none are used: {error.why}"
            yield _device(published, DoctorSeverity.ERROR, words, fix)
    placed = [each.minor for each in cards if each.place is not None]
    if placed and len(placed) < len(cards):
        words = "some cards have no topology, so no pod can request cards near to each other"
        yield _device(published, DoctorSeverity.WARNING, words, fix)
    ill = [str(each.minor) for each in cards if not each.healthy]
    if ill:
        words = f"unhealthy cards: {several(ill)}; no pod gets them, and koordlet reports them so until it restarts"
        yield _device(published, DoctorSeverity.NOTE, words, fix)


def _node(machine: NodeEvidence, check: str, severity: DoctorSeverity, words: str, fix: str) -> DoctorFinding:
    return DoctorFinding(check=check, severity=severity, about=f"node/{machine.name}", words=words, fix=fix)


def _device(published: DeviceObject, severity: DoctorSeverity, words: str, fix: str) -> DoctorFinding:
    return DoctorFinding(
        check="device-object", severity=severity, about=f"device/{published.node}", words=words, fix=fix
    )


def _kept_off(namespace: str, owner: str) -> str:
    """The command that keeps a device plugin off the nodes that share cards by Koordinator."""
    if not owner:
        return f"kubectl -n {namespace} get pods   # and end the device plugin on these nodes"
    term = {"matchExpressions": [{"key": ISOLATION, "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return merge_patch(namespace, owner, {"affinity": {"nodeAffinity": required}})


def _emptied(machine: NodeEvidence, offered: list[str]) -> str:
    """The command that removes resources from a node that no component offers any more."""
    places = [f"/status/{part}/{name.replace('/', '~1')}" for name in offered for part in ("capacity", "allocatable")]
    text = documents.dump([{"op": "remove", "path": place} for place in places])
    return f"kubectl patch node {machine.name} --subresource=status --type=json -p {shlex.quote(text)}"
