"""What settings and objects say of the cluster's Volcano: which release it is, and who allocates its cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hami_plugins.allocations.manifests import webhooks
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import awsneuron, volcano
from hami_plugins.vendors.volcano_releases import (
    UNCHOSEN_DEVICES,
    DeviceAssigner,
    Version,
    if_known,
    version_of_image,
)
from hami_plugins.vet.resources import Subject
from hami_plugins.vet.settings import VetSettings
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import items, mapping, text

SCHEDULER: Final = "vc-scheduler"
"""The image of Volcano's scheduler."""

BINDING: Final = "pods/binding"
"""The operations for which the API server calls the webhook that allocates cards."""

_ADMISSION: Final = "admissionregistration.k8s.io"


class Installed(NamedTuple):
    """The release of Volcano's scheduler, ``None`` where it is not a known one, and the component that allocates cards.

    ``neuron`` is whether the allocator serves Neuron devices.
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
    neuron = settings.assigner is not None and not UNCHOSEN_DEVICES.holds(release, settings.assigner)
    return Installed(release, assigner, neuron or any(_serves(each, awsneuron.SPEC) for each in known))


def _releases(subject: Subject) -> Iterator[Version]:
    for pod in subject.pods:
        for container in pod.containers:
            if container.image.partition("@")[0].rpartition("/")[2].partition(":")[0] == SCHEDULER:
                found = if_known(version_of_image(container.image))
                if found is not None:
                    yield found


def assigner_of(subject: Subject) -> DeviceAssigner | None:
    """Which component an object shows to assign cards. The webhook is the same in both modes; the lesser one counts."""
    if _serves(subject, volcano.SPEC):
        return DeviceAssigner.WEBHOOK
    return DeviceAssigner.POLICY if _strips_allocations(subject) else None


def _serves(subject: Subject, spec: VendorSpec) -> bool:
    """Whether an object sends Bindings to the allocator, and to it the pods that ask for a vendor's devices.

    The names of the webhooks and the pods' condition are the allocator's, whatever the object is called.
    """
    if (subject.group, subject.kind) != (_ADMISSION, "MutatingWebhookConfiguration"):
        return False
    hooks = _members(subject.document.raw, "webhooks")
    ours = [hook for hook in hooks if text(hook.get("name")).endswith(f".{webhooks.DOMAIN}")]
    asked = f"'{spec.resources.count}'"
    return any(_about_bindings(hook, "rules") for hook in ours) and any(
        asked in text(condition.get("expression")) for hook in ours for condition in _members(hook, "matchConditions")
    )


def _strips_allocations(subject: Subject) -> bool:
    """Whether an object is a policy that takes Volcano's allocations off Bindings, whatever it is called."""
    if (subject.group, subject.kind) != (_ADMISSION, "MutatingAdmissionPolicy"):
        return False
    changes = _members(subject.inside("spec"), "mutations")
    return _about_bindings(subject.inside("spec", "matchConstraints"), "resourceRules") and any(
        f"'{volcano.SPEC.keys.to_allocate}'" in text(mapping(each.get("jsonPatch")).get("expression"))
        for each in changes
    )


def _about_bindings(holder: Json, key: str) -> bool:
    return any(
        BINDING in resources for rule in _members(holder, key) if isinstance(resources := rule.get("resources"), list)
    )


def _members(holder: Json, key: str) -> list[Json]:
    return [mapping(each) for each in items(holder.get(key))]
