"""From API objects to what is written on the pod: the whole way, for one vendor's tests."""

from collections.abc import Iterable, Mapping

from hami_plugins.engine import quota as quotas
from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Pod
from hami_plugins.model.vendor import VendorSpec
from tests.builders import a_container, a_pod, a_snapshot

NOW_NS = 1_790_000_000_123_456_789

Written = Mapping[str, str]


def place(
    spec: VendorSpec,
    node: NodeObject,
    pod: Pod,
    running: Iterable[Pod] = (),
    *,
    quota: Mapping[str, int] | None = None,
    remarked: bool = False,
) -> Written | str:
    """The annotations that the scheduler writes, or HAMi's words for the refusal. ``quota`` limits the namespace.

    ``remarked`` says that something is the matter with the node.
    """
    registry = Registry([spec])
    entry = NodeBuilder(registry).entry(node, NodeFacts())
    assert bool(entry.problems) is remarked
    reader = RecordReader(registry)
    entry = with_pods(entry, [settled(reader.record(each)[0], entry) for each in running])
    snapshot = a_snapshot(entry, quotas={pod.namespace: quota or {}})
    used = quotas.used_by(snapshot, pod.namespace, registry)
    left = quotas.headroom(snapshot.quotas[pod.namespace], used, registry)
    intake = take_in(pod, registry, Rules(), dict(left))
    if intake.refusal:
        return intake.refusal
    decision = Decider(registry, uncounted=registry.resources).decide(snapshot, intake.demand, intake.policy)
    if isinstance(decision, Placed):
        return annotations_of(intake.pod, decision, entry, registry, now_ns=NOW_NS)
    return decision.by_node[0][1].words


def holder(spec: VendorSpec, text: str, *, name: str = "running") -> Pod:
    """A running pod that holds what its list says, one container per entry."""
    containers = [a_container(name=f"c{at}") for at in range(text.count(";"))]
    return a_pod(*containers, name=name, annotations={spec.keys.allocated: text})
