"""Answers as JSON-able documents, which ``schema`` describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from hami_plugins.explain import Explanation, PendingExplanation, RunningExplanation, flaws, growth, preemption
from hami_plugins.explain.answers import PodAnswer
from hami_plugins.explain.enqueue import holder_words
from hami_plugins.explain.messages import choice_words
from hami_plugins.inputs.workloads import Submission
from hami_plugins.model.decisions import Placed
from hami_plugins.output import claimed, explanations
from hami_plugins.output.schema import API_VERSION
from hami_plugins.plan import Plan, PodPlan, Stage
from hami_plugins.plan.claimed import held_devices, planned_devices
from hami_plugins.plan.slices import PlannedSlice, planned_slices
from hami_plugins.queueing.queues import shown
from hami_plugins.wire.usage import ContainerUsage, encode_container

if TYPE_CHECKING:
    from hami_plugins.engine.mutate import PodAdmission
    from hami_plugins.engine.registry import Registry
    from hami_plugins.explain.answers import Answers, CountedReason
    from hami_plugins.explain.drawings import Drawing
    from hami_plugins.explain.growth import PoolGrowth
    from hami_plugins.inputs.fleets.catalog import ShippedFleet, ShippedShape
    from hami_plugins.inputs.workloads import Ignored
    from hami_plugins.model.dialect import Dialect
    from hami_plugins.model.nodes import Problem
    from hami_plugins.model.pods import ResourceList
    from hami_plugins.model.units import NodeName
    from hami_plugins.output import cost_schema, schema
    from hami_plugins.plan.completeness import Gap
    from hami_plugins.plan.preemption import PlanEvictions
    from hami_plugins.queueing.queues import QueueShortage


def plan(
    content: Plan,
    answers: Answers,
    *,
    submitted: Submission | None = None,
    dialect: Dialect | None = None,
    cost: cost_schema.CostDocument | None = None,
) -> schema.PlanDocument:
    """A whole plan, in the order in which its pods were decided.

    With ``dialect`` only the scheduler of that dialect writes annotations; otherwise each pod's own does.
    """
    made = streamed_plan(content, answers, submitted=submitted, dialect=dialect, cost=cost)
    return cast("schema.PlanDocument", {**made, "pods": list(cast("Iterator[schema.PodDocument]", made["pods"]))})


def streamed_plan(
    content: Plan,
    answers: Answers,
    *,
    submitted: Submission | None = None,
    dialect: Dialect | None = None,
    cost: cost_schema.CostDocument | None = None,
) -> Mapping[str, object]:
    """The same, with the pods as an iterator: a plan may have very many."""
    submitted = submitted or Submission()
    listing = content.before.listing
    placed = sum(1 for each in content.pods if each.stage is Stage.PLACED)
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "summary": {
            "pods": content.size,
            "placed": placed,
            "refused": content.size - placed,
            "nodes": len(content.before.nodes),
            "workloads": submitted.objects,
            "skipped": len(submitted.skipped),
            "afterEviction": sum(1 for each in content.pods if each.by_eviction is not None),
            "evictions": sum(len(each.victims) for each in content.evictions),
        },
        "pods": (pod(each, dialect=dialect) for each in answers.all),
        "evictions": [_evictions(each, content) for each in content.evictions],
        "ignored": [_ignored(each) for each in submitted.ignored],
        "problems": problems(content.before.problems),
        "warnings": warnings(content.gaps),
        "cost": cost,
        "listed": {} if listing is None else dict(sorted(listing.kinds.items())),
    }


def pod(answer: PodAnswer, *, dialect: Dialect | None = None) -> schema.PodDocument:
    """One pod of a plan."""
    content = answer.plan
    found = content.pod
    placed = content.decision if isinstance(content.decision, Placed) else None
    writes = dialect in {None, content.intake.dialect}
    return {
        "namespace": found.namespace,
        "name": found.name,
        "replicas": content.count,
        "workload": content.unit,
        "dialect": content.intake.dialect.value,
        "scheduler": found.scheduler,
        "admission": _admission(content.intake.admission),
        "stage": content.stage.value,
        "verdict": "refused" if placed is None else "placed",
        "node": None if placed is None else placed.node,
        "score": None if placed is None else placed.fit.score,
        "candidates": 0 if placed is None else placed.candidates,
        "choice": "" if placed is None else answer.why,
        "containers": _containers(content),
        "claims": [claimed.document(each) for each in planned_devices(content)],
        "reason": answer.why if placed is None else "",
        "hamiReason": content.words,
        "reasons": [_reason(each) for each in answer.causes],
        "gate": _gate(answer),
        "counterfactuals": [
            {"changes": list(each.changes), "words": each.sentence, "node": each.node} for each in answer.ways_out
        ],
        "growth": [_growth(each) for each in answer.growth],
        "annotations": dict(sorted(content.annotations.items())) if writes else {},
        "labels": dict(sorted(content.labels.items())) if writes else {},
        "notes": list(content.notes),
        "preemption": _preemption(answer),
    }


def explanation(
    found: Explanation, registry: Registry, usages: Iterable[ContainerUsage] = ()
) -> schema.ExplanationDocument:
    """The document about one pod; ``usages`` are the containers whose usage it includes."""
    about = found.about
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": found.pod,
        "state": "pending" if isinstance(about, PendingExplanation) else "running",
        "asksNothing": found.asks_nothing,
        "pending": pod(explanations.answer_of(about, registry)) if isinstance(about, PendingExplanation) else None,
        "running": _running(about, registry) if isinstance(about, RunningExplanation) else None,
        "usage": [encode_container(each) for each in usages],
        "eviction": None
        if found.eviction is None
        else {
            "reason": found.eviction.reason,
            "message": found.eviction.message,
            "successors": list(found.eviction.successors),
        },
        "problems": problems(found.problems),
        "warnings": warnings(found.gaps),
    }


def explanation_list(items: Iterable[schema.ExplanationDocument]) -> schema.ExplanationListDocument:
    """Several explanations."""
    return {"apiVersion": API_VERSION, "kind": "ExplanationList", "items": list(items)}


def fleet_list(shipped: Iterable[ShippedFleet], shapes: Iterable[ShippedShape]) -> schema.FleetListDocument:
    """The shipped fleets, and the shapes that fleet files can name."""
    return {
        "apiVersion": API_VERSION,
        "kind": "FleetList",
        "fleets": [{"name": each.name, "nodes": each.nodes, "devices": each.devices} for each in shipped],
        "shapes": [
            {
                "name": each.name,
                "instanceType": each.instance_type,
                "devices": each.devices,
                "vendor": each.vendor,
                "model": each.model,
                "memoryMiB": each.memory,
            }
            for each in shapes
        ],
    }


def written(content: PodPlan, dialect: Dialect) -> schema.WrittenDocument | None:
    """The part of a placed pod that the scheduler of a dialect writes; ``None`` where it writes nothing."""
    if content.stage is not Stage.PLACED or content.intake.dialect is not dialect or not content.annotations:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": content.pod.namespace,
            "name": content.pod.name,
            "annotations": dict(sorted(content.annotations.items())),
            "labels": dict(sorted(content.labels.items())),
        },
    }


def warnings(found: Iterable[Gap]) -> list[schema.WarningDocument]:
    """What the listing of a cluster lacks."""
    return [{"kind": each.kind, "message": each.message} for each in found]


def problems(found: Iterable[Problem]) -> list[schema.ProblemDocument]:
    """What could not be read."""
    return [{"place": each.place, "what": each.what} for each in found]


def _running(about: RunningExplanation, registry: Registry) -> schema.RunningDocument:
    again = about.again if isinstance(about.again, Placed) else None
    return {
        "node": about.node.name,
        "terminating": about.record.terminating,
        "slices": [_slice(each) for each in explanations.held_slices(about)],
        "claims": [claimed.document(each) for each in held_devices(about.claims, about.node.name)],
        "resize": about.record.resize,
        "flaws": [
            {
                "kind": flaw.kind.value,
                "device": flaw.device,
                "others": list(flaw.others),
                "words": flaws.flaw_words(flaw),
            }
            for flaw in about.flaws
        ],
        "again": {
            "verdict": "refused" if again is None else "placed",
            "node": None if again is None else again.node,
            "stays": about.stays,
            "choice": "" if about.choice is None else choice_words(about.choice),
            "reasons": [_reason(each) for each in explanations.causes_again(about, registry)],
        },
    }


def _reason(cause: CountedReason) -> schema.ReasonDocument:
    return {
        "nodes": cause.nodes,
        "words": cause.words,
        "examples": list(cause.examples),
        "nearest": None if cause.drawing is None else _nearest(cause.drawing),
    }


def _nearest(drawing: Drawing) -> schema.NearestDocument:
    meant = [spot for spot in drawing.spots if spot.meant]
    holders: dict[str, list[int]] = {}
    for spot in meant:
        for pod in spot.pods:
            holders.setdefault(pod, []).append(spot.index)
    return {
        "node": drawing.node,
        "devices": [spot.index for spot in meant],
        "holders": [{"pod": pod, "devices": devices} for pod, devices in holders.items()],
    }


def _growth(found: PoolGrowth) -> cost_schema.GrowthDocument:
    return {
        "pool": found.pool.name,
        "autoscaler": found.pool.autoscaler.value,
        "instanceType": found.instance_type,
        "nodes": found.nodes,
        "present": found.pool.present,
        "limit": found.limit,
        "costPerHour": None if found.cost is None else f"{found.cost:.2f}",
        "currency": None if found.cost is None or found.prices is None else found.prices.currency,
        "blocks": [{"kind": each.kind.value, "message": each.message, "remedy": each.remedy} for each in found.blocks],
        "words": growth.sentence(found),
    }


def _admission(admission: PodAdmission) -> schema.AdmissionDocument:
    names = [container.name for container in admission.pod.containers]
    ours = admission.unusable is not None
    return {
        "allowed": admission.allowed or ours,
        "code": 200 if ours else admission.code,
        "message": "" if ours else admission.message,
        "changes": [
            {
                "container": None if each.container is None else names[each.container],
                "kind": each.change.kind,
                "key": each.change.key,
                "value": each.change.value,
            }
            for each in admission.changes
        ],
    }


def _gate(answer: PodAnswer) -> schema.EnqueueDocument | None:
    hold = answer.plan.hold
    if hold is None:
        return None
    return {
        "queue": hold.queue,
        "lacks": [_lack(each) for each in hold.shortages],
        "heldBy": [
            {
                "name": each.name,
                "prospect": each.prospect.value,
                "phase": each.phase,
                "ageSeconds": each.age,
                "planned": each.planned,
                "pods": list(each.pods),
                "resource": each.resource,
                "takes": shown(each.resource, each.takes),
                "limit": shown(each.resource, each.limit),
                "words": holder_words(each),
            }
            for each in answer.holders
        ],
    }


def _lack(shortage: QueueShortage) -> schema.ShortageDocument:
    return {
        "resource": shortage.resource,
        "queue": shortage.queue or None,
        "byWeight": shortage.by_weight,
        "asked": shown(shortage.resource, shortage.asked),
        "allocated": shown(shortage.resource, shortage.allocated),
        "inqueue": shown(shortage.resource, shortage.inqueue),
        "elastic": shown(shortage.resource, shortage.elastic),
        "limit": shown(shortage.resource, shortage.limit),
    }


def _preemption(answer: PodAnswer) -> schema.PreemptionDocument | None:
    found, in_vain = answer.evictions, answer.in_vain
    if found is None and in_vain is None:
        return None
    places = () if found is None else found.places
    place = next((placed for pod, placed in places if pod.full_name == answer.plan.pod.full_name), None)
    return {
        "node": None if place is None else place.node,
        "slices": []
        if place is None
        else [_slice(each) for each in planned_slices(replace(answer.plan, by_eviction=place))],
        "victims": [] if found is None else [victim.pod.full_name for victim in found.victims],
        "ending": [] if found is None else [ending.pod.full_name for ending in found.ending],
        "spared": [
            {"pod": spared.pod.full_name, "rule": spared.rule.value, "words": spared.why, "pods": count}
            for spared, count in (() if in_vain is None else in_vain.spared)
        ],
        "exhaustive": not any(each.cut for each in (found, in_vain) if each is not None),
        "words": list(preemption.lines(found, in_vain)),
    }


def _evictions(found: PlanEvictions, content: Plan) -> schema.EvictionsDocument:
    return {
        "pods": [{"pod": pod.full_name, "node": placed.node} for pod, placed in found.places],
        "victims": [
            {
                "pod": victim.pod.full_name,
                "node": victim.node,
                "priority": victim.pod.priority,
                "rules": [{"rule": ground.rule.value, "words": ground.words} for ground in victim.grounds],
                "again": victim.again,
                "followed": victim.followed,
            }
            for victim in found.victims
        ],
        "ending": [{"pod": ending.pod.full_name, "node": ending.node} for ending in found.ending],
        "exhaustive": not found.cut,
        "after": [_node_after(content, name) for name in found.nodes],
    }


def _node_after(content: Plan, name: NodeName) -> schema.NodeAfterDocument:
    entry = content.after.nodes[content.after.position[name]]
    return {
        "node": name,
        "devices": len(entry.ids),
        "devicesUsed": sum(each.slots > 0 for each in entry.state.usage),
        "memoryMiB": entry.state.shape.total_memory,
        "memoryUsedMiB": sum(each.memory for each in entry.state.usage),
    }


def _containers(content: PodPlan) -> list[schema.ContainerDocument]:
    slices = planned_slices(content) if content.by_eviction is None else ()
    found: dict[int, list[schema.SliceDocument]] = {}
    for each in slices:
        found.setdefault(each.at, []).append(_slice(each))
    return [
        {
            "name": container.name,
            "kind": container.kind.value,
            "limits": _amounts(container.limits),
            "requests": _amounts(container.requests),
            "slices": found.get(at, []),
        }
        for at, container in enumerate(content.pod.containers)
    ]


def _slice(content: PlannedSlice) -> schema.SliceDocument:
    return {
        "id": content.device,
        "vendor": content.vendor,
        "model": content.model,
        "index": content.index,
        "memoryMiB": content.memory,
        "cores": content.cores,
        "partition": content.partition,
    }


def _amounts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def _ignored(content: Ignored) -> schema.IgnoredDocument:
    document = content.document
    return {
        "file": document.source,
        "document": document.number,
        "line": document.line,
        "kind": content.kind,
        "name": content.name,
        "why": content.why,
        "hasPods": content.has_pods,
    }
