"""The work of ``neuron submit``: ask TorchX for the job, patch it, hold it against the cluster, and create it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from hami_plugins import vet
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.engine.apply import removed
from hami_plugins.errors import ConfigError, KubeError
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.output import tables
from hami_plugins.plan import Planner, submission
from hami_plugins.vet import cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects
from hami_plugins.vet.findings import VetSeverity
from hami_plugins.wire.fields import Json
from neuron_topology.commands import hypernodes
from neuron_topology.commands.options import ObjectForm, SubmitOptions
from neuron_topology.core.hypernodes import generator, objects, reader
from neuron_topology.core.jobs import messages, names, patch
from neuron_topology.core.jobs.patch import JobDefaults
from neuron_topology.server import job_definition
from neuron_topology.torchx import driver

COMPONENT: Final = "neuron-submit"
_NO_SUCH_KIND: Final = 404


def run(order: SubmitOptions) -> int:
    """Submit the job, or print it; one that its cluster could never run is not submitted, and the exit code is 1."""
    options = {**order.scheduler_options, "queue": order.queue, "namespace": order.within}
    defaults = order.job.read()  # a slip there is told before the cluster or TorchX is asked
    cluster = _client(order) if order.checked and order.live else None
    applied = None if cluster is None else _applied(cluster)
    requested = driver.requested(
        order.component or driver.COMPONENT, tuple(order.arguments or ()), options, workspace=order.workspace
    )
    kept = None if cluster is None else job_definition.read(cluster)
    job = _job(order, requested.job, replace(defaults, applied=applied, kept=kept))
    able = not order.checked or _is_able(order, job, applied)
    if order.dry_run:
        if order.form is ObjectForm.JSON:
            output.document(job, Form.JSON)
        else:
            sys.stdout.write(output.as_yaml(job))
    elif able or order.force:
        driver.push(requested.images)
        _create(order, job)
    else:
        output.remark("not submitted; --force submits it anyway")
    return Exit.FINE if able else Exit.FINDINGS


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


def _job(order: SubmitOptions, requested: Json, defaults: JobDefaults) -> Json:
    """TorchX' job as it should be; what was done to it is on stderr."""
    metadata = requested["metadata"]
    job = {**requested, "metadata": {**metadata, "namespace": order.within}}
    found = patch.patch(job, defaults, place=f"job {metadata['name']}:")
    for sentence in messages.sentences((*found.changes, *found.remarks)):
        output.remark(sentence)
    if long := next(names.too_long(found.job), ""):
        raise ConfigError(f"a pod would be called {long}: more than {names.LONGEST} characters; take a shorter --name")
    return found.job


def _is_able(order: SubmitOptions, job: Json, applied: frozenset[str] | None) -> bool:
    """Whether the cluster, once it is idle, can run the job; why not, or who is in the way now, goes to stderr."""
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    kept: list[Document] = []
    snapshot = inputs.cluster(
        order.source, registry, also=lambda raw, place: kept.extend(cluster_objects.of(raw, place))
    )
    documents = manifests.read(output.as_yaml(job), source="torchx")
    _queue(order.queue, snapshot)
    vetting = vet.VetSettings(rules=settings.rules(), namespace=order.within, assigner=settings.volcano.assigner)
    found = vet.vet(documents, registry, vetting, ClusterObjects(snapshot, tuple(kept)))
    for finding in found:
        if finding.file == "torchx":
            output.remark(finding.message)
    machines = reader.read(each.raw for each in kept).machines
    for remark in patch.unbounded(job, generator.tiers_of(machines), applied, place=f"job {job['metadata']['name']}:"):
        output.remark(str(remark))
    planner = Planner(registry, settings.rules(), now=time.time())
    idle = replace(removed(snapshot, lambda _: True), pending=(), pod_groups={})
    if not _fits(documents, order.within, idle, planner, "even an idle cluster cannot run it"):
        return False
    _fits(documents, order.within, snapshot, planner, "it has to wait")
    return not any(finding.severity is VetSeverity.ERROR and finding.file == "torchx" for finding in found)


def _queue(name: str, snapshot: ClusterSnapshot) -> None:
    """Volcano takes a job for a queue that is not there, and makes no pods of it, without a word."""
    queue = snapshot.queues.get(name)
    if queue is None and (snapshot.queues or name != DEFAULT_QUEUE):
        raise ConfigError(f"queue {name} does not exist; there are {', '.join(sorted(snapshot.queues)) or 'none'}")
    if queue is not None and not queue.open:
        raise ConfigError(f"queue {name} is not open; open it, or submit to another one")


def _fits(
    documents: Iterable[Document], namespace: str, snapshot: ClusterSnapshot, planner: Planner, otherwise: str
) -> bool:
    submitted = workloads.read(documents, namespace=namespace, pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, submitted)
    found = planner.plan(snapshot, submission.units(submitted, snapshot), now_ns=time.time_ns())
    if not found.complete:
        output.remark(otherwise)
        for refusal in Answers(found, planner).refusals():
            for line in tables.refusal(refusal):
                output.remark(line.words)
    return found.complete


def _client(order: SubmitOptions) -> KubeClient:
    return connect(kubeconfig=order.kubeconfig, context=order.context, component=COMPONENT)


def _create(order: SubmitOptions, job: Json) -> None:
    """Create the job, and print its name as TorchX' other commands take it."""
    client = _client(order)
    client.create(f"/apis/{job['apiVersion']}/namespaces/{quote(order.within, safe='')}/jobs", job)
    output.line(f"kubernetes://torchx/{order.within}:{job['metadata']['name']}")
