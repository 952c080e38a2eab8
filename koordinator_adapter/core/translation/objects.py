"""Groups, queues and jobs: objects that are not pods, and say how pods are placed.

Source: Volcano 1.14.1 ``staging/src/volcano.sh/apis/pkg/apis/batch/v1alpha1/job.go`` and
``scheduling/v1beta1/types.go``; Koordinator 1.7.0 ``apis/extension/coscheduling.go`` and
``apis/extension/elastic_quota.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hami_plugins.engine.koordinator import FULL
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.units import MEBIBYTE
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import documents, fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, RATIO, SHARED, WHOLE_CARDS, current
from koordinator_adapter.core.translation.model import TranslationFinding, lost, refused
from koordinator_adapter.core.translation.vocabulary import GANG_PREFIX, KNOWN, QUOTA_PREFIX

VOLCANO_GROUP: Final = "scheduling.volcano.sh/v1beta1"
KOORDINATOR_GROUP: Final = "scheduling.sigs.k8s.io/v1alpha1"
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/v1alpha1"
GROUPS: Final[Mapping[Dialect, str]] = {
    Dialect.VOLCANO: VOLCANO_GROUP,
    Dialect.KOORDINATOR: KOORDINATOR_GROUP,
    Dialect.HAMI: COSCHEDULING_GROUP,
}
"""Who reads which PodGroup."""

_NAMES: Final[Mapping[Dialect, tuple[str, ...]]] = {
    Dialect.HAMI: (
        nvidia.RESOURCES.count,
        nvidia.RESOURCES.memory,
        nvidia.RESOURCES.memory_percentage,
        nvidia.RESOURCES.cores,
    ),
    Dialect.VOLCANO: (
        volcano.RESOURCES.count,
        volcano.RESOURCES.memory,
        volcano.RESOURCES.memory_percentage,
        volcano.RESOURCES.cores,
    ),
    Dialect.KOORDINATOR: (SHARED, MEMORY, RATIO, CORE),
}
"""Cards, memory, percent of memory and cores, in sums."""

_MEMORY: Final = 1
_ONLY_VOLCANOS: Final = {
    "minTaskMember": "the minima of tasks",
    "networkTopology": "nearness in the network",
    "subGroupPolicy": "parts of the gang",
    "priorityClassName": "the priority of the gang (that of its pods counts)",
}


class Turned(NamedTuple):
    """What becomes of an object: it, or nothing where it is refused."""

    raw: Json | None
    findings: tuple[TranslationFinding, ...] = ()


def source_of(raw: Json) -> Dialect | None:
    """Whose a PodGroup, a Queue or an ElasticQuota is; ``None`` for every other object."""
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if kind == "PodGroup":
        return next((words for words, each in GROUPS.items() if each == version), None)
    if kind == "Queue" and version == VOLCANO_GROUP:
        return Dialect.VOLCANO
    return Dialect.KOORDINATOR if kind == "ElasticQuota" and version == KOORDINATOR_GROUP else None


def turned(raw: Json, target: Dialect, *, namespace: str) -> Turned | None:
    """The object in other words, ``None`` for one that stays. ``namespace`` is where quotas go."""
    source = source_of(raw)
    if source is None or source is target:
        return None
    turn: Callable[[Json, Dialect, Dialect, str], Turned] = _group
    if raw["kind"] == "Queue":
        turn = _queue
    elif raw["kind"] == "ElasticQuota":
        turn = _quota
    try:
        return turn(raw, source, target, namespace)
    except WireError as error:
        return Turned(None, (refused(error.key, error.why, "correct it"),))


def sums(amounts: Json, source: Dialect, target: Dialect, place: str) -> dict[str, object]:
    """A resource list that sums up pods, in other names and units; other resources stay.

    Percentages of whole cards and cards by their vendors' names become cards, if the pod gives no number of cards.
    """
    becomes = dict(zip(_NAMES[source], _NAMES[target], strict=True))
    found: dict[str, object] = {}
    for written, value in amounts.items():
        name = current(written) if source is Dialect.KOORDINATOR else written
        count = _cards_by(name) if source is Dialect.KOORDINATOR else 0
        if name not in becomes and not count:
            found[written] = value
            continue
        amount = quantity.parse(value, key=f"{place}[{written}]")
        if count:
            found.setdefault(_NAMES[target][0], str(-(-amount.ceiling // count)))
            continue
        in_bytes = name == _NAMES[source][_MEMORY]
        found[becomes[name]] = _memory(amount, source, target) if in_bytes else str(amount)
    return found


def unsaid(amounts: Json, place: str) -> Iterator[TranslationFinding]:
    """What a limit of Koordinator's says that a limit of others does not; raises ``WireError``."""
    for written, value in amounts.items():
        name, amount = current(written), quantity.parse(value, key=f"{place}[{written}]")
        if _cards_by(name):
            yield lost(written, f"{value} counts cards now, rounded up, and parts of cards no more")
        elif name == MEMORY and amount.ceiling % MEBIBYTE:
            yield lost(written, f"{value} is not a whole number of MiB and is rounded up")
        elif name in KNOWN and name not in _NAMES[Dialect.KOORDINATOR]:
            yield lost(written, f"{value} limits nothing: no pod asks for it under its name in other words")


def _cards_by(name: str) -> int:
    """How much of a resource is one card, 0 for what counts no cards."""
    return FULL if name == GPU else 1 if name in WHOLE_CARDS else 0


def _memory(amount: Quantity, source: Dialect, target: Dialect) -> str:
    """An amount of memory; only Koordinator counts it in bytes."""
    whole = amount.ceiling
    if (source is Dialect.KOORDINATOR) is (target is Dialect.KOORDINATOR):
        return str(amount)
    if target is Dialect.KOORDINATOR:
        return quantity.canonical(whole * MEBIBYTE * NANO, binary=True)
    return str(-(-whole // MEBIBYTE))


def _group(raw: Json, source: Dialect, target: Dialect, _namespace: str) -> Turned:
    place = f"podgroup {_name(raw)}:"
    spec = dict(fields.member(raw, "spec", place))
    metadata = dict(fields.member(raw, "metadata", place))
    findings: list[TranslationFinding] = []
    if "minResources" in spec:
        inside = f"{place} spec.minResources"
        spec["minResources"] = sums(fields.member(spec, "minResources", f"{place} spec"), source, target, inside)
    if source is Dialect.VOLCANO:
        for name in [name for name in spec if name in _ONLY_VOLCANOS]:
            del spec[name]
            findings.append(lost(f"PodGroup {name}", f"{_ONLY_VOLCANOS[name]} are not kept"))
        queue = spec.pop("queue", None)
        if queue is not None:
            words = f"pods say themselves what they count in: give them the label {QUOTA_PREFIX}name: {queue}"
            findings.append(lost("PodGroup queue", words))
    elif "scheduleTimeoutSeconds" in spec and target is Dialect.VOLCANO:
        findings.append(
            lost(
                "scheduleTimeoutSeconds",
                f"Volcano waits for a gang without end, not {spec.pop('scheduleTimeoutSeconds')} s",
            )
        )
    annotations = fields.text_map(metadata, "annotations", f"{place} metadata")
    gone = [key for key in annotations if key.startswith(GANG_PREFIX)]
    if gone:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key not in gone}
        findings += [lost(key, f"{annotations[key]}: no other scheduler reads it") for key in gone]
    if target is Dialect.HAMI:
        findings.append(lost("PodGroup", "counts only where HAMi's scheduler runs the coscheduling plugin"))
    return Turned({**raw, "apiVersion": GROUPS[target], "metadata": metadata, "spec": spec}, tuple(findings))


def _queue(raw: Json, source: Dialect, target: Dialect, namespace: str) -> Turned:
    """A queue has no namespace and shares by weight, a quota has one and shares by minimum and maximum."""
    if target is Dialect.HAMI:
        return Turned(None, (refused("Queue", "HAMi has no queues", "use a ResourceQuota for each namespace"),))
    place = f"queue {_name(raw)}:"
    spec = fields.member(raw, "spec", place)
    guarantee = fields.member(fields.member(spec, "guarantee", f"{place} spec"), "resource", f"{place} spec.guarantee")
    least = guarantee or fields.member(spec, "deserved", f"{place} spec")
    most = fields.member(spec, "capability", f"{place} spec")
    findings = [
        lost(
            "Queue",
            "Volcano counts what each card of a pod asks for, Koordinator the sums of pods: a limit on memory or cores "
            "of pods with several cards lets fewer of them in",
        )
    ]
    labels = {QUOTA_PREFIX + "is-parent": "false"}
    if parent := fields.text(spec, "parent", f"{place} spec"):
        labels[QUOTA_PREFIX + "parent"] = parent
    metadata: dict[str, Any] = {"name": _name(raw), "namespace": namespace, "labels": labels}
    if weight := fields.number(spec, "weight", f"{place} spec"):
        shares = {name: str(weight) for name in sums(most, source, target, f"{place} spec.capability")}
        metadata["annotations"] = {QUOTA_PREFIX + "shared-weight": documents.dump(shares)}
        findings.append(lost("Queue weight", f"the weight {weight} counts among quotas of one parent only"))
    findings += [
        lost(f"Queue {name}", f"{documents.dump(spec[name])} has no equal")
        for name in ("reclaimable", "priority", "dequeueStrategy", "affinity", "type", "extendClusters")
        if name in spec
    ]
    return Turned(
        {
            "apiVersion": KOORDINATOR_GROUP,
            "kind": "ElasticQuota",
            "metadata": metadata,
            "spec": {
                "min": sums(least, source, target, f"{place} spec.guarantee"),
                "max": sums(most, source, target, f"{place} spec.capability"),
            },
        },
        tuple(findings),
    )


def _quota(raw: Json, source: Dialect, target: Dialect, _namespace: str) -> Turned:
    if target is Dialect.HAMI:
        return Turned(None, (refused("ElasticQuota", "HAMi has no quotas of its own", "use a ResourceQuota"),))
    place = f"elasticquota {_name(raw)}:"
    spec = fields.member(raw, "spec", place)
    least, most = (fields.member(spec, name, f"{place} spec") for name in ("min", "max"))
    labels = fields.text_map(fields.member(raw, "metadata", place), "labels", f"{place} metadata")
    body: dict[str, Any] = {"reclaimable": True}
    if most:
        body["capability"] = sums(most, source, target, f"{place} spec.max")
    if least:
        body["guarantee"] = {"resource": sums(least, source, target, f"{place} spec.min")}
    if parent := labels.get(QUOTA_PREFIX + "parent"):
        body["parent"] = parent
    words = "a queue has no namespace, counts what each card of a pod asks for, and shares by weight"
    return Turned(
        {"apiVersion": VOLCANO_GROUP, "kind": "Queue", "metadata": {"name": _name(raw)}, "spec": body},
        (lost("ElasticQuota", words), *unsaid({**least, **most}, f"{place} spec")),
    )


def _name(raw: Json) -> str:
    return fields.text(fields.member(raw, "metadata", "object ?:"), "name", "object ?: metadata")
