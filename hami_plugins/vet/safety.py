"""HP60x: pods that undo isolation, or claim devices that no scheduler allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.engine.annotate import NODE_KEY
from hami_plugins.inputs.excerpts import excerpt
from hami_plugins.inputs.vocabulary import speaks
from hami_plugins.model.dialect import Dialect
from hami_plugins.plan import mps, virtual_machines
from hami_plugins.vet.context import Context, each_container, each_pod, where
from hami_plugins.vet.findings import VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView
from hami_plugins.wire import koordinator_hints, slice_variables


def privileged(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Privileged containers in pods with devices."""
    if not container.privileged:
        return
    asked = context.asked_by(pod)
    if not asked:
        return
    by_hami = any(spec.dialect is Dialect.HAMI for spec in asked)
    what = "HAMi's webhook refuses the pod" if by_hami else "the container sees every card of the node"
    yield Violation(
        (*container.path, "securityContext", "privileged"),
        f"{where(container, pod)} is privileged in a pod that asks for {asked[0].title}: {what}",
        "drop privileged; device agents give the container what it needs",
        severity=None if by_hami else VetSeverity.WARNING,
    )


def forged(pod: PodView, context: Context) -> Iterator[Violation]:
    """Records of schedulers and agents in submissions."""
    if pod.placed:
        return
    for key in pod.annotations:
        if key in context.vocabulary.written:
            said = f"annotation {key}={excerpt(pod.annotations[key])} is a record of the scheduler or the node agent"
            if _is_overwritten(key, pod, context):
                what, severity = "Koordinator's scheduler ignores it and writes its own", VetSeverity.NOTE
            else:
                what, severity = "in a manifest it claims devices that no scheduler assigned", None
            yield Violation(pod.annotation(key), f"{said}; {what}", "drop it", severity=severity)
    if NODE_KEY in pod.labels:
        yield Violation(
            pod.of("metadata", "labels", NODE_KEY),
            f"label {NODE_KEY}={pod.labels[NODE_KEY]} is a record of the scheduler",
            "drop it",
        )


def _is_overwritten(key: str, pod: PodView, context: Context) -> bool:
    """Whether Koordinator's scheduler places the pod and replaces the record (Koordinator 1.7.0
    ``pkg/scheduler/plugins/deviceshare/plugin.go`` and ``device_cache.go``).

    It believes the record of a pod that has a node, and of one whose scheduling hint designates cards.
    """
    mine = speaks(Dialect.KOORDINATOR, context.asked_by(pod))
    if key not in {spec.keys.allocated for spec in mine} or pod.node:
        return False
    return not any(koordinator_hints.designates(pod.annotations.get(hint, "")) for hint in koordinator_hints.HINT_KEYS)


def isolation(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Variables that show other cards, or lift limits."""
    for name, (value, path) in container.env.items():
        if what := slice_variables.override(name, value, limited=bool(context.asked_of(container))):
            said = f"{where(container, pod)}: variable {name}={value} {what}"
            yield Violation(path, said, "drop it and ask by resources.limits")


def virtual_machine(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods with devices whose containers run in a virtual machine."""
    why = virtual_machines.why_unreachable((pod.pod and pod.pod.runtime_class) or "")
    if why and context.asked_by(pod):
        yield Violation(pod.of("spec", "runtimeClassName"), why, virtual_machines.REMEDY)


def shares_by_mps(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods that accept cards which others share with them through MPS."""
    for spec in context.in_hami_words(pod):
        words = (
            {word.strip() for word in pod.annotations.get(spec.keys.mode, "").split(",")} if spec.keys.mode else set()
        )
        if mps.MODE in words:
            yield Violation(
                pod.annotation(spec.keys.mode),
                f"annotation {spec.keys.mode}={excerpt(pod.annotations[spec.keys.mode])}: {mps.NOT_ISOLATED}",
                mps.REMEDY,
            )


RULES: Final = (
    VetRule(
        id="HP601",
        name="privileged-container",
        severity=VetSeverity.ERROR,
        summary="A container is privileged in a pod that asks for devices.",
        why="It would see every card of its node, so HAMi's webhook refuses the pod.",
        fix="Drop privileged.",
        check=each_container(privileged),
    ),
    VetRule(
        id="HP602",
        name="forged-allocation",
        severity=VetSeverity.ERROR,
        summary="A manifest carries annotations that record an allocation.",
        why="They record which cards a pod holds. Any other writer takes cards from other pods, past every quota.",
        fix="Drop them.",
        check=each_pod(forged),
    ),
    VetRule(
        id="HP603",
        name="isolation-bypassed",
        severity=VetSeverity.WARNING,
        summary="A variable shows a container other cards, or lifts its limits.",
        why="Node agents set these variables to the allocated slice; the manifest's value wins over them.",
        fix="Drop the variable.",
        check=each_container(isolation),
    ),
    VetRule(
        id="HP604",
        name="virtual-machine",
        severity=VetSeverity.ERROR,
        summary="A pod that asks for devices runs in a virtual machine.",
        why="Devices are mounted into containers. Virtual machines such as those of Kata Containers do not get them.",
        fix="Take a RuntimeClass that runs containers on the node's own kernel.",
        check=each_pod(virtual_machine),
    ),
    VetRule(
        id="HP605",
        name="mps-isolation",
        severity=VetSeverity.NOTE,
        summary="A pod accepts cards that are shared through MPS.",
        why="A fatal fault of one container ends all that share the card, none is protected from the others' use of "
        "memory bandwidth and cache, and limits hold for each process, not for the container.",
        fix="Take mode mig for workloads that must not disturb each other.",
        check=each_pod(shares_by_mps),
    ),
)
