"""The claims of a job that is about to be submitted, read from the cluster and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

from hami_plugins.cli.kit import output
from hami_plugins.engine.claims import pools
from hami_plugins.errors import KubeError
from hami_plugins.kube import removal
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import Collection
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from neuron_topology.core import names
from neuron_topology.core.jobs import claims
from neuron_topology.core.jobs.claims import ClaimFinding, ClaimUse, StorageObjects


def read(cluster: KubeClient, namespace: str, used: Iterable[ClaimUse]) -> StorageObjects:
    """The claims of a namespace, with what the used ones name. Raises ``KubeError`` where claims may not be listed.

    A volume or a class that may not be read is reported and left out.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/persistentvolumeclaims"
    pages = cluster.pages(Collection(path, "PersistentVolumeClaim"))
    every = {lenient.text(lenient.inside(each, "metadata").get("name")): each for page in pages for each in page}
    specs = [lenient.inside(every.get(each.claim, {}), "spec") for each in used]

    def named(key: str, collection: str) -> Iterator[tuple[str, Json]]:
        for name in sorted({lenient.text(each.get(key)) for each in specs} - {""}):
            try:
                found = removal.find(cluster, f"{collection}/{quote(name, safe='')}")
            except KubeError as error:
                output.remark(f"{collection.rpartition('/')[2]} {name} is not looked at: {error}")
                continue
            if found is not None:
                yield name, found

    return StorageObjects(
        namespace=namespace,
        claims=every,
        volumes=dict(named("volumeName", "/api/v1/persistentvolumes")),
        classes=dict(named("storageClassName", "/apis/storage.k8s.io/v1/storageclasses")),
    )


def judged(
    job: Json, snapshot: ClusterSnapshot, look: Callable[[tuple[ClaimUse, ...]], StorageObjects]
) -> tuple[bool, ClusterSnapshot]:
    """Whether the job's pods can mount its claims, and the cluster with the nodes that can; the rest is on stderr."""
    used = claims.uses(job)
    if not used:
        return True, snapshot
    try:
        found = look(used)
    except KubeError as error:
        output.remark(f"claims are not looked at: {error}")
        return True, snapshot
    able = True
    for use in used:
        for finding in claims.findings(use, found):
            output.remark(finding.text)
            able = able and not finding.blocks
        snapshot, finding_of_nodes = _reached(use, found, snapshot)
        if finding_of_nodes:
            output.remark(finding_of_nodes.text)
            able = able and not finding_of_nodes.blocks
    return able, snapshot


def _reached(
    use: ClaimUse, found: StorageObjects, snapshot: ClusterSnapshot
) -> tuple[ClusterSnapshot, ClaimFinding | None]:
    """The nodes that can mount a claim, and a note if these are not all nodes with Neuron devices."""
    limit = claims.reach(use, found)
    if limit is None:
        return snapshot, None
    place, terms = limit
    devices = [entry for entry in snapshot.nodes if names.DEVICES in entry.facts.allocatable]
    there = sum(pools.chosen(terms, entry) for entry in devices)
    if there == len(devices):
        return snapshot, None
    what = (
        f"claim {found.namespace}/{use.claim}: {place} is {claims.shown(terms)}: {there} of {len(devices)} nodes with "
        "Neuron devices can mount it"
    )
    if not there:
        return snapshot, ClaimFinding(f"{what}; name a claim in the zone of the nodes")
    return snapshot.only(lambda entry: pools.chosen(terms, entry)), ClaimFinding(what, blocks=False)
