"""What makes several Volcano Jobs: HyperJob (``training.volcano.sh``) and JobFlow (``flow.volcano.sh``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Final

import orjson

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import at_once, pods
from hami_plugins.inputs.workloads.builtin_kinds import volcano_run
from hami_plugins.inputs.workloads.pods import MAX_PODS
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, UnresolvedReferenceError


def _hyper_job(it: SubmittedObject) -> Iterator[Run]:
    """Every job of ``spec.replicatedJobs`` (``templateSpec``, ``replicas``), each a gang of its own.

    ``minAvailable`` counts jobs, not pods, and the jobs may go to other clusters (volcano-global
    ``training.volcano.sh/v1alpha1`` ``HyperJobSpec``).
    """
    listed = it.spec.items("replicatedJobs")
    jobs = pods.gangs(it.spec, sum(each.count("replicas", 1, most=MAX_PODS) for each in listed))
    least = it.spec.count("minAvailable", jobs)
    notes = ["a HyperJob may send its jobs to several clusters; planned on this one alone"]
    if least < jobs:
        notes.append(f"{least:,} of its {jobs:,} jobs are enough for it to run (minAvailable); planned with all")
    total = 0
    for each in listed:
        for at in range(each.count("replicas", 1, most=MAX_PODS)):
            name = f"{it.name}-{each.text('name')}-{at}"
            run = volcano_run(each.needed("templateSpec"), _of_new_job(it.field), it.namespace, name)
            total = pods.product(each, total + len(run.pods))
            yield run._replace(notes=tuple(notes))


def _job_flow(it: SubmittedObject) -> Iterator[Run]:
    """The jobs of a flow (``spec.flows``: JobTemplates by ``name``, ``dependsOn.targets``) that run at once.

    A flow waits for its targets to end, unless a probe lets it start earlier. Jobs of one shape count as often as they
    run concurrently; the job of a template is called ``FLOW-TEMPLATE``.
    """
    flows = {each.text("name"): each for each in it.spec.items("flows")}
    found = {name: _template_of(it, name, each) for name, each in flows.items()}
    shapes: dict[str, Hashable] = {name: _shape(spec) for name, (spec, _) in found.items()}
    needs = {name: _targets(each, flows) for name, each in flows.items()}
    parts: dict[str, at_once.Moments] = {name: [Counter({shapes[name]: 1})] for name in flows}
    left = at_once.largest(at_once.by_dependencies(parts, needs))
    most = max((sum(each.values()) for each in at_once.by_dependencies(parts, needs)), default=0)
    notes = [f"at most {most:,} of its {len(flows):,} jobs run at once"] if most < len(flows) else []
    if any(each.has("patch") for each in flows.values()):
        notes.append("patches of its flows are not applied")
    for name, (spec, metadata) in found.items():
        if left[shapes[name]] > 0:
            left[shapes[name]] -= 1
            run = volcano_run(spec, metadata, it.namespace, f"{it.name}-{name}")
            yield run._replace(notes=tuple(notes))


def _template_of(it: SubmittedObject, name: str, flow: Field) -> tuple[Field, Field]:
    template = it.others.find("flow.volcano.sh", "JobTemplate", it.namespace, name)
    if template is None:
        place = f"spec.flows[{flow.path[-1]}].name"
        raise UnresolvedReferenceError(f"{place}: JobTemplate {name} is not among these manifests; add it with -f")
    return template.needed("spec"), _of_new_job(template)


def _of_new_job(owner: Field) -> Field:
    """The metadata that a job gets from its owner, whose UID is not its own."""
    metadata = owner.inner("metadata")
    kept = {key: value for key, value in metadata.members.items() if key != "uid"}
    return Field(metadata.document, metadata.path, kept)


def _targets(flow: Field, flows: Mapping[str, Field]) -> list[str]:
    """The flows that have to end first; with a probe they only have to be as far as that says."""
    depends = flow.inner("dependsOn")
    listed = depends.members.get("targets")
    targets = [str(each) for each in listed] if isinstance(listed, list) else []
    for each in targets:
        if each not in flows:
            raise depends.fault(f"no flow {each[:80]!r} in this JobFlow", "targets")
    return [] if depends.has("probe") else targets


def _shape(spec: Field) -> Hashable:
    return orjson.dumps(spec.members, option=orjson.OPT_SORT_KEYS)


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("training.volcano.sh", "HyperJob"): _hyper_job,
    ("flow.volcano.sh", "JobFlow"): _job_flow,
}
