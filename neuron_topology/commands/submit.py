"""The work of ``neuron submit``: ask TorchX for the job, patch it, hold it against the cluster, and create it.

With ``--precompile`` there are two jobs, which differ in their command alone, so that the second is held against the
cluster for both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from hami_plugins import vet
from hami_plugins.cli import prices
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.config.settings import Settings
from hami_plugins.engine.apply import removed
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.inputs.snapshots.trimmer import one_by_one
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.port import WEBHOOKS
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.output import costs, tables
from hami_plugins.plan import Planner, submission
from hami_plugins.plan import costs as plan_costs
from hami_plugins.vet import cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects
from hami_plugins.vet.findings import VetSeverity
from hami_plugins.wire.fields import Json
from neuron_topology.commands import hypernodes, resume, submit_claims
from neuron_topology.commands.options import ObjectForm, SubmitOptions
from neuron_topology.commands.resume import JobName
from neuron_topology.core.hypernodes import generator, objects, reader
from neuron_topology.core.jobs import chain, compile_cache, messages, names, patch
from neuron_topology.core.jobs.leftover import Leftover
from neuron_topology.core.jobs.node_capacity import HostCapacity
from neuron_topology.core.jobs.patch import JobDefaults, Patched
from neuron_topology.server import job_definition
from neuron_topology.torchx import driver

COMPONENT: Final = "neuron-submit"
_NO_SUCH_KIND: Final = 404


def run(order: SubmitOptions) -> int:
    """Submit the job, or print it; one that its cluster could never run is not submitted, and the exit code is 1."""
    # A mistake in the rest is reported before the cluster or TorchX is called.
    options = {**order.scheduler_options, "queue": order.queue, "namespace": order.within}
    runs, defaults = order.runs, order.job.read()
    component = order.component or driver.COMPONENT
    requested = [driver.requested(component, each, options, workspace=order.workspace) for each in runs]
    cluster = _client(order) if order.checked and order.live else None
    view = _seen(order, cluster) if order.checked else None
    if view is not None:
        defaults = replace(defaults, rooms=view.rooms)
    if cluster is not None:
        defaults = replace(defaults, applied=_applied(cluster), kept=job_definition.read(cluster))
    patched = [_patched(order, each.job, defaults) for each in requested]
    for sentence in messages.sentences((*patched[-1].changes, *patched[-1].remarks)):
        output.remark(sentence)
    jobs = [each.job for each in patched]
    if order.precompile:
        jobs = _chained(*jobs)
    able = view is None or _is_able(order, jobs[-1], view, defaults.applied, cluster)
    if order.dry_run:
        _print(jobs, order.form)
        return Exit.FINE if able else Exit.FINDINGS
    if not (able or order.force):
        output.remark("not submitted; --force submits it anyway")
        return Exit.FINDINGS
    driver.push({image: place for each in requested for image, place in each.images.items()})
    ended = _create(order, cluster or _client(order), jobs[0])
    return ended if able else Exit.FINDINGS


def _chained(precompiling: Json, training: Json) -> list[Json]:
    """Both jobs, the second kept by the first. Raises ``ConfigError`` where it would find no compiled graphs."""
    if why := compile_cache.lost(precompiling, training):
        raise ConfigError(f"--precompile: {why}")
    return [chain.keeping(precompiling, training), training]


def _print(jobs: Sequence[Json], form: ObjectForm) -> None:
    if form is ObjectForm.JSON:
        several = {"apiVersion": "v1", "kind": "List", "items": jobs}
        output.document(jobs[0] if len(jobs) == 1 else several, Form.JSON)
    else:
        sys.stdout.write("---\n".join(map(output.as_yaml, jobs)))


def _applied(cluster: KubeClient) -> frozenset[str] | None:
    """The tiers that the cluster has HyperNodes of; ``None`` where they may not be listed."""
    try:
        raws = [raw for page in cluster.pages(replace(hypernodes.HYPERNODES, optional=False)) for raw in page]
    except KubeError as error:
        if error.status == _NO_SUCH_KIND:
            return frozenset()
        output.remark(f"HyperNodes are not looked at: {error}")
        return None
    return objects.tiers_of(reader.read(raws).found)


def _patched(order: SubmitOptions, requested: Json, defaults: JobDefaults) -> Patched:
    """TorchX' job as it should be, and what was done to it."""
    metadata = requested["metadata"]
    job = {**requested, "metadata": {**metadata, "namespace": order.within}}
    found = patch.patch(job, defaults, place=f"job {metadata['name']}:")
    if long := next(names.too_long(found.job), ""):
        raise ConfigError(f"a pod would be called {long}: more than {names.LONGEST} characters; take a shorter --name")
    return found


class _View(NamedTuple):
    """What is known of the cluster, and by which settings it is judged."""

    settings: Settings
    registry: Registry
    snapshot: ClusterSnapshot
    kept: tuple[Document, ...]
    rooms: Mapping[str, HostCapacity]


def _seen(order: SubmitOptions, cluster: KubeClient | None) -> _View:
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    kept: list[Document] = []
    left = Leftover()

    def also(raw: object, place: str) -> None:
        kept.extend(cluster_objects.of(raw, place))
        for each in one_by_one(raw):
            left.take(each)

    snapshot = inputs.cluster(order.source, registry, also=also)
    for page in () if cluster is None else cluster.pages(WEBHOOKS):
        for raw in page:
            also(raw, "cluster")
    return _View(settings, registry, snapshot, tuple(kept), left.rooms())


def _is_able(
    order: SubmitOptions, job: Json, view: _View, applied: frozenset[str] | None, cluster: KubeClient | None
) -> bool:
    """Whether the cluster, once it is idle, can run the job; why not, or who is in the way now, goes to stderr."""
    snapshot, rules = view.snapshot, view.settings.rules()
    documents = manifests.read(output.as_yaml(job), source="torchx")
    _queue(order.queue, snapshot)
    vetting = vet.VetSettings(rules=rules, namespace=order.within, assigner=view.settings.volcano.assigner)
    found = vet.vet(documents, view.registry, vetting, ClusterObjects(snapshot, view.kept))
    for finding in found:
        if finding.file == "torchx":
            output.remark(finding.message)
    machines = reader.read(each.raw for each in view.kept).machines
    for remark in patch.unbounded(job, generator.tiers_of(machines), applied, place=f"job {job['metadata']['name']}:"):
        output.remark(str(remark))
    mounts = True
    if cluster is not None:
        mounts, snapshot = submit_claims.judged(
            job, snapshot, lambda used: submit_claims.read(cluster, order.within, used)
        )
    planner = Planner(view.registry, rules, now=time.time())
    idle = replace(removed(snapshot, lambda _: True), pending=(), pod_groups={})
    fits = partial(_fits, documents, order.within, planner, prices.table_of(order.prices))
    if not fits(idle, "even an idle cluster cannot run it"):
        return False
    fits(snapshot, "it has to wait")
    return mounts and not any(finding.severity is VetSeverity.ERROR and finding.file == "torchx" for finding in found)


def _queue(name: str, snapshot: ClusterSnapshot) -> None:
    """Volcano takes a job for a queue that is not there, and makes no pods of it, without a word."""
    queue = snapshot.queues.get(name)
    if queue is None and (snapshot.queues or name != DEFAULT_QUEUE):
        raise ConfigError(f"queue {name} does not exist; there are {', '.join(sorted(snapshot.queues)) or 'none'}")
    if queue is not None and not queue.open:
        raise ConfigError(f"queue {name} is not open; open it, or submit to another one")


def _fits(  # noqa: PLR0913, PLR0917 - the job, who plans it by which prices, where, and what to say
    documents: Iterable[Document],
    namespace: str,
    planner: Planner,
    table: PriceTable | None,
    snapshot: ClusterSnapshot,
    otherwise: str,
) -> bool:
    """Whether it fits, or would after a node pool has got more nodes, which an autoscaler adds for jobs that wait."""
    submitted = workloads.read(documents, namespace=namespace, pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, submitted)
    found = planner.plan(snapshot, submission.units(submitted, snapshot), now_ns=time.time_ns())
    answers = Answers(found, planner, prices=table)
    if not found.complete:
        output.remark(otherwise)
        for refusal in answers.refusals():
            for line in tables.refusal(refusal):
                output.remark(line.words)
    elif table is not None:
        output.remark(costs.words(plan_costs.of_pods(found, table), "the job", table))
    return answers.grows


def _client(order: SubmitOptions) -> KubeClient:
    return connect(kubeconfig=order.kubeconfig, context=order.context, component=COMPONENT)


def _create(order: SubmitOptions, client: KubeClient, job: Json) -> int:
    """Create the job, and print its name as TorchX' other commands take it; then, if it keeps another, that one."""
    first = JobName(order.within, job["metadata"]["name"])
    client.create(first.collection, job)
    output.line(first.handle)
    if not order.precompile:
        return Exit.FINE
    if order.no_wait:
        output.remark(f"the training job is created by: hami-plugins neuron resume {first}")
        return Exit.FINE
    return resume.run(client, first)
