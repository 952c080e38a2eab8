"""What settings and objects say of the cluster's Volcano: which release it is, and who allocates its cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version, version_of_image
from hami_plugins.vet.resources import Subject
from hami_plugins.vet.settings import VetSettings
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import items, mapping, text

SCHEDULER: Final = "vc-scheduler"
"""The image of Volcano's scheduler."""

BINDING: Final = "pods/binding"
"""What the webhook that allocates cards is asked about."""

_ADMISSION: Final = "admissionregistration.k8s.io"
_OURS: Final = "volcano-vgpu"
_NEURON: Final = "neuron.hami-plugins.io"


class Installed(NamedTuple):
    """The release of Volcano's scheduler, ``None`` where it is unknown, and the component that allocates cards.

    ``neuron`` is whether our server allocates Neuron devices.
    """

    release: Version | None = None
    assigner: DeviceAssigner = DeviceAssigner.VOLCANO
    neuron: bool = False


NOTHING_KNOWN: Final = Installed()


def installed(subjects: Iterable[Subject], settings: VetSettings) -> Installed:
    """What is set; else what the objects show: the image of the scheduler, the webhook or the policy on bindings."""
    known = tuple(subjects)
    release, assigner = settings.release, settings.assigner
    if release is None:
        release = next((found for each in known for found in _releases(each)), None)
    if assigner is None:
        assigner = next((found for each in known if (found := assigner_of(each)) is not None), DeviceAssigner.VOLCANO)
    return Installed(release, assigner, any(_has_webhook(each, _NEURON) for each in known))


def _releases(subject: Subject) -> Iterator[Version]:
    for pod in subject.pods:
        for container in pod.containers:
            if container.image.partition("@")[0].rpartition("/")[2].partition(":")[0] == SCHEDULER:
                found = version_of_image(container.image)
                if found is not None:
                    yield found


def assigner_of(subject: Subject) -> DeviceAssigner | None:
    """Which component an object shows to assign cards. The webhook is the same in both modes; the lesser one counts."""
    if subject.group != _ADMISSION:
        return None
    if _has_webhook(subject, _OURS):
        return DeviceAssigner.WEBHOOK
    if subject.kind == "MutatingAdmissionPolicy" and _OURS in subject.name:
        return (
            DeviceAssigner.POLICY
            if _about_bindings(subject.inside("spec", "matchConstraints"), "resourceRules")
            else None
        )
    return None


def _has_webhook(subject: Subject, name: str) -> bool:
    """Whether an object sends Bindings to a webhook of that name."""
    if (subject.group, subject.kind) != (_ADMISSION, "MutatingWebhookConfiguration"):
        return False
    hooks = _members(subject.document.raw, "webhooks")
    ours = (hook for hook in hooks if name in f"{subject.name} {text(hook.get('name'))}")
    return any(_about_bindings(hook, "rules") for hook in ours)


def _about_bindings(holder: Json, key: str) -> bool:
    return any(
        BINDING in resources for rule in _members(holder, key) if isinstance(resources := rule.get("resources"), list)
    )


def _members(holder: Json, key: str) -> list[Json]:
    return [mapping(each) for each in items(holder.get(key))]
