"""HP80x: devices, amounts and ids that the given cluster does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.engine import quota
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.inputs.manifests import Path
from hami_plugins.model.quantity import NANO
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vet.context import Context, each_pod, each_request, none_of, where
from hami_plugins.vet.findings import RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, ResourceEntry


def no_such_device(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Vendors that no node has, nor one that an autoscaler may add."""
    hardware = context.hardware
    if hardware is None or context.most(spec) or pod.placed or spec.name not in context.placing:
        return
    amount = _first(spec, container)
    present = ", ".join([each.title for each in context.registry if hardware.has(each)][:5])
    yield Violation(
        amount.path,
        f"{where(container, pod)}: {amount.resource}={amount.text}: {none_of(hardware.nodes)} has "
        f"{spec.title} devices" + (f" (there are {present})" if present else ""),
        "ask for devices that the cluster has",
    )


def more_than_a_node(spec: VendorSpec, container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """More cards in a container than any node has, or one that an autoscaler may add."""
    request = context.reading(spec, container).request
    hardware = context.hardware
    most = context.most(spec)
    if hardware is None or request is None or not most or pod.placed:
        return
    if request.count <= most or (spec.fitting.partitions and spec.name in hardware.cut):
        return
    amount = container.amount(spec.resources.count) or _first(spec, container)
    yield Violation(
        amount.path,
        f"{where(container, pod)}: {amount.resource}={amount.text} wants {request.count} different cards of one node, "
        f"and no node has more than {most}",
        f"write at most {most}, and use several pods for more",
        RewriteFix(amount.path, str(most)) if amount.resource == spec.resources.count else None,
    )


def over_quota(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods larger than all that their namespace may have."""
    intake = taken_in(pod, context)
    limits = None if intake is None or context.snapshot is None else context.snapshot.quotas.get(intake.pod.namespace)
    if pod.pod is None or limits is None:
        return
    left = dict(quota.headroom(limits, {}, context.registry))
    if take_in(pod.pod, context.registry, context.settings.rules, left).admission.allowed:
        return
    named = ", ".join(f"{key}={amount // NANO}" for key, amount in sorted(limits.hard.items()))
    yield Violation(
        asking_path(pod, context),
        f"{prefix(pod)}the pod asks for more than the whole quota of namespace {limits.namespace} ({named})",
        "ask for less, or have the quota raised",
    )


def unknown_selection(pod: PodView, context: Context) -> Iterator[Violation]:
    """Ids and models that no card of the cluster has."""
    hardware = context.hardware
    if hardware is None:
        return
    seen: set[str] = set()
    for spec in context.asked_by(pod):
        if not hardware.has(spec):
            continue
        added = {
            shape.devices[at].model.lower() for shape in context.added_shapes(spec) for at in shape.positions[spec.name]
        }
        models = hardware.models[spec.name] | added
        strange = {key: [each for each in _listed(pod, key) if each not in hardware.ids] for key in spec.keys.use_ids}
        key = spec.keys.use_models
        strange[key] = [each for each in _listed(pod, key) if not any(each.lower() in model for model in models)]
        for key, words in strange.items():
            if words and key not in seen:
                seen.add(key)
                yield Violation(
                    pod.annotation(key),
                    f"annotation {key}: no {spec.title} of the cluster is {' or '.join(words[:5])[:200]}",
                    "list what the cluster has, or drop it",
                )


def taken_in(pod: PodView, context: Context) -> PodInfo | None:
    """The pod as it reaches the nodes; ``None`` without a cluster or devices, and for pods that never get that far."""
    if context.idle is None or pod.pod is None or pod.placed or not context.asked_by(pod):
        return None
    intake = take_in(pod.pod, context.placing, context.settings.rules)
    return None if intake.refusal or not intake.demand.devices.wants_devices else intake


def asking_path(pod: PodView, context: Context) -> Path:
    """The first amount with which a pod asks for devices."""
    return next(_first(spec, container).path for container in pod.containers for spec in context.asked_of(container))


def prefix(pod: PodView) -> str:
    """What messages about a pod begin with, when its object has several."""
    return f"{pod.label}: " if pod.label else ""


def _first(spec: VendorSpec, container: ContainerView) -> ResourceEntry:
    return next(found for name in spec.resources.all() if (found := container.amount(name)) is not None)


def _listed(pod: PodView, key: str) -> list[str]:
    return [part.strip() for part in pod.annotations.get(key, "").split(",") if part.strip()]


RULES: Final = (
    VetRule(
        id="HP801",
        name="no-such-device",
        severity=VetSeverity.ERROR,
        summary="No node of the cluster has devices of the vendor, and no node pool would add one.",
        why="The pod stays pending.",
        fix="Ask for devices that the cluster has.",
        check=each_request(no_such_device),
    ),
    VetRule(
        id="HP802",
        name="more-cards-than-a-node",
        severity=VetSeverity.ERROR,
        summary="A container asks for more cards than any node has, or a new node of a pool would have.",
        why="A container runs on one node, and each of its cards is another one; slots of a card do not add up.",
        fix="Ask for fewer cards, and use several pods.",
        check=each_request(more_than_a_node),
    ),
    VetRule(
        id="HP804",
        name="unknown-selection",
        severity=VetSeverity.WARNING,
        summary="A selector lists ids or models that no card of the cluster has.",
        why="Cards are renamed when they are replaced; the pod then fits on fewer nodes, or on none.",
        fix="List what the cluster has.",
        check=each_pod(unknown_selection),
    ),
    VetRule(
        id="HP805",
        name="over-quota",
        severity=VetSeverity.ERROR,
        summary="A pod alone asks for more than its namespace's quota.",
        why="The webhook refuses it whatever else runs.",
        fix="Ask for less, or raise the quota.",
        check=each_pod(over_quota),
    ),
)
