"""The main job as functions, for programs: what ``hami-plugins`` does, without its words.

    snapshot = load_snapshot(dump)                        # what kubectl get nodes,pods -A -o json printed
    found = plan(snapshot, manifest_text)
    for pod in found.pods:
        print(pod.pod.full_name, pod.stage, pod.decision)

Nothing here opens a file or a socket: texts and objects come in, values go out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hami_plugins import examples
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import ListingReader
from hami_plugins.inputs.workloads import Submission
from hami_plugins.kube.port import ClusterReader
from hami_plugins.kube.snapshot import live_objects
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision
from hami_plugins.model.pods import Pod
from hami_plugins.plan import Plan, Planner, submission
from hami_plugins.suggest import relax as relax_demand
from hami_plugins.suggest.changes import Counterfactual
from hami_plugins.suggest.rewrite import settled
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects, yaml_text
from hami_plugins.wire.pages import IncompleteError, load_page


def load_snapshot(
    listing: str | bytes | Iterable[object], registry: Registry | None = None, *, source: str = "listing"
) -> ClusterSnapshot:
    """The cluster that a dump describes: JSON or YAML text as kubectl prints it, or the objects themselves.

    Objects that cannot be read are ``problems`` of the snapshot. Raises ``ManifestError`` for text that is neither.
    """
    reader = ListingReader(registry or builtin())
    items = listing_documents(listing, source=source) if isinstance(listing, str | bytes) else listing
    for number, item in enumerate(items, start=1):
        reader.feed(item, source if number == 1 else f"{source} document {number}")
    return reader.finish()


def load_fleet(name_or_text: str, registry: Registry | None = None) -> ClusterSnapshot:
    """A declared fleet as an idle cluster: the name of a shipped one (``mixed``, ``h100x8`` ...) or a file's text."""
    text = examples.fleet_text(name_or_text) if name_or_text in examples.fleet_names() else name_or_text
    fleet = fleets.parse(text, source="fleet")
    return replace(load_snapshot(fleets.objects_of(fleet), registry, source=f"fleet {fleet.name}"), listing=None)


def live_snapshot(reader: ClusterReader, registry: Registry | None = None) -> ClusterSnapshot:
    """The cluster that a reader (``hami_plugins.api.connect()``) reaches, read page by page; raises ``KubeError``."""
    return replace(load_snapshot(live_objects(reader), registry, source="cluster"), listing=None)


def read_manifests(text: str, *, source: str = "manifests", namespace: str = "default") -> Submission:
    """The workloads, queues, gangs and quotas of some manifests; raises ``ManifestError`` with file, line and field."""
    return workloads.read(manifests.read(text, source=source), namespace=namespace)


def plan(snapshot: ClusterSnapshot, wanted: str | Submission, planner: Planner | None = None) -> Plan:
    """Would these manifests fit, where, and with which annotations. A planner that is kept plans faster next time."""
    submitted = read_manifests(wanted) if isinstance(wanted, str) else wanted
    snapshot = submission.with_objects(snapshot, submitted)
    return (planner or Planner(builtin())).plan(snapshot, submission.units(submitted, snapshot))


def admit(pod: Pod | dict[str, object], registry: Registry | None = None, rules: Rules | None = None) -> PodInfo:
    """What the webhook makes of a pod, and what it then asks of devices."""
    read = pod if isinstance(pod, Pod) else objects.pod(pod)
    return take_in(read, registry or builtin(), rules or Rules())


def decide(snapshot: ClusterSnapshot, intake: PodInfo, decider: Decider | None = None) -> Decision:
    """Where an admitted pod goes, or why no node takes it. A decider that is kept remembers verdicts."""
    return (decider or Decider(builtin())).decide(snapshot, intake.demand, intake.policy)


def relax(
    snapshot: ClusterSnapshot, intake: PodInfo, decider: Decider | None = None, rules: Rules | None = None
) -> tuple[Counterfactual, ...]:
    """The smallest changes that would let a refused pod fit, each proven by ``decide``; none when it fits.

    Each is written into the pod as it was submitted and admitted again under ``rules``, so that it is what it becomes.
    """
    asking = decider or Decider(builtin())
    left = dict(intake.demand.headroom) or None
    return relax_demand(
        asking,
        snapshot,
        intake.demand,
        intake.policy,
        priority=intake.submitted.priority,
        settle=settled(intake.submitted, asking.registry, rules or Rules(), left),
    )


def listing_documents(data: str | bytes, *, source: str) -> list[object]:
    """The documents of a dump. JSON, which dumps mostly are, goes the fast way."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: neither JSON nor UTF-8 text (byte {error.start})") from error
    if text.lstrip()[:1] in ("{", "["):
        try:
            found = load_page(source, data)
            return found if isinstance(found, list) else [found]
        except IncompleteError as error:
            size = len(data)
            raise ManifestError(
                f"{source}: the JSON breaks off after {size:,} bytes; the dump is incomplete"
            ) from error
        except WireError:
            pass  # several JSON texts one after another, or YAML in flow style; if neither, the next one says where
    return [tree.value for tree in yaml_text.read(text, source=source)]
