"""HP75x: claims of Dynamic Resource Allocation, what they refer to, and the slices and classes that answer for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.engine.claims.pools import PoolIndex
from hami_plugins.engine.claims.rules import KUBERNETES_1_36, MOST_DEVICES
from hami_plugins.engine.claims.selectors import NotEvaluatedError, SelectorError, compiled
from hami_plugins.engine.claims.usage import together
from hami_plugins.errors import WireError
from hami_plugins.inputs import typos
from hami_plugins.inputs.claim_objects import ClaimObjects
from hami_plugins.inputs.manifests import Path
from hami_plugins.model.claims import DynamicResources
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.vet.context import Context, each_pod
from hami_plugins.vet.findings import RenameFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import PodView, Subject
from hami_plugins.wire import quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import inside, items, mapping, mappings, text, whole
from hami_plugins.wire.resource_slices import GROUP

CLAIM: Final = (GROUP, "ResourceClaim")
TEMPLATE: Final = (GROUP, "ResourceClaimTemplate")
CLASS: Final = (GROUP, "DeviceClass")
SLICE: Final = (GROUP, "ResourceSlice")

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_INT: Final = "deviceClassName"


def known_resources(subjects: Iterable[Subject], snapshot: ClusterSnapshot | None) -> DynamicResources:
    """Claims, classes and slices of the cluster and of the manifests, whose objects win."""
    found = ClaimObjects()
    for subject in subjects:
        metadata = {**subject.inside("metadata"), "name": subject.name, "namespace": subject.namespace}
        try:
            found.takes(subject.kind, {**subject.document.raw, "metadata": metadata})
        except WireError:
            continue  # another rule says so
    own = found.finish()
    return own if snapshot is None else together(snapshot.dynamic, own)


def lost_claim(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods whose claims refer to nothing, and containers that use a claim which their pod has not."""
    if pod.pod is None or not (pod.pod.claims or any(each.claims for each in pod.pod.containers)):
        return
    dynamic, namespace = context.dynamic, pod.pod.namespace
    for at, claim in enumerate(pod.pod.claims):
        named, kind, known = claim.claim, "ResourceClaim", [*dynamic.claims]
        if not named:
            named, kind, known = claim.template, "ResourceClaimTemplate", [*dynamic.templates]
        sure = context.snapshot is not None and not dynamic.empty and not dynamic.unread.get(kind)
        if sure and named and f"{namespace}/{named}" not in known:
            near = [each.partition("/")[2] for each in known if each.startswith(f"{namespace}/")]
            yield Violation(
                pod.of("spec", "resourceClaims", at),
                f"claim {claim.name} refers to the {kind} {namespace}/{named}, which is neither in the cluster nor "
                "among the manifests",
                f"create it, or name another; {typos.instead(named, near)}",
            )
    names = {claim.name for claim in pod.pod.claims}
    for view, container in zip(pod.containers, pod.pod.containers, strict=True):
        for at, used in enumerate(container.claims):
            if used.name not in names:
                yield Violation(
                    (*view.path, "resources", "claims", at),
                    f"container {container.name} uses the claim {used.name}, which the pod does not list",
                    f"add it to spec.resourceClaims; {typos.instead(used.name, names)}",
                )


def lost_class(subject: Subject, context: Context) -> Iterator[Violation]:
    """Requests of a DeviceClass that does not exist."""
    known = context.dynamic.classes
    if context.snapshot is None or context.dynamic.empty or context.dynamic.unread.get("DeviceClass"):
        return
    for path, choice in _choices(subject):
        name = text(choice.get(_INT))
        if name and name not in known:
            yield Violation(
                (*path, _INT),
                f"there is no DeviceClass {name}, so no pod with this claim is placed",
                typos.instead(name, known),
            )


def broken_selector(subject: Subject, _: Context) -> Iterator[Violation]:
    """Selectors that do not compile, and those that plans cannot evaluate."""
    holders = list(_choices(subject))
    if (subject.group, subject.kind) == CLASS:
        holders.append((("spec",), subject.inside("spec")))
    for path, holder in holders:
        for at, selector in enumerate(mappings(holder.get("selectors"))):
            expression = text(inside(selector, "cel").get("expression"))
            place = (*path, "selectors", at, "cel", "expression")
            try:
                compiled(expression or "true")
            except SelectorError as error:
                yield Violation(place, f"the CEL expression {error}", "correct it; the API server refuses it")
            except NotEvaluatedError as error:
                yield Violation(
                    place,
                    f"plans do not evaluate this CEL expression: {error}; a pod with it is unknown",
                    "nothing is wrong with it; write it with ==, in and quantities if plans are to decide it",
                    severity=VetSeverity.NOTE,
                )


def key_with_domain(subject: Subject, context: Context) -> Iterator[Violation]:
    """Capacities requested by a name that no slice has, and which without the domain one has."""
    published = {name for each in context.dynamic.slices for device in each.devices for name in device.capacity}
    for path, name, _ in _requested(subject):
        domain, slash, key = name.rpartition("/")
        if slash and name not in published and (key in published or not published):
            certain = "slices call it" if key in published else "slices may call it"
            yield Violation(
                (*path, name),
                f"the capacity {name} is compared letter by letter, and {certain} {key}, without the domain {domain}",
                f"write {key}, exactly as the driver publishes it",
                RenameFix((*path, name), key),
                severity=VetSeverity.ERROR if key in published else None,
            )


def negative_amount(subject: Subject, _: Context) -> Iterator[Violation]:
    """Requested capacities of nothing or less."""
    for path, name, amount in _requested(subject):
        if amount is not None and amount <= 0:
            yield Violation(
                (*path, name),
                f"{quantity.canonical(amount)} of {name}: up to Kubernetes 1.36 an amount below 0 gives back what "
                "others have, where the driver sets no least amount",
                "ask for what the container needs",
            )


def too_many_devices(subject: Subject, _: Context) -> Iterator[Violation]:
    """Counts beyond what one claim can be given."""
    for path, choice in _choices(subject):
        count = whole(choice.get("count"))
        if count is not None and count > MOST_DEVICES:
            yield Violation(
                (*path, "count"),
                f"{count} devices are asked for, and one claim has at most {MOST_DEVICES}: the API server takes it, "
                "and kube-scheduler never places the pod",
                "divide them among several claims",
            )


def open_capacity(subject: Subject, _: Context) -> Iterator[Violation]:
    """Shared capacities without a least amount: tenants can book less than nothing."""
    if (subject.group, subject.kind) != SLICE:
        return
    for path, device in _devices(subject):
        if device.get("allowMultipleAllocations") is not True:
            continue
        for name, capacity in mapping(device.get("capacity")).items():
            policy = inside(capacity, "requestPolicy")
            least = inside(policy, "validRange").get("min")
            if least is None and not items(policy.get("validValues")):
                yield Violation(
                    (*path, "capacity", name),
                    f"device {text(device.get('name'))} is shared and its capacity {name} has no least amount, so that "
                    "up to Kubernetes 1.36 a request below 0 books what others have",
                    "let the driver publish requestPolicy.validRange.min",
                )


def odd_pool(subject: Subject, context: Context) -> Iterator[Violation]:
    """Slices of an older generation, pools with missing slices, and pools that are invalid."""
    if (subject.group, subject.kind) != SLICE:
        return
    dynamic = context.dynamic
    own = next((each for each in dynamic.slices if each.name == subject.name), None)
    if own is None:
        return
    together_with = [each for each in dynamic.slices if each.pool == own.pool]
    newest = max(each.generation for each in together_with)
    published = sum(each.generation == newest for each in together_with)
    place = ("spec", "pool")
    if own.generation < newest:
        yield Violation(
            (*place, "generation"),
            f"pool {own.pool} is at generation {newest}; this slice of generation {own.generation} does not count",
            "let the driver delete it, or publish all slices of the pool anew",
        )
    elif published != own.slices:
        yield Violation(
            (*place, "resourceSliceCount"),
            f"pool {own.pool} has {published} of {own.slices} slices of generation {newest}; from Kubernetes 1.35 on "
            "nothing is given out of it before they are there",
            "see what keeps the driver from publishing the others",
        )
    else:
        for wrong in PoolIndex(together_with, KUBERNETES_1_36).wrong(own.pool):
            yield Violation(
                place,
                f"pool {own.pool} is invalid: {wrong}; no device of it is given out",
                "correct what the driver publishes",
            )
    for path, device in _devices(subject):
        name = text(device.get("name"))
        if _LABEL.fullmatch(name) is None:
            yield Violation(
                (*path, "name"),
                f"the device name {name[:80]!r} is no DNS label; the API server refuses the slice",
                "use lower case letters, digits and -, and put a UUID into an attribute",
            )


def plugin_hides_class(subject: Subject, context: Context) -> Iterator[Violation]:
    """Nodes with a device plugin and slices for one plain resource."""
    if (subject.group, subject.kind) != ("", "Node"):
        return
    dynamic = context.dynamic
    sliced = any(each.nodes.node == subject.name and each.devices for each in dynamic.slices)
    for resource, amount in mapping(subject.inside("status").get("allocatable")).items():
        of_class = dynamic.stands_for.get(resource)
        if sliced and of_class is not None and str(amount) != "0":
            yield Violation(
                ("status", "allocatable", resource),
                f"a device plugin offers {amount} of {resource}, for which the DeviceClass {of_class} stands, and the "
                "node has ResourceSlices: the plugin's number counts for pods that request it, and claims may give "
                "out the same devices",
                "remove the device plugin or the DRA driver from the node",
            )


def _choices(subject: Subject) -> Iterator[tuple[Path, Json]]:
    """The places of a claim or a template that ask for devices of a class."""
    kind = (subject.group, subject.kind)
    if kind not in {CLAIM, TEMPLATE}:
        return
    steps = ("spec", "devices") if kind == CLAIM else ("spec", "spec", "devices")
    for at, request in enumerate(items(subject.inside(*steps).get("requests"))):
        path: Path = (*steps, "requests", at)
        body = mapping(request)
        listed = items(body.get("firstAvailable"))
        if "exactly" in body:
            yield (*path, "exactly"), inside(body, "exactly")
        elif listed:
            yield from (((*path, "firstAvailable", each), mapping(choice)) for each, choice in enumerate(listed))
        else:
            yield path, body


def _requested(subject: Subject) -> Iterator[tuple[Path, str, int | None]]:
    """The capacities that a claim or a template asks for, and how much (nano units)."""
    for path, choice in _choices(subject):
        for name, amount in inside(choice, "capacity", "requests").items():
            try:
                found: int | None = quantity.parse(amount, key=str(name)).nano
            except WireError:
                found = None
            yield (*path, "capacity", "requests"), str(name), found


def _devices(subject: Subject) -> Iterator[tuple[Path, Mapping[str, object]]]:
    for at, device in enumerate(items(subject.inside("spec").get("devices"))):
        body = mapping(device)
        path: Path = ("spec", "devices", at)
        yield (path, body) if "basic" not in body else (path, {**inside(body, "basic"), "name": body.get("name")})


RULES: Final = (
    VetRule(
        id="HP751",
        name="lost-claim",
        severity=VetSeverity.ERROR,
        summary="A pod refers to a claim or a template that does not exist.",
        why="kube-scheduler waits for the claim, without an event that a user would see; a container that "
        "uses an unknown claim is refused by the API server.",
        fix="Create the claim, or correct the name.",
        check=each_pod(lost_claim),
    ),
    VetRule(
        id="HP752",
        name="missing-device-class",
        severity=VetSeverity.ERROR,
        summary="A request names a DeviceClass that does not exist.",
        why="No pod with the claim is placed: the scheduler says `device class ... does not exist`.",
        fix="Install the driver that brings the class, or correct the name.",
        check=lost_class,
    ),
    VetRule(
        id="HP753",
        name="broken-selector",
        severity=VetSeverity.ERROR,
        summary="A CEL expression does not compile.",
        why="The API server refuses the object; in an older cluster the scheduler stops at it and places no "
        "pod with it.",
        fix="Correct the expression.",
        check=broken_selector,
    ),
    VetRule(
        id="HP754",
        name="capacity-key-with-domain",
        severity=VetSeverity.WARNING,
        summary="A capacity is requested by its name with the domain.",
        why="Names are compared letter by letter: a slice that says `memory` never meets a request of "
        "`driver.example.com/memory`.",
        fix="Write the name exactly as the driver publishes it.",
        check=key_with_domain,
    ),
    VetRule(
        id="HP755",
        name="negative-capacity",
        severity=VetSeverity.ERROR,
        summary="A requested capacity is 0 or less.",
        why="Up to Kubernetes 1.36 the amount is added as it is, so that the device is given out beyond what it has.",
        fix="Ask for what the container needs.",
        check=negative_amount,
    ),
    VetRule(
        id="HP756",
        name="too-many-devices",
        severity=VetSeverity.ERROR,
        summary="A request counts more devices than a claim can have.",
        why="The API server takes it, and the scheduler stops at it.",
        fix="Divide them among several claims.",
        check=too_many_devices,
    ),
    VetRule(
        id="HP757",
        name="open-capacity",
        severity=VetSeverity.WARNING,
        summary="A shared capacity has no least amount.",
        why="Without `requestPolicy.validRange.min` a tenant can request a negative amount and then have more "
        "than the device has.",
        fix="Let the driver publish a policy with a least amount.",
        check=open_capacity,
    ),
    VetRule(
        id="HP758",
        name="odd-pool",
        severity=VetSeverity.WARNING,
        summary="A pool of devices has slices of two generations, too few slices, or contradicts itself.",
        why="Only the newest generation counts, and from 1.35 on only once all its slices are published; an "
        "invalid pool gives nothing out.",
        fix="Look at the driver that publishes the pool.",
        check=odd_pool,
    ),
    VetRule(
        id="HP759",
        name="plugin-hides-class",
        severity=VetSeverity.WARNING,
        summary="A node has a device plugin and ResourceSlices for one plain resource.",
        why="The plugin's number counts and the slices are ignored for that name, while claims may still give "
        "out the same devices: neither counts what the other gives away.",
        fix="Keep one of the two on the node.",
        check=plugin_hides_class,
    ),
)
