"""The claims that a job's pods mount, held against the cluster's objects before the job is created.

Kubernetes creates such a job without a word, and its pods wait: for a claim that is not there, for a volume that only
one node can mount, or for a node in the volume's zone.

Source: Kubernetes ``pkg/apis/core/types.go``; mount.lustre(8) for ``flock``, ``localflock`` and ``noflock``; Mountpoint
for Amazon S3, its page of file system semantics: neither locks nor renaming.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.model.pods import Requirement
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json
from neuron_topology.core.jobs import compile_cache

LUSTRE: Final = "fsx.csi.aws.com"
BUCKET: Final = "s3.csi.aws.com"
_MANY: Final = "ReadWriteMany"
_MANY_READ: Final = "ReadOnlyMany"
_OFFERS: Final = "FSx for Lustre and EFS have volumes for many nodes"

NodeTerms = tuple[tuple[Requirement, ...], ...]
"""Nodes as an OR of ANDs."""


class ClaimUse(NamedTuple):
    """A claim, how many pods mount it, whether any of them may write, and whether it has the compile cache."""

    claim: str
    pods: int
    writes: bool
    cache: bool = False


class ClaimFinding(NamedTuple):
    """What is wrong with a claim, and whether the job's pods could not start or not work with it."""

    text: str
    blocks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageObjects:
    """The claims of one namespace, and the volumes and storage classes that they name, each by its name."""

    namespace: str
    claims: Mapping[str, Json] = field(default_factory=dict)
    volumes: Mapping[str, Json] = field(default_factory=dict)
    classes: Mapping[str, Json] = field(default_factory=dict)


def uses(job: Json) -> tuple[ClaimUse, ...]:
    """The claims that a job mounts, by name."""
    mounting: Counter[str] = Counter()
    writing = set()
    for task in lenient.mappings(lenient.inside(job, "spec").get("tasks")):
        pod = lenient.inside(task, "template", "spec")
        replicas = lenient.whole(task.get("replicas"))
        for claim in set(compile_cache.claims_of(pod).values()):
            mounting[claim] += 1 if replicas is None else replicas
        writing |= set(_written(pod))
    cached = {each.claim for each in compile_cache.caches(job)}
    return tuple(ClaimUse(claim, count, claim in writing, claim in cached) for claim, count in sorted(mounting.items()))


def _written(pod: Mapping[str, object]) -> Iterator[str]:
    claims = compile_cache.claims_of(pod)
    for volume in lenient.mappings(pod.get("volumes")):
        if lenient.inside(volume, "persistentVolumeClaim").get("readOnly"):
            claims.pop(lenient.text(volume.get("name")), None)
    for container in lenient.mappings(pod.get("containers")):
        for mount in lenient.mappings(container.get("volumeMounts")):
            if not mount.get("readOnly") and (claim := claims.get(lenient.text(mount.get("name")))):
                yield claim


def findings(use: ClaimUse, found: StorageObjects) -> Iterator[ClaimFinding]:
    """What keeps the pods from mounting the claim, or the compilers from sharing it."""
    where = f"claim {found.namespace}/{use.claim}"
    claim = found.claims.get(use.claim)
    if claim is None:
        there = ", ".join(sorted(found.claims)) or "none"
        yield ClaimFinding(f"{where} does not exist; create it, or name one of those in the namespace: {there}")
        return
    if lenient.inside(claim, "metadata").get("deletionTimestamp"):
        yield ClaimFinding(f"{where}: metadata.deletionTimestamp is set: it is being deleted; name another claim")
    if unbound := _unbound(claim, found):
        yield ClaimFinding(f"{where}: {unbound}")
    if narrow := _narrow(use, claim):
        yield ClaimFinding(f"{where}: {narrow}")
    if use.cache:
        yield from _unlocked(where, claim, found)


def _unbound(claim: Json, found: StorageObjects) -> str:
    """Why no volume is bound to a claim, and none will be once its pods are there; empty where one is or will be."""
    phase = lenient.text(lenient.inside(claim, "status").get("phase")) or "Pending"
    name = lenient.text(lenient.inside(claim, "spec").get("storageClassName"))
    if phase == "Bound":
        return ""
    if phase == "Lost":
        return "status.phase is Lost: its volume is gone; create the volume again, or name another claim"
    if not name:
        return "status.phase is Pending and it has no storage class: create a volume for it, or set storageClassName"
    storage = found.classes.get(name)
    if storage is None:
        return f"spec.storageClassName {name} does not exist; create that class, or name another claim"
    if storage.get("volumeBindingMode") == "WaitForFirstConsumer":
        return ""
    return (
        f"status.phase is Pending, and storage class {name} binds at once: wait until it is Bound "
        "(kubectl describe pvc says what its provisioner is doing)"
    )


def _narrow(use: ClaimUse, claim: Json) -> str:
    """Why the pods, which are on several nodes, cannot all mount the claim."""
    written = lenient.inside(claim, "status").get("accessModes") or lenient.inside(claim, "spec").get("accessModes")
    modes = {lenient.text(each) for each in lenient.items(written)}
    if not modes or _MANY in modes or (not use.writes and _MANY_READ in modes):
        return ""
    shown = ", ".join(sorted(modes))
    if use.writes and modes == {_MANY_READ}:
        return f"accessModes is {shown}, and pods write to it; name a claim with {_MANY}, or mount it readonly"
    if use.pods <= 1:
        return ""
    return f"accessModes is {shown}, and {use.pods} pods mount it; name a claim with {_MANY} ({_OFFERS})"


def _unlocked(where: str, claim: Json, found: StorageObjects) -> Iterator[ClaimFinding]:
    """Compilers on several nodes lock the entries of a cache; what a file system makes of that is an option of it."""
    for place, source, driver in _sources(claim, found):
        if driver == BUCKET:
            what = "a mounted bucket has no locks and no renaming, which a compile cache needs"
            yield ClaimFinding(f"{where}: {place} is of {driver}: {what}; name a claim of FSx for Lustre or EFS")
        if driver == LUSTRE:
            options = [part for each in lenient.items(source.get("mountOptions")) for part in str(each).split(",")]
            key = f"{where}: {place}: mountOptions"
            for wrong in ("noflock", "localflock"):
                if wrong in options:
                    yield ClaimFinding(f"{key} has {wrong}: nodes do not see each other's locks; write flock instead")
            if not {"flock", "noflock", "localflock"} & set(options):
                what = "has no flock, without which some Lustre clients refuse the compiler's locks; add it"
                yield ClaimFinding(f"{key} {what}", blocks=False)


def _sources(claim: Json, found: StorageObjects) -> Iterator[tuple[str, Json, str]]:
    """The source of the mounted claim: its volume, or the class that will create one; with the driver."""
    spec = lenient.inside(claim, "spec")
    if volume := found.volumes.get(name := lenient.text(spec.get("volumeName"))):
        inside = lenient.inside(volume, "spec")
        yield f"volume {name}", dict(inside), lenient.text(lenient.inside(inside, "csi").get("driver"))
    elif storage := found.classes.get(name := lenient.text(spec.get("storageClassName"))):
        yield f"storage class {name}", storage, lenient.text(storage.get("provisioner"))


def reach(use: ClaimUse, found: StorageObjects) -> tuple[str, NodeTerms] | None:
    """Where the rule is on which nodes can mount a claim, and those nodes; ``None``: all can.

    Raises ``WireError`` for a rule that cannot be read.
    """
    claim = lenient.inside(found.claims.get(use.claim, {}), "spec")
    if volume := found.volumes.get(name := lenient.text(claim.get("volumeName"))):
        required = lenient.inside(volume, "spec", "nodeAffinity").get("required")
        place = f"volume {name}: spec.nodeAffinity.required"
        return None if required is None else (place, pods.node_terms(lenient.mapping(required), place))
    storage = found.classes.get(name := lenient.text(claim.get("storageClassName")), {})
    topologies = lenient.mappings(storage.get("allowedTopologies"))
    return (f"storage class {name}: allowedTopologies", tuple(map(_topology, topologies))) if topologies else None


def _topology(term: Mapping[str, object]) -> tuple[Requirement, ...]:
    found = []
    for each in lenient.mappings(term.get("matchLabelExpressions")):
        values = tuple(map(lenient.text, lenient.items(each.get("values"))))
        found.append(Requirement(lenient.text(each.get("key")), "In", values, on_field=False))
    return tuple(found)


def shown(terms: NodeTerms) -> str:
    """Nodes in words: ``topology.kubernetes.io/zone In us-west-2a``."""
    return " or ".join(
        " and ".join(" ".join(filter(None, (each.key, each.operator, ", ".join(each.values)))) for each in term)
        for term in terms
    )
