"""One Volcano Job (``batch.volcano.sh/v1alpha1``), as submitted, to one that a cluster with Neuron nodes can place.

TorchX writes devices as limits alone, so that Volcano's enqueue admission, queues and topology see none of them; it
requests names that no plugin advertises and more cores than a node can allocate; and it sets nothing for gangs,
failures and the network. The same function serves the command line and admission, and patching twice changes nothing
more.

Source: TorchX 0.7.0 ``torchx/schedulers/kubernetes_scheduler.py``, ``trials.md`` V11 and V13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from neuron_topology.core import capacity_block_end
from neuron_topology.core.capacity_block_end import DURATION_KEY
from neuron_topology.core.hypernodes import tiers
from neuron_topology.core.jobs import served, templates, ultraservers
from neuron_topology.core.jobs.demands import DemandRemark
from neuron_topology.core.jobs.node_capacity import HostCapacity
from neuron_topology.core.jobs.templates import PatchedTemplate, TemplateChange

API_GROUP: Final = "batch.volcano.sh/"
KIND: Final = "Job"

ENDINGS: Final = ("PodFailed", "PodEvicted")
"""After either of these the other members of a gang wait for the lost one without end."""

_ANY: Final = "*"
"""In a policy: every event."""

DEFAULT_RESTARTS: Final = 3
"""What Volcano's webhook makes of none, and of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """Decisions that the job leaves open: values that it has already stay.

    ``tier`` is the widest part of the network that the gang may span, by its tier's name (empty: unset), unless a
    container names one (``NEURON_NETWORK_TIER``); more is refused (``mode`` hard) or avoided (soft). ``restarts`` is
    how often the whole job starts again after a pod was lost; with 0 it ends instead. ``duration`` is how long it runs,
    as ``ending`` reads it (empty: unset). ``node_order`` are the nodes of the cluster by their place in the network,
    ``known`` the tiers that its nodes' labels make, ``applied`` those that have HyperNodes, ``kept`` the members of
    ``networkTopology`` that it keeps (``None``: not asked), ``rooms`` the most that its nodes of each instance type
    leave for pods besides the daemons.
    """

    tier: str = tiers.ZONE.name
    mode: str = "hard"
    restarts: int | None = None
    duration: str = ""
    node_order: tuple[str, ...] = ()
    known: frozenset[str] | None = None
    applied: frozenset[str] | None = None
    kept: frozenset[str] | None = None
    rooms: Mapping[str, HostCapacity] = field(default_factory=dict)


class Patched(NamedTuple):
    """The job, what was done to it, and what is left to its author; nothing where nothing asks for Neuron."""

    job: Json
    changes: tuple[TemplateChange, ...] = ()
    remarks: tuple[DemandRemark, ...] = ()


def is_job(raw: Json) -> bool:
    """Whether an object is a Volcano Job."""
    return str(raw.get("apiVersion", "")).startswith(API_GROUP) and raw.get("kind") == KIND


def patch(job: Json, defaults: JobDefaults = JobDefaults(), *, place: str = "job:") -> Patched:
    """The job as it should be; the one that was given is left alone.

    Raises ``WireError``, its key beginning with ``place``, for a job that is not shaped like one, for requests that no
    node can ever meet, and for a duration that is none.
    """
    spec: Json = fields.member(job, "spec", place)
    where = fields.path(place, "spec")
    found = _templates(spec, defaults, where)
    if not any(each.asks for each in found):
        return Patched(job)
    job, lasting = _lasting(job, defaults, place)
    spec = {**spec, "tasks": [_with(task, each) for task, each in zip(spec["tasks"], found, strict=True)]}
    changes = [change for each in found for change in each.changes]
    for rule in _RULES:
        spec, done = rule(spec, defaults, where)
        changes += done
    changes += lasting
    job = {**job, "spec": spec} if changes else job
    remarks = [remark for each in found for remark in each.remarks]
    remarks += _dropped(job["spec"], defaults, where)
    if defaults.known is not None:
        remarks += unbounded(job, defaults.known, defaults.applied, place=place)
    return Patched(job, tuple(changes), tuple(remarks))


def unbounded(
    job: Json, known: frozenset[str], applied: frozenset[str] | None = None, *, place: str = "job:"
) -> Iterator[DemandRemark]:
    """A remark on a tier that no HyperNode is of: Volcano places such a gang anywhere, without a word.

    ``known`` are the tiers that the labels of the cluster's nodes make, ``applied`` those that HyperNodes are of
    (``None``: not asked). Raises ``WireError`` as ``patch`` does.
    """
    spec, where = fields.member(job, "spec", place), fields.path(place, "spec")
    topology = fields.member(spec, "networkTopology", where)
    tier = fields.text(topology, served.TIER_NAME, f"{where}.networkTopology")
    if tier and applied is not None and tier in known - applied:
        what = f"no HyperNode is of tier {tier}: Volcano ignores the limit; run hami-plugins neuron hypernodes apply"
        yield DemandRemark(f"{where}.networkTopology.highestTierName", what)
    if tier and tier not in known | (applied or frozenset()):
        there = ", ".join(name for name in tiers.BY_NAME if name in known) or "none"
        what = f"the nodes' labels make no HyperNode of tier {tier}, and Volcano ignores one without; tiers: {there}"
        yield DemandRemark(f"{where}.networkTopology.highestTierName", what)


def _lasting(job: Json, defaults: JobDefaults, place: str) -> tuple[Json, list[TemplateChange]]:
    """How long it runs: what cannot be read would keep the job off no machine that goes before it ends."""
    where = fields.path(place, "metadata")
    metadata = fields.member(job, "metadata", place)
    written = fields.text_map(metadata, "annotations", where)
    key = f"{where}.annotations[{DURATION_KEY}]"
    changes = []
    if defaults.duration and DURATION_KEY not in written:
        written = {**written, DURATION_KEY: defaults.duration}
        changes = [TemplateChange(key, f"{defaults.duration}, so that it starts on no machine that ends earlier")]
        job = {**job, "metadata": {**metadata, "annotations": written}}
    if wrong := capacity_block_end.wrong(written):
        raise WireError(key, written[DURATION_KEY], wrong)
    return job, changes


def _templates(spec: Json, defaults: JobDefaults, place: str) -> list[PatchedTemplate]:
    """The pods of each task as they should be."""
    found = []
    pods = _pods(spec, place)
    for at, raw in enumerate(fields.items(spec, "tasks", place)):
        where = f"{fields.path(place, 'tasks')}[{at}]"
        template = fields.member(fields.whole(raw, where), "template", where)
        inside = fields.path(where, "template")
        pod = fields.member(template, "spec", inside)
        found.append(templates.patch(pod, defaults.node_order, defaults.rooms, f"{inside}.spec", pods=pods))
    return found


def _with(task: Json, found: PatchedTemplate) -> Json:
    return {**task, "template": {**task["template"], "spec": found.spec}} if found.changes else task


def _started_together(spec: Json, _defaults: JobDefaults, place: str) -> tuple[Json, list[TemplateChange]]:
    """Without Volcano's webhook a job without a minimum is not a gang."""
    if fields.natural(spec, "minAvailable", place):
        return spec, []
    least = sum(_least(task, place) for task in spec["tasks"])
    if not least:
        return spec, []
    return {**spec, "minAvailable": least}, [
        TemplateChange(f"{place}.minAvailable", f"{least}, so that the gang starts whole")
    ]


def _least(task: Json, place: str) -> int:
    """How many pods of a task have to start, as Volcano's webhook reads it."""
    if task.get("minAvailable") is not None:
        return fields.natural(task, "minAvailable", f"{place}.tasks")
    return fields.number(task, "replicas", f"{place}.tasks", default=1)


def _ends_together(spec: Json, defaults: JobDefaults, place: str) -> tuple[Json, list[TemplateChange]]:
    """The policy for a lost member: without it the others wait for it for ever."""
    written = fields.items(spec, "policies", place)
    of_job = _events(spec, place)
    of_tasks = [_events(task, f"{fields.path(place, 'tasks')}[{at}]") for at, task in enumerate(spec["tasks"])]
    missing = [event for event in ENDINGS if not all({event, _ANY} & (of_job | each) for each in of_tasks)]
    if not missing:
        return _counted_restarts(spec, defaults, place)
    action = "TerminateJob" if defaults.restarts == 0 else "RestartJob"
    spec = {**spec, "policies": [*written, *({"event": event, "action": action} for event in missing)]}
    changes = [TemplateChange(f"{place}.policies", f"{action} on {', '.join(missing)}")]
    spec, more = _counted_restarts(spec, defaults, place)
    return spec, changes + more


def _events(holder: Json, place: str) -> frozenset[str]:
    """The events of a job's or a task's policies."""
    found: set[str] = set()
    for at, raw in enumerate(fields.items(holder, "policies", place)):
        where = f"{fields.path(place, 'policies')}[{at}]"
        policy = fields.whole(raw, where)
        found |= {fields.text(policy, "event", where), *fields.texts(policy, "events", where)}
    return frozenset(found)


def _counted_restarts(spec: Json, defaults: JobDefaults, place: str) -> tuple[Json, list[TemplateChange]]:
    """A number that is written instead of the webhook's, which makes 3 of 0."""
    written = fields.natural(spec, "maxRetry", place)
    wanted = defaults.restarts if defaults.restarts is not None else written or DEFAULT_RESTARTS
    if written == wanted or not wanted:
        return spec, []
    return {**spec, "maxRetry": wanted}, [TemplateChange(f"{place}.maxRetry", f"{wanted} instead of {written}")]


def _pods(spec: Json, place: str) -> int:
    """How many pods the job has."""
    where = f"{place}.tasks"
    tasks = (fields.whole(task, where) for task in fields.items(spec, "tasks", place))
    return sum(fields.number(task, "replicas", where, default=1) for task in tasks)


def _near(spec: Json, defaults: JobDefaults, place: str) -> tuple[Json, list[TemplateChange]]:
    """Where the gang may be. One pod is near to itself."""
    if _pods(spec, place) <= 1 or fields.member(spec, "networkTopology", place):
        return spec, []
    tier = next(filter(None, (_tier_of(task, f"{place}.tasks") for task in spec["tasks"])), "") or defaults.tier
    if not tier:
        return spec, []
    if tier not in tiers.BY_NAME:
        raise fields.wrong(f"{place}.tasks[{templates.TIER_ENV}]", tier, f"one of {', '.join(tiers.BY_NAME)}")
    limit = _limit(tier, defaults)
    if not limit:
        return spec, []
    return {**spec, "networkTopology": {"mode": defaults.mode, **limit}}, [
        TemplateChange(f"{place}.networkTopology", f"{defaults.mode}, {tier}")
    ]


def _limit(tier: str, defaults: JobDefaults) -> Json:
    """The tier as the cluster's Volcano reads it: by name, else by number where a HyperNode has it, else not at all."""
    if defaults.kept is None or served.TIER_NAME in defaults.kept:
        return {served.TIER_NAME: tier}
    if served.TIER_NUMBER in defaults.kept and tier in (defaults.applied or ()):
        return {served.TIER_NUMBER: tiers.BY_NAME[tier].number}
    return {}


def _dropped(spec: Json, defaults: JobDefaults, place: str) -> Iterator[DemandRemark]:
    """A remark on a limit that the cluster's Volcano cannot be told, or would take for another one."""
    if defaults.kept is None or served.TIER_NAME in defaults.kept:
        return
    where = f"{place}.networkTopology"
    topology = fields.member(spec, "networkTopology", place)
    if fields.text(topology, served.TIER_NAME, where):
        what = "is dropped by this cluster's Volcano (1.14 or newer keeps it), which then takes tier 1 for the limit"
        yield DemandRemark(f"{where}.{served.TIER_NAME}", what)
    elif not topology and _near(spec, replace(defaults, kept=None), place)[1]:
        what = (
            "is left out: this cluster's Volcano knows no tiers by name (1.14 or newer does), and no HyperNode has "
            "the number of that tier, so that the gang may span the whole cluster"
        )
        yield DemandRemark(where, what)


def _tier_of(task: Json, place: str) -> str:
    template = fields.member(task, "template", place)
    return templates.tier_of(fields.member(template, "spec", f"{place}.template"), f"{place}.template.spec")


_RULES: Final[tuple[Callable[[Json, JobDefaults, str], tuple[Json, list[TemplateChange]]], ...]] = (
    _started_together,
    _ends_together,
    _near,
    lambda spec, _defaults, place: ultraservers.told(spec, place),
)
