"""HP1xx: resources that no component reads as they are spelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.engine import koordinator, static_mig
from hami_plugins.inputs import old_names, typos
from hami_plugins.inputs.vocabulary import domain
from hami_plugins.vet import facts
from hami_plugins.vet.context import Context, each_container, where
from hami_plugins.vet.findings import RenameFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, ResourceEntry, Subject
from hami_plugins.wire.koordinator import COLOCATED


def misspelt(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Names near a vendor's own."""
    for amount in _strangers(container, context):
        matches = () if _known_stranger(amount.resource) else typos.closest(amount.resource, _known(context))
        if not matches:
            continue
        yield Violation(
            amount.path,
            f"{where(container, pod)}: {amount.resource}={amount.text}: no vendor has this resource",
            f"did you mean {' or '.join(matches)}?",
            RenameFix(amount.path, matches[0]) if len(matches) == 1 else None,
        )


def outdated(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Names of documents and older releases."""
    for amount in (*_strangers(container, context), *_of_older_plugins(container, context)):
        found = old_names.RESOURCES.get(amount.resource)
        if found is None:
            continue
        what = f"{where(container, pod)}: {amount.resource}={amount.text}: {found.why}"
        if found.successor:
            yield Violation(amount.path, what, f"write {found.successor}", RenameFix(amount.path, found.successor))
        else:
            yield Violation(amount.path, what, found.hint)


def unmanaged(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Names in a vendor's domain that are near nothing."""
    for amount in _strangers(container, context):
        name = amount.resource
        if name in old_names.RESOURCES or name.startswith(static_mig.PREFIX):
            continue
        owner = facts.FOREIGN_RESOURCES.get(name)
        if owner is None and (domain(name) not in context.vocabulary.domains or typos.closest(name, _known(context))):
            continue
        whose = f"belongs to {owner}" if owner else "belongs to no vendor known here"
        present = facts.PRESENT_NAMES.get(name, "")
        yield Violation(
            amount.path,
            f"{where(container, pod)}: {name}={amount.text}: {whose}; cards given out under it are not accounted for",
            f"write {present.format(amount.text)}, or keep such pods on nodes of their own"
            if present
            else "keep such pods on nodes of their own, or use the names that `hami-plugins vendors` lists",
        )


def static_partition(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Partitions that were cut by hand."""
    for amount in _strangers(container, context):
        if amount.resource.startswith(static_mig.PREFIX):
            yield Violation(
                amount.path,
                f"{where(container, pod)}: {amount.resource}={amount.text}: instances that exist already, which "
                "NVIDIA's device plugin offers and HAMi does not manage",
                "for partitions cut on demand ask for nvidia.com/gpu and nvidia.com/gpumem, with the annotation "
                'nvidia.com/vgpu-mode: "mig"',
            )


def unknown_profile(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
    """Profiles of MIG that no card has, and no node of the cluster offers."""
    for amount in _strangers(container, context):
        profile = static_mig.profile_of(amount.resource)
        offered = context.snapshot is not None and static_mig.is_offered(context.snapshot, amount.resource)
        if not profile or static_mig.has_card(profile) or offered:
            continue
        formed = static_mig.is_profile(profile)
        yield Violation(
            amount.path,
            f"{where(container, pod)}: {amount.resource}={amount.text}: "
            + (
                f"no NVIDIA card known here has the MIG profile {profile}"
                if formed
                else f"{profile!r} is no MIG profile"
            ),
            f"write one of the profiles ({static_mig.listed()})",
            severity=VetSeverity.WARNING if formed else None,
        )


def as_metadata(subject: Subject, context: Context) -> Iterator[Violation]:
    """Resources written as annotations or labels, where nothing reads them."""
    for path, words in _metadata(subject):
        for key, value in words.items():
            if context.registry.owner_of(key) is None:
                continue
            yield Violation(
                (*path, key),
                f"{path[-1]} {key}={value}: this is a resource, and nothing reads it there",
                "move it to resources.limits of the container that uses the card",
            )


def _metadata(subject: Subject) -> Iterator[tuple[tuple[str | int, ...], dict[str, str]]]:
    for key, words in (("annotations", subject.annotations), ("labels", subject.labels)):
        yield ("metadata", key), dict(words)
    for pod in subject.pods:
        if pod.path:
            for key, words in (("annotations", pod.annotations), ("labels", pod.labels)):
                yield pod.of("metadata", key), dict(words)


def _strangers(container: ContainerView, context: Context) -> Iterator[ResourceEntry]:
    """Every resource of a known domain that no vendor has; the limit where there is one.

    What Koordinator's scheduler takes besides cards (network cards, an NPU's CPUs, reclaimed CPUs and memory) is known
    without being a vendor's.
    """
    for resource, amount in container.amounts.items():
        unknown = context.registry.owner_of(resource) is None and resource not in koordinator.BITS
        if "/" in resource and unknown and not resource.startswith(COLOCATED):
            yield amount


def _of_older_plugins(container: ContainerView, context: Context) -> Iterator[ResourceEntry]:
    """Every resource under a name that a vendor still reads, and that no node of the cluster offers."""
    for resource, amount in container.amounts.items():
        owner = context.registry.owner_of(resource)
        if owner is None or resource not in owner.resources.older:
            continue
        nodes = () if context.snapshot is None else context.snapshot.nodes
        if not any(entry.facts.allocatable.get(resource) for entry in nodes):
            yield amount


def _known_stranger(name: str) -> bool:
    return name in old_names.RESOURCES or name in facts.FOREIGN_RESOURCES or name.startswith(static_mig.PREFIX)


def _known(context: Context) -> Iterator[str]:
    return iter(context.vocabulary.resources)


RULES: Final = (
    VetRule(
        id="HP101",
        name="misspelt-resource",
        severity=VetSeverity.ERROR,
        summary="A resource is spelled almost like one of a vendor, but not quite.",
        why="The webhook does not recognise the container, so it gets no card, or a whole one without any accounting.",
        fix="Write the name as the vendor spells it; `hami-plugins vendors` lists all names.",
        check=each_container(misspelt),
    ),
    VetRule(
        id="HP102",
        name="outdated-resource",
        severity=VetSeverity.ERROR,
        summary="A resource has a name of older releases or documents.",
        why="Nothing reads it any more: where the number of cards is still spelled right, the pod gets whole cards.",
        fix="Write the present name.",
        check=each_container(outdated),
    ),
    VetRule(
        id="HP103",
        name="unmanaged-resource",
        severity=VetSeverity.NOTE,
        summary="A resource in a vendor's domain belongs to another device plugin.",
        why="Cards that it hands out are not accounted for: the scheduler may also allocate slices of them.",
        fix="Keep the two kinds of pods on different nodes, or use the vendor's shared resources.",
        check=each_container(unmanaged),
    ),
    VetRule(
        id="HP104",
        name="static-partition",
        severity=VetSeverity.NOTE,
        summary="A pod asks for MIG instances that NVIDIA's device plugin offers.",
        why="HAMi neither makes nor counts them; kube-scheduler counts what each node offers.",
        fix="Ask for cards and memory with the annotation nvidia.com/vgpu-mode: mig to have one cut on demand.",
        check=each_container(static_partition),
    ),
    VetRule(
        id="HP105",
        name="resource-as-metadata",
        severity=VetSeverity.ERROR,
        summary="A resource is written as an annotation or a label.",
        why="It is ignored there: with a count in the limits the pod gets whole cards instead of the slice it names.",
        fix="Move it to resources.limits.",
        check=as_metadata,
    ),
    VetRule(
        id="HP106",
        name="unknown-mig-profile",
        severity=VetSeverity.ERROR,
        summary="A pod asks for a MIG profile that no card has.",
        why="No node ever offers the resource, so the pod stays pending. A well-formed name that is not in the list "
        "may be of a newer card: that is a warning.",
        fix="Write a profile of the cluster's cards, as `kubectl get nodes` shows them under nvidia.com/mig-*.",
        check=each_container(unknown_profile),
    ),
)
